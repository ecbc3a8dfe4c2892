"""The tables of `system.jdbc`, from which drivers read JDBC's `DatabaseMetaData`.

Tables without rows exist because drivers query them: there are no procedures, no user-defined types, no table
hierarchies.

Source: java.sql.DatabaseMetaData; java.sql.Types for the numbers of types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from service.doors.trino.types import trino_type
from service.query.sql.schemas import CATALOG, ListedSchema, tables_of

_INT = pa.int64()
_NULLABLE, _NO_NULLS = 1, 0
_UNBOUNDED = 2_147_483_647  # Trino's length of varchar without a limit
_SEARCHABLE = 3  # DatabaseMetaData.typeSearchable


def _catalogs(_schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    yield {"table_cat": CATALOG}
    yield {"table_cat": "system"}


def _schemas(schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        yield {"table_schem": one.name, "table_catalog": CATALOG}
    yield {"table_schem": "information_schema", "table_catalog": CATALOG}


def _table_types(_schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    yield {"table_type": "TABLE"}
    yield {"table_type": "VIEW"}


def _tables(schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        for table in tables_of(one.database):
            yield {
                "table_cat": CATALOG,
                "table_schem": one.name,
                "table_name": table.name,
                "table_type": "TABLE",
                "remarks": table.comment,
            }


def _columns(schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for one in schemas:
        for table in tables_of(one.database):
            for position, column in enumerate(table.schema, start=1):
                yield {
                    "table_cat": CATALOG,
                    "table_schem": one.name,
                    "table_name": table.name,
                    **_column(column, position),
                }


def _column(column: pa.Field, position: int) -> dict[str, Any]:
    name = trino_type(column.type)
    code, size, radix = _facts(name)
    return {
        "column_name": column.name,
        "data_type": code,
        "type_name": name,
        "column_size": column.type.precision if pa.types.is_decimal(column.type) else size,
        "decimal_digits": column.type.scale if pa.types.is_decimal(column.type) else None,
        "num_prec_radix": radix,
        "nullable": _NULLABLE if column.nullable else _NO_NULLS,
        "char_octet_length": _UNBOUNDED if name in ("varchar", "varbinary") else None,
        "ordinal_position": position,
        "is_nullable": "YES" if column.nullable else "NO",
    }


def _facts(name: str) -> tuple[int, int | None, int | None]:
    """Return a type's number in java.sql.Types, its size, and the radix of the size."""
    head, _, tail = name.partition("(")
    if head == "timestamp" and tail.endswith("with time zone"):
        head = "timestamp with time zone"
    # Types without a number of their own, such as row and map.
    return _TYPES.get(head, (_JAVA_OBJECT, None, None))


def _types(_schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    for name, (code, size, radix) in _TYPES.items():
        yield {
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


# Drivers ask for these tables, which are always empty here.
def _none(_schemas: Iterator[ListedSchema]) -> Iterator[dict[str, Any]]:
    return iter(())


def _schema(names: str, integers: str = "", booleans: str = "") -> pa.Schema:
    numbers, flags = integers.split(), booleans.split()
    kinds = {**dict.fromkeys(numbers, _INT), **dict.fromkeys(flags, pa.bool_())}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in names.split()])


_JAVA_OBJECT = 2000
# Type → number in java.sql.Types, size, radix.
_TYPES: dict[str, tuple[int, int | None, int | None]] = {
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
_Rows = Callable[[Iterator[ListedSchema]], Iterator[dict[str, Any]]]
JDBC_TABLES: dict[str, tuple[pa.Schema, _Rows]] = {
    "catalogs": (_schema("table_cat"), _catalogs),
    "schemas": (_schema("table_schem table_catalog"), _schemas),
    "table_types": (_schema("table_type"), _table_types),
    "tables": (
        _schema(
            "table_cat table_schem table_name table_type remarks type_cat type_schem type_name "
            "self_referencing_col_name ref_generation"
        ),
        _tables,
    ),
    "columns": (
        _schema(
            "table_cat table_schem table_name column_name data_type type_name column_size buffer_length "
            "decimal_digits num_prec_radix nullable remarks column_def sql_data_type sql_datetime_sub "
            "char_octet_length ordinal_position is_nullable scope_catalog scope_schema scope_table "
            "source_data_type is_autoincrement is_generatedcolumn",
            "data_type column_size buffer_length decimal_digits num_prec_radix nullable sql_data_type "
            "sql_datetime_sub char_octet_length ordinal_position source_data_type",
        ),
        _columns,
    ),
    "types": (
        _schema(
            "type_name data_type precision literal_prefix literal_suffix create_params nullable case_sensitive "
            "searchable unsigned_attribute fixed_prec_scale auto_increment local_type_name minimum_scale "
            "maximum_scale sql_data_type sql_datetime_sub num_prec_radix",
            "data_type precision nullable searchable minimum_scale maximum_scale sql_data_type sql_datetime_sub "
            "num_prec_radix",
            "case_sensitive unsigned_attribute fixed_prec_scale auto_increment",
        ),
        _types,
    ),
    "procedures": (
        _schema(
            "procedure_cat procedure_schem procedure_name remarks procedure_type specific_name",
            "procedure_type",
        ),
        _none,
    ),
    "procedure_columns": (
        _schema(
            "procedure_cat procedure_schem procedure_name column_name column_type data_type type_name precision "
            "length scale radix nullable remarks column_def sql_data_type sql_datetime_sub char_octet_length "
            "ordinal_position is_nullable specific_name",
            "column_type data_type precision length scale radix nullable sql_data_type sql_datetime_sub "
            "char_octet_length ordinal_position",
        ),
        _none,
    ),
    "pseudo_columns": (
        _schema(
            "table_cat table_schem table_name column_name data_type column_size decimal_digits num_prec_radix "
            "column_usage remarks char_octet_length is_nullable",
            "data_type column_size decimal_digits num_prec_radix char_octet_length",
        ),
        _none,
    ),
    "udts": (
        _schema(
            "type_cat type_schem type_name class_name data_type remarks base_type", "data_type base_type"
        ),
        _none,
    ),
    "super_types": (
        _schema("type_cat type_schem type_name supertype_cat supertype_schem supertype_name"),
        _none,
    ),
    "super_tables": (_schema("table_cat table_schem table_name supertable_name"), _none),
    "attributes": (
        _schema(
            "type_cat type_schem type_name attr_name data_type attr_type_name attr_size decimal_digits "
            "num_prec_radix nullable remarks attr_def sql_data_type sql_datetime_sub char_octet_length "
            "ordinal_position is_nullable scope_catalog scope_schema scope_table source_data_type",
            "data_type attr_size decimal_digits num_prec_radix nullable sql_data_type sql_datetime_sub "
            "char_octet_length ordinal_position source_data_type",
        ),
        _none,
    ),
}
