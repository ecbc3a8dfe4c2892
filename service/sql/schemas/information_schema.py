"""`information_schema`: the catalog as tables. A savepoint that cannot be read appears without tables.

| table | a row per |
|---|---|
| schemata | database, alias of a database, history of a job, and `savepointdb`; `tables` and `columns` have rows for all of these |
| tables | table |
| columns | column |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from catalog import Catalog, ListedTable, NoSuchTableError
from catalog.table import FactsTable, Table, TableOwner
from readers import ReaderError
from service.sql.schemas.named import ListedSchema, listed_schemas
from service.sql.types import sql_type

INFORMATION_SCHEMA = "information_schema"
# The one catalog that clients see.
CATALOG = "flink"


def information_schema_table(catalog: Catalog, name: str, databases: Iterable[str] | None = None) -> Table:
    """Return a table that lists the catalog; its rows are made when it is read.

    Args:
        catalog: the catalog to list.
        name: of the table, in any case.
        databases: the only databases to list; None for all.

    Raises:
        NoSuchTableError: there is no such table; the error has near names.
    """
    listing = _TABLES.get(name.casefold())
    if listing is None:
        raise NoSuchTableError(name, _TABLES, INFORMATION_SCHEMA)
    comment, schema, rows = listing
    wanted = None if databases is None else tuple(databases)

    # Made when it is read: rows of `columns` need the headers of all operators of all databases.
    def make() -> pa.RecordBatch:
        listed = listed_schemas(catalog, wanted)
        return pa.RecordBatch.from_pylist([row for one in listed for row in rows(one)], schema=schema)

    return FactsTable(name.casefold(), comment, schema, make)


def schemata_rows(one: ListedSchema) -> Iterator[dict[str, Any]]:
    """Yield the row of a schema."""
    yield {"catalog_name": CATALOG, "schema_name": one.name}


def tables_rows(one: ListedSchema) -> Iterator[dict[str, Any]]:
    """Yield the rows of the tables of a schema."""
    for table in tables_of(one.database):
        yield {
            "table_catalog": CATALOG,
            "table_schema": one.name,
            "table_name": table.name,
            "table_type": "BASE TABLE",
            "table_comment": table.comment,
        }


def columns_rows(
    one: ListedSchema, type_name: Callable[[pa.DataType], str] = sql_type
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the columns of a schema, with the names that a dialect has for types."""
    for table in tables_of(one.database):
        for position, column in enumerate(table.schema, start=1):
            yield {
                "table_catalog": CATALOG,
                "table_schema": one.name,
                "table_name": table.name,
                "column_name": column.name,
                "ordinal_position": position,
                "is_nullable": "YES" if column.nullable else "NO",
                "data_type": type_name(column.type),
            }


def tables_of(database: TableOwner) -> Sequence[ListedTable | Table]:
    """Return the tables of a database; none if the database cannot be read."""
    try:
        return database.listed()
    except ReaderError:
        return []


def _schema(*columns: str, **others: pa.DataType) -> pa.Schema:
    return pa.schema([(column, others.get(column, pa.string())) for column in columns])


_Rows = Callable[[ListedSchema], Iterator[dict[str, Any]]]
_TABLES: dict[str, tuple[str, pa.Schema, _Rows]] = {
    "schemata": ("the databases", _schema("catalog_name", "schema_name"), schemata_rows),
    "tables": (
        "the tables of all databases",
        _schema("table_catalog", "table_schema", "table_name", "table_type", "table_comment"),
        tables_rows,
    ),
    "columns": (
        "the columns of all tables",
        _schema(
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "ordinal_position",
            "is_nullable",
            "data_type",
            ordinal_position=pa.int32(),
        ),
        columns_rows,
    ),
}
