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
are converted one by one: as `java.time` prints them, for Python's `datetime` ends with the year 9999 and has no nanoseconds.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import orjson
import pyarrow as pa
import pyarrow.compute as pc

_SECONDS_A_DAY = 86_400
_NANOS_A_SECOND = 1_000_000_000


def date_text(year: int, month: int, day: int) -> str:
    """Return `LocalDate#toString`."""
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def time_text(hour: int, minute: int, second: int, nano: int) -> str:
    """Return `LocalTime#toString`: no seconds where they are zero, the fraction in groups of three digits."""
    text = f"{hour:02d}:{minute:02d}"
    if second or nano:
        text += f":{second:02d}"
    return text + _fraction(nano)


def instant_text(seconds: int, nano: int) -> str:
    """Return `Instant#toString`: always with seconds."""
    days, rest = divmod(seconds, _SECONDS_A_DAY)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{date_text(*civil_from_days(days))}T{clock}{_fraction(nano)}Z"


def duration_text(seconds: int, nano: int) -> str:
    """Return `Duration#toString`."""
    # The nanos count upwards from the seconds, also in a negative duration.
    total = seconds * _NANOS_A_SECOND + nano
    sign = "-" if total < 0 else ""
    whole, nano = divmod(abs(total), _NANOS_A_SECOND)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    text = f"{sign}{hours}H" * bool(hours) + f"{sign}{minutes}M" * bool(minutes)
    if rest or nano or not text:
        digits = f"{nano:09d}".rstrip("0")
        text += f"{sign}{rest}{'.' + digits if digits else ''}S"
    return f"PT{text}"


def _fraction(nano: int) -> str:
    if nano == 0:
        return ""
    digits = f"{nano:09d}"
    # `java.time` prints three, six or nine digits.
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}"


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day since 1970-01-01, in the proleptic Gregorian calendar."""
    # Years here begin in March, so that the leap day is the last; eras are the 400 years after which days repeat.
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + 400 * era + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


# A regular expression of RE2, for Arrow.
_NEEDS_ESCAPE = '["\\\\\\x00-\\x1f]'
_NOT_FINITE = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_UNITS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


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
