"""Columns of answers, and the SQL names of Arrow types: DuckDB's names.

Answers, `information_schema` and `inspect` show these names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

_TIMESTAMPS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer.

    Attributes:
        name: its name in the statement; several columns may have the same name.
        type: the SQL name of its type.
    """

    name: str
    type: str


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
    return _PLAIN.get(arrow_type.id, str(arrow_type).upper())


def is_kept(arrow_type: pa.DataType) -> bool:
    """Return whether DuckDB returns a column of this type in the same type."""
    if pa.types.is_struct(arrow_type):
        return all(is_kept(field.type) for field in arrow_type) and arrow_type.num_fields > 0
    if pa.types.is_map(arrow_type):
        return is_kept(arrow_type.key_type) and is_kept(arrow_type.item_type)
    if pa.types.is_list(arrow_type):
        return is_kept(arrow_type.value_type)
    if pa.types.is_timestamp(arrow_type):
        return arrow_type.tz is None and arrow_type.unit != "s"
    return any(test(arrow_type) for test in _KEPT)


def _identifier(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else '"' + name.replace('"', '""') + '"'


_PLAIN = {
    pa.null().id: "NULL", pa.bool_().id: "BOOLEAN", pa.int8().id: "TINYINT", pa.int16().id: "SMALLINT",
    pa.int32().id: "INTEGER", pa.int64().id: "BIGINT", pa.uint8().id: "UTINYINT",
    pa.uint16().id: "USMALLINT", pa.uint32().id: "UINTEGER", pa.uint64().id: "UBIGINT",
    pa.float16().id: "FLOAT", pa.float32().id: "FLOAT", pa.float64().id: "DOUBLE", pa.string().id: "VARCHAR",
    pa.large_string().id: "VARCHAR", pa.binary().id: "BLOB", pa.large_binary().id: "BLOB",
    pa.date32().id: "DATE", pa.date64().id: "DATE", pa.month_day_nano_interval().id: "INTERVAL",
}  # fmt: skip
_KEPT = (
    pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64,
    pa.types.is_string, pa.types.is_binary, pa.types.is_date32, pa.types.is_decimal128,
)  # fmt: skip
