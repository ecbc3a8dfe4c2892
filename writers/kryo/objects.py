"""Objects of Kryo with their classes: what `bodies.py` reads from Kryo 2.24, and writes for Kryo 5.

The frame around objects is read by the readers' `KryoReader`, with bodies that keep the classes: the JSON trees that the readers
show have none. `ObjectWriter` writes the frame. An object that is referred to twice is one object here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from readers import BOXES, KRYO_5, PRIMITIVES, KryoReader, KryoType
from writers.kryo.output import KryoOutput

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
