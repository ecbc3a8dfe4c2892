"""Protobuf's wire format, and the descriptors that say what it means: a compiled `FileDescriptorSet`.

| part | bytes |
|---|---|
| message | fields in any order, up to the end |
| field | varint: number × 8 + wire type, value |
| wire type 0 · 1 · 2 · 5 | varint of 64 bits at most · 8 bytes · varint length, bytes · 4 bytes |
| wire type 3, 4 | the fields of a group up to its end |

What `protoc --descriptor_set_out --include_imports` writes is such a message itself; of it are read the names, numbers, labels and
types of fields, the names of enum constants, and the options that tell the Java class of a message.

Source: protobuf's encoding; `google/protobuf/descriptor.proto`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from readers.cursor import Cursor

VARINT, FIXED_64, BYTES, START_GROUP, END_GROUP, FIXED_32 = range(6)
_MAX_DEPTH = 100
_REPEATED = 3
_NOT_A_WORD = re.compile(r"[^0-9A-Za-z]+")

WireValue = int | memoryview


class FieldType(IntEnum):
    """`FieldDescriptorProto.Type`."""

    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    UINT64 = 4
    INT32 = 5
    FIXED64 = 6
    FIXED32 = 7
    BOOL = 8
    STRING = 9
    GROUP = 10
    MESSAGE = 11
    BYTES = 12
    UINT32 = 13
    ENUM = 14
    SFIXED32 = 15
    SFIXED64 = 16
    SINT32 = 17
    SINT64 = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a message.

    Attributes:
        type_name: of its message or enum, `package.Message.Nested`.
        oneof: the number of the oneof it is in; None for none.
        has_presence: whether an absent one differs from one with the default.
    """

    name: str
    number: int
    type: FieldType
    is_repeated: bool = False
    type_name: str = ""
    oneof: int | None = None
    has_presence: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message type; `is_map_entry` if it is the entry of a map field."""

    name: str
    fields: Mapping[int, Field]
    is_map_entry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """The types of a `FileDescriptorSet`.

    Attributes:
        data: the set itself.
        messages: by their full names, without a dot in front.
        enums: full name → number → constant.
        java_classes: binary name of the generated class → message.
    """

    data: bytes = field(repr=False)
    messages: Mapping[str, Message]
    enums: Mapping[str, Mapping[int, str]]
    java_classes: Mapping[str, str]


def read_descriptors(data: bytes, path: str | None = None) -> Descriptors:
    """A compiled `FileDescriptorSet`.

    Raises:
        CorruptDataError: it is none.
    """
    reader = _Descriptors()
    cursor = Cursor(data, path=path)
    for number, value in wire_fields(cursor):
        if number == 1:
            reader.file(_sub(cursor, value))
    if not reader.messages:
        raise cursor.corrupt("expected the descriptors of protobuf messages, found none")
    return Descriptors(
        data=data, messages=reader.messages, enums=reader.enums, java_classes=reader.java_classes
    )


def wire_fields(cursor: Cursor, group: int | None = None, depth: int = 0) -> Iterator[tuple[int, WireValue]]:
    """Number and value of each field: an int of a varint or fixed number, unsigned, else bytes.

    A group comes as the bytes between its marks.

    Args:
        cursor: over the message.
        group: the number of the group whose end is the end; None for a message.
        depth: how deep groups are nested.

    Raises:
        CorruptDataError: the bytes contradict the wire format.
    """
    while cursor.remaining:
        start = cursor.position
        tag = varint(cursor)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise cursor.corrupt(f"expected the number of a protobuf field, found {number}", start)
        if wire_type == END_GROUP:
            if number != group:
                raise cursor.corrupt(f"expected no end of a group, found that of {number}", start)
            return
        yield number, _value(cursor, number, wire_type, depth)
    if group is not None:
        raise cursor.corrupt(f"expected the end of the group {group}, found that of the message")


def varint(cursor: Cursor) -> int:
    """An unsigned number of 64 bits at most."""
    value = 0
    for shift in range(0, 70, 7):
        byte = cursor.u1()
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1
    raise cursor.corrupt("expected a varint of ten bytes at most")


def _value(cursor: Cursor, number: int, wire_type: int, depth: int) -> WireValue:
    if wire_type == VARINT:
        return varint(cursor)
    if wire_type == FIXED_64:
        return int(struct.unpack("<Q", cursor.read(8, "fixed number"))[0])
    if wire_type == FIXED_32:
        return int(struct.unpack("<I", cursor.read(4, "fixed number"))[0])
    if wire_type == BYTES:
        return cursor.read(varint(cursor), "protobuf field")
    if wire_type == START_GROUP:
        return _group(cursor, number, depth)
    raise cursor.corrupt(f"expected a protobuf wire type, found {wire_type}")


def _group(cursor: Cursor, number: int, depth: int) -> memoryview:
    if depth >= _MAX_DEPTH:
        raise cursor.corrupt(f"protobuf groups nest deeper than {_MAX_DEPTH} levels")
    start = end = cursor.position
    for _ in wire_fields(cursor, number, depth + 1):
        end = cursor.position
    return memoryview(cursor.data)[start:end]


def _sub(cursor: Cursor, value: WireValue) -> Cursor:
    if isinstance(value, int):
        raise cursor.corrupt("expected a part of a protobuf descriptor, found a number")
    return Cursor(value, path=cursor.path)


class _Parts:
    """The fields of a descriptor, by number."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._values: dict[int, list[WireValue]] = {}
        for number, value in wire_fields(cursor):
            self._values.setdefault(number, []).append(value)

    def parts(self, number: int) -> list[_Parts]:
        return [_Parts(_sub(self._cursor, value)) for value in self._values.get(number, ())]

    def part(self, number: int) -> _Parts:
        """All of them as one: that is how protobuf merges."""
        found = b"".join(bytes(_sub(self._cursor, value).data) for value in self._values.get(number, ()))
        return _Parts(Cursor(found, path=self._cursor.path))

    def text(self, number: int) -> str:
        value = self._values.get(number, [b""])[-1]
        if isinstance(value, int):
            raise self._cursor.corrupt("expected a text in a protobuf descriptor, found a number")
        try:
            return bytes(value).decode()
        except UnicodeDecodeError as error:
            raise self._cursor.corrupt("expected UTF-8 in a protobuf descriptor") from error

    def number(self, number: int) -> int | None:
        value = self._values.get(number, [None])[-1]
        if value is not None and not isinstance(value, int):
            raise self._cursor.corrupt("expected a number in a protobuf descriptor, found bytes")
        return value

    def field_type(self) -> FieldType:
        code = self.number(5) or 0
        if not FieldType.DOUBLE <= code <= FieldType.SINT64:
            raise self._cursor.corrupt(f"expected the type of a protobuf field, found {code}")
        return FieldType(code)


class _Descriptors:
    """Gathers the types of the files."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self.enums: dict[str, dict[int, str]] = {}
        self.java_classes: dict[str, str] = {}

    def file(self, cursor: Cursor) -> None:
        parts = _Parts(cursor)
        package = parts.text(2)
        prefix = f"{package}." if package else ""
        java = _java_prefix(parts, package)
        is_proto3 = parts.text(12) == "proto3"
        for message in parts.parts(4):
            self.message(message, prefix, java, is_proto3, 0)
        for enum in parts.parts(5):
            self.enum(enum, prefix)

    def message(self, parts: _Parts, prefix: str, java: str, is_proto3: bool, depth: int) -> None:
        """A message and those inside it."""
        short = parts.text(1)
        name = prefix + short
        fields = [_field(part, is_proto3) for part in parts.parts(2)]
        is_map_entry = bool(parts.part(7).number(7))
        self.messages[name] = Message(
            name=name, fields={field.number: field for field in fields}, is_map_entry=is_map_entry
        )
        self.java_classes[java + short] = name
        if depth < _MAX_DEPTH:
            for nested in parts.parts(3):
                self.message(nested, f"{name}.", f"{java}{short}$", is_proto3, depth + 1)
        for enum in parts.parts(4):
            self.enum(enum, f"{name}.")

    def enum(self, parts: _Parts, prefix: str) -> None:
        """An enum; of constants with the same number the first."""
        constants: dict[int, str] = {}
        for value in parts.parts(2):
            constants.setdefault(signed(value.number(2) or 0, 32), value.text(1))
        self.enums[prefix + parts.text(1)] = constants


def signed(value: int, bits: int) -> int:
    """The low bits as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _field(parts: _Parts, is_proto3: bool) -> Field:
    kind = parts.field_type()
    oneof = parts.number(9)
    is_message = kind in (FieldType.MESSAGE, FieldType.GROUP)
    return Field(
        name=parts.text(1),
        number=parts.number(3) or 0,
        type=kind,
        is_repeated=parts.number(4) == _REPEATED,
        type_name=parts.text(6).removeprefix("."),
        oneof=oneof,
        has_presence=is_message or oneof is not None or not is_proto3,
    )


def _java_prefix(parts: _Parts, package: str) -> str:
    """What stands before the name of a message in the binary name of its class. Source: protobuf's Java guide."""
    options = parts.part(8)
    java_package = options.text(1) or package
    prefix = f"{java_package}." if java_package else ""
    return prefix if options.number(10) else f"{prefix}{options.text(8) or _outer_class(parts)}$"


def _outer_class(parts: _Parts) -> str:
    stem = parts.text(1).rpartition("/")[2].removesuffix(".proto")
    name = "".join(word[:1].upper() + word[1:] for word in _NOT_A_WORD.split(stem))
    taken = {part.text(1) for number in (4, 5, 6) for part in parts.parts(number)}
    return f"{name}OuterClass" if name in taken else name


def defaults() -> dict[FieldType, Any]:
    """What an absent field without presence is."""
    numbers: dict[FieldType, Any] = dict.fromkeys(FieldType, 0)
    floats = dict.fromkeys((FieldType.DOUBLE, FieldType.FLOAT), 0.0)
    return numbers | floats | {FieldType.BOOL: False, FieldType.STRING: "", FieldType.BYTES: ""}
