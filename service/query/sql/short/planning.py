"""The plan of a short statement, if a scan answers it for certain as the engine would.

| part | short if |
|---|---|
| table | it is one of a savepoint, found as any statement finds it |
| columns | written as the table has them; DuckDB returns their types unchanged |
| conditions | on texts and whole numbers: Arrow compares them as DuckDB does; a text is only equal to another or not |
| keys | one of the conditions leaves some keys, and few bytes are read for them |

Anything else is planned for an engine, and so is what is wrong: the engine's plan says what, and where.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from catalog import Catalog, CatalogError, Database, Predicate
from readers import ReaderError
from service.base.errors import QueryError
from service.query.sql.literals import value_of
from service.query.sql.plan import (
    MOST_BYTES,
    MOST_KEYS,
    Comparison,
    Plan,
    ShortStatement,
    TableReference,
    UnreadStatement,
)
from service.query.sql.resolver import Resolver, SystemTables
from service.query.sql.short import grammar
from service.query.sql.short.grammar import ShortText, short_text
from service.query.sql.types import is_kept

_KEY = "key"
_MARK = '"'
_EQUAL = frozenset({"=", "IN"})
_OF_TEXTS = frozenset({"=", "IN", "<>"})


def short_plan(
    sql: str,
    catalog: Catalog,
    schema: str | None,
    system_tables: SystemTables | None,
    in_full: Callable[[], Plan],
) -> Plan | None:
    """Return the plan of a short statement; None if an engine must answer it, or say what is wrong.

    Args:
        sql: a statement in DuckDB's dialect.
        catalog: its databases.
        schema: the database of tables without one; the only or the newest database if None.
        system_tables: tables that hide those of the catalog.
        in_full: plans the statement for an engine.
    """
    text = short_text(sql)
    if text is None:
        return None
    resolver = Resolver(sql, catalog, schema, system_tables)
    try:
        reference = resolver.table(text.table)
        if not isinstance(reference.database, Database):
            return None
        statement = _Columns(text, reference).statement()
        if statement is None:
            return None
        reference = _narrowed(reference, statement)
        keys = reference.predicate.of(_KEY)
        if keys is None or len(keys) > MOST_KEYS or reference.scan.bytes_total > MOST_BYTES:
            return None
    except (QueryError, CatalogError, ReaderError):
        return None
    return Plan(
        sql=sql,
        reading=UnreadStatement(in_full),
        tables=(reference,),
        assumed=resolver.assumed,
        skipped=resolver.skipped,
        short=statement,
    )


class _Columns:
    """The columns of the table of a short statement."""

    def __init__(self, text: ShortText, reference: TableReference) -> None:
        self._text = text
        self._unquoted = reference.table.unquoted
        self._schema: pa.Schema = reference.table.schema
        # A table may be called as one of its columns: `value.f0` is a field then.
        names = {name.casefold() for name in self._schema.names}
        alias = (text.alias or text.table[-1]).casefold()
        self._aliases = {alias} - names
        self._is_clear = len(names) == len(self._schema.names)

    def statement(self) -> ShortStatement | None:
        """Return the statement over the columns of the table; None if it is not short for certain."""
        items = self._text.items or [grammar.Item((name,), "") for name in self._schema.names]
        columns = [self._column(item.column) for item in items]
        known = tuple(column for column in columns if column is not None)
        found = [self._comparison(condition) for condition in self._text.conditions]
        conditions = tuple(condition for condition in found if condition is not None)
        if not self._is_clear or len(known) < len(columns) or len(conditions) < len(found):
            return None
        if not all(is_kept(self._schema.field(column).type) for column in known):
            return None
        names = tuple(item.alias or column for item, column in zip(items, known, strict=True))
        return ShortStatement(
            columns=known, names=names, conditions=conditions, limit=self._text.limit, shape=self._text.shape
        )

    def _column(self, path: tuple[str, ...]) -> str | None:
        *alias, name = path
        is_own = not alias or alias[0].casefold() in self._aliases
        return name if is_own and name in self._schema.names else None

    def _comparison(self, condition: grammar.Comparison) -> Comparison | None:
        name = self._column(condition.column)
        if name is None:
            return None
        column: pa.DataType = self._schema.field(name).type
        sign = "<>" if condition.sign == "!=" else condition.sign
        is_text = pa.types.is_string(column)
        if not (is_text and sign in _OF_TEXTS) and not pa.types.is_signed_integer(column):
            return None
        # An older spelling of texts, which the planner for engines knows.
        if name in self._unquoted and any(
            str(constant).startswith(_MARK) for constant in condition.constants
        ):
            return None
        values = [value_of(node, column) for node in map(_node, condition.constants)]
        known = tuple(value for value in values if value is not None)
        return Comparison(name, sign, known) if len(known) == len(values) else None


def _narrowed(reference: TableReference, statement: ShortStatement) -> TableReference:
    """Return the table with the columns that are read and the predicate of the conditions."""
    predicate = Predicate()
    for condition in statement.conditions:
        if condition.sign in _EQUAL:
            predicate = predicate.and_(condition.column, condition.values)
    return TableReference(
        name=reference.name,
        database=reference.database,
        table=reference.table,
        columns=tuple(
            dict.fromkeys((*statement.columns, *(condition.column for condition in statement.conditions)))
        ),
        predicate=predicate,
    )


def _node(constant: str | int) -> exp.Expr:
    if isinstance(constant, str):
        return exp.Literal.string(constant)
    number = exp.Literal.number(abs(constant))
    return exp.Neg(this=number) if constant < 0 else number
