"""Values of any type as JSON text: columns whose states share no type, and JSON answers.

| type | text |
|---|---|
| integers | numbers |
| floats | numbers; `"NaN"`, `"Infinity"`, `"-Infinity"` |
| decimals, strings | strings |
| bytes | base64 strings |
| dates, times, timestamps | ISO 8601 strings; years beyond 9999 with a sign and more digits, exact |
| structs | objects |
| lists | arrays |
| maps | arrays of `{"key": …, "value": …}` |

Arrow's kernels do the work, column by column; only strings that need escapes, bytes, and dates out of Arrow's range
are converted one by one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from readers.timetext import civil_from_days, date_text

# A regular expression of RE2, for Arrow.
_NEEDS_ESCAPE = '["\\\\\\x00-\\x1f]'
_NOT_FINITE = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_UNITS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_SECONDS_A_DAY = 86_400


def json_text(array: pa.Array) -> pa.Array:
    """Return each value as JSON text; null stays null."""
    for test, convert in _CONVERTERS:
        if test(array.type):
            return convert(array)
    return _strings(array.cast(pa.string()))


def _struct(array: pa.Array) -> pa.Array:
    texts: list[pa.Array | str] = []
    for index, column in enumerate(array.type):
        texts.append(("{" if index == 0 else ",") + orjson.dumps(column.name).decode() + ":")
        texts.append(pc.fill_null(json_text(array.field(index)), "null"))
    text = pc.binary_join_element_wise(*texts, "}", "") if texts else pa.array(["{}"] * len(array))
    return pc.if_else(array.is_valid(), text, None)


def _list(array: pa.Array) -> pa.Array:
    return _joined(array, array.values)


def _map(array: pa.Array) -> pa.Array:
    # JSON objects have texts as keys only, and no order.
    pairs = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    return _joined(array, pairs)


def _joined(array: pa.Array, values: pa.Array) -> pa.Array:
    elements = pa.ListArray.from_arrays(array.offsets, pc.fill_null(json_text(values), "null"))
    text = pc.binary_join_element_wise("[", pc.binary_join(elements, ","), "]", "")
    return pc.if_else(array.is_valid(), text, None)


def _numbers(array: pa.Array) -> pa.Array:
    return array.cast(pa.string())


def _floats(array: pa.Array) -> pa.Array:
    text = array.cast(pa.string())
    # JSON has no such numbers.
    for found, shown in _NOT_FINITE.items():
        text = pc.if_else(pc.equal(text, found), f'"{shown}"', text)
    return text


def _strings(array: pa.Array) -> pa.Array:
    text = pc.binary_join_element_wise('"', array, '"', "")
    # Escapes are rare, and no kernel writes them.
    special = pc.fill_null(pc.match_substring_regex(array, _NEEDS_ESCAPE), False)
    if not pc.any(special).as_py():
        return text
    escaped = [orjson.dumps(value).decode() for value in array.filter(special).to_pylist()]
    return pc.replace_with_mask(text, special, pa.array(escaped, pa.string()))


def _bytes(array: pa.Array) -> pa.Array:
    encode = base64.b64encode
    texts = [None if value is None else f'"{encode(value).decode()}"' for value in array.to_pylist()]
    return pa.array(texts, pa.string())


def _timestamps(array: pa.Array) -> pa.Array:
    unit = array.type.unit
    zone = "Z" if array.type.tz else ""
    numbers = array.cast(pa.int64())
    plain = numbers.cast(pa.timestamp(unit)).cast(pa.string())
    text = pc.binary_join_element_wise('"', pc.replace_substring(plain, " ", "T"), zone + '"', "")
    return _exact(text, plain, numbers, lambda value: iso_timestamp(value, unit) + zone)


def _dates(array: pa.Array) -> pa.Array:
    numbers = array.cast(pa.int32()).cast(pa.int64())
    plain = array.cast(pa.string())
    text = pc.binary_join_element_wise('"', plain, '"', "")
    return _exact(text, plain, numbers, lambda value: iso_timestamp(value * _SECONDS_A_DAY, "s")[:-9])


def _exact(text: pa.Array, plain: pa.Array, numbers: pa.Array, convert: Callable[[int], str]) -> pa.Array:
    """Return `text`, with values that Arrow does not write in ISO form (years outside 0000 to 9999) converted one by one."""
    odd = pc.fill_null(pc.invert(pc.match_substring_regex(plain, r"^\d{4}-")), False)
    if not pc.any(odd).as_py():
        return text
    converted = [f'"{convert(value)}"' for value in numbers.filter(odd).to_pylist()]
    return pc.replace_with_mask(text, odd, pa.array(converted, pa.string()))


def iso_timestamp(value: int, unit: str) -> str:
    """Return a number of units since the epoch as ISO 8601 text, exact for any int64.

    Years outside 0000 to 9999 have a sign and at least four digits, as in `java.time`.
    """
    seconds, fraction = divmod(value, _UNITS[unit])
    days, second_of_day = divmod(seconds, _SECONDS_A_DAY)
    digits = _DIGITS[unit]
    decimals = f".{fraction:0{digits}d}" if digits else ""
    clock = f"{second_of_day // 3600:02d}:{second_of_day // 60 % 60:02d}:{second_of_day % 60:02d}"
    return f"{date_text(*civil_from_days(days))}T{clock}{decimals}"


def _is_bytes(arrow_type: pa.DataType) -> bool:
    tests = (
        *(pa.types.is_binary, pa.types.is_large_binary),
        *(pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    )
    return any(test(arrow_type) for test in tests)


_CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
    (pa.types.is_boolean, _numbers),
    (pa.types.is_integer, _numbers),
    (pa.types.is_floating, _floats),
    (pa.types.is_string, _strings),
    (_is_bytes, _bytes),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_date, _dates),
)
