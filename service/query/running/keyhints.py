"""Hints for errors about keys: what a key of the table looks like, read from the table itself."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from catalog import CatalogError, Table
from readers import ReaderError, json_text
from service.base.errors import InvalidQueryError, QueryError
from service.query.sql.plan import Plan

_KEY = "key"
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between)
_MOST_EXAMPLES = 2


def with_key_hint(error: QueryError, plan: Plan) -> QueryError:
    """Add to an error of a statement that compares keys what they look like, and where the comparison is.

    An error that has a hint already keeps it.
    """
    if error.hint is not None or not isinstance(error, InvalidQueryError) or not _compares_keys(plan.query):
        return error
    tables = {table.table.name: table.table for table in plan.tables if _KEY in table.table.schema.names}
    examples = {name: example_of(table) for name, table in tables.items()}
    shown = [f"keys of {name!r} look like {text}" for name, text in examples.items() if text is not None]
    if shown:
        error.hint = "; ".join(shown[:_MOST_EXAMPLES])
        error.position = error.position or plan.position_of(_KEY)
    return error


def example_of(table: Table) -> str | None:
    """Return a key of a table as a constant of SQL; None if the table has none, or cannot be read."""
    try:
        scan = table.scan([_KEY])
        for split in scan.splits:
            for batch in scan.read(split):
                keys = batch.column(_KEY).drop_null()
                if len(keys):
                    return _constant(keys.slice(0, 1))
    except (CatalogError, ReaderError):
        return None
    return None


def _constant(key: pa.Array) -> str:
    if pa.types.is_integer(key.type) or pa.types.is_floating(key.type) or pa.types.is_boolean(key.type):
        return str(key[0])
    text = key[0].as_py() if pa.types.is_string(key.type) else json_text(key)[0].as_py()
    is_quoted = not pa.types.is_string(key.type) and text.startswith('"')
    return exp.Literal.string(text.strip('"') if is_quoted else text).sql()


def _compares_keys(query: exp.Query) -> bool:
    """Return whether a statement compares a column `key` with something."""
    return any(
        isinstance(side, exp.Column) and side.name.casefold() == _KEY
        for comparison in query.find_all(*_COMPARISONS)
        for side in (comparison.this, comparison.args.get("expression"))
    )
