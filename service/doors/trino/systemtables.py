"""`information_schema` and the catalog `system`, as Trino's clients read them.

| tables | their rows |
|---|---|
| information_schema.{schemata, tables, columns, views} | the catalog `flink` |
| system.jdbc.* | what drivers read JDBC's `DatabaseMetaData` from |
| system.metadata.{catalogs, table_comments} | the catalogs, and what each table holds |
| system.runtime.{nodes, queries} | this service, and the queries of the user |

They are ordinary tables: a statement over them is planned, checked and run like any other. Some of JDBC's have no rows, and exist
because drivers query them: there are no procedures, no user-defined types, no table hierarchies.

Source: java.sql.DatabaseMetaData; java.sql.Types for the numbers of types.
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
from readers import schema_of
from service.base.errors import DatabaseNotFoundError, TableNotFoundError, near_names_hint
from service.base.version import installed_version
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


def _known(*rows: dict[str, Any]) -> _Rows:
    """Return the rows of a table that is the same for everybody."""
    return lambda _tables, _schemas: iter(rows)


def _schemata(_tables: TrinoTables, schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        yield from schemata_rows(one.name)
    yield from schemata_rows(INFORMATION_SCHEMA)


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


def _queries(tables: TrinoTables, _schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    return map(_query, tables.queries.records(tables.session.principal))


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


def _jdbc_schemas(_tables: TrinoTables, schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        yield {"table_schem": one.name, "table_catalog": CATALOG}
    yield {"table_schem": INFORMATION_SCHEMA, "table_catalog": CATALOG}


def _jdbc_tables(_tables: TrinoTables, schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        for table in tables_of(one.database):
            yield {
                "table_cat": CATALOG,
                "table_schem": one.name,
                "table_name": table.name,
                "table_type": "TABLE",
                "remarks": table.comment,
            }


def _jdbc_columns(_tables: TrinoTables, schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        for table in tables_of(one.database):
            place = {"table_cat": CATALOG, "table_schem": one.name, "table_name": table.name}
            for position, column in enumerate(table.schema, start=1):
                yield {**place, **_jdbc_column(column, position)}


def _jdbc_column(column: pa.Field, position: int) -> dict[str, Any]:
    name = trino_type(column.type)
    head, _, tail = name.partition("(")
    if head == "timestamp" and tail.endswith("with time zone"):
        head = "timestamp with time zone"
    # Types without a number of their own, such as row and map.
    code, size, radix = _JDBC_TYPES.get(head, (_JAVA_OBJECT, None, None))
    is_decimal = pa.types.is_decimal(column.type)
    return {
        "column_name": column.name,
        "data_type": code,
        "type_name": name,
        "column_size": column.type.precision if is_decimal else size,
        "decimal_digits": column.type.scale if is_decimal else None,
        "num_prec_radix": radix,
        "nullable": _NULLABLE if column.nullable else _NO_NULLS,
        "char_octet_length": _UNBOUNDED if name in ("varchar", "varbinary") else None,
        "ordinal_position": position,
        "is_nullable": "YES" if column.nullable else "NO",
    }


def _jdbc_type(name: str, code: int, size: int | None, radix: int | None) -> dict[str, Any]:
    return {
        "type_name": name,
        "data_type": code,
        "precision": size,
        "nullable": _NULLABLE,
        "case_sensitive": name == "varchar",
        "searchable": _SEARCHABLE,
        "unsigned_attribute": False,
        "fixed_prec_scale": False,
        "minimum_scale": 0,
        "maximum_scale": 38 if name == "decimal" else 0,
        "num_prec_radix": radix,
    }


_NULLABLE, _NO_NULLS = 1, 0
_UNBOUNDED = 2_147_483_647  # Trino's length of varchar without a limit
_SEARCHABLE = 3  # DatabaseMetaData.typeSearchable
_JAVA_OBJECT = 2000
# Type → number in java.sql.Types, size, radix.
_JDBC_TYPES: dict[str, tuple[int, int | None, int | None]] = {
    "boolean": (16, None, None),
    "bigint": (-5, 19, 10),
    "integer": (4, 10, 10),
    "smallint": (5, 5, 10),
    "tinyint": (-6, 3, 10),
    "real": (7, 24, 2),
    "double": (8, 53, 2),
    "decimal": (3, 38, 10),
    "varchar": (12, _UNBOUNDED, None),
    "varbinary": (-3, _UNBOUNDED, None),
    "date": (91, 14, None),
    "time": (92, 15, None),
    "timestamp": (93, 29, None),
    "timestamp with time zone": (2014, 35, None),
    "array": (2003, None, None),
}

_Rows = Callable[[TrinoTables, Iterator[ListedSchema]], Iterator[dict[str, Any]]]
_SystemSchema = dict[str, tuple[pa.Schema, _Rows]]
_INFORMATION_SCHEMA: _SystemSchema = {
    "schemata": (schema_of("catalog_name, schema_name"), _schemata),
    "tables": (schema_of("table_catalog, table_schema, table_name, table_type"), _tables),
    "columns": (
        schema_of(
            "table_catalog, table_schema, table_name, column_name, ordinal_position bigint, column_default, is_nullable, "
            "data_type, comment, extra_info"
        ),
        _columns,
    ),
    "views": (schema_of("table_catalog, table_schema, table_name, view_definition"), _known()),
}
_JDBC: _SystemSchema = {
    "catalogs": (schema_of("table_cat"), _known(*({"table_cat": name} for name in CATALOGS))),
    "schemas": (schema_of("table_schem, table_catalog"), _jdbc_schemas),
    "table_types": (schema_of("table_type"), _known({"table_type": "TABLE"}, {"table_type": "VIEW"})),
    "tables": (
        schema_of(
            "table_cat, table_schem, table_name, table_type, remarks, type_cat, type_schem, type_name, "
            "self_referencing_col_name, ref_generation"
        ),
        _jdbc_tables,
    ),
    "columns": (
        schema_of(
            "table_cat, table_schem, table_name, column_name, data_type bigint, type_name, column_size bigint, "
            "buffer_length bigint, decimal_digits bigint, num_prec_radix bigint, nullable bigint, remarks, column_def, "
            "sql_data_type bigint, sql_datetime_sub bigint, char_octet_length bigint, ordinal_position bigint, is_nullable, "
            "scope_catalog, scope_schema, scope_table, source_data_type bigint, is_autoincrement, is_generatedcolumn"
        ),
        _jdbc_columns,
    ),
    "types": (
        schema_of(
            "type_name, data_type bigint, precision bigint, literal_prefix, literal_suffix, create_params, nullable bigint, "
            "case_sensitive boolean, searchable bigint, unsigned_attribute boolean, fixed_prec_scale boolean, "
            "auto_increment boolean, local_type_name, minimum_scale bigint, maximum_scale bigint, sql_data_type bigint, "
            "sql_datetime_sub bigint, num_prec_radix bigint"
        ),
        _known(*(_jdbc_type(name, *facts) for name, facts in _JDBC_TYPES.items())),
    ),
    "procedures": (
        schema_of(
            "procedure_cat, procedure_schem, procedure_name, remarks, procedure_type bigint, specific_name"
        ),
        _known(),
    ),
    "procedure_columns": (
        schema_of(
            "procedure_cat, procedure_schem, procedure_name, column_name, column_type bigint, data_type bigint, type_name, "
            "precision bigint, length bigint, scale bigint, radix bigint, nullable bigint, remarks, column_def, "
            "sql_data_type bigint, sql_datetime_sub bigint, char_octet_length bigint, ordinal_position bigint, is_nullable, "
            "specific_name"
        ),
        _known(),
    ),
    "pseudo_columns": (
        schema_of(
            "table_cat, table_schem, table_name, column_name, data_type bigint, column_size bigint, decimal_digits bigint, "
            "num_prec_radix bigint, column_usage, remarks, char_octet_length bigint, is_nullable"
        ),
        _known(),
    ),
    "udts": (
        schema_of("type_cat, type_schem, type_name, class_name, data_type bigint, remarks, base_type bigint"),
        _known(),
    ),
    "super_types": (
        schema_of("type_cat, type_schem, type_name, supertype_cat, supertype_schem, supertype_name"),
        _known(),
    ),
    "super_tables": (schema_of("table_cat, table_schem, table_name, supertable_name"), _known()),
    "attributes": (
        schema_of(
            "type_cat, type_schem, type_name, attr_name, data_type bigint, attr_type_name, attr_size bigint, "
            "decimal_digits bigint, num_prec_radix bigint, nullable bigint, remarks, attr_def, sql_data_type bigint, "
            "sql_datetime_sub bigint, char_octet_length bigint, ordinal_position bigint, is_nullable, scope_catalog, "
            "scope_schema, scope_table, source_data_type bigint"
        ),
        _known(),
    ),
}
_SYSTEM_SCHEMAS: dict[str, _SystemSchema] = {
    "jdbc": _JDBC,
    "metadata": {
        "catalogs": (
            schema_of("catalog_name, connector_id, connector_name"),
            _known(
                *(
                    dict.fromkeys(("catalog_name", "connector_id", "connector_name"), name)
                    for name in CATALOGS
                )
            ),
        ),
        "table_comments": (schema_of("catalog_name, schema_name, table_name, comment"), _comments),
    },
    "runtime": {
        "nodes": (
            schema_of("node_id, http_uri, node_version, coordinator boolean, state"),
            _known(
                {
                    "node_id": "savepointdb",
                    "http_uri": "",
                    "node_version": installed_version(),
                    "coordinator": True,
                    "state": "active",
                }
            ),
        ),
        "queries": (
            schema_of(
                "query_id, state, user, source, query, resource_group_id text[], queued_time_ms bigint, "
                "analysis_time_ms bigint, planning_time_ms bigint, created moment, started moment, last_heartbeat moment, "
                "end moment, error_type, error_code",
                moment=pa.timestamp("ms", "UTC"),
            ),
            _queries,
        ),
    },
}
