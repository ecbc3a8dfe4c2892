"""`information_schema`: the catalog as tables. A savepoint that cannot be read appears without tables.

| table | a row per |
|---|---|
| schemata | database, alias of a database, history of a job, and `savepointdb`; `tables` and `columns` have rows for all of these |
| tables | table |
| columns | column |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from catalog import Catalog, ListedTable
from catalog.table import Table, TableOwner
from readers import ReaderError
from service.query.sql.schemas.named import ListedSchema, facts_table, listed_schemas
from service.query.sql.types import sql_type

INFORMATION_SCHEMA = "information_schema"
# The one catalog that clients see.
CATALOG = "flink"

Tables: TypeAlias = Sequence[ListedTable | Table]
_Rows: TypeAlias = Callable[[str, Tables], Iterator[dict[str, Any]]]


def information_schema_table(catalog: Catalog, name: str, databases: Iterable[str] | None = None) -> Table:
    """Return a table that lists the catalog; its rows are made when it is read.

    Args:
        catalog: the catalog to list.
        name: of the table, in any case.
        databases: the only databases to list; None for all.

    Raises:
        NoSuchTableError: there is no such table; the error has near names.
    """
    wanted = None if databases is None else tuple(databases)

    # Made when it is read: rows of `columns` need the headers of all operators of all databases.
    def batch_of(schema: pa.Schema, rows: _Rows) -> pa.RecordBatch:
        return _rows_of(listed_schemas(catalog, wanted), schema, rows)

    return facts_table(name, _TABLES, INFORMATION_SCHEMA, batch_of)


def schemata_rows(name: str, _tables: Tables = ()) -> Iterator[dict[str, Any]]:
    """Yield the row of a schema."""
    yield {"catalog_name": CATALOG, "schema_name": name}


def tables_rows(name: str, tables: Tables) -> Iterator[dict[str, Any]]:
    """Yield the rows of the tables of a schema."""
    for table in tables:
        yield {
            "table_catalog": CATALOG,
            "table_schema": name,
            "table_name": table.name,
            "table_type": "BASE TABLE",
            "table_comment": table.comment,
        }


def columns_rows(
    name: str, tables: Tables, type_name: Callable[[pa.DataType], str] = sql_type
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the columns of a schema, with the names that a dialect has for types."""
    for table in tables:
        for position, column in enumerate(table.schema, start=1):
            yield {
                "table_catalog": CATALOG,
                "table_schema": name,
                "table_name": table.name,
                "column_name": column.name,
                "ordinal_position": position,
                "is_nullable": "YES" if column.nullable else "NO",
                "data_type": type_name(column.type),
            }


def tables_of(database: TableOwner) -> Tables:
    """Return the tables of a database; none if the database cannot be read."""
    try:
        return database.listed()
    except ReaderError:
        return []


def _rows_of(listed: Sequence[ListedSchema], schema: pa.Schema, rows: _Rows) -> pa.RecordBatch:
    """Return the rows of schemas. Those of schemas with the same tables are made once: most savepoints of a job have the same."""
    if rows is schemata_rows:
        return pa.RecordBatch.from_pylist(
            [row for one in listed for row in rows(one.name, ())], schema=schema
        )
    # As long as all are kept, no other tables get the id of any of them.
    all_tables = [tables_of(one.database) for one in listed]
    distinct = {id(tables): tables for tables in all_tables}
    numbers = {tables_id: number for number, tables_id in enumerate(distinct)}
    group_of = np.array([numbers[id(tables)] for tables in all_tables], dtype=np.int64)
    groups = [
        pa.RecordBatch.from_pylist(list(rows("", tables)), schema=schema) for tables in distinct.values()
    ]
    if not groups:
        return pa.RecordBatch.from_pylist([], schema=schema)
    lengths = np.array([group.num_rows for group in groups], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    counts = lengths[group_of]
    ends = np.cumsum(counts)
    # The place of a row among the rows of all groups: where its group begins, and its own place in the schema.
    places = pa.array(np.arange(ends[-1]) + np.repeat(starts[group_of] - (ends - counts), counts))
    names = pa.array([one.name for one in listed], pa.string())
    name_of = pa.array(np.repeat(np.arange(len(listed)), counts))
    columns = [
        names.take(name_of)
        if field.name == "table_schema"
        else pa.concat_arrays([group.column(field.name) for group in groups]).take(places)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _schema(*columns: str, **others: pa.DataType) -> pa.Schema:
    return pa.schema([(column, others.get(column, pa.string())) for column in columns])


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
