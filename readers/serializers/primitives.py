"""Numbers, text and bytes. Package `org.apache.flink.api.common.typeutils.base`; the snapshots have no body.

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
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import pyarrow as pa

from readers import keygroups
from readers.decode.program import Program
from readers.serializers.base import Layout, Serializer, SnapshotBody, simple_body
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
    SHORT,
    STRING,
    ListLayout,
    ScalarLayout,
    numbers,
)

BASE = "org.apache.flink.api.common.typeutils.base."


class BasicSerializer(Serializer):
    """A type without parameters: two serializers of one class are equal."""

    __slots__ = ()

    name: ClassVar[str]
    layout: ClassVar[Layout]

    @property
    def type_name(self) -> str:
        return self.name

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


def simple(serializer: type[BasicSerializer]) -> tuple[str, SnapshotBody]:
    """Return name and reader of the `SimpleTypeSerializerSnapshot` that is nested in a serializer class."""
    instance = serializer()
    name = serializer.java_class
    return f"{name}${name.rsplit('.', 1)[-1]}Snapshot", simple_body(instance)


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
            StringArraySerializer,
        ),
    )
) | {
    "org.apache.flink.api.java.typeutils.runtime.Tuple0SerializerSnapshot": simple_body(Tuple0Serializer()),
}  # fmt: skip
