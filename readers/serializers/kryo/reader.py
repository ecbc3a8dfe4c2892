"""`KryoReader`: the frame around Kryo's objects, in Kryo 2.24 (Flink 1.x) and Kryo 5 (Flink 2.x).

A value has no length and no field names; it ends where reading it ends. See `input.py` for numbers and strings.

| item | bytes |
|---|---|
| any | class, and if that is not null: reference, body |
| class | varint 0 null · 1 by name: varint number of the name, the name if it is new · k: registration k - 2 |
| reference | varint 0 null · 1 new · r: object r - 2, in the order in which they begin |
| field of a final class | reference and body; a box: 00 null or 01, body |

Primitives and their boxes have no reference, nor have enums in Kryo 5. The bodies are read by functions that the reader
is handed; `objects.py` holds the table of them.

Source: `com.esotericsoftware.kryo.Kryo`, `com.esotericsoftware.kryo.util.DefaultClassResolver`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from readers.errors import UnsupportedSerializerError
from readers.javaio import STREAM_HEADER, read_object
from readers.serializers.jsontree import MAX_NODES, json_of
from readers.serializers.kryo.classes import BOXES, ENUMS, FINAL, PRIMITIVES
from readers.serializers.kryo.input import KryoInput
from readers.serializers.kryo.settings import KRYO_5, KryoSettings, KryoType, component_of

_MAX_DEPTH = 100
_CLASS_OFFSET = 2  # behind 0 null and 1 by name
_NEW_JAVA_STREAM = b"\x01" + STREAM_HEADER


class KryoReader:
    """Reads one value into a JSON tree: class names and references count anew in each.

    Args:
        settings: the registrations, and the facts about classes, that are not in the bytes.
        input_: at the value.
        body_of: returns the function that reads the body of a class; None where its layout is not known.
    """

    def __init__(self, settings: KryoSettings, input_: KryoInput, body_of: BodyLookup) -> None:
        self.input = input_
        self.settings = settings
        self.class_ids = settings.class_ids
        self.names: list[str] = []
        self.objects: list[Any] = []
        self.sizes: list[int] = []  # how many values each object holds, -1 while it is read
        self.nodes = 0
        self.depth = 0
        self.java_classes: set[str] = set()  # whose objects turned out to be Java streams
        self._body_of = body_of

    @property
    def is_kryo5(self) -> bool:
        """True for Kryo 5, False for 2.24."""
        return self.settings.version >= KRYO_5

    def any(self, arguments: tuple[KryoType, ...] = ()) -> Any:
        """Read a value with its class."""
        class_name = self.class_name()
        return None if class_name is None else self.object(class_name, arguments)

    def class_name(self) -> str | None:
        """Read a class; None for null."""
        start = self.input.position
        number = self.input.varint("class")
        if number == 0:
            return None
        if number == 1:
            return self._class_by_name()
        class_name = self.class_ids.get(number - _CLASS_OFFSET)
        if class_name is None:
            raise self.input.corrupt(f"expected a registered class, found id {number - _CLASS_OFFSET}", start)
        return class_name

    def object(self, class_name: str, arguments: tuple[KryoType, ...] = ()) -> Any:
        """Read a reference, if the class has them, and the body."""
        if not self._is_referenced(class_name):
            return self._body(class_name, arguments)
        if self._body_of(self, class_name) is None:
            self._expect_java_stream(class_name)
        start = self.input.position
        reference = self.input.varint("reference")
        if reference == 0:
            return None
        if reference == 1:
            return self._new(class_name, arguments)
        number = reference - 2
        if number >= len(self.objects):
            raise self.input.corrupt(f"expected one of {len(self.objects)} objects, found {number}", start)
        if self.sizes[number] < 0:
            return {"@reference": class_name}
        # A few bytes can refer to a large object again and again: its values count each time.
        self.count(self.sizes[number])
        return self.objects[number]

    def object_or_null(self, class_name: str, arguments: tuple[KryoType, ...] = ()) -> Any:
        """Read a value whose class is not in the bytes."""
        if self._is_referenced(class_name):
            return self.object(class_name, arguments)
        return self._body(class_name, arguments) if self.input.u1() else None

    def field(self, declared: KryoType) -> Any:
        """Read a field of an object."""
        if declared.name in PRIMITIVES:
            return self._body(declared.name, ())
        if self.is_final(declared):
            return self.object_or_null(declared.name, declared.arguments)
        return self.any(declared.arguments)

    def is_final(self, declared: KryoType) -> bool:
        """Return whether Kryo writes values of a declared type without their class."""
        name = declared.name
        if name.startswith("["):
            component = component_of(name)
            return component in PRIMITIVES or self.is_final(KryoType(component))
        known = self.settings.classes.get(name)
        return (
            declared.is_final
            or name in FINAL
            or (known is not None and (known.is_final or bool(known.constants)))
        )

    def constants(self, class_name: str) -> tuple[str, ...]:
        """Return the constants of an enum, in order; () for other and for unknown classes."""
        known = self.settings.classes.get(class_name)
        return known.constants if known is not None else ENUMS.get(class_name, ())

    def constant(self, class_name: str) -> Any:
        """Read an ordinal, stored with 1 added, and return the constant's name, if that is known."""
        start = self.input.position
        ordinal = self.input.varint("ordinal") - 1
        constants = self.constants(class_name)
        if ordinal < 0:
            return None
        if not constants:
            return {"@class": class_name, "ordinal": ordinal}
        if ordinal >= len(constants):
            raise self.input.corrupt(f"expected a constant of {class_name}, found ordinal {ordinal}", start)
        return constants[ordinal]

    def count(self, values: int) -> None:
        """Add to the number of values in the tree.

        Raises:
            CorruptDataError: there are too many.
        """
        self.nodes += values
        if self.nodes > MAX_NODES:
            raise self.input.corrupt(f"expected a Kryo object of at most {MAX_NODES} values")

    def unsupported(self, class_name: str) -> UnsupportedSerializerError:
        """Return the error for a class whose layout is not known: `raise reader.unsupported(…)`."""
        return UnsupportedSerializerError(
            f"expected a class that Kryo writes in a known layout, found {class_name}, whose fields are not known",
            position=self.input.position,
            breadcrumbs=(class_name,),
        )

    def _expect_java_stream(self, class_name: str) -> None:
        """Accept a class without a known layout if its object is a Java stream, as throwables are.

        Raises:
            UnsupportedSerializerError: it is none; it may be an enum, which has no reference in Kryo 5.
        """
        start = self.input.position
        beginning = bytes(self.input.data[start : min(start + len(_NEW_JAVA_STREAM), self.input.end)])
        if beginning == _NEW_JAVA_STREAM:
            self.java_classes.add(class_name)
        # A reference to an earlier object of the class has no stream header of its own.
        elif class_name not in self.java_classes:
            raise self.unsupported(class_name)

    def _class_by_name(self) -> str:
        start = self.input.position
        number = self.input.varint("class name")
        if number > len(self.names):
            raise self.input.corrupt(f"expected one of {len(self.names)} class names, found {number}", start)
        if number == len(self.names):
            self.names.append(self.input.name("a class name"))
        return self.names[number]

    def _is_referenced(self, class_name: str) -> bool:
        if class_name in PRIMITIVES or class_name in BOXES:
            return False
        return not (self.is_kryo5 and self.constants(class_name))

    def _new(self, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
        # An object has its number before its fields are read: they may refer back to it.
        number, before = len(self.objects), self.nodes
        self.objects.append(None)
        self.sizes.append(-1)
        value = self._body(class_name, arguments)
        self.objects[number] = value
        self.sizes[number] = self.nodes - before
        return value

    def _body(self, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
        self.count(1)
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.input.corrupt(f"Kryo objects nest deeper than {_MAX_DEPTH} levels")
        body = self._body_of(self, class_name)
        # Only Java streams get here without a body: `object` refuses all others.
        value = json_of(read_object(self.input)) if body is None else body(self, class_name, arguments)
        self.depth -= 1
        return value


Body: TypeAlias = Callable[[KryoReader, str, tuple[KryoType, ...]], Any]
"""Reads the body of an object: of a class, with the type arguments of its declared type."""

BodyLookup: TypeAlias = Callable[[KryoReader, str], Body | None]
