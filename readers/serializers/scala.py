"""Scala types. Package `org.apache.flink.api.scala.typeutils`; removed in 2.0.

| serializer | snapshot | bytes |
|---|---|---|
| Option | composite 2: [element] | bool is some, element |
| Either | composite 1: [left, right] | bool is left, value |
| Try | composite 2: [element, throwable] | bool is success, element or throwable |
| Traversable | composite 2: utf source of the CanBuildFrom; [element] | i4 n, n × (bool present, element) |
| CaseClass, Tuple2CaseClass | composite 2: utf class; [fields] | the fields, no flags |
| EnumValue | 3: utf Enumeration class, i4 n, n × (utf name, i4 id) | i4 id |
| Unit | – | 00 |
| Nothing | – | never written |

Field names are not in the savepoint: `_1`, `_2`, … as Scala's own tuples call them. `Some(null)` shows as null, like
`None`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from readers.decode.program import Program
from readers.serializers.base import Layout, Serializer, Snapshot, SnapshotBody, composite_body, simple_body
from readers.serializers.containers import GenericArraySerializer
from readers.serializers.primitives import NothingSerializer
from readers.serializers.structs import EitherSerializer, OptionalLayout, StructLayout, TupleSerializer

SCALA = "org.apache.flink.api.scala.typeutils."
_MAX_ENUM_IDS = 4096  # constants are a jump table by id


@dataclass(frozen=True)
class OptionSerializer(Serializer, package=SCALA):
    """An `Option`: the element, or null for `None`."""

    element: Serializer

    name = "Option[{self.element.type_name}]"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return (("some", self.element),)

    @property
    def layout(self) -> Layout:
        return OptionalLayout(self.element)


class ScalaEitherSerializer(EitherSerializer):
    java_class = SCALA + "EitherSerializer"

    @property
    def type_name(self) -> str:
        return f"Either[{self.left.type_name}, {self.right.type_name}]"


class TrySerializer(EitherSerializer, package=SCALA):
    """`left` is the value of a `Success`, `right` the throwable of a `Failure`."""

    @property
    def type_name(self) -> str:
        return f"Try[{self.left.type_name}]"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("success", self.left), ("failure", self.right))


class TraversableSerializer(GenericArraySerializer, package=SCALA):
    """`component_class` is the Scala source of the `CanBuildFrom` that builds the collection."""

    name = "Traversable[{self.element.type_name}]"


class ScalaCaseClassSerializer(TupleSerializer, package=SCALA):
    """A case class, tuples among them."""

    @property
    def type_name(self) -> str:
        simple_name = self.tuple_class.rsplit(".", 1)[-1]
        return f"{simple_name}[{', '.join(field.type_name for field in self.fields)}]"

    @property
    def layout(self) -> StructLayout:
        names = self.names or tuple(f"_{index}" for index in range(1, self.width + 1))
        return StructLayout(*zip(names, self.fields, strict=True))

    def hash_code(self, value: Any) -> int | None:
        # `ScalaRunTime#_hashCode` differs between Scala versions, and case classes may override it.
        return None


@dataclass(frozen=True)
class EnumValueSerializer(Serializer, package=SCALA):
    """A constant of an `Enumeration`: its name; the id itself where ids are negative or too large for a table."""

    enumeration: str
    constants: tuple[tuple[str, int], ...]

    fixed_length = 4

    name = "{self.enumeration}"

    @property
    def _is_tabulated(self) -> bool:
        return bool(self.constants) and all(0 <= number < _MAX_ENUM_IDS for _, number in self.constants)

    def arrow(self) -> pa.DataType:
        return pa.string() if self._is_tabulated else pa.int32()

    def emit(self, program: Program) -> None:
        if not self._is_tabulated:
            program.fixed(4)
            return
        ids = program.switch_i4(1 + max(number for _, number in self.constants))
        for name, number in self.constants:
            with ids.case(number):
                program.constant(name)
        ids.end()

    def encode(self, value: Any) -> bytes | None:
        # Two constants may have one name.
        ids = [number for name, number in self.constants if name == value]
        return ids[0].to_bytes(4, "big") if self._is_tabulated and len(ids) == 1 else None


class UnitSerializer(NothingSerializer, package=SCALA):
    """`()`, which one byte stands for."""

    name, fixed_length = "Unit", 1


class ScalaNothingSerializer(NothingSerializer):
    """`Nothing`, which has no values: the type of empty lists."""

    java_class = SCALA + "NothingSerializer"
    name, fixed_length, padding = "Nothing", 0, 0


def _traversable(snapshot: Snapshot) -> Serializer:
    snapshot.composite()
    can_build_from = snapshot.cursor.utf("CanBuildFrom")
    (element,) = snapshot.nested(1)
    return TraversableSerializer(element, can_build_from)


def _case_class(snapshot: Snapshot) -> Serializer:
    snapshot.composite()
    case_class = snapshot.cursor.utf("case class")
    return ScalaCaseClassSerializer(case_class, snapshot.nested())


def enumeration(snapshot: Snapshot) -> Serializer:
    """Read the body of a snapshot of an `Enumeration`, whichever version wrote it."""
    name = snapshot.cursor.utf("Enumeration class")
    count = snapshot.cursor.count("enumeration values", 6)
    constants = tuple((snapshot.cursor.utf("enumeration value"), snapshot.cursor.i4()) for _ in range(count))
    return EnumValueSerializer(name, constants)


SNAPSHOTS: dict[str, SnapshotBody] = {
    SCALA + "ScalaOptionSerializerSnapshot": composite_body(OptionSerializer, 1),
    SCALA + "ScalaEitherSerializerSnapshot": composite_body(ScalaEitherSerializer, 2),
    SCALA + "ScalaTrySerializerSnapshot": composite_body(TrySerializer, 2),
    SCALA + "TraversableSerializerSnapshot": _traversable,
    SCALA + "ScalaCaseClassSerializerSnapshot": _case_class,
    SCALA + "Tuple2CaseClassSerializerSnapshot": _case_class,
    SCALA + "ScalaEnumSerializerSnapshot": enumeration,
    SCALA + "UnitSerializer$UnitSerializerSnapshot": simple_body(UnitSerializer()),
    SCALA + "UnitSerializerSnapshot": simple_body(UnitSerializer()),
    SCALA + "NothingSerializerSnapshot": simple_body(ScalaNothingSerializer()),
}
