"""The names that completion knows: databases, tables and columns of the catalog. What cannot be read has none."""

from __future__ import annotations

from collections.abc import Sequence

from catalog import Catalog, CatalogError
from catalog.table import Table
from readers import ReaderError
from service.commands.shell.console import Console
from service.sql.schemas.information_schema import INFORMATION_SCHEMA, information_schema_table
from service.sql.schemas.named import listed_names, schema_called
from service.sql.types import sql_type

_LISTINGS = ("columns", "schemata", "tables")
_MOST_TABLES_REMEMBERED = 1000


class Names:
    """The names of a console.

    Args:
        console: has the catalog, and the database of tables that name none.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._columns: dict[tuple[str, str], Sequence[tuple[str, str]]] = {}

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
        name = self._console.view.database if database is None else database
        if name is None:
            return []
        known = name.casefold(), table.casefold()
        if known not in self._columns:
            if len(self._columns) >= _MOST_TABLES_REMEMBERED:
                self._columns.clear()
            try:
                found = self._table(name, table)
            except (CatalogError, ReaderError):
                return []
            self._columns[known] = [(column.name, sql_type(column.type)) for column in found.schema]
        return self._columns[known]

    @property
    def _catalog(self) -> Catalog:
        return self._console.catalog

    def _table(self, database: str, table: str) -> Table:
        if database.casefold() == INFORMATION_SCHEMA:
            return information_schema_table(self._catalog, table)
        return schema_called(self._catalog, database).database.table(table)
