"""The classes whose values are numbers or plain text in a column. Those of all others are JSON text.

| class | column |
|---|---|
| boxed numbers, Boolean | that number, BOOLEAN |
| String, Character, UUID, BigInteger, BigDecimal, URI, URL, Locale, Currency, Class, … | text |
| dates and times, Duration, Period | ISO 8601 text |
| enums whose constants are known | the name of the constant |
| Optional | its value as text: plain if it is one of these texts, else JSON |

A declared type that is open (Object, List) holds values of any class, so its column is JSON text: there `"5"` is not `5`.
A text of the classes `UNQUOTED` never begins with a quotation mark.

Kryo 2.24 knows no `java.time`: Flink 1.x writes the fields of its classes, in the order of their names, nanos before seconds. Kryo 5
has a serializer for each class.

Source: `com.esotericsoftware.kryo.serializers.DefaultSerializers`, `TimeSerializers`; `com.twitter.chill.java`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from readers import keygroups
from readers.jsontext import date_text, duration_text, instant_text, time_text
from readers.serializers.kryo.reader import Body, KryoInput, KryoReader, of_input, of_reader
from readers.serializers.kryo.settings import ENUMS, KryoSettings

_MILLISECOND_NANOS = 1_000_000
_SECOND_NANOS = 1_000_000_000
_QUARTER_HOUR_S = 900
_SECONDS_FOLLOW = 127  # in the place of the quarters of an hour


def _millis(input_: KryoInput) -> str:
    return instant_text(*_split_millis(input_.positive_long()))


def _local_millis(input_: KryoInput) -> str:
    return _millis(input_).removesuffix("Z")


def _sql_timestamp(input_: KryoInput) -> str:
    # The nanos hold the milliseconds too: chill stores both, Kryo 5 rounds the milliseconds down to the second.
    seconds, _ = _split_millis(input_.positive_long())
    return instant_text(seconds, _nanos(input_)).removesuffix("Z")


def _split_millis(milliseconds: int) -> tuple[int, int]:
    return milliseconds // 1000, milliseconds % 1000 * _MILLISECOND_NANOS


def _nanos(input_: KryoInput) -> int:
    return _checked(input_, input_.positive_int(), _SECOND_NANOS, "nanos")


def _checked(input_: KryoInput, value: int, bound: int, what: str) -> int:
    if not 0 <= value < bound:
        raise input_.corrupt(f"expected {what} below {bound}, found {value}")
    return value


def _local_date(reader: KryoReader) -> str:
    input_ = reader.input
    if reader.is_kryo5:
        year, month, day = input_.positive_int(), input_.u1(), input_.u1()
    else:
        day, month, year = input_.fixed("h"), input_.fixed("h"), input_.zigzag()
    _checked(input_, month - 1, 12, "a month, counted from 0,")
    return date_text(year, month, _checked(input_, day - 1, 31, "a day, counted from 0,") + 1)


def _local_time(reader: KryoReader) -> str:
    input_ = reader.input
    if not reader.is_kryo5:
        hour, minute, nano, second = input_.u1(), input_.u1(), input_.zigzag(), input_.u1()
        return _time(input_, hour, minute, second, nano)
    # Kryo 5 stops at the last number that is not zero and writes its complement, which is negative.
    numbers = [0, 0, 0, 0]
    for index in range(3):
        number = input_.i1()
        numbers[index] = ~number if number < 0 else number
        if number < 0:
            return _time(input_, *numbers)
    numbers[3] = input_.positive_int()
    return _time(input_, *numbers)


def _time(input_: KryoInput, hour: int, minute: int, second: int, nano: int) -> str:
    _checked(input_, hour, 24, "an hour")
    _checked(input_, minute, 60, "a minute")
    _checked(input_, second, 60, "a second")
    return time_text(hour, minute, second, _checked(input_, nano, _SECOND_NANOS, "nanos"))


def _local_date_time(reader: KryoReader) -> str:
    date = _inner(reader, "java.time.LocalDate", _local_date)
    return f"{date}T{_inner(reader, 'java.time.LocalTime', _local_time)}"


def _zone_offset(reader: KryoReader) -> str:
    """Read the seconds (2.24); quarters of an hour, or 127 and the seconds (5)."""
    if not reader.is_kryo5:
        return offset_text(reader.input.zigzag())
    quarters = reader.input.i1()
    return offset_text(reader.input.fixed("i") if quarters == _SECONDS_FOLLOW else quarters * _QUARTER_HOUR_S)


def _zone_region(reader: KryoReader) -> Any:
    if reader.is_kryo5:
        return reader.input.text()
    return reader.object("java.lang.String")


def _zoned_date_time(reader: KryoReader) -> str:
    moment = _inner(reader, "java.time.LocalDateTime", _local_date_time)
    if reader.is_kryo5:
        zone = reader.input.name("a time zone")
        return f"{moment}{zone}" if zone.startswith(("Z", "+", "-")) else f"{moment}[{zone}]"
    # 2.24: the fields dateTime, offset, zone; `ZoneId` is abstract, so the zone has its class.
    offset = reader.object("java.time.ZoneOffset")
    zone = reader.any()
    return f"{moment}{offset or ''}" + (f"[{zone}]" if zone is not None and zone != offset else "")


def _offset_date_time(reader: KryoReader) -> str:
    moment = _inner(reader, "java.time.LocalDateTime", _local_date_time)
    return f"{moment}{_inner(reader, 'java.time.ZoneOffset', _zone_offset)}"


def _seconds_and_nanos(reader: KryoReader, read_seconds: Callable[[KryoInput], int]) -> tuple[int, int]:
    """Read a moment or a time span; `read_seconds` is of Kryo 5."""
    input_ = reader.input
    if reader.is_kryo5:
        return read_seconds(input_), _nanos(input_)
    nanos = _checked(input_, input_.zigzag(), _SECOND_NANOS, "nanos")
    return input_.zigzag(), nanos


def _instant(reader: KryoReader) -> str:
    return instant_text(*_seconds_and_nanos(reader, KryoInput.positive_long))


def _duration(reader: KryoReader) -> str:
    return duration_text(*_seconds_and_nanos(reader, lambda input_: input_.fixed("q")))


def _period(reader: KryoReader) -> str:
    if reader.is_kryo5:
        years, months, days = (reader.input.positive_int() for _ in range(3))
    else:
        days, months, years = (reader.input.zigzag() for _ in range(3))
    text = "".join(f"{amount}{unit}" for amount, unit in ((years, "Y"), (months, "M"), (days, "D")) if amount)
    return f"P{text or '0D'}"


def _inner(reader: KryoReader, class_name: str, read: Callable[[KryoReader], Any]) -> Any:
    """Read a date, time or offset inside another object: an object of its own in 2.24, plain bytes in 5."""
    return read(reader) if reader.is_kryo5 else reader.object(class_name)


def offset_text(seconds: int) -> str:
    """Return the text of an offset from UTC: `Z`, `+02:00`."""
    if seconds == 0:
        return "Z"
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{rest:02d}" if rest else text


TIME_BODIES: dict[str, Body] = {
    "java.util.Date": of_input(_millis),
    "java.sql.Date": of_input(_local_millis),
    "java.sql.Time": of_input(_local_millis),
    "java.sql.Timestamp": of_input(_sql_timestamp),
    "java.time.LocalDate": of_reader(_local_date),
    "java.time.LocalTime": of_reader(_local_time),
    "java.time.LocalDateTime": of_reader(_local_date_time),
    "java.time.ZonedDateTime": of_reader(_zoned_date_time),
    "java.time.OffsetDateTime": of_reader(_offset_date_time),
    "java.time.ZoneOffset": of_reader(_zone_offset),
    "java.time.ZoneRegion": of_reader(_zone_region),
    "java.time.Instant": of_reader(_instant),
    "java.time.Duration": of_reader(_duration),
    "java.time.Period": of_reader(_period),
}
"""Class → the function that reads its body."""


UNQUOTED = frozenset(TIME_BODIES) | {
    "java.util.UUID", "java.math.BigInteger", "java.math.BigDecimal", "java.util.Currency",
    "java.lang.Class",
}  # fmt: skip
_TEXTS = UNQUOTED | {
    "java.lang.String", "java.lang.StringBuilder", "java.lang.StringBuffer", "java.lang.Character",
    "java.net.URI", "java.net.URL", "java.net.InetSocketAddress", "java.util.Locale", "java.util.Optional",
}  # fmt: skip
_NUMBERS: dict[str, tuple[pa.DataType, str]] = {
    "java.lang.Byte": (pa.int8(), "<b"), "java.lang.Short": (pa.int16(), "<h"),
    "java.lang.Integer": (pa.int32(), "<i"), "java.lang.Long": (pa.int64(), "<q"),
    "java.lang.Float": (pa.float32(), "<f"), "java.lang.Double": (pa.float64(), "<d"),
    "java.lang.Boolean": (pa.bool_(), "<?"),
}  # fmt: skip


def number_type(settings: KryoSettings, class_name: str) -> pa.DataType | None:
    """Return the column type of a boxed number; None for other classes."""
    known = _NUMBERS.get(class_name)
    return known[0] if known is not None and class_name not in settings.serializers else None


def is_text(settings: KryoSettings, class_name: str) -> bool:
    """Return whether the values of a class are plain text."""
    if class_name in settings.serializers:
        return False
    known = settings.class_of(class_name)
    return bool(known.constants) if known is not None else class_name in _TEXTS or class_name in ENUMS


def is_unquoted(settings: KryoSettings, class_name: str) -> bool:
    """Return whether the values of a class are plain text that never begins with a quotation mark."""
    return is_text(settings, class_name) and class_name in UNQUOTED


def number_bytes(class_name: str, value: Any) -> bytes | None:
    """Return a number as Arrow stores it; None where the class has no such number."""
    _, code = _NUMBERS[class_name]
    is_boolean = code == "<?"
    if isinstance(value, bool) is not is_boolean:
        return None
    try:
        # NaN and the infinities are text in trees.
        return struct.pack(code, float(value) if code in ("<f", "<d") else value)
    except (struct.error, ValueError, TypeError, OverflowError):
        return None


def hash_plain(class_name: str, value: Any) -> int | None:
    """Return Java's `hashCode` of a value as its column shows it; None where it is not known."""
    hash_value = _HASHES.get(class_name)
    try:
        return None if hash_value is None else hash_value(value)
    except (ValueError, TypeError, AttributeError, OverflowError, struct.error):
        return None


def _hash_uuid(text: str) -> int | None:
    digits = text.replace("-", "")
    return keygroups.hash_long(int(digits[:16], 16) ^ int(digits[16:], 16)) if len(digits) == 32 else None


def _hash_integer(value: int) -> int | None:
    return value if isinstance(value, int) else None


_HASHES: dict[str, Callable[[Any], int | None]] = {
    **dict.fromkeys(("java.lang.Byte", "java.lang.Short", "java.lang.Integer"), _hash_integer),
    "java.lang.Long": keygroups.hash_long, "java.lang.Float": keygroups.hash_float,
    "java.lang.Double": keygroups.hash_double, "java.lang.Boolean": keygroups.hash_bool,
    "java.lang.Character": ord, "java.lang.String": keygroups.hash_string,
    "java.math.BigInteger": lambda text: keygroups.hash_big_integer(int(text)),
    "java.math.BigDecimal": keygroups.hash_big_decimal, "java.util.UUID": _hash_uuid,
}  # fmt: skip
