"""Classes that write themselves: `org.apache.flink.types.Value` and `CopyableValue`.

Snapshot, version 2 (`GenericTypeSerializerSnapshot`): `utf class`. The bytes are those that the class's own `write` writes:

| class, in `org.apache.flink.types` | bytes |
|---|---|
| BooleanValue ByteValue ShortValue IntValue LongValue FloatValue DoubleValue CharValue | as the plain type |
| StringValue | varint units, varint units |
| NullValue | one byte |

Only a user's class itself knows the bytes that it writes: it is a problem that is not sized. That includes the subclasses
of `ListValue` and `MapValue`, which are abstract: they name no element type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from readers.serializers import primitives
from readers.serializers.base import Layout, OpaqueSerializer, Serializer, SnapshotBody
from readers.serializers.primitives import BASE, NothingSerializer
from readers.serializers.structs import RUNTIME


class WrittenNullValueSerializer(NothingSerializer):
    """`NullValue`, which writes a byte by itself; `NullValueSerializer` writes none."""

    java_class = BASE + "NullValueSerializer"
    name, fixed_length = "NullValue", 1


@dataclass(frozen=True)
class ValueSerializer(Serializer, package=RUNTIME):
    """A value class of Flink, whose bytes are those of the class's own serializer."""

    plain: Serializer

    @property
    def type_name(self) -> str:
        return self.plain.type_name

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


VALUES: dict[str, Serializer] = {
    "org.apache.flink.types." + plain.name: plain
    for plain in (
        primitives.BooleanValueSerializer(), primitives.ByteValueSerializer(), primitives.ShortValueSerializer(),
        primitives.IntValueSerializer(), primitives.LongValueSerializer(), primitives.FloatValueSerializer(),
        primitives.DoubleValueSerializer(), primitives.CharValueSerializer(), primitives.StringValueSerializer(),
        WrittenNullValueSerializer(),
    )
}  # fmt: skip

SNAPSHOTS: dict[str, SnapshotBody] = {
    RUNTIME + "CopyableValueSerializer$CopyableValueSerializerSnapshot": _value_body(CopyableValueSerializer),
    RUNTIME + "ValueSerializer$ValueSerializerSnapshot": _value_body(ValueSerializer),
}
