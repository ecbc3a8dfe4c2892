"""Arrow types and values as Trino's protocol writes them.

| Arrow | Trino | value in JSON |
|---|---|---|
| bool, int8 … int64 | boolean, tinyint … bigint | as they are |
| uint8, uint16, uint32 | smallint, integer, bigint | numbers |
| uint64 | decimal(20,0) | text |
| float, double | real, double | numbers; `NaN`, `Infinity`, `-Infinity` as text |
| decimal | decimal(p,s) | text |
| string | varchar | text |
| binary | varbinary | base64 text |
| date, time, timestamp | date, time(p), timestamp(p) [with time zone] | text, `2026-01-01 00:00:00.000 UTC` |
| struct, list, map | row, array, map | array, array, object whose keys are text |
| null | unknown | null |

A client without the capability PARAMETRIC_DATETIME does not know `timestamp(6)`: it gets timestamps and times in
milliseconds, and half of one is rounded up, as in Trino. Sums of integers, which are HUGEINTs in
DuckDB and decimal(38,0) here, are bigints, as in Trino. Values without a type in Trino, such as intervals, are text.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from readers import iso_timestamp, json_text
from service.base.errors import InvalidValueError
from service.query.encode.formats import Column, decimal_text, plain

_HUGE = "HUGEINT"
_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_UNBOUNDED = 2_147_483_647  # Trino's length of varchar without a limit
_SECONDS_A_DAY = 86_400
_MILLISECONDS_A_DAY = 86_400_000
# Types of DuckDB that arrive as text in Arrow.
_TEXT_TYPES = {"JSON": "json", "UUID": "uuid"}
_ZONE = " UTC"


def column_of(column: Column, arrow_type: pa.DataType, *, parametric: bool = True) -> dict[str, Any]:
    """Describe a column of an answer as the protocol does."""
    if column.type == _HUGE:
        return {"name": column.name, "type": "bigint", "typeSignature": _signature("bigint")}
    if column.type in _TEXT_TYPES:
        name = _TEXT_TYPES[column.type]
        return {"name": column.name, "type": name, "typeSignature": _signature(name)}
    return named_column(column.name, arrow_type, parametric=parametric)


def with_bigints(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Return rows whose HUGEINTs are bigints.

    Raises:
        InvalidValueError: a number has more than 64 bits.
    """
    for index, column in enumerate(columns):
        if column.type == _HUGE:
            try:
                numbers = batch.column(index).cast(pa.int64())
            except pa.ArrowInvalid as error:
                raise InvalidValueError(
                    f"expected numbers of 64 bits in the column {column.name!r}, found one beyond them",
                    hint="a sum of CAST(x AS decimal(38,0)) is larger",
                    code="NUMERIC_VALUE_OUT_OF_RANGE",
                ) from error
            batch = batch.set_column(index, column.name, numbers)
    return batch


def named_column(name: str, arrow_type: pa.DataType, *, parametric: bool = True) -> dict[str, Any]:
    """Describe a column of an Arrow type as the protocol does."""
    shown, signature = _described(arrow_type, parametric)
    return {"name": name, "type": shown, "typeSignature": signature}


def trino_type(arrow_type: pa.DataType) -> str:
    """Return the Trino name of an Arrow type."""
    return _described(arrow_type, True)[0]


def rows_of(batch: pa.RecordBatch, *, parametric: bool = True) -> bytes:
    """Return the rows as JSON arrays with commas between them."""
    columns = [values_of(array, parametric=parametric) for array in batch.columns]
    return orjson.dumps(list(zip(*columns, strict=True)))[1:-1]


def values_of(array: pa.Array, *, parametric: bool = True) -> list[Any]:
    """Convert values for JSON."""
    array = plain(array)
    for test, convert in _VALUES:
        if test(array.type):
            return convert(array, parametric)
    values: list[Any] = array.to_pylist()
    return values


def _described(arrow_type: pa.DataType, parametric: bool) -> tuple[str, dict[str, Any]]:
    """Return a type's name and signature."""
    for test, describe in _TYPES:
        if test(arrow_type):
            return describe(arrow_type, parametric)
    name = _PLAIN.get(arrow_type.id, "varchar")
    return name, _signature(name)


def _signature(name: str, *arguments: tuple[str, Any]) -> dict[str, Any]:
    if name == "varchar":  # clients expect the length even where it is unlimited
        arguments = (("LONG", _UNBOUNDED),)
    return {"rawType": name, "arguments": [{"kind": kind, "value": value} for kind, value in arguments]}


def _decimal(arrow_type: pa.DataType, _parametric: bool) -> tuple[str, dict[str, Any]]:
    precision, scale = arrow_type.precision, arrow_type.scale
    signature = _signature("decimal", ("LONG", precision), ("LONG", scale))
    return f"decimal({precision},{scale})", signature


def _timestamp(arrow_type: pa.DataType, parametric: bool) -> tuple[str, dict[str, Any]]:
    tail = " with time zone" if arrow_type.tz else ""
    if not parametric:
        return f"timestamp{tail}", _signature(f"timestamp{tail}")
    precision = _PRECISIONS[arrow_type.unit]
    return f"timestamp({precision}){tail}", _signature(f"timestamp{tail}", ("LONG", precision))


def _time(arrow_type: pa.DataType, parametric: bool) -> tuple[str, dict[str, Any]]:
    if not parametric:
        return "time", _signature("time")
    precision = _PRECISIONS[arrow_type.unit]
    return f"time({precision})", _signature("time", ("LONG", precision))


def _row(arrow_type: pa.DataType, parametric: bool) -> tuple[str, dict[str, Any]]:
    names, arguments = [], []
    for field in arrow_type:
        shown, signature = _described(field.type, parametric)
        names.append(f"{quoted_name(field.name)} {shown}")
        value = {"fieldName": {"name": field.name}, "typeSignature": signature}
        arguments.append(("NAMED_TYPE", value))
    return f"row({', '.join(names)})", _signature("row", *arguments)


def quoted_name(name: str) -> str:
    """Return a name as Trino shows it: it lowers names without quotes, so capitals need them."""
    simple = name.isascii() and name.isidentifier() and name == name.lower()
    return name if simple else '"' + name.replace('"', '""') + '"'


def _array(arrow_type: pa.DataType, parametric: bool) -> tuple[str, dict[str, Any]]:
    shown, signature = _described(arrow_type.value_type, parametric)
    return f"array({shown})", _signature("array", ("TYPE", signature))


def _map(arrow_type: pa.DataType, parametric: bool) -> tuple[str, dict[str, Any]]:
    key, key_signature = _described(arrow_type.key_type, parametric)
    value, value_signature = _described(arrow_type.item_type, parametric)
    return f"map({key}, {value})", _signature("map", ("TYPE", key_signature), ("TYPE", value_signature))


def _float_values(array: pa.Array, _parametric: bool) -> list[Any]:
    values: list[Any] = array.to_pylist()
    # JSON has no number for NaN and the infinities; most columns have none, and are not converted.
    if pc.all(pc.fill_null(pc.is_finite(array), True)).as_py() is not False:
        return values
    return [_NOT_FINITE.get(str(value), value) for value in values]


def _binary_values(array: pa.Array, _parametric: bool) -> list[Any]:
    return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]


def _date_values(array: pa.Array, _parametric: bool) -> list[Any]:
    numbers = array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    # The last nine characters are the time, ` 00:00:00`.
    return _moments(
        numbers, _texts(array.cast(pa.string())), lambda value: _iso(value * _SECONDS_A_DAY, "s")[:-9]
    )


def _timestamp_values(array: pa.Array, parametric: bool) -> list[Any]:
    unit = array.type.unit
    zone = _ZONE if array.type.tz else ""
    numbers = array.cast(pa.int64())
    if not parametric and unit != "ms":
        numbers, unit = pa.array(_milliseconds(numbers, unit), pa.int64()), "ms"
    texts = _texts(numbers.cast(pa.timestamp(unit)).cast(pa.string()))
    found = _moments(numbers, texts, lambda value: _iso(value, unit))
    return [value and value + zone for value in found] if zone else found


def _time_values(array: pa.Array, parametric: bool) -> list[Any]:
    if not parametric and array.type.unit != "ms":
        numbers = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()).cast(pa.int64())
        rounded = [value and value % _MILLISECONDS_A_DAY for value in _milliseconds(numbers, array.type.unit)]
        array = pa.array(rounded, pa.int32()).cast(pa.time32("ms"))
    return _texts(array.cast(pa.string()))


def _milliseconds(numbers: pa.Array, unit: str) -> list[int | None]:
    """Return whole milliseconds; half of one is rounded up, as in Trino."""
    if unit == "s":
        return [value and value * 1000 for value in numbers.to_pylist()]
    factor: int = 10 ** (_PRECISIONS[unit] - 3)
    return [None if value is None else (value + factor // 2) // factor for value in numbers.to_pylist()]


def _moments(numbers: pa.Array, texts: list[str | None], convert: Callable[[int], str]) -> list[Any]:
    """Return the texts; years outside 0000 to 9999, which Arrow does not write in ISO form, are converted one by one."""
    odd = [
        index
        for index, text in enumerate(texts)
        if text is not None and (len(text) < 5 or text[4] != "-" or not text[0].isdigit())
    ]
    for index in odd:
        texts[index] = convert(numbers[index].as_py())
    return texts


def _iso(value: int, unit: str) -> str:
    return iso_timestamp(value, unit).replace("T", " ")


def _struct_values(array: pa.Array, parametric: bool) -> list[Any]:
    children = [
        values_of(array.field(index), parametric=parametric) for index in range(array.type.num_fields)
    ]
    valid = array.is_valid().to_pylist()
    rows: Sequence[Any] = list(zip(*children, strict=True)) if children else [()] * len(array)
    return [list(row) if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]


def _map_values(array: pa.Array, parametric: bool) -> list[Any]:
    keys = _keys(array.keys, parametric)
    items = values_of(array.items, parametric=parametric)
    pairs = _sliced(array, list(zip(keys, items, strict=True)))
    return [None if value is None else dict(value) for value in pairs]


def _keys(array: pa.Array, parametric: bool) -> list[str]:
    # Keys of JSON objects are text: `True` or a list in Python's notation would be no JSON.
    if pa.types.is_boolean(array.type) or pa.types.is_nested(array.type):
        return _texts(json_text(array))
    return [str(value) for value in values_of(array, parametric=parametric)]


def _sliced(array: pa.Array, values: list[Any]) -> list[Any]:
    """Cut the child values of an array of lists to a list per row."""
    # The child array is not sliced with its parent: the offsets count from its first value.
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [
        values[offsets[index] : offsets[index + 1]] if is_valid else None
        for index, is_valid in enumerate(valid)
    ]


def _texts(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

_Describe = Callable[[pa.DataType, bool], tuple[str, dict[str, Any]]]
_TYPES: tuple[tuple[Callable[[pa.DataType], bool], _Describe], ...] = (
    (pa.types.is_decimal, _decimal),
    (pa.types.is_uint64, lambda _, parametric: _decimal(pa.decimal128(20, 0), parametric)),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_time, _time),
    (pa.types.is_struct, _row),
    (pa.types.is_list, _array),
    (pa.types.is_large_list, _array),
    (pa.types.is_fixed_size_list, _array),
    (pa.types.is_map, _map),
)
_PLAIN = {
    pa.null().id: "unknown",
    pa.bool_().id: "boolean",
    pa.int8().id: "tinyint",
    pa.int16().id: "smallint",
    pa.int32().id: "integer",
    pa.int64().id: "bigint",
    pa.uint8().id: "smallint",
    pa.uint16().id: "integer",
    pa.uint32().id: "bigint",
    pa.float16().id: "real",
    pa.float32().id: "real",
    pa.float64().id: "double",
    pa.binary().id: "varbinary",
    pa.large_binary().id: "varbinary",
    pa.date32().id: "date",
    pa.date64().id: "date",
}
_Values = Callable[[pa.Array, bool], list[Any]]
_VALUES: tuple[tuple[Callable[[pa.DataType], bool], _Values], ...] = (
    (pa.types.is_floating, _float_values),
    (pa.types.is_decimal, lambda array, _: _texts(decimal_text(array))),
    (pa.types.is_uint64, lambda array, _: _texts(array.cast(pa.string()))),
    (pa.types.is_binary, _binary_values),
    (pa.types.is_date, _date_values),
    (pa.types.is_timestamp, _timestamp_values),
    (pa.types.is_time, _time_values),
    (pa.types.is_struct, _struct_values),
    (pa.types.is_map, _map_values),
    (
        pa.types.is_list,
        lambda array, parametric: _sliced(array, values_of(array.values, parametric=parametric)),
    ),
)
