"""Decoded values in the notation of the corpus.

| value | notation |
|---|---|
| numbers, text, booleans, null | themselves; NaN and infinities, BigDecimal, BigInteger and DECIMAL as text |
| times | Java's `toString`; `java.util.Date` as `{"$millis": …}` |
| bytes | `{"$bytes": hex}` |
| lists, arrays, tuples, SQL rows | arrays |
| map, set | `{"$map": [[key, value], …]}`, `{"$set": […]}`, here sorted by JSON text |
| row | `{"$row": kind, "fields": […]}` |
| Either | `{"$left": …}` or `{"$right": …}` |
| POJO | an object, with its class in `$class` where it is a subclass |
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from readers.connectors.recognition import RecodedSerializer
from readers.serializers import avro, containers, operators, pojo, primitives, structs
from readers.serializers.base import Serializer
from readers.serializers.kryo import plain
from readers.serializers.kryo import serializer as kryo
from readers.serializers.table import logicaltypes, rowdata

_OFFSET_OF_ZONE = re.compile(r"[+-]\d\d:\d\d(?=\[)")
_NANOS_A_SECOND = 1_000_000_000
_SECONDS_A_DAY = 86_400


def plain_values(array: pa.Array) -> list[Any]:
    """The values of an array as Python objects; dates and times as the integers they are stored as."""
    return list(array.cast(_plain_type(array.type)).to_pylist())


def notation(serializer: Serializer, value: Any) -> Any:
    """A value of `plain_values` as the corpus writes it."""
    if value is None:
        return None
    for family in type(serializer).__mro__:
        if family in _NOTATIONS:
            return _NOTATIONS[family](serializer, value)
    raise AssertionError(f"no notation for {type(serializer).__name__}")


def normal(value: Any) -> Any:
    """An expected value with the entries of its maps and sets in the order that `notation` gives them."""
    if isinstance(value, list):
        return [normal(element) for element in value]
    if not isinstance(value, dict):
        return value
    if "$raw" in value:
        return None  # of a view Flink stores a placeholder, with a serializer that writes null
    changed = {name: normal(field) for name, field in value.items()}
    for unordered in ("$map", "$set"):
        if unordered in changed:
            changed[unordered] = sorted(changed[unordered], key=json_text)
    return changed


def json_text(value: Any) -> str:
    """JSON with sorted keys: 1 and 1.0, 0.0 and -0.0 differ."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def without_types(value: Any) -> Any:
    """A value as the JSON text of Kryo objects shows it, which does not tell a map from a list of pairs.

    Of a ZonedDateTime, Kryo 5 stores no offset beside the zone.
    """
    if isinstance(value, str):
        return _OFFSET_OF_ZONE.sub("", value)
    if isinstance(value, list):
        return [without_types(element) for element in value]
    if not isinstance(value, dict):
        return value
    if "$map" in value:
        return [{"key": without_types(key), "value": without_types(item)} for key, item in value["$map"]]
    for marked in ("$set", "$optional"):
        if marked in value:
            return without_types(value[marked])
    return {name: without_types(field) for name, field in value.items()}


def java_date(days: int) -> str:
    """`LocalDate#toString` of days since 1970-01-01."""
    cycle, day = divmod(days + 719_468, 146_097)
    year_of_cycle = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100
    shifted_month = (5 * day + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_cycle + 400 * cycle + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day - (153 * shifted_month + 2) // 5 + 1:02}"


def java_time(nanos: int, *, seconds: bool = False) -> str:
    """`LocalTime#toString` of nanoseconds of the day; `seconds` shows them even where all is zero."""
    second_of_day, nano = divmod(nanos, _NANOS_A_SECOND)
    text = f"{second_of_day // 3600:02}:{second_of_day // 60 % 60:02}"
    if second_of_day % 60 or nano or seconds:
        text += f":{second_of_day % 60:02}"
    return text + _fraction(nano)


def java_date_time(nanos: int, *, seconds: bool = False) -> str:
    """`LocalDateTime#toString` of nanoseconds since the epoch."""
    days, nano_of_day = divmod(nanos, _SECONDS_A_DAY * _NANOS_A_SECOND)
    return f"{java_date(days)}T{java_time(nano_of_day, seconds=seconds)}"


def _fraction(nano: int) -> str:
    """In groups of three digits."""
    digits = f"{nano:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(data_type) or pa.types.is_time32(data_type):
        return pa.int32()
    if pa.types.is_timestamp(data_type) or pa.types.is_time64(data_type):
        return pa.int64()
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_plain_type(data_type.value_type))
    if pa.types.is_map(data_type):
        return pa.map_(_plain_type(data_type.key_type), _plain_type(data_type.item_type))
    return data_type


def _same(_: Serializer, value: Any) -> Any:
    return value


def _double(_: Serializer, value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _float(serializer: Serializer, value: float) -> float | str:
    """`Float#toString` has as many digits as tell a float from its neighbours."""
    plain = _double(serializer, value)
    return plain if isinstance(plain, str) else float(str(np.float32(plain)))


def _bytes(_: Serializer, value: bytes) -> dict[str, str]:
    return {"$bytes": value.hex()}


def _elements(of: Callable[[Serializer, Any], Any]) -> Callable[[Serializer, list[Any]], list[Any]]:
    return lambda serializer, values: [of(serializer, value) for value in values]


def _list(serializer: containers.ListSerializer, values: list[Any]) -> list[Any]:
    return [notation(serializer.element, value) for value in values]


def _set(serializer: containers.SetSerializer, values: list[Any]) -> dict[str, Any]:
    return {"$set": sorted(_list(serializer, values), key=json_text)}


def _map(serializer: containers.MapSerializer, entries: list[tuple[Any, Any]]) -> dict[str, Any]:
    pairs = [[notation(serializer.key, key), notation(serializer.value, value)] for key, value in entries]
    return {"$map": sorted(pairs, key=json_text)}


def _nullable(serializer: containers.NullableSerializer, value: Any) -> Any:
    return notation(serializer.inner, value)


def _tuple(serializer: structs.TupleSerializer, value: dict[str, Any]) -> list[Any]:
    return [notation(field, value[f"f{index}"]) for index, field in enumerate(serializer.fields)]


def _row(serializer: structs.RowSerializer, value: dict[str, Any]) -> dict[str, Any]:
    fields = [notation(field, value[f"f{index}"]) for index, field in enumerate(serializer.fields)]
    return {"$row": value.get("__row_kind", "+I"), "fields": fields}


def _either(serializer: structs.EitherSerializer, value: dict[str, Any]) -> dict[str, Any]:
    assert (value["left"] is None) != (value["right"] is None)
    if value["left"] is not None:
        return {"$left": notation(serializer.left, value["left"])}
    return {"$right": notation(serializer.right, value["right"])}


def _pojo(serializer: pojo.PojoSerializer, value: dict[str, Any]) -> dict[str, Any]:
    class_name = value.get("__class")
    if class_name is None:
        shown = {field.name: notation(field.serializer, value[field.name]) for field in serializer.fields}
        columns = set(shown)
    else:
        actual = dict(serializer.registered + serializer.non_registered)[class_name]
        assert isinstance(actual, pojo.PojoSerializer)
        own = {field.name: f"{field.name}({class_name})" for field in actual.fields}
        columns = {own[name] if own[name] in value else name for name in own}
        shown = {"$class": class_name} | {
            field.name: notation(
                field.serializer, value[own[field.name] if own[field.name] in value else field.name]
            )
            for field in actual.fields
        }
    others = [name for name in value if name not in columns and name != "__class"]
    assert all(value[name] is None for name in others), f"columns of other classes have values: {value}"
    return shown


def _kryo(serializer: kryo.KryoSerializer, value: Any) -> Any:
    if plain.is_text(serializer.settings, serializer.type_class):
        return value
    return _sorted_entries(json.loads(value)) if isinstance(value, str) else value


def _sorted_entries(value: Any) -> Any:
    """Kryo's JSON with the entries of maps in the order of `normal`, and classes as the corpus writes them."""
    if isinstance(value, dict):
        return {name.replace("@class", "$class"): _sorted_entries(field) for name, field in value.items()}
    if not isinstance(value, list):
        return value
    elements = [_sorted_entries(element) for element in value]
    is_map = all(isinstance(element, dict) and element.keys() == {"key", "value"} for element in elements)
    return (
        sorted(elements, key=lambda entry: json_text([entry["key"], entry["value"]])) if is_map else elements
    )


def _by_column_type(data_type: pa.DataType, value: Any) -> Any:
    """Avro and connectors: nothing but the column type counts."""
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: _by_column_type(field.type, value[field.name]) for field in data_type}
    if pa.types.is_list(data_type):
        return [_by_column_type(data_type.value_type, element) for element in value]
    if pa.types.is_map(data_type):
        pairs = [[key, _by_column_type(data_type.item_type, item)] for key, item in value]
        return {"$map": sorted(pairs, key=json_text)}
    return {"$bytes": value.hex()} if isinstance(value, bytes) else value


def _logical(kind: logicaltypes.LogicalType, value: Any) -> Any:
    """A SQL value."""
    if value is None:
        return None
    if isinstance(kind, logicaltypes.RowType):
        return [_logical(field, value[name]) for name, field in kind.fields]
    if isinstance(kind, logicaltypes.ArrayType):
        return [_logical(kind.element, element) for element in value]
    if isinstance(kind, logicaltypes.MapType):
        pairs = [[_logical(kind.key, key), _logical(kind.value, item)] for key, item in value]
        return {"$map": sorted(pairs, key=json_text)}
    if isinstance(kind, logicaltypes.DecimalType):
        return f"{value:f}"
    if isinstance(kind, logicaltypes.BytesType):
        return {"$bytes": value.hex()}
    if not kind.name.startswith("TIMESTAMP"):
        return value
    nanos = value * _NANOS_A_UNIT[kind.arrow().unit]
    return java_date_time(nanos, seconds=True) + "Z" if "LTZ" in kind.name else java_date_time(nanos)


def _stream_element(serializer: operators.StreamElementSerializer, value: dict[str, Any]) -> dict[str, Any]:
    return {"value": notation(serializer.value, value["value"]), "timestamp": value["timestamp"]}


def _row_data(serializer: rowdata.RowDataSerializer, value: dict[str, Any]) -> list[Any]:
    row: list[Any] = _logical(serializer.row, value)
    return row


def _time_window(_: Serializer, value: dict[str, int]) -> dict[str, int]:
    return {"start": value["start"], "end": value["end"]}


_NANOS_A_UNIT = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_NOTATIONS: dict[Any, Callable[[Any, Any], Any]] = {  # by class of serializer, abstract ones too
    primitives.BasicSerializer: _same,
    primitives.FloatSerializer: _float,
    primitives.DoubleSerializer: _double,
    primitives.BytePrimitiveArraySerializer: _bytes,
    primitives.FloatPrimitiveArraySerializer: _elements(_float),
    primitives.DoublePrimitiveArraySerializer: _elements(_double),
    primitives.DateSerializer: lambda _, millis: {"$millis": millis},
    primitives.SqlDateSerializer: lambda _, millis: java_date(millis // 86_400_000),
    primitives.SqlTimeSerializer: lambda _, millis: java_time(
        millis // 1000 % _SECONDS_A_DAY * _NANOS_A_SECOND, seconds=True
    ),
    primitives.SqlTimestampSerializer: lambda _, nanos: java_date_time(nanos),
    primitives.InstantSerializer: lambda _, nanos: java_date_time(nanos, seconds=True) + "Z",
    primitives.LocalDateSerializer: lambda _, days: java_date(days),
    primitives.LocalTimeSerializer: lambda _, nanos: java_time(nanos),
    primitives.LocalDateTimeSerializer: lambda _, nanos: java_date_time(nanos),
    containers.ListSerializer: _list,
    containers.SetSerializer: _set,
    containers.MapSerializer: _map,
    containers.NullableSerializer: _nullable,
    containers.EnumSerializer: _same,
    structs.TupleSerializer: _tuple,
    structs.RowSerializer: _row,
    structs.EitherSerializer: _either,
    pojo.PojoSerializer: _pojo,
    operators.TimeWindowSerializer: _time_window,
    kryo.KryoSerializer: _kryo,
    avro.AvroSerializer: lambda serializer, value: _by_column_type(serializer.arrow(), value),
    RecodedSerializer: lambda serializer, value: _by_column_type(serializer.arrow(), value),
    rowdata.RowDataSerializer: _row_data,
    rowdata.WrappingSerializer: lambda serializer, value: notation(serializer.inner, value),
    operators.StreamElementSerializer: _stream_element,
}
