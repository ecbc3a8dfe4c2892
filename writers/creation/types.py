"""Column types → serializers, where the type of a new state is not named.

| column | type |
|---|---|
| BOOLEAN TINYINT SMALLINT INTEGER BIGINT | Boolean Byte Short Integer Long |
| REAL DOUBLE | Float Double |
| DECIMAL, HUGEINT | BigDecimal, BigInteger |
| VARCHAR BLOB | String byte[] |
| DATE TIME TIMESTAMP | LocalDate LocalTime LocalDateTime |
| TIMESTAMP WITH TIME ZONE | Instant |
| T[] | List<T> |
| MAP(K, V) | Map<K, V> |
| STRUCT(a A, b B) | Row(a A, b B) |
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyarrow import types

from readers import (
    ListSerializer,
    MapSerializer,
    RowSerializer,
    Serializer,
    TupleSerializer,
    UnsupportedSerializerError,
    type_named,
)
from writers.errors import UnencodableTypeError

_PLAIN: dict[pa.DataType, str] = {
    pa.bool_(): "Boolean",
    pa.int8(): "Byte",
    pa.int16(): "Short",
    pa.int32(): "Integer",
    pa.int64(): "Long",
    pa.float32(): "Float",
    pa.float64(): "Double",
    pa.date32(): "LocalDate",
}


def type_of_column(name: str, data_type: pa.DataType) -> Serializer:
    """Return the serializer of a column of this type.

    Raises:
        UnencodableTypeError: there is no such type of Flink; its name must be given.
    """
    text = _name(data_type)
    if text is None:
        raise UnencodableTypeError(
            f"expected a column whose type Flink has, or the name of a type, found {data_type}",
            breadcrumbs=(name,),
        )
    try:
        return type_named(text)
    except UnsupportedSerializerError as error:
        raise UnencodableTypeError(error.message, breadcrumbs=(name,)) from error


def _name(data_type: pa.DataType) -> str | None:
    """Return the name of the type; None if there is none."""
    if data_type in _PLAIN:
        return _PLAIN[data_type]
    if types.is_string(data_type) or types.is_large_string(data_type) or types.is_dictionary(data_type):
        return "String"
    if types.is_binary(data_type) or types.is_large_binary(data_type):
        return "byte[]"
    if types.is_decimal(data_type):
        # A HUGEINT is a decimal without a fraction, and so is a DECIMAL(38, 0).
        return "BigInteger" if (data_type.precision, data_type.scale) == (38, 0) else "BigDecimal"
    if types.is_time(data_type):
        return "LocalTime"
    if types.is_timestamp(data_type):
        return "Instant" if data_type.tz else "LocalDateTime"
    return _composed(data_type)


def _composed(data_type: pa.DataType) -> str | None:
    """Return the name of a list, map or struct."""
    if types.is_map(data_type):
        key, item = _name(data_type.key_type), _name(data_type.item_type)
        return None if key is None or item is None else f"Map<{key}, {item}>"
    if types.is_struct(data_type):
        fields = [(field.name, _name(field.type)) for field in data_type]
        if any(text is None for _, text in fields) or not fields:
            return None
        return f"Row({', '.join(f'{name} {text}' for name, text in fields)})"
    if types.is_nested(data_type) and data_type.num_fields == 1:
        element = _name(data_type.value_type)
        return None if element is None else f"List<{element}>"
    return None


def named_after(serializer: Serializer, data_type: pa.DataType) -> Serializer:
    """Return the type with the fields of its rows and tuples named as those of the column, if they have no names of their own."""
    if isinstance(serializer, RowSerializer | TupleSerializer):
        if not (types.is_struct(data_type) and data_type.num_fields == serializer.width):
            return serializer
        fields = tuple(
            named_after(child, data_type.field(number).type)
            for number, (_, child) in enumerate(serializer.children)
        )
        named = (
            serializer if serializer.names else serializer.with_names(tuple(one.name for one in data_type))
        )
        return replace(named, fields=fields)
    if isinstance(serializer, ListSerializer) and types.is_nested(data_type) and data_type.num_fields == 1:
        return replace(serializer, element=named_after(serializer.element, data_type.value_type))
    if isinstance(serializer, MapSerializer) and types.is_map(data_type):
        return replace(
            serializer,
            key=named_after(serializer.key, data_type.key_type),
            value=named_after(serializer.value, data_type.item_type),
        )
    return serializer
