"""Lists, maps, sets, arrays, nullables and enums.

| serializer | snapshot | bytes |
|---|---|---|
| List, ArrayList | composite 1: [element] | i4 n, n × element |
| Map | composite 1: [key, value] | i4 n, n × (key, bool value is null, value) |
| Set | composite 1: [element] | i4 n, n × (bool is null, element) |
| GenericArray | composite 1: utf component class; [component] | i4 n, n × (bool present, component) |
| Nullable | composite 2: i4 padding; [inner] | bool is null, then padding or inner |
| Enum | 3: utf class, i4 n, n × utf constant | i4 index into the constants of the snapshot |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from readers.decode.program import Program
from readers.keygroups import hash_sequence
from readers.serializers.base import Layout, Serializer, Snapshot, SnapshotBody, composite_body
from readers.serializers.primitives import BASE
from readers.serializers.structs import ListLayout


@dataclass(frozen=True)
class ListSerializer(Serializer, package=BASE):
    element: Serializer

    name = "List<{self.element.type_name}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("[]", self.element),)

    @property
    def layout(self) -> Layout:
        return ListLayout(self.element)

    def hash_code(self, value: Any) -> int | None:
        """Return `List#hashCode`; null elements count 0."""
        if not isinstance(value, list):
            return None
        codes = [0 if element is None else self.element.hash_code(element) for element in value]
        return hash_sequence(code for code in codes if code is not None) if None not in codes else None


class ArrayListSerializer(ListSerializer, package="org.apache.flink.runtime.state."):
    """The lists of list states on the heap."""


@dataclass(frozen=True)
class MapSerializer(Serializer, package=BASE):
    """A map whose values may be null. The key serializer decides whether a key may be null."""

    key: Serializer
    value: Serializer

    name = "Map<{self.key.type_name}, {self.value.type_name}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("key", self.key), ("value", self.value))

    @property
    def has_outliers(self) -> bool:
        # Arrow has no maps with null keys.
        return self.key.is_nullable or self.key.has_outliers or self.value.has_outliers

    def arrow(self) -> pa.DataType:
        return pa.map_(self.key.arrow(), self.value.arrow())

    def emit(self, program: Program) -> None:
        with program.list():
            self.emit_entry(program)

    def emit_entry(self, program: Program) -> None:
        """Declare one entry, into a struct of key and value."""
        program.struct()
        with program.field(0, "key"):
            self.key.emit(program)
        with program.field(1, "value"):
            self.emit_value(program)

    def emit_value(self, program: Program) -> None:
        """Declare the flag and the value of one entry. In RocksDB these are the value bytes of the entry."""
        with program.nullable(null_flag=True):
            self.value.emit(program)


class SetSerializer(ListSerializer, package=BASE):
    """A set (since 2.0)."""

    name = "Set<{self.element.type_name}>"

    def emit(self, program: Program) -> None:
        with program.list(), program.nullable(null_flag=True):
            self.element.emit(program)

    def hash_code(self, value: Any) -> int | None:
        # `Set#hashCode` is not that of a list.
        return None


@dataclass(frozen=True)
class GenericArraySerializer(ListSerializer, package=BASE):
    """An array of objects. Unlike in maps and sets, the flag is 1 for an element that is present."""

    component_class: str = ""

    name = "{self.element.type_name}[]"

    def emit(self, program: Program) -> None:
        with program.list(), program.nullable(null_flag=False):
            self.element.emit(program)

    def hash_code(self, value: Any) -> int | None:
        # Java hashes arrays by identity.
        return None


@dataclass(frozen=True)
class NullableSerializer(Serializer, package="org.apache.flink.api.java.typeutils.runtime."):
    """Adds a null flag to a serializer that has none; `padding` bytes keep the length of a null fixed."""

    inner: Serializer
    padding: int = 0

    @property
    def fixed_length(self) -> int:  # type: ignore[override]  # derived here
        return 1 + self.padding if self.padding else -1

    name = "{self.inner.type_name}"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("nullable", self.inner),)

    def arrow(self) -> pa.DataType:
        return self.inner.arrow()

    def emit(self, program: Program) -> None:
        with program.nullable(null_flag=True, padding=self.padding):
            self.inner.emit(program)


@dataclass(frozen=True)
class EnumSerializer(Serializer, package=BASE):
    """An enum constant, by its index into the constants of the snapshot."""

    enum_class: str
    constants: tuple[str, ...]

    is_nullable = False
    fixed_length = 4

    name = "{self.enum_class}"

    def arrow(self) -> pa.DataType:
        return pa.string()

    def emit(self, program: Program) -> None:
        program.enum(list(self.constants))

    def encode(self, value: Any) -> bytes | None:
        return self.constants.index(value).to_bytes(4, "big") if value in self.constants else None


def _generic_array(snapshot: Snapshot) -> Serializer:
    snapshot.composite()
    component = snapshot.cursor.utf("component class")
    (element,) = snapshot.nested(1)
    return GenericArraySerializer(element, component)


def _nullable(snapshot: Snapshot) -> Serializer:
    snapshot.composite()
    padding = snapshot.cursor.i4()
    if padding < 0:
        raise snapshot.cursor.corrupt(f"expected a padding length, found {padding}")
    (inner,) = snapshot.nested(1)
    return NullableSerializer(inner, padding)


def _enum(snapshot: Snapshot) -> Serializer:
    enum_class = snapshot.cursor.utf("enum class")
    count = snapshot.cursor.count("enum constants", 2)
    return EnumSerializer(enum_class, tuple(snapshot.cursor.utf("enum constant") for _ in range(count)))


SNAPSHOTS: dict[str, SnapshotBody] = {
    BASE + "ListSerializerSnapshot": composite_body(ListSerializer, 1),
    "org.apache.flink.runtime.state.ArrayListSerializerSnapshot": composite_body(ArrayListSerializer, 1),
    BASE + "SetSerializerSnapshot": composite_body(SetSerializer, 1),
    BASE + "MapSerializerSnapshot": composite_body(MapSerializer, 2),
    BASE + "GenericArraySerializerSnapshot": _generic_array,
    BASE + "GenericArraySerializerConfigSnapshot": _generic_array,
    "org.apache.flink.api.java.typeutils.runtime.NullableSerializer$NullableSerializerSnapshot": _nullable,
    BASE + "EnumSerializer$EnumSerializerSnapshot": _enum,
}
