"""`information_schema` and the catalog `system`, as Trino's clients read them.

| tables | defined in |
|---|---|
| information_schema.{schemata, tables, columns, views} | this module; they list the catalog `flink` |
| system.jdbc.* | `jdbctables.py` |
| system.metadata.{catalogs, table_comments} | this module |
| system.runtime.{nodes, queries} | this module; only queries of the user |

They are ordinary tables: a statement over them is planned, checked and run like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from catalog import Catalog
from catalog.errors import near_names
from catalog.table import FactsTable, Table
from service.base.errors import DatabaseNotFoundError, TableNotFoundError, near_names_hint
from service.base.version import installed_version
from service.doors.trino.jdbctables import JDBC_TABLES
from service.doors.trino.session import Session
from service.doors.trino.types import trino_type
from service.query.serving.query import QueryRecord
from service.query.serving.registry import Queries
from service.query.sql.resolver import SystemTables
from service.query.sql.schemas import (
    CATALOG,
    INFORMATION_SCHEMA,
    ListedSchema,
    columns_rows,
    listed_schemas,
    schemata_rows,
    tables_of,
    tables_rows,
)

SYSTEM = "system"
CATALOGS = (CATALOG, SYSTEM)

# Trino has no state for cancelled queries: they have failed, with an error that says so.
_STATES = {
    "queued": "QUEUED",
    "running": "RUNNING",
    "finished": "FINISHED",
    "failed": "FAILED",
    "cancelled": "FAILED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrinoTables(SystemTables):
    """The system tables of one session; implements `SystemTables`.

    Attributes:
        catalog: the catalog that they list.
        queries: the queries that they list.
        session: has the current catalog and schema.
    """

    catalog: Catalog
    queries: Queries
    session: Session

    def table(self, path: tuple[str, ...], databases: Sequence[str] | None) -> Table | None:
        """Return a system table; see `SystemTables.table`."""
        catalog, *names = self._full(path)
        if catalog not in CATALOGS:
            raise DatabaseNotFoundError(
                f"there is no catalog {catalog!r}",
                hint=f"catalogs are {' and '.join(CATALOGS)}",
                code="CATALOG_NOT_FOUND",
            )
        if len(names) != 2 or (catalog == CATALOG and names[0] != INFORMATION_SCHEMA):
            return None
        schema, name = names
        schemas = _SYSTEM_SCHEMAS if catalog == SYSTEM else {INFORMATION_SCHEMA: _INFORMATION_SCHEMA}
        known = schemas.get(schema)
        if known is None:
            raise DatabaseNotFoundError(
                f"there is no schema {schema!r} in catalog {catalog!r}",
                hint=near_names_hint(near_names(schema, schemas)),
            )
        if name not in known:
            raise TableNotFoundError(
                f"there is no table {name!r} in {catalog}.{schema}",
                hint=near_names_hint(near_names(name, known)),
            )
        columns, rows = known[name]

        # Planning needs only the schema; the rows are made when the table is read.
        def make() -> pa.RecordBatch:
            return pa.RecordBatch.from_pylist(list(rows(self, self._schemas(databases))), schema=columns)

        return FactsTable(name, f"{schema} of Trino", columns, make)

    def _full(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Complete a path with the current catalog, and with the current schema of the session."""
        if len(path) > 2:
            return path
        catalog = (self.session.catalog or CATALOG).casefold()
        if len(path) == 1 and self.session.schema is not None:
            return (catalog, self.session.schema.casefold(), *path)
        return (catalog, *path)

    def _schemas(self, wanted: Sequence[str] | None) -> Iterator[ListedSchema]:
        # The schemas that the query's predicate allows: listing one reads the headers of its savepoint.
        yield from listed_schemas(self.catalog, wanted)


def _schemata(_tables: TrinoTables, schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        yield from schemata_rows(one.name)
    yield {"catalog_name": CATALOG, "schema_name": INFORMATION_SCHEMA}


def _tables(_tables: TrinoTables, schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        yield from tables_rows(one.name, tables_of(one.database))


def _columns(_tables: TrinoTables, schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        yield from columns_rows(one.name, tables_of(one.database), trino_type)


def _comments(_tables: TrinoTables, schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        for table in tables_of(one.database):
            yield {
                "catalog_name": CATALOG,
                "schema_name": one.name,
                "table_name": table.name,
                "comment": table.comment,
            }


def _catalogs(_tables: TrinoTables, _schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for name in CATALOGS:
        yield {"catalog_name": name, "connector_id": name, "connector_name": name}


def _nodes(_tables: TrinoTables, _schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    yield {
        "node_id": "savepointdb",
        "http_uri": "",
        "node_version": installed_version(),
        "coordinator": True,
        "state": "active",
    }


def _queries(tables: TrinoTables, _schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for record in tables.queries.records(tables.session.principal):
        yield _query(record)


def _query(record: QueryRecord) -> dict[str, Any]:
    created = datetime.fromtimestamp(record.created, UTC)
    ended = datetime.fromtimestamp(record.created + record.elapsed_ms / 1000, UTC)
    return {
        "query_id": record.id,
        "state": _STATES[record.state],
        "user": record.owner.name,
        "source": record.source,
        "query": record.sql,
        "resource_group_id": ["global"],
        "queued_time_ms": round(record.queued_ms),
        "analysis_time_ms": 0,
        "planning_time_ms": 0,
        "created": created,
        "started": created,
        "last_heartbeat": ended,
        "end": ended if record.state.has_ended else None,
        "error_type": type(record.error).__name__ if record.error else None,
        "error_code": record.error.code if record.error else None,
    }


def _none(_tables: TrinoTables, _schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    return iter(())


def _jdbc(rows: Callable[[Iterator[ListedSchema]], Iterator[dict[str, Any]]]) -> _Rows:
    def adapted(_tables: TrinoTables, schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
        return rows(schemas)

    return adapted


def _schema(*names: str, **others: pa.DataType) -> pa.Schema:
    return pa.schema([(name, others.get(name, pa.string())) for name in names])


_MOMENT = pa.timestamp("ms", "UTC")
_Rows = Callable[[TrinoTables, Iterator[ListedSchema]], Iterator[dict[str, Any]]]
_SystemSchema = dict[str, tuple[pa.Schema, _Rows]]
_INFORMATION_SCHEMA: _SystemSchema = {
    "schemata": (_schema("catalog_name", "schema_name"), _schemata),
    "tables": (_schema("table_catalog", "table_schema", "table_name", "table_type"), _tables),
    "columns": (
        _schema(
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "ordinal_position",
            "column_default",
            "is_nullable",
            "data_type",
            "comment",
            "extra_info",
            ordinal_position=pa.int64(),
        ),
        _columns,
    ),
    "views": (_schema("table_catalog", "table_schema", "table_name", "view_definition"), _none),
}
_SYSTEM_SCHEMAS: dict[str, _SystemSchema] = {
    "jdbc": {name: (schema, _jdbc(rows)) for name, (schema, rows) in JDBC_TABLES.items()},
    "metadata": {
        "catalogs": (_schema("catalog_name", "connector_id", "connector_name"), _catalogs),
        "table_comments": (_schema("catalog_name", "schema_name", "table_name", "comment"), _comments),
    },
    "runtime": {
        "nodes": (
            _schema("node_id", "http_uri", "node_version", "coordinator", "state", coordinator=pa.bool_()),
            _nodes,
        ),
        "queries": (
            _schema(
                "query_id",
                "state",
                "user",
                "source",
                "query",
                "resource_group_id",
                "queued_time_ms",
                "analysis_time_ms",
                "planning_time_ms",
                "created",
                "started",
                "last_heartbeat",
                "end",
                "error_type",
                "error_code",
                resource_group_id=pa.list_(pa.string()),
                queued_time_ms=pa.int64(),
                analysis_time_ms=pa.int64(),
                planning_time_ms=pa.int64(),
                created=_MOMENT,
                started=_MOMENT,
                last_heartbeat=_MOMENT,
                end=_MOMENT,
            ),
            _queries,
        ),
    },
}
