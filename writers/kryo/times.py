"""Dates and times: the fields that Flink 1.x wrote, in the order of their names, as Kryo 5 writes them.

`readers.serializers.kryo.times` describes both. Kryo 2.24 knows no `java.time`; it does not write the id of a ZoneOffset, so
Flink 1.x itself reads zoned values without it. Kryo 5 reads what these values were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readers import KryoReader
from writers.kryo.output import KryoOutput

_SECOND_NANOS = 1_000_000_000
_MILLISECOND_NANOS = 1_000_000
_QUARTER_HOUR_S = 900
_MOST_QUARTERS = 72
_SECONDS_FOLLOW = 127  # in the place of the quarters of an hour


def _nanos(reader: KryoReader, value: int) -> int:
    return _within(reader, value, _SECOND_NANOS, "nanos")


def _within(reader: KryoReader, value: int, bound: int, what: str) -> int:
    if not 0 <= value < bound:
        raise reader.input.corrupt(f"expected {what} below {bound}, found {value}")
    return value


def _inner(reader: KryoReader, class_name: str) -> Any:
    """Read a field of a final class.

    Raises:
        CorruptDataError: it is null.
    """
    found = reader.object(class_name)
    if found is None:
        raise reader.input.corrupt(f"expected a {class_name}, found null")
    return found.body


def _local_date(reader: KryoReader) -> tuple[int, int, int]:
    input_ = reader.input
    day, month, year = input_.fixed("h"), input_.fixed("h"), input_.zigzag()
    return year, _within(reader, month, 13, "a month"), _within(reader, day, 32, "a day")


def _write_local_date(output: KryoOutput, value: tuple[int, int, int]) -> None:
    year, month, day = value
    output.varint(year)
    output.u1(month)
    output.u1(day)


def _local_time(reader: KryoReader) -> tuple[int, int, int, int]:
    input_ = reader.input
    hour, minute, nano, second = input_.u1(), input_.u1(), input_.zigzag(), input_.u1()
    _within(reader, hour, 24, "an hour")
    _within(reader, minute, 60, "a minute")
    _within(reader, second, 60, "a second")
    return hour, minute, second, _nanos(reader, nano)


def _write_local_time(output: KryoOutput, value: tuple[int, int, int, int]) -> None:
    # The last number that is not zero is written as its complement, which is negative.
    *numbers, nano = value
    if nano:
        for number in numbers:
            output.u1(number)
        output.varint(nano)
        return
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    for number in numbers[:-1]:
        output.u1(number)
    output.u1(~numbers[-1])


def _local_date_time(reader: KryoReader) -> tuple[Any, Any]:
    date = _inner(reader, "java.time.LocalDate")
    return date, _inner(reader, "java.time.LocalTime")


def _write_local_date_time(output: KryoOutput, value: tuple[Any, Any]) -> None:
    _write_local_date(output, value[0])
    _write_local_time(output, value[1])


def _zone_offset(reader: KryoReader) -> int:
    seconds = reader.input.zigzag()
    _within(reader, abs(seconds), _MOST_QUARTERS * _QUARTER_HOUR_S + 1, "an offset")
    return seconds


def _write_zone_offset(output: KryoOutput, seconds: int) -> None:
    if seconds % _QUARTER_HOUR_S:
        output.u1(_SECONDS_FOLLOW)
        output.fixed("i", seconds)
    else:
        output.u1(seconds // _QUARTER_HOUR_S)


def _zoned_date_time(reader: KryoReader) -> tuple[Any, str]:
    moment = _inner(reader, "java.time.LocalDateTime")
    offset = _inner(reader, "java.time.ZoneOffset")
    zone = reader.any()
    if zone is None:
        return moment, _offset_text(offset)
    if zone.class_name == "java.time.ZoneOffset":
        return moment, _offset_text(zone.body)
    if zone.class_name != "java.time.ZoneRegion":
        raise reader.unsupported(zone.class_name)
    return moment, zone.body


def _write_zoned_date_time(output: KryoOutput, value: tuple[Any, str]) -> None:
    _write_local_date_time(output, value[0])
    output.text(value[1])


def _offset_date_time(reader: KryoReader) -> tuple[Any, int]:
    moment = _inner(reader, "java.time.LocalDateTime")
    return moment, _inner(reader, "java.time.ZoneOffset")


def _write_offset_date_time(output: KryoOutput, value: tuple[Any, int]) -> None:
    _write_local_date_time(output, value[0])
    _write_zone_offset(output, value[1])


def _zone_region(reader: KryoReader) -> str:
    return str(_inner(reader, "java.lang.String"))


def _instant(reader: KryoReader) -> tuple[int, int]:
    nanos = _nanos(reader, reader.input.zigzag())
    return reader.input.zigzag(), nanos


def _write_instant(output: KryoOutput, value: tuple[int, int]) -> None:
    output.positive_long(value[0])
    output.varint(value[1])


def _write_duration(output: KryoOutput, value: tuple[int, int]) -> None:
    output.fixed("q", value[0])
    output.varint(value[1])


def _period(reader: KryoReader) -> list[int]:
    days, months, years = (reader.input.zigzag() for _ in range(3))
    return [years, months, days]


def _write_period(output: KryoOutput, value: list[int]) -> None:
    for number in value:
        output.varint(number)


def _timestamp(reader: KryoReader) -> tuple[int, int]:
    return reader.input.positive_long(), _nanos(reader, reader.input.positive_int())


def _write_timestamp(output: KryoOutput, value: tuple[int, int]) -> None:
    # chill writes the milliseconds twice, Kryo 5 only in the nanos.
    output.positive_long(value[0] - value[1] // _MILLISECOND_NANOS)
    output.varint(value[1])


def _offset_text(seconds: int) -> str:
    if seconds == 0:
        return "Z"
    minutes, rest = divmod(abs(seconds), 60)
    shown = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{shown}:{rest:02d}" if rest else shown


TimeBody = tuple[Callable[[KryoReader], Any], Callable[[KryoOutput, Any], None]]
"""Reads a body of Kryo 2.24; writes it for Kryo 5."""

TIMES: dict[str, TimeBody] = {
    "java.sql.Timestamp": (_timestamp, _write_timestamp),
    "java.time.LocalDate": (_local_date, _write_local_date),
    "java.time.LocalTime": (_local_time, _write_local_time),
    "java.time.LocalDateTime": (_local_date_time, _write_local_date_time),
    "java.time.ZonedDateTime": (_zoned_date_time, _write_zoned_date_time),
    "java.time.OffsetDateTime": (_offset_date_time, _write_offset_date_time),
    "java.time.ZoneOffset": (_zone_offset, _write_zone_offset),
    "java.time.ZoneRegion": (_zone_region, lambda output, value: output.text(value)),
    "java.time.Instant": (_instant, _write_instant),
    "java.time.Duration": (_instant, _write_duration),
    "java.time.Period": (_period, _write_period),
}
"""Class → its body."""
