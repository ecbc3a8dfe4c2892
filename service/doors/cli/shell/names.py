"""The names that completion knows: databases, tables and columns of the catalog. What cannot be read has none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from catalog import Catalog, CatalogError
from catalog.table import Table
from readers import ReaderError
from service.doors.cli.shell.console import Console
from service.query.sql.schemas.named import (
    INFORMATION_SCHEMA,
    information_schema_table,
    listed_names,
    schema_called,
)
from service.query.sql.types import sql_type

_LISTINGS = ("columns", "schemata", "tables")
_MOST_TABLES_REMEMBERED = 1000
_NO_COLUMNS = pa.schema([])


class Names:
    """The names of a console.

    Args:
        console: has the catalog, and the database of tables that name none.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._schemas: dict[tuple[str, str], pa.Schema] = {}

    @property
    def databases(self) -> Sequence[str]:
        """All databases, aliases, histories, and the schemas that list them."""
        try:
            return [*listed_names(self._catalog), INFORMATION_SCHEMA]
        except (CatalogError, ReaderError):
            return []

    def tables(self, database: str | None = None) -> Sequence[str]:
        """Return the tables of a database; of that of the console for None."""
        name = self._console.view.database if database is None else database
        if name is None:
            return []
        if name.casefold() == INFORMATION_SCHEMA:
            return _LISTINGS
        try:
            return schema_called(self._catalog, name).database.tables
        except (CatalogError, ReaderError):
            return []

    def columns(self, database: str | None, table: str) -> Sequence[tuple[str, str]]:
        """Return the columns of a table, with their types; none if there is no such table."""
        return _with_types(self._schema(database, table))

    def fields(self, database: str | None, table: str, path: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return the fields of the struct that a path leads to from a table, with their types; none if it leads to no struct.

        Args:
            database, table: the table.
            path: a column, and fields in fields, in any case.
        """
        inside: Iterable[pa.Field] = self._schema(database, table)
        for name in path:
            found = next((field for field in inside if field.name.casefold() == name.casefold()), None)
            if found is None or not pa.types.is_struct(found.type):
                return []
            inside = found.type
        return _with_types(inside)

    def _schema(self, database: str | None, table: str) -> pa.Schema:
        """Return the columns of a table; none if there is no such table."""
        name = self._console.view.database if database is None else database
        if name is None:
            return _NO_COLUMNS
        known = name.casefold(), table.casefold()
        if known not in self._schemas:
            if len(self._schemas) >= _MOST_TABLES_REMEMBERED:
                self._schemas.clear()
            try:
                self._schemas[known] = self._table(name, table).schema
            except (CatalogError, ReaderError):
                return _NO_COLUMNS
        return self._schemas[known]

    @property
    def _catalog(self) -> Catalog:
        return self._console.catalog

    def _table(self, database: str, table: str) -> Table:
        if database.casefold() == INFORMATION_SCHEMA:
            return information_schema_table(self._catalog, table)
        return schema_called(self._catalog, database).database.table(table)


def _with_types(fields: Iterable[pa.Field]) -> Sequence[tuple[str, str]]:
    return [(field.name, sql_type(field.type)) for field in fields]
