"""Dates and times that Kryo writes, as ISO 8601 text: `java.util.Date`, `java.sql`, `java.time`.

Kryo 2.24 knows no `java.time`: Flink 1.x writes their fields, in the order of their names, nanos before seconds. Kryo 5
has a serializer for each class.

Source: `com.esotericsoftware.kryo.serializers.DefaultSerializers`, `TimeSerializers`; `com.twitter.chill.java`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readers.serializers.kryo.input import KryoInput
from readers.serializers.kryo.reader import Body, KryoReader, of_input, of_reader
from readers.timetext import date_text, duration_text, instant_text, time_text

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
        return _offset_text(reader.input.zigzag())
    quarters = reader.input.i1()
    return _offset_text(
        reader.input.fixed("i") if quarters == _SECONDS_FOLLOW else quarters * _QUARTER_HOUR_S
    )


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


def _instant(reader: KryoReader) -> str:
    input_ = reader.input
    if reader.is_kryo5:
        seconds = input_.positive_long()
        return instant_text(seconds, _nanos(input_))
    nanos = _checked(input_, input_.zigzag(), _SECOND_NANOS, "nanos")
    return instant_text(input_.zigzag(), nanos)


def _duration(reader: KryoReader) -> str:
    input_ = reader.input
    if reader.is_kryo5:
        seconds = input_.fixed("q")
        return duration_text(seconds, _nanos(input_))
    nanos = _checked(input_, input_.zigzag(), _SECOND_NANOS, "nanos")
    return duration_text(input_.zigzag(), nanos)


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


def _offset_text(seconds: int) -> str:
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
