"""SQL types, and the slots of their values in binary rows and arrays.

Little endian. A slot has 8 bytes in a row, `width` bytes in an array. Offsets count from the start of the row or array
that holds the slot. Flink: `org.apache.flink.table.data.binary`, `BinaryRowDataWriter`.

| SQL type | slot | column |
|---|---|---|
| BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE | the number, in the first bytes | the same |
| DATE, TIME, INTERVAL YEAR, INTERVAL DAY | i4 days, i4 ms, i4 months, i8 ms | date32, time32[ms], int32, duration[ms] |
| TIMESTAMP, TIMESTAMP_LTZ up to 3 | i8 ms | timestamp[ms] |
| above 3 | u4 nanos of the ms, u4 offset of i8 ms | timestamp[us], timestamp[ns] above 6 |
| DECIMAL up to 18 | i8 unscaled | decimal128 |
| above 18 | u4 length, u4 offset of big-endian two's complement | decimal128 |
| CHAR, VARCHAR | up to 7 bytes, and 80 + length in the last; or u4 length, u4 offset | string |
| BINARY, VARBINARY, VARIANT, BITMAP | likewise | binary |
| RAW | likewise | that of its serializer; binary where that is not known |
| ARRAY, MAP, MULTISET, ROW, STRUCTURED_TYPE | u4 size, u4 offset | list, map, map, struct, struct |

An array is `i4 n`, null bits in whole 4 bytes, n slots; a map is `i4 size of the keys`, an array of keys, an array of
values; a row is the byte of the row kind, null bits from bit 8 on (in whole 8 bytes), the slots, the data behind them.

No column carries a time zone. Digits of a second beyond the declared precision are cut off. For null keys of maps, and
timestamps out of the range of their column, see `readers.decode.columns`.

`javatypes.py` reads the types from the snapshots.
"""

from __future__ import annotations

import datetime
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

import pyarrow as pa

from readers.decode.program import MAX_COMPACT_PRECISION, Program
from readers.errors import CorruptDataError
from readers.serializers.base import Problem, Serializer

SLOT_BYTES = 8
_MAX_PRECISION = 38
_MAX_INLINE_BYTES = 7
_MILLISECOND_PRECISION = 3
_MICROSECOND_PRECISION = 6
_MILLISECONDS_A_DAY = 86_400_000
_LARGE_DECIMAL_BYTES = 16  # `BinaryRowWriter` reserves these for any decimal above precision 18
# A query may compare a key with a number of any exponent; 10 to that power would take all memory.
_MAX_FRACTION_DIGITS = 1000
_EPOCH = datetime.datetime(1970, 1, 1)  # without a zone, as columns are

Width = Literal[1, 2, 4, 8]


@dataclass(frozen=True)
class EncodedField:
    """The bytes of a field of a key: its slot, and the `data` behind the slots that the slot points to."""

    slot: bytes
    data: bytes = b""


class LogicalType(ABC):
    """A SQL type."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The type in SQL."""

    @property
    def width(self) -> Width:
        """Bytes of a slot in an array."""
        return 8

    @abstractmethod
    def arrow(self) -> pa.DataType:
        """Return the column type."""

    @abstractmethod
    def emit(self, program: Program, offset: int) -> None:
        """Declare the value in the slot at `offset`."""

    @property
    def reserves_space(self) -> bool:
        """True if a null may leave room behind the slots: then a key with a null has more than one encoding."""
        return False

    @property
    def has_outliers(self) -> bool:
        """True if there are values that the column type cannot hold."""
        return False

    def encode(self, value: Any) -> EncodedField | None:
        """Return the slot of a value; None where it is not known."""
        return None

    def refine(self, serializer: Serializer) -> LogicalType:
        """Return this type with facts that only the serializer of the field holds."""
        return self

    def problems(self) -> Iterator[Problem]:
        """Yield the fields that are not decoded; their slots give them a size."""
        yield from ()


@dataclass(frozen=True)
class NamedType(LogicalType):
    """A type that its name in SQL tells."""

    sql: str

    @property
    def name(self) -> str:
        return self.sql


@dataclass(frozen=True)
class NumberType(NamedType):
    """A type whose slot holds a number; `code` is that of `struct`, `bound` limits it if it is not 0."""

    arrow_type: pa.DataType
    size: Width
    code: str
    bound: int = 0

    @property
    def width(self) -> Width:
        return self.size

    def arrow(self) -> pa.DataType:
        return self.arrow_type

    def emit(self, program: Program, offset: int) -> None:
        program.slot(offset, self.size, self.bound)

    def encode(self, value: Any) -> EncodedField | None:
        number = _number(value, self.arrow_type)
        if number is None:
            return None
        try:
            return EncodedField(struct.pack("<" + self.code, number).ljust(SLOT_BYTES, b"\0"))
        except (struct.error, OverflowError):
            return None


@dataclass(frozen=True)
class TextType(NamedType):
    """CHAR and VARCHAR."""

    sql: str = "STRING"

    def arrow(self) -> pa.DataType:
        return pa.string()

    def emit(self, program: Program, offset: int) -> None:
        program.slot_text(offset)

    def encode(self, value: Any) -> EncodedField | None:
        return _encode_bytes(value.encode("utf-8", "replace")) if isinstance(value, str) else None


@dataclass(frozen=True)
class BytesType(NamedType):
    """BINARY and VARBINARY, and types that are shown as their bytes."""

    sql: str = "BYTES"

    def arrow(self) -> pa.DataType:
        return pa.binary()

    def emit(self, program: Program, offset: int) -> None:
        program.slot_bytes(offset)

    def encode(self, value: Any) -> EncodedField | None:
        return _encode_bytes(value) if isinstance(value, bytes) else None


@dataclass(frozen=True)
class NullType(NamedType):
    """NULL, whose slot holds nothing."""

    sql: str = "NULL"

    def arrow(self) -> pa.DataType:
        return pa.bool_()

    def emit(self, program: Program, offset: int) -> None:
        program.null()


@dataclass(frozen=True)
class DecimalType(LogicalType):
    """DECIMAL; up to precision 18 the unscaled number fits its slot."""

    precision: int
    scale: int

    @property
    def name(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"

    @property
    def is_compact(self) -> bool:
        """True if the slot holds the unscaled number itself."""
        return self.precision <= MAX_COMPACT_PRECISION

    @property
    def reserves_space(self) -> bool:
        return not self.is_compact

    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)

    def emit(self, program: Program, offset: int) -> None:
        program.slot_decimal(offset, self.precision)

    def encode(self, value: Any) -> EncodedField | None:
        unscaled = self.unscaled(value)
        if unscaled is None:
            return None
        if self.is_compact:
            return EncodedField(struct.pack("<q", unscaled))
        raw = unscaled.to_bytes(_two_complement_bytes(unscaled), "big", signed=True)
        return EncodedField(struct.pack("<I", len(raw)), raw.ljust(_LARGE_DECIMAL_BYTES, b"\0"))

    def unscaled(self, value: Any) -> int | None:
        """Return the unscaled number; None where the type does not hold `value` exactly."""
        try:
            sign, digits, exponent = Decimal(
                value if isinstance(value, int | str | Decimal) else "NaN"
            ).as_tuple()
        except InvalidOperation:
            return None
        if not isinstance(exponent, int):
            return None
        if not any(digits):
            return 0
        # How many zeros the number needs behind its digits (or has too many, if negative) to have this scale.
        zeros = exponent + self.scale
        if not -_MAX_FRACTION_DIGITS < zeros <= self.precision - len(digits):
            return None
        number = int("".join(map(str, digits)))
        unscaled, rest = divmod(number * int(10 ** max(zeros, 0)), int(10 ** max(-zeros, 0)))
        if rest:
            return None
        return -unscaled if sign else unscaled


@dataclass(frozen=True)
class TimestampType(NamedType):
    """TIMESTAMP and TIMESTAMP_LTZ above precision 3; up to it they are a `NumberType`."""

    precision: int

    @property
    def nanos_a_unit(self) -> int:
        """Nanoseconds of a unit of the column."""
        return 1000 if self.precision <= _MICROSECOND_PRECISION else 1

    @property
    def reserves_space(self) -> bool:
        return True

    @property
    def has_outliers(self) -> bool:
        return True

    def arrow(self) -> pa.DataType:
        return pa.timestamp("us" if self.precision <= _MICROSECOND_PRECISION else "ns")

    def emit(self, program: Program, offset: int) -> None:
        program.slot_timestamp(offset, self.nanos_a_unit)

    def encode(self, value: Any) -> EncodedField | None:
        microseconds = _microseconds(value)
        if microseconds is None:
            return None
        milliseconds, rest = divmod(microseconds, 1000)
        # `RowType.encode_row` adds the offset of the milliseconds to the slot.
        return EncodedField(struct.pack("<I", rest * 1000), struct.pack("<q", milliseconds))


class NestedType(LogicalType):
    """A type whose slot points to a region."""

    def emit(self, program: Program, offset: int) -> None:
        with program.binary_slot(offset):
            self.emit_region(program)

    @abstractmethod
    def emit_region(self, program: Program) -> None:
        """Declare the layout of the region."""


@dataclass(frozen=True)
class ArrayType(NestedType):
    """ARRAY."""

    element: LogicalType

    @property
    def name(self) -> str:
        return f"ARRAY<{self.element.name}>"

    @property
    def has_outliers(self) -> bool:
        return self.element.has_outliers

    def arrow(self) -> pa.DataType:
        return pa.list_(self.element.arrow())

    def emit_region(self, program: Program) -> None:
        with program.binary_array(self.element.width):
            self.element.emit(program, 0)

    def problems(self) -> Iterator[Problem]:
        yield from _within("[]", self.element)


@dataclass(frozen=True)
class MapType(NestedType):
    """MAP."""

    key: LogicalType
    value: LogicalType

    @property
    def name(self) -> str:
        return f"MAP<{self.key.name}, {self.value.name}>"

    @property
    def has_outliers(self) -> bool:
        # Any key may be null, and Arrow has no maps with null keys.
        return True

    def arrow(self) -> pa.DataType:
        return pa.map_(self.key.arrow(), self.value.arrow())

    def emit_region(self, program: Program) -> None:
        with program.binary_map_keys(self.key.width):
            self.key.emit(program, 0)
        with program.binary_map_values(self.value.width):
            self.value.emit(program, 0)

    def problems(self) -> Iterator[Problem]:
        yield from _within("key", self.key)
        yield from _within("value", self.value)


class MultisetType(MapType):
    """MULTISET: a map of element to count."""

    @property
    def name(self) -> str:
        return f"MULTISET<{self.key.name}>"


@dataclass(frozen=True)
class RowType(NestedType):
    """ROW and structured types."""

    fields: tuple[tuple[str, LogicalType], ...]

    @property
    def name(self) -> str:
        return f"ROW<{', '.join(f'{name} {kind.name}' for name, kind in self.fields)}>"

    @property
    def slots_offset(self) -> int:
        """Bytes of the row kind and of the null bits."""
        return (len(self.fields) + 8 + 63) // 64 * SLOT_BYTES

    @property
    def has_outliers(self) -> bool:
        return any(kind.has_outliers for _, kind in self.fields)

    def arrow(self) -> pa.DataType:
        return pa.struct([pa.field(name, kind.arrow()) for name, kind in self.fields])

    def emit_region(self, program: Program) -> None:
        program.row(self.slots_offset + SLOT_BYTES * len(self.fields))
        program.struct()
        for index, (name, kind) in enumerate(self.fields):
            with program.field(index, name), program.slot_nullable(8 + index):
                kind.emit(program, self.slots_offset + SLOT_BYTES * index)

    def encode_row(self, value: Any, row_kind: int = 0) -> bytes | None:
        """Return the binary row of a struct value, as `BinaryRowWriter` writes it; None where it is not known."""
        if not isinstance(value, dict):
            return None
        head = bytearray(self.slots_offset)
        head[0] = row_kind
        slots, data = bytearray(), bytearray()
        start = self.slots_offset + SLOT_BYTES * len(self.fields)
        for index, (name, kind) in enumerate(self.fields):
            if name not in value or (value[name] is None and kind.reserves_space):
                return None
            if value[name] is None:
                head[1 + index // 8] |= 1 << index % 8
                slots += bytes(SLOT_BYTES)
                continue
            encoded = kind.encode(value[name])
            if encoded is None:
                return None
            if encoded.data:
                slots += encoded.slot + struct.pack("<I", start + len(data))
                # Data begin at multiples of 8 bytes.
                data += encoded.data.ljust(-(-len(encoded.data) // SLOT_BYTES) * SLOT_BYTES, b"\0")
            else:
                slots += encoded.slot
        return bytes(head + slots + data)

    def refine(self, serializer: Serializer) -> RowType:
        # `RowDataSerializer` alone has them; it imports this module.
        kinds = getattr(serializer, "field_types", ())
        if len(kinds) != len(self.fields):
            return self
        return RowType(
            tuple(
                (name, _merged(kind, known)) for (name, kind), known in zip(self.fields, kinds, strict=True)
            )
        )

    def problems(self) -> Iterator[Problem]:
        for name, kind in self.fields:
            yield from _within(name, kind)


@dataclass(frozen=True)
class RawType(NestedType):
    """RAW. `inner` reads the bytes; without it, or where it does not find their end, they are shown as they are."""

    class_name: str
    inner: Serializer | None = None

    @property
    def name(self) -> str:
        return f"RAW('{self.class_name}')"

    @property
    def is_decodable(self) -> bool:
        """True if `inner` finds the end of every field."""
        return self.inner is not None and all(problem.sized for problem in self.inner.problems())

    @property
    def has_outliers(self) -> bool:
        return self.inner is not None and self.is_decodable and self.inner.has_outliers

    def arrow(self) -> pa.DataType:
        return self.inner.arrow() if self.inner is not None and self.is_decodable else pa.binary()

    def emit(self, program: Program, offset: int) -> None:
        if self.is_decodable:
            super().emit(program, offset)
        else:
            program.slot_bytes(offset)

    def emit_region(self, program: Program) -> None:
        assert self.inner is not None
        self.inner.emit(program)
        program.expect_end()

    def refine(self, serializer: Serializer) -> RawType:
        return RawType(self.class_name, getattr(serializer, "inner", None))

    def problems(self) -> Iterator[Problem]:
        if self.inner is None:
            yield Problem(path=(), reason=f"{self.class_name}: its serializer is not known", sized=True)
            return
        for problem in self.inner.problems():
            yield Problem(path=problem.path, reason=problem.reason, sized=True)


@dataclass(frozen=True)
class PhysicalType(LogicalType):
    """A type that only the serializer of the field determines: then a DATE is an INT, an interval a number."""

    layout: LogicalType

    @property
    def name(self) -> str:
        return self.layout.name

    @property
    def width(self) -> Width:
        return self.layout.width

    @property
    def reserves_space(self) -> bool:
        return self.layout.reserves_space

    @property
    def has_outliers(self) -> bool:
        return self.layout.has_outliers

    def arrow(self) -> pa.DataType:
        return self.layout.arrow()

    def emit(self, program: Program, offset: int) -> None:
        self.layout.emit(program, offset)

    def problems(self) -> Iterator[Problem]:
        reason = "its SQL type is of a class that is not known; shown as its serializer lays it out"
        yield Problem(path=(), reason=reason, sized=True)
        yield from self.layout.problems()


def decimal_type(precision: int, scale: int) -> DecimalType:
    """Return a DECIMAL.

    Raises:
        CorruptDataError: SQL has no such type.
    """
    if not 1 <= precision <= _MAX_PRECISION or not 0 <= scale <= precision:
        raise CorruptDataError(
            f"expected the precision and scale of a DECIMAL, found {precision} and {scale}"
        )
    return DecimalType(precision, scale)


def timestamp_type(name: str, precision: int) -> LogicalType:
    """Return a TIMESTAMP or TIMESTAMP_LTZ."""
    if precision <= _MILLISECOND_PRECISION:
        return NumberType(f"{name}({precision})", pa.timestamp("ms"), 8, "q")
    return TimestampType(f"{name}({precision})", precision)


def _within(name: str, kind: LogicalType) -> Iterator[Problem]:
    for problem in kind.problems():
        yield Problem(path=(name, *problem.path), reason=problem.reason, sized=True)


def _merged(kind: LogicalType, known: LogicalType) -> LogicalType:
    """Return `kind`, which has the names, with the inner serializers that `known` has."""
    if isinstance(kind, RawType) and isinstance(known, RawType):
        return known
    if isinstance(kind, RowType) and isinstance(known, RowType) and len(kind.fields) == len(known.fields):
        pairs = zip(kind.fields, known.fields, strict=True)
        return RowType(tuple((name, _merged(own, other)) for (name, own), (_, other) in pairs))
    return kind


def _encode_bytes(raw: bytes) -> EncodedField:
    if len(raw) <= _MAX_INLINE_BYTES:
        return EncodedField(raw.ljust(_MAX_INLINE_BYTES, b"\0") + bytes([0x80 | len(raw)]))
    return EncodedField(struct.pack("<I", len(raw)), raw)


def _two_complement_bytes(number: int) -> int:
    """Return the length of `BigInteger#toByteArray`."""
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def _number(value: Any, arrow_type: pa.DataType) -> Any:
    """Return a SQL value as the number in its slot; None where it is of another type."""
    if pa.types.is_boolean(arrow_type):
        return value if isinstance(value, bool) else None
    # A bool is an int to Python.
    if isinstance(value, bool):
        return None
    if pa.types.is_floating(arrow_type):
        return value if isinstance(value, int | float) else None
    if pa.types.is_date(arrow_type):
        is_date = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
        return value.toordinal() - _EPOCH.toordinal() if is_date else None
    if pa.types.is_time(arrow_type):
        return _milliseconds(value)
    if pa.types.is_timestamp(arrow_type) or pa.types.is_duration(arrow_type):
        microseconds = _microseconds(value)
        return None if microseconds is None or microseconds % 1000 else microseconds // 1000
    return value if isinstance(value, int) else None


def _milliseconds(value: Any) -> int | None:
    """Return a time of day in milliseconds; None where it is finer, or none."""
    if not isinstance(value, datetime.time) or value.tzinfo is not None or value.microsecond % 1000:
        return None
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def _microseconds(value: Any) -> int | None:
    """Return a timestamp (since the epoch) or a duration in microseconds; None for other values."""
    if isinstance(value, datetime.datetime):
        value = None if value.tzinfo is not None else value - _EPOCH
    return value // datetime.timedelta(microseconds=1) if isinstance(value, datetime.timedelta) else None


BOOLEAN = NumberType("BOOLEAN", pa.bool_(), 1, "?")
TINYINT = NumberType("TINYINT", pa.int8(), 1, "b")
SMALLINT = NumberType("SMALLINT", pa.int16(), 2, "h")
INT = NumberType("INT", pa.int32(), 4, "i")
BIGINT = NumberType("BIGINT", pa.int64(), 8, "q")
FLOAT = NumberType("FLOAT", pa.float32(), 4, "f")
DOUBLE = NumberType("DOUBLE", pa.float64(), 8, "d")
DATE = NumberType("DATE", pa.date32(), 4, "i")
TIME = NumberType("TIME", pa.time32("ms"), 4, "i", _MILLISECONDS_A_DAY)
INTERVAL_YEAR = NumberType("INTERVAL YEAR TO MONTH", pa.int32(), 4, "i")
INTERVAL_DAY = NumberType("INTERVAL DAY TO SECOND", pa.duration("ms"), 8, "q")
