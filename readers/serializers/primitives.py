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
from typing import Any, ClassVar, Literal

import pyarrow as pa

from readers.decode.program import Program
from readers.keygroups import (
    hash_big_decimal,
    hash_big_integer,
    hash_bool,
    hash_double,
    hash_float,
    hash_long,
    hash_string,
)
from readers.serializers.base import Serializer
from readers.serializers.snapshot import SnapshotBody, simple_body

BASE = "org.apache.flink.api.common.typeutils.base."


class BasicSerializer(Serializer):
    """A type without parameters: two serializers of one class are equal."""

    __slots__ = ()

    name: ClassVar[str]
    arrow_type: ClassVar[pa.DataType]

    @property
    def type_name(self) -> str:
        return self.name

    def arrow(self) -> pa.DataType:
        return self.arrow_type

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class BooleanSerializer(BasicSerializer):
    is_nullable = False
    java_class = BASE + "BooleanSerializer"
    name, arrow_type, fixed_length = "Boolean", pa.bool_(), 1

    def emit(self, program: Program) -> None:
        program.boolean()

    def hash_code(self, value: Any) -> int | None:
        return hash_bool(value) if isinstance(value, bool) else None

    def encode(self, value: Any) -> bytes | None:
        return bytes([value]) if isinstance(value, bool) else None


class IntegerSerializer(BasicSerializer):
    """A signed integer; each width has a subclass."""

    is_nullable = False
    width: ClassVar[Literal[1, 2, 4, 8]]

    def emit(self, program: Program) -> None:
        program.fixed(self.width)

    def hash_code(self, value: Any) -> int | None:
        return int(value) if self.encode(value) is not None else None

    def encode(self, value: Any) -> bytes | None:
        # A bool is an int to Python, and not to SQL.
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or not -(1 << 8 * self.width - 1) <= value < 1 << 8 * self.width - 1
        ):
            return None
        return value.to_bytes(self.width, "big", signed=True)


class ByteSerializer(IntegerSerializer):
    java_class = BASE + "ByteSerializer"
    name, arrow_type, width, fixed_length = "Byte", pa.int8(), 1, 1


class ShortSerializer(IntegerSerializer):
    java_class = BASE + "ShortSerializer"
    name, arrow_type, width, fixed_length = "Short", pa.int16(), 2, 2


class IntSerializer(IntegerSerializer):
    java_class = BASE + "IntSerializer"
    name, arrow_type, width, fixed_length = "Integer", pa.int32(), 4, 4


class LongSerializer(IntegerSerializer):
    java_class = BASE + "LongSerializer"
    name, arrow_type, width, fixed_length = "Long", pa.int64(), 8, 8

    def hash_code(self, value: Any) -> int | None:
        return hash_long(value) if self.encode(value) is not None else None


class FloatSerializer(BasicSerializer):
    is_nullable = False
    java_class = BASE + "FloatSerializer"
    name, arrow_type, fixed_length = "Float", pa.float32(), 4

    def emit(self, program: Program) -> None:
        program.fixed(4)

    def hash_code(self, value: Any) -> int | None:
        return hash_float(value) if isinstance(value, float) else None


class DoubleSerializer(BasicSerializer):
    is_nullable = False
    java_class = BASE + "DoubleSerializer"
    name, arrow_type, fixed_length = "Double", pa.float64(), 8

    def emit(self, program: Program) -> None:
        program.fixed(8)

    def hash_code(self, value: Any) -> int | None:
        return hash_double(value) if isinstance(value, float) else None


class CharSerializer(BasicSerializer):
    is_nullable = False
    java_class = BASE + "CharSerializer"
    name, arrow_type, fixed_length = "Character", pa.string(), 2

    def emit(self, program: Program) -> None:
        program.char()

    def hash_code(self, value: Any) -> int | None:
        # A char of Java is one UTF-16 unit.
        return ord(value) if isinstance(value, str) and len(value) == 1 and ord(value) < 0x10000 else None

    def encode(self, value: Any) -> bytes | None:
        code = self.hash_code(value)
        return None if code is None else code.to_bytes(2, "big")


class StringSerializer(BasicSerializer):
    java_class = BASE + "StringSerializer"
    name, arrow_type = "String", pa.string()

    def emit(self, program: Program) -> None:
        program.string()

    def hash_code(self, value: Any) -> int | None:
        return hash_string(value) if isinstance(value, str) else None

    def encode(self, value: Any) -> bytes | None:
        return encode_string(value, 1) if isinstance(value, str) else None


class StringValueSerializer(StringSerializer):
    """A mutable string; its count is that of the units, without a number for null."""

    java_class = BASE + "StringValueSerializer"
    name = "StringValue"

    def emit(self, program: Program) -> None:
        program.string(nullable=False)

    def encode(self, value: Any) -> bytes | None:
        return encode_string(value, 0) if isinstance(value, str) else None


class BigIntSerializer(BasicSerializer):
    """A `BigInteger` of any size, shown as decimal text."""

    java_class = BASE + "BigIntSerializer"
    name, arrow_type = "BigInteger", pa.string()

    def emit(self, program: Program) -> None:
        program.big_integer()

    def hash_code(self, value: Any) -> int | None:
        try:
            return hash_big_integer(int(value))
        except (TypeError, ValueError):
            return None


class BigDecSerializer(BasicSerializer):
    """A `BigDecimal` of any size and scale, shown as decimal text."""

    java_class = BASE + "BigDecSerializer"
    name, arrow_type = "BigDecimal", pa.string()

    def emit(self, program: Program) -> None:
        program.big_decimal()

    def hash_code(self, value: Any) -> int | None:
        return hash_big_decimal(value) if isinstance(value, str) else None


class NothingSerializer(BasicSerializer):
    """One byte that carries nothing; the value is null."""

    arrow_type = pa.string()
    padding: ClassVar[int] = 1
    fill: ClassVar[int] = 0

    def emit(self, program: Program) -> None:
        if self.padding:
            program.skip(self.padding, self.fill)
        program.null()


class VoidSerializer(NothingSerializer):
    java_class = BASE + "VoidSerializer"
    name, fixed_length = "Void", 1


class NullValueSerializer(NothingSerializer):
    java_class = BASE + "NullValueSerializer"
    name, fixed_length, padding = "NullValue", 0, 0


class VoidNamespaceSerializer(NothingSerializer):
    """The namespace of states without windows. `getLength()` is 0, yet one byte is written."""

    java_class = "org.apache.flink.runtime.state.VoidNamespaceSerializer"
    name, fixed_length = "VoidNamespace", 0  # as Flink states it: so it never makes a RocksDB key ambiguous

    def encode(self, value: Any) -> bytes | None:
        return b"\0" if value is None else None


class Tuple0Serializer(NothingSerializer):
    java_class = "org.apache.flink.api.java.typeutils.runtime.Tuple0Serializer"
    name, fixed_length, fill = "Tuple0", 1, 42


class BytePrimitiveArraySerializer(BasicSerializer):
    java_class = BASE + "array.BytePrimitiveArraySerializer"
    name, arrow_type = "byte[]", pa.binary()

    def emit(self, program: Program) -> None:
        program.blob()


class PrimitiveArraySerializer(BasicSerializer):
    """An array of primitives, which is copied in bulk; each primitive has a subclass."""

    width: ClassVar[Literal[1, 2, 4, 8]]

    def emit(self, program: Program) -> None:
        program.primitives(self.width)


class BooleanPrimitiveArraySerializer(PrimitiveArraySerializer):
    java_class = BASE + "array.BooleanPrimitiveArraySerializer"
    name, arrow_type, width = "boolean[]", pa.list_(pa.bool_()), 1

    def emit(self, program: Program) -> None:
        # Arrow's booleans are bits: they cannot be copied in bulk.
        with program.list():
            program.boolean()


class ShortPrimitiveArraySerializer(PrimitiveArraySerializer):
    java_class = BASE + "array.ShortPrimitiveArraySerializer"
    name, arrow_type, width = "short[]", pa.list_(pa.int16()), 2


class IntPrimitiveArraySerializer(PrimitiveArraySerializer):
    java_class = BASE + "array.IntPrimitiveArraySerializer"
    name, arrow_type, width = "int[]", pa.list_(pa.int32()), 4


class LongPrimitiveArraySerializer(PrimitiveArraySerializer):
    java_class = BASE + "array.LongPrimitiveArraySerializer"
    name, arrow_type, width = "long[]", pa.list_(pa.int64()), 8


class FloatPrimitiveArraySerializer(PrimitiveArraySerializer):
    java_class = BASE + "array.FloatPrimitiveArraySerializer"
    name, arrow_type, width = "float[]", pa.list_(pa.float32()), 4


class DoublePrimitiveArraySerializer(PrimitiveArraySerializer):
    java_class = BASE + "array.DoublePrimitiveArraySerializer"
    name, arrow_type, width = "double[]", pa.list_(pa.float64()), 8


class CharPrimitiveArraySerializer(PrimitiveArraySerializer):
    java_class = BASE + "array.CharPrimitiveArraySerializer"
    name, arrow_type = "char[]", pa.list_(pa.string())

    def emit(self, program: Program) -> None:
        with program.list():
            program.char()


class StringArraySerializer(BasicSerializer):
    java_class = BASE + "array.StringArraySerializer"
    name, arrow_type = "String[]", pa.list_(pa.string())

    def emit(self, program: Program) -> None:
        with program.list():
            program.string()


class BooleanValueSerializer(BooleanSerializer):
    """A mutable boolean, whose `hashCode` is 1 or 0."""

    java_class = BASE + "BooleanValueSerializer"
    name = "BooleanValue"

    def hash_code(self, value: Any) -> int | None:
        return int(value) if isinstance(value, bool) else None


class ByteValueSerializer(ByteSerializer):
    java_class = BASE + "ByteValueSerializer"
    name = "ByteValue"


class ShortValueSerializer(ShortSerializer):
    java_class = BASE + "ShortValueSerializer"
    name = "ShortValue"


class IntValueSerializer(IntSerializer):
    java_class = BASE + "IntValueSerializer"
    name = "IntValue"


class LongValueSerializer(LongSerializer):
    """A mutable long, whose `hashCode` is 43 more than that of `Long`."""

    java_class = BASE + "LongValueSerializer"
    name = "LongValue"

    def hash_code(self, value: Any) -> int | None:
        code = super().hash_code(value)
        return None if code is None else _int32(code + 43)


class FloatValueSerializer(FloatSerializer):
    java_class = BASE + "FloatValueSerializer"
    name = "FloatValue"


class DoubleValueSerializer(DoubleSerializer):
    """A mutable double, whose `hashCode` is 31 more than that of `Double`."""

    java_class = BASE + "DoubleValueSerializer"
    name = "DoubleValue"

    def hash_code(self, value: Any) -> int | None:
        code = super().hash_code(value)
        return None if code is None else _int32(code + 31)


class CharValueSerializer(CharSerializer):
    java_class = BASE + "CharValueSerializer"
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
