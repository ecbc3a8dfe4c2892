"""Objects of Kryo with their classes: what `bodies.py` reads from Kryo 2.24, and writes for Kryo 5.

`KryoOutput` writes primitives as `com.esotericsoftware.kryo.io.Output` does; `readers.serializers.kryo.reader` reads them.
The frame around objects is read by the readers' `KryoReader`, with bodies that keep the classes: the JSON trees that the readers
show have none. `ObjectWriter` writes the frame. An object that is referred to twice is one object here.

Dates and times are the fields that Flink 1.x wrote, in the order of their names, as Kryo 5 writes them.
`readers.serializers.kryo.plain` describes both. Kryo 2.24 knows no `java.time`; it does not write the id of a ZoneOffset, so
Flink 1.x itself reads zoned values without it. Kryo 5 reads what these values were.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from readers import BOXES, KRYO_5, PRIMITIVES, KryoReader, KryoType, offset_text
from writers.headers import units_of

_MOST_ASCII = 32  # characters; longer texts are units with a count before them
_ZIGZAG_BYTES = 9


class KryoOutput:
    """Bytes that grow.

    Attributes:
        data: what was written.
    """

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def u1(self, value: int) -> None:
        """Write a byte."""
        self.data.append(value & 0xFF)

    def fixed(self, code: str, value: float) -> None:
        """Write one number of a `struct` code."""
        self.data += struct.pack(f"<{code}", value)

    def varint(self, value: int) -> None:
        """Write an int or a long that is expected to be positive: a negative int takes five bytes, see `positive_long`."""
        value &= 0xFFFFFFFF
        while value >= 0x80:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def positive_long(self, value: int) -> None:
        """Write a long that is expected to be positive, in at most nine bytes, the last of which has eight bits."""
        value &= (1 << 64) - 1
        for _ in range(_ZIGZAG_BYTES - 1):
            if value < 0x80:
                break
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def zigzag(self, value: int) -> None:
        """Write an int or a long."""
        self.positive_long(value << 1 ^ value >> 63)

    def flagged(self, flag: bool, value: int) -> None:
        """Write a flag and a positive number."""
        first = value & 0x3F | (0x80 if flag else 0)
        if value <= 0x3F:
            self.data.append(first)
            return
        self.data.append(first | 0x40)
        self.varint(value >> 6)

    def text(self, value: str | None) -> None:
        """Write a string."""
        if value is None:
            self.u1(0x80)
        elif not value:
            self.u1(0x81)
        elif 1 < len(value) <= _MOST_ASCII and value.isascii():
            self.ascii_text(value)
        else:
            units = units_of(value)
            self.flagged(True, len(units) + 1)
            self.data += units.encode("utf-8", "surrogatepass")

    def ascii_text(self, value: str) -> None:
        """Write a string of ASCII characters: longer ones also mark their end, and have no count."""
        if len(value) < 2 or not value.isascii():
            self.text(value)
            return
        self.data += value.encode("ascii")
        self.data[-1] |= 0x80


_BY_NAME = 1
_CLASS_OFFSET = 2  # behind 0 null and 1 by name
_REFERENCE_OFFSET = 2  # behind 0 null and 1 new


@dataclass(frozen=True, slots=True, eq=False)
class KryoObject:
    """One object.

    Attributes:
        class_name: its class, or a primitive type.
        body: what its class decides: a number, a text, elements, fields.
    """

    class_name: str
    body: Any


class ObjectWriter:
    """Writes one value of Kryo 5: class names and references count anew in each.

    Args:
        reader: of the same value; it knows the registrations, and which classes are final.
        body_of: returns the function that writes the body of an object.
    """

    def __init__(self, reader: KryoReader, body_of: Callable[[KryoObject], BodyWriter]) -> None:
        self.output = KryoOutput()
        self.settings = replace(reader.settings, version=KRYO_5)
        self._reader = reader
        self._body_of = body_of
        self._ids = {name: number for number, name in reader.class_ids.items()}
        self._names: dict[str, int] = {}
        self._numbers: dict[int, int] = {}

    def any(self, value: KryoObject | None, arguments: tuple[KryoType, ...] = ()) -> None:
        """Write a value with its class."""
        self.class_name(None if value is None else value.class_name)
        if value is not None:
            self.object(value, arguments)

    def class_name(self, name: str | None) -> None:
        """Write a class; None for null."""
        if name is None:
            self.output.u1(0)
        elif name in self._ids:
            self.output.varint(self._ids[name] + _CLASS_OFFSET)
        else:
            self.output.u1(_BY_NAME)
            is_new = name not in self._names
            self.output.varint(self._names.setdefault(name, len(self._names)))
            if is_new:
                self.output.ascii_text(name)

    def object(self, value: KryoObject, arguments: tuple[KryoType, ...] = ()) -> None:
        """Write a reference, if the class has them, and the body."""
        if self._is_referenced(value.class_name):
            number = self._numbers.get(id(value))
            if number is not None:
                self.output.varint(number + _REFERENCE_OFFSET)
                return
            self.output.u1(1)
            self._numbers[id(value)] = len(self._numbers)
        self.body(value, arguments)

    def object_or_null(self, value: KryoObject | None, arguments: tuple[KryoType, ...] = ()) -> None:
        """Write a value whose class is not in the bytes."""
        if value is None:
            self.output.u1(0)
            return
        if not self._is_referenced(value.class_name):
            self.output.u1(1)
        self.object(value, arguments)

    def field(self, declared: KryoType, value: KryoObject | None) -> None:
        """Write a field of an object."""
        if value is not None and declared.name in PRIMITIVES:
            self.body(value)
        elif self.is_final(declared):
            self.object_or_null(value, declared.arguments)
        else:
            self.any(value, declared.arguments)

    def body(self, value: KryoObject, arguments: tuple[KryoType, ...] = ()) -> None:
        """Write the body of an object."""
        self._body_of(value)(self, value, arguments)

    def is_final(self, declared: KryoType) -> bool:
        """Return whether Kryo writes values of a declared type without their class."""
        return self._reader.is_final(declared)

    def _is_referenced(self, class_name: str) -> bool:
        if class_name in PRIMITIVES or class_name in BOXES:
            return False
        return not self._reader.constants(class_name)


BodyWriter: TypeAlias = Callable[[ObjectWriter, KryoObject, tuple[KryoType, ...]], None]
"""Writes the body of an object: with the type arguments of its declared type."""


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
        return moment, offset_text(offset)
    if zone.class_name == "java.time.ZoneOffset":
        return moment, offset_text(zone.body)
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
