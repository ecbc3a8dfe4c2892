"""The names of columns that hold no value of a state, the SQL names of types, and schemas from a list of columns as SQL writes them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

KEY_GROUP = "_key_group"
SUBTASK = "_subtask"
ROW = "_row"
"""The number of a row in its key group, or in the operator state of its subtask, in the order in which they are read."""

UNDECODED = "_undecoded"
"""Column with the bytes of values whose class the savepoint does not describe; the value is null."""

OUT_OF_RANGE = "_out_of_range"
"""Column with JSON text of the values that their own columns cannot hold; those are null."""


_TYPES = {
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "instant": pa.timestamp("us", "UTC"),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "text": pa.string(),
    "timestamp": pa.timestamp("ms"),
}


def schema_of(columns: str, **types: pa.DataType) -> pa.Schema:
    """Return the schema of columns as SQL lists them, such as `name, size_bytes bigint, hosts text[]`.

    Args:
        columns: names, each with its type behind it; one without a type is a text.
        types: types that are not in `_TYPES`, by name.
    """
    known = _TYPES | types
    pairs = (column.split() for column in columns.split(","))
    return pa.schema([(name, _type_of(kind[0] if kind else "text", known)) for name, *kind in pairs])


def struct_of(fields: str, **types: pa.DataType) -> pa.StructType:
    """Return the struct of fields; see `schema_of`."""
    return pa.struct(list(schema_of(fields, **types)))


def _type_of(name: str, known: dict[str, pa.DataType]) -> pa.DataType:
    return pa.list_(known[name[:-2]]) if name.endswith("[]") else known[name]


def sql_type(arrow_type: pa.DataType, identifier: Callable[[str], str] | None = None) -> str:
    """Return the SQL name of an Arrow type.

    Args:
        arrow_type: the type.
        identifier: quotes names of fields where they need it; if None, where they are no plain names.
    """
    identifier = identifier or _identifier
    if pa.types.is_struct(arrow_type):
        fields = ", ".join(
            f"{identifier(field.name)} {sql_type(field.type, identifier)}" for field in arrow_type
        )
        return f"STRUCT({fields})"
    if pa.types.is_map(arrow_type):
        return (
            f"MAP({sql_type(arrow_type.key_type, identifier)}, {sql_type(arrow_type.item_type, identifier)})"
        )
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return f"{sql_type(arrow_type.value_type, identifier)}[]"
    if pa.types.is_fixed_size_list(arrow_type):
        return f"{sql_type(arrow_type.value_type, identifier)}[{arrow_type.list_size}]"
    if pa.types.is_decimal(arrow_type):
        return f"DECIMAL({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_timestamp(arrow_type):
        return "TIMESTAMP WITH TIME ZONE" if arrow_type.tz else _TIMESTAMPS[arrow_type.unit]
    if pa.types.is_time(arrow_type):
        return "TIME_NS" if arrow_type.unit == "ns" else "TIME"
    # A dictionary is an encoding: clients see its values.
    if pa.types.is_dictionary(arrow_type):
        return sql_type(arrow_type.value_type, identifier)
    # Types that DuckDB does not have keep Arrow's name.
    return _NAMES.get(arrow_type.id, str(arrow_type).upper())


def _identifier(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else '"' + name.replace('"', '""') + '"'


_TIMESTAMPS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}
_NAMES = {
    pa.null().id: "NULL", pa.bool_().id: "BOOLEAN", pa.int8().id: "TINYINT", pa.int16().id: "SMALLINT",
    pa.int32().id: "INTEGER", pa.int64().id: "BIGINT", pa.uint8().id: "UTINYINT",
    pa.uint16().id: "USMALLINT", pa.uint32().id: "UINTEGER", pa.uint64().id: "UBIGINT",
    pa.float16().id: "FLOAT", pa.float32().id: "FLOAT", pa.float64().id: "DOUBLE", pa.string().id: "VARCHAR",
    pa.large_string().id: "VARCHAR", pa.binary().id: "BLOB", pa.large_binary().id: "BLOB",
    pa.date32().id: "DATE", pa.date64().id: "DATE", pa.month_day_nano_interval().id: "INTERVAL",
}  # fmt: skip
