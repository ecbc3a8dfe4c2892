"""`KryoReader`: the frame around Kryo's objects, in Kryo 2.24 (Flink 1.x) and Kryo 5 (Flink 2.x); `KryoInput`: its numbers and texts.

A value has no length and no field names; it ends where reading it ends.

| item | bytes |
|---|---|
| any | class, and if that is not null: reference, body |
| class | varint 0 null · 1 by name: varint number of the name, the name if it is new · k: registration k - 2 |
| reference | varint 0 null · 1 new · r: object r - 2, in the order in which they begin |
| field of a final class | reference and body; a box: 00 null or 01, body |
| count, ordinal, class | varint, 5 bytes at most |
| int, long | zigzag varint, 5 and 9 bytes at most; "positive" ones without the zigzag |
| short, char, float, double | fixed; big endian in 2.24, little endian in 5 |
| string | bit 7 clear: ASCII up to a byte that has it set; else length + 1 (6 bits, 7 a byte), units of 1–3 bytes |
| header of a collection (5) | 1 bit flag, count + 1 (6 bits, then 7 a byte) |

Primitives and their boxes have no reference, nor have enums in Kryo 5. The bodies are read by functions that the reader
is handed; `objects.py` holds the table of them.

Source: `com.esotericsoftware.kryo.Kryo`, `com.esotericsoftware.kryo.util.DefaultClassResolver`, `com.esotericsoftware.kryo.io.Input`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from readers.cursor import Cursor
from readers.errors import UnsupportedSerializerError
from readers.javaio import STREAM_HEADER, read_object
from readers.serializers.jsontree import MAX_NODES, clean_text, json_of
from readers.serializers.kryo.settings import (
    BOXES,
    ENUMS,
    FINAL,
    KRYO_5,
    PRIMITIVES,
    KryoClass,
    KryoSettings,
    KryoType,
    array_of,
    component_of,
)

_MAX_ZIGZAG_BYTES = 9


class KryoInput(Cursor):
    """A cursor over Kryo's primitives."""

    __slots__ = ("order", "version")

    def __init__(self, data: memoryview, version: int, *, position: int, end: int) -> None:
        super().__init__(data, position=position, end=end)
        self.version = version
        self.order = ">" if version < 5 else "<"

    def fixed(self, code: str) -> Any:
        """Read one number of a `struct` code, in the byte order of the version."""
        layout = struct.Struct(self.order + code)
        return layout.unpack(self.read(layout.size))[0]

    def varlong(self) -> int:
        """Read an unsigned number of at most nine bytes, the last of which has eight bits."""
        value = 0
        for index in range(_MAX_ZIGZAG_BYTES):
            byte = self.u1()
            if index == _MAX_ZIGZAG_BYTES - 1:
                return value | byte << 7 * index
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                break
        return value

    def positive_long(self) -> int:
        """Read a long that Kryo expects to be positive: a negative one takes nine bytes."""
        value = self.varlong()
        return value - (1 << 64) if value >> 63 else value

    def positive_int(self) -> int:
        """Read an int that Kryo expects to be positive: a negative one takes five bytes."""
        # The fifth byte holds more bits than an int has.
        value = self.varint("number") & 0xFFFFFFFF
        return value - (1 << 32) if value >> 31 else value

    def zigzag(self) -> int:
        """Read an int or long."""
        value = self.varlong()
        return value >> 1 ^ -(value & 1)

    def size(self, offset: int = 0) -> int:
        """Read a count of elements of at least a byte each, stored with `offset` added."""
        start = self.position
        count = self.varint("count") - offset
        if not 0 <= count <= self.remaining:
            raise self.corrupt(f"expected a count, found {count} with {self.remaining} bytes left", start)
        return count

    def flagged_size(self) -> tuple[bool, int]:
        """Read Kryo 5's header of a collection: a flag and the count."""
        start = self.position
        byte = self.u1()
        count = byte & 0x3F
        if byte & 0x40:
            count |= self.varint("count") << 6
        flag = byte >= 0x80
        # Flagged elements that are all null have no bytes: the bytes that are left do not limit their count.
        if count < 1 or count - 1 > (MAX_NODES if flag else self.remaining):
            raise self.corrupt(f"expected a count, found {count - 1} with {self.remaining} bytes left", start)
        return flag, count - 1

    def text(self) -> str | None:
        """Read a string; None for null."""
        start = self.position
        first = self.u1()
        if first < 0x80:
            return self._ascii(start)
        units = first & 0x3F
        if first & 0x40:
            units |= self.varint("length") << 6
        if units == 0:
            return None
        if units - 1 > self.remaining:
            raise self.corrupt(f"expected {units - 1} characters, found {self.remaining} bytes left", start)
        return clean_text("".join(chr(self._unit()) for _ in range(units - 1)))

    def name(self, what: str) -> str:
        """Read a string that is not null."""
        text = self.text()
        if text is None:
            raise self.corrupt(f"expected {what}, found null")
        return text

    def _ascii(self, start: int) -> str:
        while self.u1() < 0x80:
            pass
        raw = bytearray(self.data[start : self.position])
        # Bit 7 marks the last character.
        raw[-1] &= 0x7F
        return raw.decode("ascii")

    def _unit(self) -> int:
        first = self.u1()
        if first < 0x80:
            return first
        if first & 0xE0 == 0xC0:
            return (first & 0x1F) << 6 | self.u1() & 0x3F
        if first & 0xF0 == 0xE0:
            return (first & 0xF) << 12 | (self.u1() & 0x3F) << 6 | self.u1() & 0x3F
        raise self.corrupt(f"expected a character, found {first:#x}", self.position - 1)


_MAX_DEPTH = 100
_CLASS_OFFSET = 2  # behind 0 null and 1 by name
_ANYTHING = KryoType("java.lang.Object")
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
        self.classes: list[str] = []  # of the objects
        self.sizes: list[int] = []  # how many values each object holds, -1 while it is read
        self.nodes = 0
        self.depth = 0
        self.java_classes: set[str] = set()  # whose objects turned out to be Java streams
        self.is_assumed = False  # class files say how a part of the value is laid out
        self._body_of = body_of
        # What the type variables of the objects around are bound to, innermost last; None where Kryo 2.24 looks none up.
        self._scopes: list[Mapping[str, KryoType] | None] = []
        self._generics: dict[str, TypeArguments] = {}  # of the serializers of classes, in Kryo 2.24

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

    def next_class(self) -> str | None:
        """Return the class that is next, None for null, without reading it."""
        start, known = self.input.position, len(self.names)
        class_name = self.class_name()
        self.input.position = start
        del self.names[known:]
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
        if self.classes[number] != class_name:
            raise self.input.corrupt(
                f"expected an object of {class_name}, found one of {self.classes[number]}", start
            )
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
        known = self.resolved(declared)
        if self.is_kryo5:
            if known is not None and self.is_final(known):
                return self.object_or_null(known.name, known.arguments)
            return self.any(declared.arguments)
        return self._field_2(declared, known)

    def _field_2(self, declared: KryoType, known: KryoType | None) -> Any:
        """Read a field as Kryo 2.24 does: the serializer of its class is told the type arguments, and keeps them."""
        arguments = self._arguments_2(declared, known)
        # An array of a type variable stays an array of Object.
        is_closed = known is not None and not (declared.is_variable and known.name.startswith("["))
        if is_closed and known is not None and self.is_final(known):
            self._generics[known.name] = arguments
            return self.object_or_null(known.name, _known(arguments))
        return self.element(arguments)

    def element(self, arguments: TypeArguments) -> Any:
        """Read a value with its class, whose serializer is told type arguments: in Kryo 2.24 it keeps them."""
        class_name = self.class_name()
        if class_name is None:
            return None
        self._generics[class_name] = arguments
        return self.object(class_name, _known(arguments))

    def _arguments_2(self, declared: KryoType, known: KryoType | None) -> TypeArguments:
        """Return the type arguments of a field, one level of them; none if the first is not known."""
        if declared.is_variable:
            if known is None:
                return ()
            return (KryoType(component_of(known.name)),) if declared.name.startswith("[") else (known,)
        found = tuple(
            replace(resolved, arguments=()) if (resolved := self.resolved(argument)) is not None else None
            for argument in declared.arguments
        )
        return found if found and found[0] is not None else ()

    def resolved(self, declared: KryoType) -> KryoType | None:
        """Return a type with its type variable replaced by the class that it is bound to; None if it is bound to none."""
        if not declared.is_variable:
            return declared
        if not self.is_kryo5 and (not self._scopes or self._scopes[-1] is None):
            return None
        variable = component_of(declared.name) if declared.name.startswith("[") else declared.name
        for scope in reversed(self._scopes):
            if scope is not None and variable in scope:
                found = scope[variable]
                return replace(found, name=array_of(found.name)) if variable != declared.name else found
        return None

    def fields(self, class_name: str, known: KryoClass, arguments: tuple[KryoType, ...]) -> dict[str, Any]:
        """Read the fields of an object (Kryo's `FieldSerializer`): name → value, in the order of the bytes."""
        self._scopes.append(self._bound(class_name, known, arguments))
        values = {name: self.field(declared) for name, declared in known.stored_fields}
        self._scopes.pop()
        return values

    def _bound(
        self, class_name: str, known: KryoClass, arguments: tuple[KryoType, ...]
    ) -> Mapping[str, KryoType] | None:
        """Return what the type variables of an object's class are bound to."""
        bound: dict[str, KryoType] = {}
        if not self.is_kryo5:
            if not known.parameters:
                return None
            given = self._generics.get(class_name, ())
            for index, (variable, *_) in enumerate(known.variables[: known.parameters]):
                found = given[index] if index < len(given) else self._in_scope(variable)
                if found is not None:
                    bound[variable] = found
            return bound
        if not known.parameters <= len(arguments) <= len(known.variables):
            return bound
        # Flink's Kryo goes on to the next variables only behind an argument that it can resolve.
        following = iter(known.variables)
        for argument in arguments:
            resolved = self.resolved(argument)
            if resolved is not None:
                bound |= dict.fromkeys(
                    next(following), KryoType(resolved.name, (), resolved.is_final, resolved.is_unknown)
                )
        return bound

    def _in_scope(self, variable: str) -> KryoType | None:
        return next(
            (scope[variable] for scope in reversed(self._scopes) if scope is not None and variable in scope),
            None,
        )

    def class_of(self, class_name: str) -> KryoClass | None:
        """Return what is known of a class; None if its fields are not."""
        known = self.settings.class_of(class_name)
        if known is not None and class_name not in self.settings.classes:
            self.is_assumed = True
        return known

    def is_final(self, declared: KryoType) -> bool:
        """Return whether Kryo writes values of a declared type without their class.

        Raises:
            UnsupportedSerializerError: that is not known.
        """
        name = declared.name
        if declared.is_unknown:
            raise self.unsupported(component_of(name) if name.startswith("[") else name)
        if name.startswith("["):
            component = component_of(name)
            return declared.is_final or component in PRIMITIVES or self.is_final(KryoType(component))
        known = self.class_of(name)
        return declared.is_final or name in FINAL or (known.is_closed if known is not None else name in ENUMS)

    def constants(self, class_name: str) -> tuple[str, ...]:
        """Return the constants of an enum, in order; () for other and for unknown classes."""
        known = self.class_of(class_name)
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
        self.classes.append(class_name)
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


def of_input(read: Callable[[KryoInput], Any]) -> Body:
    """Return a body that reads the input alone."""
    return lambda reader, _class_name, _arguments: read(reader.input)


def of_reader(read: Callable[[KryoReader], Any]) -> Body:
    """Return a body that needs no class."""
    return lambda reader, _class_name, _arguments: read(reader)


BodyLookup: TypeAlias = Callable[[KryoReader, str], Body | None]

TypeArguments: TypeAlias = tuple[KryoType | None, ...]
"""Type arguments of a field in Kryo 2.24; None for one that is not known."""


def _known(arguments: TypeArguments) -> tuple[KryoType, ...]:
    return tuple(_ANYTHING if argument is None else argument for argument in arguments)
