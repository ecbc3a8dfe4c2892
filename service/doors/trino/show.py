"""The answers of SHOW and DESCRIBE.

| statement | answer |
|---|---|
| SHOW CATALOGS, SCHEMAS, TABLES, COLUMNS | their names; LIKE filters |
| SHOW CREATE TABLE | the columns of a table, as a statement |
| SHOW STATS FOR table | a row of NULLs per column: statistics would need a scan |
| SHOW FUNCTIONS | Trino's functions that are known here, for completion |
| SHOW SESSION | the properties that SET SESSION accepts |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from catalog import Catalog, NoSuchDatabaseError, Table
from service.base.errors import (
    DatabaseNotFoundError,
    InvalidQueryError,
    NotSupportedError,
    Position,
    QuerySyntaxError,
    TableNotFoundError,
    query_error_of,
)
from service.doors.trino.lexer import Word, name_length, names_of
from service.doors.trino.session import Session, data_size_bytes, duration_s, is_true, wrong_property
from service.doors.trino.systemtables import CATALOGS, SYSTEM, TrinoTables
from service.doors.trino.types import quoted_name, trino_type
from service.query.engines.registry import AUTO, choices, choices_text
from service.query.sql.pruning import like_pattern
from service.query.sql.schemas import CATALOG, INFORMATION_SCHEMA, listed_names, schema_called
from service.query.sql.translation.calls import REWRITTEN, SAME

_SYSTEM_SCHEMAS = (INFORMATION_SCHEMA, "jdbc", "metadata", "runtime")


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """Columns and rows of an answer that needs no query."""

    columns: Sequence[tuple[str, pa.DataType]]
    rows: Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionProperty:
    """A property of the session.

    Attributes:
        default: the default that SHOW SESSION lists.
        type: Trino type.
        meaning: description for people.
        check: raises if a value is not valid.
    """

    default: str
    type: str
    meaning: str
    check: Callable[[str], object]


class ShowStatements:
    """The SHOW statements of one session.

    Args:
        catalog: the catalog to list.
        tables: the system tables, which the catalog does not have.
        session: has the current catalog and schema.
    """

    def __init__(self, catalog: Catalog, tables: TrinoTables, session: Session) -> None:
        self._catalog = catalog
        self._tables = tables
        self._session = session

    def show(self, sql: str, words: Sequence[Word]) -> AnswerTable:
        """Answer a SHOW statement.

        Raises:
            QueryError: SHOW does not support this kind of object, or the object does not exist.
        """
        what = words[1].keyword if len(words) > 1 else ""
        known = _SHOWN.get(what)
        if known is None:
            raise NotSupportedError(
                f"SHOW {what} is not supported",
                hint=f"SHOW {', '.join(_SHOWN)}",
                position=Position.of(sql, words[0].start),
            )
        return known(self, sql, list(words[2:]))

    def columns(self, path: tuple[str, ...]) -> AnswerTable:
        """Answer SHOW COLUMNS or DESCRIBE for a table."""
        table = self._table(path)
        rows = [(column.name, trino_type(column.type), "", "") for column in table.schema]
        return AnswerTable(_texts("Column", "Type", "Extra", "Comment"), rows)

    def schema(self, catalog: str, name: str) -> str:
        """Return a schema's name in the catalog's spelling.

        Raises:
            DatabaseNotFoundError: the schema or the catalog does not exist.
        """
        for known in self._schemas(catalog):
            if known.casefold() == name.casefold():
                return known
        try:
            if catalog.casefold() == CATALOG:
                return schema_called(self._catalog, name).name
        except NoSuchDatabaseError:
            pass  # the error below also names the catalog
        raise DatabaseNotFoundError(
            f"there is no schema {name!r} in catalog {catalog!r}", hint="SHOW SCHEMAS lists them"
        )

    def _show_catalogs(self, sql: str, words: list[Word]) -> AnswerTable:
        return _filtered(_texts("Catalog"), [(name,) for name in CATALOGS], sql, words)

    def _show_schemas(self, sql: str, words: list[Word]) -> AnswerTable:
        path, rest = _from(sql, words)
        if len(path) > 1:
            raise QuerySyntaxError("expected the name of a catalog")
        names = self._schemas(path[0] if path else self._session.catalog or CATALOG)
        return _filtered(_texts("Schema"), [(name,) for name in sorted(names)], sql, rest)

    def _show_tables(self, sql: str, words: list[Word]) -> AnswerTable:
        path, rest = _from(sql, words)
        schema = self._named_schema(path)
        if schema.casefold() in _SYSTEM_SCHEMAS:
            names = [
                name for name in _TABLES_OF_INFORMATION_SCHEMA if schema.casefold() == INFORMATION_SCHEMA
            ]
        else:
            names = sorted(schema_called(self._catalog, schema).database.tables)
        return _filtered(_texts("Table"), [(name,) for name in names], sql, rest)

    def _show_columns(self, sql: str, words: list[Word]) -> AnswerTable:
        path, rest = _from(sql, words)
        if not path:
            raise QuerySyntaxError("expected SHOW COLUMNS FROM table")
        found = self.columns(path)
        return _filtered(found.columns, found.rows, sql, rest)

    def _show_create(self, sql: str, words: list[Word]) -> AnswerTable:
        kind = words[0].keyword if words else ""
        if kind not in ("TABLE", "VIEW"):
            raise NotSupportedError(f"SHOW CREATE {kind} is not supported")
        path = names_of(sql, words[1:])
        # Looked up first: for an unknown name the error is another one.
        table = self._table(path)
        if kind == "VIEW":
            raise NotSupportedError(f"{'.'.join(path)!r} is a table, not a view")
        columns = ",\n".join(
            f"   {quoted_name(column.name)} {trino_type(column.type)}" for column in table.schema
        )
        name = ".".join(map(quoted_name, (CATALOG, self._named_schema(path[:-1]), table.name)))
        return AnswerTable(_texts("Create Table"), [(f"CREATE TABLE {name} (\n{columns}\n)",)])

    def _show_stats(self, sql: str, words: list[Word]) -> AnswerTable:
        if not words or words[0].keyword != "FOR":
            raise QuerySyntaxError("expected SHOW STATS FOR table")
        table = self._table(names_of(sql, words[1:]))
        names = (*table.schema.names, None)
        number, text = pa.float64(), pa.string()
        columns = [
            ("column_name", text),
            ("data_size", number),
            ("distinct_values_count", number),
            ("nulls_fraction", number),
            ("row_count", number),
            ("low_value", text),
            ("high_value", text),
        ]
        return AnswerTable(columns, [(name, *[None] * 6) for name in names])

    def _show_functions(self, sql: str, words: list[Word]) -> AnswerTable:
        path, rest = _from(sql, words)
        columns = _texts("Function", "Return Type", "Argument Types", "Function Type")
        columns += [("Deterministic", pa.bool_()), ("Description", pa.string())]
        rows = [(name, "", "", _KINDS.get(name, "scalar"), True, "") for name in {*SAME, *REWRITTEN}]
        return _filtered(columns, sorted(rows) if not path else [], sql, rest)

    def _show_session(self, sql: str, words: list[Word]) -> AnswerTable:
        columns = _texts("Name", "Value", "Default", "Type", "Description")
        rows = [
            (
                name,
                self._session.properties.get(name, known.default),
                known.default,
                known.type,
                known.meaning,
            )
            for name, known in SESSION_PROPERTIES.items()
        ]
        return _filtered(columns, rows, sql, words)

    def _schemas(self, catalog: str) -> list[str]:
        if catalog.casefold() == SYSTEM:
            return list(_SYSTEM_SCHEMAS)
        if catalog.casefold() != CATALOG:
            raise DatabaseNotFoundError(
                f"there is no catalog {catalog!r}",
                hint=f"catalogs are {' and '.join(CATALOGS)}",
                code="CATALOG_NOT_FOUND",
            )
        return [*listed_names(self._catalog), INFORMATION_SCHEMA]

    def _named_schema(self, path: tuple[str, ...]) -> str:
        """Return the schema that a path names, else that of the session, else the only or the newest one."""
        if len(path) > 2:
            raise QuerySyntaxError("expected the name of a schema")
        catalog = path[0] if len(path) == 2 else self._session.catalog or CATALOG
        if path or self._session.schema is not None:
            return self.schema(catalog, path[-1] if path else str(self._session.schema))
        implied = self._catalog.implied
        if implied is None:
            raise InvalidQueryError("the session names no schema", hint="USE one, or SHOW TABLES FROM schema")
        return implied.name

    def _table(self, path: tuple[str, ...]) -> Table:
        # System tables first: `information_schema` is a schema of the catalog `flink`, too.
        system = self._tables.table(tuple(part.casefold() for part in path), None)
        if system is not None:
            return system
        if len(path) > 3:
            raise TableNotFoundError(f"there is no table {'.'.join(path)!r}")
        try:
            return schema_called(self._catalog, self._named_schema(path[:-1])).database.table(path[-1])
        except LookupError as error:
            raise query_error_of(error) from error


def _check_engine(value: str) -> None:
    if value not in choices():
        raise wrong_property(f"one of {', '.join(choices())}", value)


def _from(sql: str, words: list[Word]) -> tuple[tuple[str, ...], list[Word]]:
    """Return the name behind FROM or IN, or an empty one, and the words behind it."""
    if not words or words[0].keyword not in ("FROM", "IN"):
        return (), words
    length = name_length(words[1:])
    return names_of(sql, words[1 : 1 + length]), words[1 + length :]


def _filtered(
    columns: Sequence[tuple[str, pa.DataType]], rows: Sequence[tuple[Any, ...]], sql: str, words: list[Word]
) -> AnswerTable:
    """Return the rows that match `[LIKE pattern [ESCAPE character]]`."""
    if not words:
        return AnswerTable(columns, rows)
    keywords = [word.keyword for word in words]
    strings = [word.value for word in words if word.kind == "string"]
    if keywords in (["LIKE", ""], ["LIKE", "", "ESCAPE", ""]) and len(strings) == len(keywords) // 2:
        pattern = like_pattern(*strings)
        return AnswerTable(columns, [row for row in rows if pattern.fullmatch(row[0])])
    raise QuerySyntaxError(
        "expected LIKE and a pattern, or nothing", position=Position.of(sql, words[0].start)
    )


def _texts(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.string()) for name in names]


_TABLES_OF_INFORMATION_SCHEMA = ("columns", "schemata", "tables", "views")
# Names only: clients use them for completion, and a call is checked by the planner.
_AGGREGATES = """any_value approx_distinct approx_percentile arbitrary array_agg avg bitwise_and_agg bitwise_or_agg bool_and bool_or
    corr count count_if covar_pop covar_samp every geometric_mean listagg max max_by min min_by regr_intercept regr_slope stddev
    stddev_pop stddev_samp sum var_pop var_samp variance"""
_WINDOWS = "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number"
_KINDS = {**dict.fromkeys(_AGGREGATES.split(), "aggregate"), **dict.fromkeys(_WINDOWS.split(), "window")}
SESSION_PROPERTIES: dict[str, SessionProperty] = {
    "allow_partial": SessionProperty(
        default="false",
        type="boolean",
        meaning="leave out the rows of files that cannot be read, and warn; otherwise the query fails",
        check=is_true,
    ),
    "engine": SessionProperty(
        default=AUTO, type="varchar", meaning=f"engine of queries: {choices_text()}", check=_check_engine
    ),
    "query_max_execution_time": SessionProperty(
        default="", type="varchar", meaning="longest time of a query, such as 30s", check=duration_s
    ),
    "query_max_run_time": SessionProperty(
        default="", type="varchar", meaning="longest time of a query, the queue included", check=duration_s
    ),
    "query_max_scan_physical_bytes": SessionProperty(
        default="",
        type="varchar",
        meaning="most bytes that a query reads, such as 10GB",
        check=data_size_bytes,
    ),
}
_Show = Callable[[ShowStatements, str, list[Word]], AnswerTable]
_SHOWN: dict[str, _Show] = {
    "CATALOGS": ShowStatements._show_catalogs,
    "COLUMNS": ShowStatements._show_columns,
    "CREATE": ShowStatements._show_create,
    "FUNCTIONS": ShowStatements._show_functions,
    "SCHEMAS": ShowStatements._show_schemas,
    "SESSION": ShowStatements._show_session,
    "STATS": ShowStatements._show_stats,
    "TABLES": ShowStatements._show_tables,
}
