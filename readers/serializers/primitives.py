"""Numbers, text, bytes, dates and times. Package `org.apache.flink.api.common.typeutils.base`; the snapshots have no body.

| serializer | bytes |
|---|---|
| Boolean Byte Short Int Long Float Double | 1 1 2 4 8 4 8 |
| Char | one UTF-16 unit |
| String | varint (units + 1, 0 for null), varint units |
| StringValue | varint units (no + 1, no null), varint units |
| BigInt | i4 (length + 4; 0 null, 1 2 3 for the constants 0 1 10), two's complement |
| BigDec | the unscaled BigInt, i4 scale |
| Void, VoidNamespace, Unit, Tuple0 | one byte |
| …Value (`org.apache.flink.types`) | as the plain type |
| Boolean[] … Double[] | i4 count, elements |
| byte[] | i4 count, bytes |

| serializer | bytes | null | column |
|---|---|---|---|
| Date, SqlDate, SqlTime | i8 ms since the epoch | smallest i8 | timestamp[ms] |
| SqlTimestamp | i8 ms, i4 nanos of the second (the ms are in both) | smallest i8, 0 | timestamp[ns] |
| Instant | i8 s, i4 nanos | smallest i8, smallest i4 | timestamp[ns], in UTC |
| LocalDate | i4 year, u1 month, u1 day | 80000000 8000 | date32 |
| LocalTime | u1 hour, u1 minute, u1 second, i4 nanos | 80 8000 80000000 | time64[ns] |
| LocalDateTime | LocalDate, LocalTime | both | timestamp[ns] |

No column carries a time zone: an instant is shown in UTC, `java.sql` types as the zone-less milliseconds that they store. A
value that an int64 of nanoseconds cannot hold (years before 1677 or after 2262) is NULL, and its text is kept beside the
column: see `readers.decode.columns`. Nothing wraps.

Classes of `org.apache.flink.types` that write themselves have `ValueSerializer` or `CopyableValueSerializer`. Its snapshot of
version 2 (`GenericTypeSerializerSnapshot`) is `utf class`, and the bytes are those that the class's own `write` writes: a plain
type's, a StringValue's as above, a NullValue's one byte. Only a user's class itself knows the bytes that it writes: it is a
problem that is not sized. That includes the subclasses of `ListValue` and `MapValue`, which are abstract: they name no element
type.
"""

from __future__ import annotations

import datetime
import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from readers import keygroups
from readers.decode.program import Program
from readers.keygroups import hash_instant, hash_local_date, hash_long
from readers.serializers.base import Layout, OpaqueSerializer, Serializer, SnapshotBody, simple_body
from readers.serializers.structs import (
    BLOB,
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    INTS,
    LONG,
    RUNTIME,
    SHORT,
    STRING,
    ListLayout,
    ScalarLayout,
    numbers,
)

BASE = "org.apache.flink.api.common.typeutils.base."
_EPOCH = datetime.datetime(1970, 1, 1)  # columns carry no zone
_MICROSECOND = datetime.timedelta(microseconds=1)


class BasicSerializer(Serializer):
    """A type without parameters: two serializers of one class are equal."""

    __slots__ = ()

    layout: ClassVar[Layout]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class BooleanSerializer(BasicSerializer, package=BASE):
    name, layout, fixed_length, is_nullable = "Boolean", BOOLEAN, 1, False

    def hash_code(self, value: Any) -> int | None:
        return keygroups.hash_bool(value) if isinstance(value, bool) else None

    def encode(self, value: Any) -> bytes | None:
        return bytes([value]) if isinstance(value, bool) else None


class IntegerSerializer(BasicSerializer):
    """A signed integer; each width has a subclass."""

    is_nullable = False

    def hash_code(self, value: Any) -> int | None:
        return int(value) if self.encode(value) is not None else None

    def encode(self, value: Any) -> bytes | None:
        # A bool is an int to Python, and not to SQL.
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        bound = 1 << 8 * self.fixed_length - 1
        return value.to_bytes(self.fixed_length, "big", signed=True) if -bound <= value < bound else None


class ByteSerializer(IntegerSerializer, package=BASE):
    name, layout, fixed_length = "Byte", BYTE, 1


class ShortSerializer(IntegerSerializer, package=BASE):
    name, layout, fixed_length = "Short", SHORT, 2


class IntSerializer(IntegerSerializer, package=BASE):
    name, layout, fixed_length = "Integer", INT, 4


class LongSerializer(IntegerSerializer, package=BASE):
    name, layout, fixed_length = "Long", LONG, 8

    def hash_code(self, value: Any) -> int | None:
        return keygroups.hash_long(value) if self.encode(value) is not None else None


class FloatSerializer(BasicSerializer, package=BASE):
    name, layout, fixed_length, is_nullable = "Float", FLOAT, 4, False

    def hash_code(self, value: Any) -> int | None:
        return keygroups.hash_float(value) if isinstance(value, float) else None


class DoubleSerializer(BasicSerializer, package=BASE):
    name, layout, fixed_length, is_nullable = "Double", DOUBLE, 8, False

    def hash_code(self, value: Any) -> int | None:
        return keygroups.hash_double(value) if isinstance(value, float) else None


class CharSerializer(BasicSerializer, package=BASE):
    name, layout, fixed_length, is_nullable = "Character", CHAR, 2, False

    def hash_code(self, value: Any) -> int | None:
        # A char of Java is one UTF-16 unit.
        return ord(value) if isinstance(value, str) and len(value) == 1 and ord(value) < 0x10000 else None

    def encode(self, value: Any) -> bytes | None:
        code = self.hash_code(value)
        return None if code is None else code.to_bytes(2, "big")


class StringSerializer(BasicSerializer, package=BASE):
    name, layout = "String", STRING

    def hash_code(self, value: Any) -> int | None:
        return keygroups.hash_string(value) if isinstance(value, str) else None

    def encode(self, value: Any) -> bytes | None:
        return encode_string(value, 1) if isinstance(value, str) else None


class StringValueSerializer(StringSerializer, package=BASE):
    """A mutable string; its count is that of the units, without a number for null."""

    name = "StringValue"
    layout = ScalarLayout(pa.string(), lambda program: program.string(nullable=False))

    def encode(self, value: Any) -> bytes | None:
        return encode_string(value, 0) if isinstance(value, str) else None


class BigIntSerializer(BasicSerializer, package=BASE):
    """A `BigInteger` of any size, shown as decimal text."""

    name, layout = "BigInteger", ScalarLayout(pa.string(), Program.big_integer)

    def hash_code(self, value: Any) -> int | None:
        try:
            return keygroups.hash_big_integer(int(value))
        except (TypeError, ValueError):
            return None


class BigDecSerializer(BasicSerializer, package=BASE):
    """A `BigDecimal` of any size and scale, shown as decimal text."""

    name, layout = "BigDecimal", ScalarLayout(pa.string(), Program.big_decimal)

    def hash_code(self, value: Any) -> int | None:
        return keygroups.hash_big_decimal(value) if isinstance(value, str) else None


class NothingSerializer(BasicSerializer):
    """One byte that carries nothing; the value is null."""

    padding: ClassVar[int] = 1
    fill: ClassVar[int] = 0

    def arrow(self) -> pa.DataType:
        return pa.string()

    def emit(self, program: Program) -> None:
        if self.padding:
            program.skip(self.padding, self.fill)
        program.null()


class VoidSerializer(NothingSerializer, package=BASE):
    name, fixed_length = "Void", 1


class NullValueSerializer(NothingSerializer, package=BASE):
    name, fixed_length, padding = "NullValue", 0, 0


class VoidNamespaceSerializer(NothingSerializer, package="org.apache.flink.runtime.state."):
    """The namespace of states without windows. `getLength()` is 0, yet one byte is written."""

    name, fixed_length = "VoidNamespace", 0  # as Flink states it: so it never makes a RocksDB key ambiguous

    def encode(self, value: Any) -> bytes | None:
        return b"\0" if value is None else None


class Tuple0Serializer(NothingSerializer, package="org.apache.flink.api.java.typeutils.runtime."):
    name, fixed_length, fill = "Tuple0", 1, 42


class BytePrimitiveArraySerializer(BasicSerializer, package=BASE + "array."):
    name, layout = "byte[]", BLOB


class BooleanPrimitiveArraySerializer(BasicSerializer, package=BASE + "array."):
    # Arrow's booleans are bits: they cannot be copied in bulk.
    name, layout = "boolean[]", ListLayout(BOOLEAN)


class ShortPrimitiveArraySerializer(BasicSerializer, package=BASE + "array."):
    name, layout = "short[]", numbers(pa.int16(), 2)


class IntPrimitiveArraySerializer(BasicSerializer, package=BASE + "array."):
    name, layout = "int[]", INTS


class LongPrimitiveArraySerializer(BasicSerializer, package=BASE + "array."):
    name, layout = "long[]", numbers(pa.int64(), 8)


class FloatPrimitiveArraySerializer(BasicSerializer, package=BASE + "array."):
    name, layout = "float[]", numbers(pa.float32(), 4)


class DoublePrimitiveArraySerializer(BasicSerializer, package=BASE + "array."):
    name, layout = "double[]", numbers(pa.float64(), 8)


class CharPrimitiveArraySerializer(BasicSerializer, package=BASE + "array."):
    name, layout = "char[]", ListLayout(CHAR)


class StringArraySerializer(BasicSerializer, package=BASE + "array."):
    name, layout = "String[]", ListLayout(STRING)


class BooleanValueSerializer(BooleanSerializer, package=BASE):
    """A mutable boolean, whose `hashCode` is 1 or 0."""

    name = "BooleanValue"

    def hash_code(self, value: Any) -> int | None:
        return int(value) if isinstance(value, bool) else None


class ByteValueSerializer(ByteSerializer, package=BASE):
    name = "ByteValue"


class ShortValueSerializer(ShortSerializer, package=BASE):
    name = "ShortValue"


class IntValueSerializer(IntSerializer, package=BASE):
    name = "IntValue"


class LongValueSerializer(LongSerializer, package=BASE):
    """A mutable long, whose `hashCode` is 43 more than that of `Long`."""

    name = "LongValue"

    def hash_code(self, value: Any) -> int | None:
        code = super().hash_code(value)
        return None if code is None else _int32(code + 43)


class FloatValueSerializer(FloatSerializer, package=BASE):
    name = "FloatValue"


class DoubleValueSerializer(DoubleSerializer, package=BASE):
    """A mutable double, whose `hashCode` is 31 more than that of `Double`."""

    name = "DoubleValue"

    def hash_code(self, value: Any) -> int | None:
        code = super().hash_code(value)
        return None if code is None else _int32(code + 31)


class CharValueSerializer(CharSerializer, package=BASE):
    name = "CharValue"


def _int32(number: int) -> int:
    """Return `number` wrapped to an int32, as in Java."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def encode_string(text: str, offset: int) -> bytes:
    """Encode text as Flink's `StringValue`: varint units + `offset`, then varint UTF-16 units."""
    # Java strings may hold surrogates without a partner.
    raw = text.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(raw) // 2}H", raw)
    return b"".join(encode_varint(number) for number in (len(units) + offset, *units))


def encode_varint(number: int) -> bytes:
    """Encode an unsigned LEB128."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class BoundedSerializer(BasicSerializer):
    """A type whose column ends earlier than `java.time` does."""

    @property
    def has_outliers(self) -> bool:
        return True


class DateSerializer(BasicSerializer, package=BASE):
    name, layout, fixed_length = "java.util.Date", ScalarLayout(pa.timestamp("ms"), Program.millis), 8

    def hash_code(self, value: Any) -> int | None:
        microseconds = _microseconds(value)
        # A finer time is not in the savepoint, so it has no hash.
        return None if microseconds is None or microseconds % 1000 else hash_long(microseconds // 1000)


class SqlDateSerializer(DateSerializer, package=BASE):
    name = "java.sql.Date"


class SqlTimeSerializer(DateSerializer, package=BASE):
    name = "java.sql.Time"


class SqlTimestampSerializer(BoundedSerializer, package=BASE):
    name, layout, fixed_length = "java.sql.Timestamp", ScalarLayout(pa.timestamp("ns"), Program.timestamp), 12

    def hash_code(self, value: Any) -> int | None:
        """Return the hash of the milliseconds, which is that of `java.util.Date`."""
        microseconds = _microseconds(value)
        return None if microseconds is None else hash_long(microseconds // 1000)


class InstantSerializer(BoundedSerializer, package=BASE):
    name, layout, fixed_length = "Instant", ScalarLayout(pa.timestamp("ns"), Program.instant), 12

    def hash_code(self, value: Any) -> int | None:
        microseconds = _microseconds(value)
        if microseconds is None:
            return None
        return hash_instant(microseconds // 1_000_000, microseconds % 1_000_000 * 1000)


class LocalDateSerializer(BoundedSerializer, package=BASE):
    name, layout, fixed_length = "LocalDate", ScalarLayout(pa.date32(), Program.local_date), 6

    def hash_code(self, value: Any) -> int | None:
        # A datetime is a date to Python.
        if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
            return None
        return hash_local_date(value.year, value.month, value.day)


class LocalTimeSerializer(BasicSerializer, package=BASE):
    name, layout, fixed_length = "LocalTime", ScalarLayout(pa.time64("ns"), Program.local_time), 7

    def hash_code(self, value: Any) -> int | None:
        return _hash_time(value) if isinstance(value, datetime.time) and value.tzinfo is None else None


class LocalDateTimeSerializer(BoundedSerializer, package=BASE):
    name, layout, fixed_length = (
        "LocalDateTime",
        ScalarLayout(pa.timestamp("ns"), Program.local_date_time),
        13,
    )

    def hash_code(self, value: Any) -> int | None:
        if _microseconds(value) is None:
            return None
        return hash_local_date(value.year, value.month, value.day) ^ _hash_time(value.time())


def _hash_time(value: datetime.time) -> int:
    """Return `LocalTime#hashCode`: that of the nanoseconds of the day."""
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return hash_long((seconds * 1_000_000 + value.microsecond) * 1000)


def _microseconds(value: Any) -> int | None:
    """Return the microseconds since the epoch of a zone-less datetime; None for any other value."""
    # The timestamps of pandas are datetimes with nanoseconds beside the microseconds.
    is_plain = isinstance(value, datetime.datetime) and value.tzinfo is None
    return (value - _EPOCH) // _MICROSECOND if is_plain and not getattr(value, "nanosecond", 0) else None


class WrittenNullValueSerializer(NothingSerializer):
    """`NullValue`, which writes a byte by itself; `NullValueSerializer` writes none."""

    java_class = BASE + "NullValueSerializer"
    name, fixed_length = "NullValue", 1


@dataclass(frozen=True)
class ValueSerializer(Serializer, package=RUNTIME):
    """A value class of Flink, whose bytes are those of the class's own serializer."""

    plain: Serializer

    name = "{self.plain.type_name}"

    @property
    def serializer_name(self) -> str:
        return f"{self.java_class.rsplit('.', 1)[-1]}<{self.type_name}>"

    @property
    def layout(self) -> Layout:
        return self.plain

    def hash_code(self, value: Any) -> int | None:
        return self.plain.hash_code(value)

    def encode(self, value: Any) -> bytes | None:
        return self.plain.encode(value)


class CopyableValueSerializer(ValueSerializer, package=RUNTIME):
    """A value class that can be copied as bytes; `getLength` is the class's `getBinaryLength`."""

    @property
    def fixed_length(self) -> int:  # type: ignore[override]  # derived here
        return self.plain.fixed_length


def value_serializer(serializer: type[ValueSerializer], value_class: str) -> Serializer:
    """Return the serializer of a value class; an opaque one for the classes of users."""
    plain = VALUES.get(value_class)
    if plain is None:
        return OpaqueSerializer(value_class, "its bytes are what the class itself writes")
    return serializer(plain)


def _value_body(serializer: type[ValueSerializer]) -> SnapshotBody:
    return lambda snapshot: value_serializer(serializer, snapshot.cursor.utf("value class"))


def simple(serializer: type[BasicSerializer]) -> tuple[str, SnapshotBody]:
    """Return name and reader of the `SimpleTypeSerializerSnapshot` that is nested in a serializer class."""
    instance = serializer()
    name = serializer.java_class
    return f"{name}${name.rsplit('.', 1)[-1]}Snapshot", simple_body(instance)


VALUES: dict[str, Serializer] = {
    "org.apache.flink.types." + plain.name: plain
    for plain in (
        BooleanValueSerializer(), ByteValueSerializer(), ShortValueSerializer(),
        IntValueSerializer(), LongValueSerializer(), FloatValueSerializer(),
        DoubleValueSerializer(), CharValueSerializer(), StringValueSerializer(),
        WrittenNullValueSerializer(),
    )
}  # fmt: skip

SNAPSHOTS: dict[str, SnapshotBody] = dict(
    map(
        simple,
        (
            BooleanSerializer, ByteSerializer, ShortSerializer, IntSerializer, LongSerializer, FloatSerializer,
            DoubleSerializer, CharSerializer, StringSerializer, BigIntSerializer, BigDecSerializer, VoidSerializer,
            VoidNamespaceSerializer, NullValueSerializer, BooleanValueSerializer, ByteValueSerializer,
            ShortValueSerializer, IntValueSerializer, LongValueSerializer, FloatValueSerializer, DoubleValueSerializer,
            CharValueSerializer, StringValueSerializer, BytePrimitiveArraySerializer, BooleanPrimitiveArraySerializer,
            ShortPrimitiveArraySerializer, IntPrimitiveArraySerializer, LongPrimitiveArraySerializer,
            FloatPrimitiveArraySerializer, DoublePrimitiveArraySerializer, CharPrimitiveArraySerializer,
            StringArraySerializer, DateSerializer, SqlDateSerializer, SqlTimeSerializer, SqlTimestampSerializer,
            InstantSerializer, LocalDateSerializer, LocalTimeSerializer, LocalDateTimeSerializer,
        ),
    )
) | {
    RUNTIME + "Tuple0SerializerSnapshot": simple_body(Tuple0Serializer()),
    RUNTIME + "CopyableValueSerializer$CopyableValueSerializerSnapshot": _value_body(CopyableValueSerializer),
    RUNTIME + "ValueSerializer$ValueSerializerSnapshot": _value_body(ValueSerializer),
}  # fmt: skip
