"""Protobuf messages, where their descriptors are given: JSON text.

| written by | bytes |
|---|---|
| Kryo, with chill's `ProtobufSerializer` | varint length, message |
| a `byte[]` that `stateInfo` says is a message | i4 length, message |

| item | bytes |
|---|---|
| message | fields in any order, up to the end |
| field | varint: number × 8 + wire type, value |
| wire type 0 · 1 · 2 · 5 | varint of 64 bits at most · 8 bytes · varint length, bytes · 4 bytes |
| wire type 3, 4 | the fields of a group up to its end |

The descriptors are a compiled `FileDescriptorSet`, as `protoc --descriptor_set_out --include_imports` writes it, which is a message
itself. The names, numbers, labels and types of fields are read from it, the names of enum constants, and the options that
determine the Java class of a message.

A message is an object with the names of the `.proto` file. Repeated fields are arrays, maps arrays of key and value, enums the
names of their constants, bytes base64, NaN and infinities text. A field that proto3 does not write because it has its default is
shown with it; a field with presence that is absent is left out. Fields that the descriptors do not know stand in `@unknown`.

Source: protobuf's encoding and its rules for merging; `google/protobuf/descriptor.proto`; `com.twitter.chill.protobuf.ProtobufSerializer`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from readers.cursor import Cursor
from readers.serializers.base import Serializer
from readers.serializers.jsontree import MAX_NODES, clean_text, json_bytes, json_float, json_map
from readers.serializers.structs import JsonLayout

VARINT, FIXED_64, BYTES, START_GROUP, END_GROUP, FIXED_32 = range(6)
_MAX_DEPTH = 100
_REPEATED = 3
# protoc makes the name of the outer class from the words of the file name.
_NOT_A_WORD = re.compile(r"[^0-9A-Za-z]+")

WireValue = int | memoryview


FieldType = IntEnum(
    "FieldType",
    "DOUBLE FLOAT INT64 UINT64 INT32 FIXED64 FIXED32 BOOL STRING GROUP MESSAGE BYTES UINT32 ENUM SFIXED32 SFIXED64 SINT32 SINT64",
)
"""`FieldDescriptorProto.Type`, from 1 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a message.

    Attributes:
        type_name: of its message or enum, `package.Message.Nested`.
        oneof: the number of its oneof; None for none.
        has_presence: an absent field differs from a field with the default.
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
    """A message type; with `is_map_entry` it is the entry of a map field."""

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
    """Read a compiled `FileDescriptorSet`.

    Raises:
        CorruptDataError: the bytes are none.
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
    """Yield number and value of each field: an int of a varint or fixed number, unsigned, else bytes.

    A group comes as the bytes between its marks.

    Args:
        cursor: over the message.
        group: the number of the group whose end is the end; None for a message.
        depth: the number of groups around it.

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
    """Read an unsigned number of at most 64 bits."""
    value = 0
    for shift in range(0, 70, 7):
        byte = cursor.u1()
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # Ten bytes hold 70 bits; other readers drop the surplus too.
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
    # A group has no length: only reading its fields finds the end mark.
    for _ in wire_fields(cursor, number, depth + 1):
        end = cursor.position
    return memoryview(cursor.data)[start:end]


def _sub(cursor: Cursor, value: WireValue) -> Cursor:
    if isinstance(value, int):
        raise cursor.corrupt("expected a part of a protobuf descriptor, found a number")
    return Cursor(value, path=cursor.path)


class _Fields:
    """The fields of a descriptor, by number."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._values: dict[int, list[WireValue]] = {}
        for number, value in wire_fields(cursor):
            self._values.setdefault(number, []).append(value)

    def messages(self, number: int) -> list[_Fields]:
        """Return the messages of a repeated field."""
        return [_Fields(_sub(self._cursor, value)) for value in self._values.get(number, ())]

    def message(self, number: int) -> _Fields:
        """Return the message of a field; empty if the field is absent."""
        # Protobuf merges the messages of a field that comes several times.
        merged = b"".join(bytes(_sub(self._cursor, value).data) for value in self._values.get(number, ()))
        return _Fields(Cursor(merged, path=self._cursor.path))

    def text(self, number: int) -> str:
        """Return the text of a field; "" if the field is absent."""
        value = self._values.get(number, [b""])[-1]
        if isinstance(value, int):
            raise self._cursor.corrupt("expected a text in a protobuf descriptor, found a number")
        try:
            return bytes(value).decode()
        except UnicodeDecodeError as error:
            raise self._cursor.corrupt("expected UTF-8 in a protobuf descriptor") from error

    def number(self, number: int) -> int | None:
        """Return the number of a field; None if the field is absent."""
        value = self._values.get(number, [None])[-1]
        if value is not None and not isinstance(value, int):
            raise self._cursor.corrupt("expected a number in a protobuf descriptor, found bytes")
        return value

    def field_type(self) -> FieldType:
        """Return the type of the field that is described."""
        code = self.number(5) or 0
        if not FieldType.DOUBLE <= code <= FieldType.SINT64:
            raise self._cursor.corrupt(f"expected the type of a protobuf field, found {code}")
        return FieldType(code)


class _Descriptors:
    """Collects the types of the files."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self.enums: dict[str, dict[int, str]] = {}
        self.java_classes: dict[str, str] = {}

    def file(self, cursor: Cursor) -> None:
        """Add the types of one `FileDescriptorProto`."""
        file = _Fields(cursor)
        package = file.text(2)
        prefix = f"{package}." if package else ""
        java = _java_prefix(file, package)
        is_proto3 = file.text(12) == "proto3"
        for message in file.messages(4):
            self.message(message, prefix, java, is_proto3, 0)
        for enum in file.messages(5):
            self.enum(enum, prefix)

    def message(self, described: _Fields, prefix: str, java: str, is_proto3: bool, depth: int) -> None:
        """Add a message and those inside it."""
        short = described.text(1)
        name = prefix + short
        fields = [_field(field, is_proto3) for field in described.messages(2)]
        is_map_entry = bool(described.message(7).number(7))
        self.messages[name] = Message(
            name=name, fields={field.number: field for field in fields}, is_map_entry=is_map_entry
        )
        self.java_classes[java + short] = name
        if depth < _MAX_DEPTH:
            for nested in described.messages(3):
                self.message(nested, f"{name}.", f"{java}{short}$", is_proto3, depth + 1)
        for enum in described.messages(4):
            self.enum(enum, f"{name}.")

    def enum(self, described: _Fields, prefix: str) -> None:
        """Add an enum; of constants with one number the first."""
        constants: dict[int, str] = {}
        for value in described.messages(2):
            constants.setdefault(signed(value.number(2) or 0, 32), value.text(1))
        self.enums[prefix + described.text(1)] = constants


def signed(value: int, bits: int) -> int:
    """Return the low bits as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _field(described: _Fields, is_proto3: bool) -> Field:
    kind = described.field_type()
    oneof = described.number(9)
    is_message = kind in (FieldType.MESSAGE, FieldType.GROUP)
    return Field(
        name=described.text(1),
        number=described.number(3) or 0,
        type=kind,
        is_repeated=described.number(4) == _REPEATED,
        type_name=described.text(6).removeprefix("."),
        oneof=oneof,
        # proto3 does not write a plain field with its default; `optional` there is a oneof of one field.
        has_presence=is_message or oneof is not None or not is_proto3,
    )


def _java_prefix(file: _Fields, package: str) -> str:
    """Return the text before the name of a message in the binary name of its class. Source: protobuf's Java guide."""
    options = file.message(8)
    java_package = options.text(1) or package
    prefix = f"{java_package}." if java_package else ""
    return prefix if options.number(10) else f"{prefix}{options.text(8) or _outer_class(file)}$"


def _outer_class(file: _Fields) -> str:
    stem = file.text(1).rpartition("/")[2].removesuffix(".proto")
    name = "".join(word[:1].upper() + word[1:] for word in _NOT_A_WORD.split(stem))
    # The outer class must not have the name of a message, enum or service in it.
    taken = {described.text(1) for number in (4, 5, 6) for described in file.messages(number)}
    return f"{name}OuterClass" if name in taken else name


def defaults() -> dict[FieldType, Any]:
    """Return the value of an absent field without presence, by type."""
    numbers: dict[FieldType, Any] = dict.fromkeys(FieldType, 0)
    floats = dict.fromkeys((FieldType.DOUBLE, FieldType.FLOAT), 0.0)
    return numbers | floats | {FieldType.BOOL: False, FieldType.STRING: "", FieldType.BYTES: ""}


_UNKNOWN = "@unknown"


class ProtobufReader:
    """Reads messages of a set of descriptors into JSON trees."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        self._nodes = 0

    def tree(self, name: str, data: memoryview, path: str | None = None) -> dict[str, Any]:
        """Read a message of the type `name`, which must be among the descriptors.

        Raises:
            CorruptDataError: the bytes are no such message, nest too deep, or hold too many values.
        """
        self._nodes = 0
        return self._message(self._descriptors.messages[name], Cursor(data, path=path), 0)

    def _message(self, message: Message, cursor: Cursor, depth: int) -> dict[str, Any]:
        if depth > _MAX_DEPTH:
            raise cursor.corrupt(f"protobuf messages nest deeper than {_MAX_DEPTH} levels")
        found: dict[int, list[WireValue]] = {}
        unknown = []
        for number, value in wire_fields(cursor):
            self._count(cursor)
            known = message.fields.get(number)
            if known is None:
                unknown.append({"field": number, "value": _unknown(value)})
                continue
            if known.oneof is not None:
                _clear(message, known, found)
            found.setdefault(number, []).append(value)
        tree = {}
        for number, known in message.fields.items():
            if number in found:
                tree[known.name] = self._field(known, found[number], cursor, depth)
            elif known.is_repeated:
                tree[known.name] = []
            elif not known.has_presence:
                tree[known.name] = self._default(known)
        return tree | ({_UNKNOWN: unknown} if unknown else {})

    def _field(self, field: Field, values: list[WireValue], cursor: Cursor, depth: int) -> Any:
        if field.type in (FieldType.MESSAGE, FieldType.GROUP):
            return self._messages(field, values, cursor, depth)
        scalars = [scalar for value in values for scalar in self._scalars(field, value, cursor)]
        if not field.is_repeated and not scalars:
            raise cursor.corrupt(f"expected a value of the field {field.name}, found none")
        return scalars if field.is_repeated else scalars[-1]

    def _messages(self, field: Field, values: list[WireValue], cursor: Cursor, depth: int) -> Any:
        message = self._descriptors.messages.get(field.type_name)
        chunks = [_bytes(field, value, cursor) for value in values]
        if message is None:
            raise cursor.corrupt(f"expected the descriptor of {field.type_name}, found none")
        if not field.is_repeated:
            # A message that comes several times is merged: that is the same as reading all its bytes in a row.
            whole = chunks[0] if len(chunks) == 1 else memoryview(b"".join(chunks))
            return self._message(message, Cursor(whole, path=cursor.path), depth + 1)
        trees = [self._message(message, Cursor(chunk, path=cursor.path), depth + 1) for chunk in chunks]
        return json_map(self._entry(message, tree) for tree in trees) if message.is_map_entry else trees

    def _entry(self, message: Message, tree: dict[str, Any]) -> tuple[Any, Any]:
        """Return key and value of a map; an absent one has its default, whatever the syntax of the file."""
        key, value = (message.fields.get(number) for number in (1, 2))
        return tuple(  # type: ignore[return-value]  # of two
            None if field is None else tree.get(field.name, self._default(field)) for field in (key, value)
        )

    def _default(self, field: Field) -> Any:
        if field.type is FieldType.ENUM:
            return self._descriptors.enums.get(field.type_name, {}).get(0, 0)
        return {} if field.type is FieldType.MESSAGE else _DEFAULTS[field.type]

    def _scalars(self, field: Field, value: WireValue, cursor: Cursor) -> list[Any]:
        """Return the scalars of one wire value: several where they are packed."""
        if field.type is FieldType.STRING:
            return [_text(_bytes(field, value, cursor), cursor)]
        if field.type is FieldType.BYTES:
            return [json_bytes(bytes(_bytes(field, value, cursor)))]
        if isinstance(value, int):
            return [self._number(field, value)]
        # Readers must accept packed numbers whatever the descriptor says.
        packed = Cursor(value, path=cursor.path)
        width = _WIDTHS.get(field.type)
        numbers = []
        while packed.remaining:
            self._count(packed)
            raw = varint(packed) if width is None else int.from_bytes(packed.read(width), "little")
            numbers.append(self._number(field, raw))
        return numbers

    def _number(self, field: Field, raw: int) -> Any:
        if field.type is FieldType.ENUM:
            number = signed(raw, 32)
            return self._descriptors.enums.get(field.type_name, {}).get(number, number)
        return _NUMBERS[field.type](raw)

    def _count(self, cursor: Cursor) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise cursor.corrupt(f"expected a protobuf message of at most {MAX_NODES} values")


@dataclass(frozen=True)
class ProtobufSerializer(Serializer):
    """A `byte[]` that holds a message of the type `message`."""

    message: str
    descriptors: Descriptors

    java_class = "org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer"

    name = "Protobuf<{self.message}>"

    @property
    def serializer_name(self) -> str:
        return "BytePrimitiveArraySerializer"

    @property
    def layout(self) -> JsonLayout:
        return JsonLayout(self._tree)

    def _tree(self, cursor: Cursor) -> dict[str, Any]:
        message = cursor.read(cursor.i4(), "protobuf message")
        return ProtobufReader(self.descriptors).tree(self.message, message)

    # The descriptors hold dicts.
    def __hash__(self) -> int:
        return hash(self.message)


def _clear(message: Message, known: Field, found: dict[int, list[WireValue]]) -> None:
    """Forget the other fields of the same oneof: the last one in the bytes counts."""
    for number, other in message.fields.items():
        if other.oneof == known.oneof and number != known.number:
            found.pop(number, None)


def _unknown(value: WireValue) -> Any:
    return value if isinstance(value, int) else json_bytes(bytes(value))


def _bytes(field: Field, value: WireValue, cursor: Cursor) -> memoryview:
    if isinstance(value, int):
        raise cursor.corrupt(f"expected bytes of the field {field.name}, found a number")
    return value


def _text(data: memoryview, cursor: Cursor) -> str:
    try:
        return clean_text(bytes(data).decode())
    except UnicodeDecodeError as error:
        raise cursor.corrupt("expected UTF-8 in a protobuf string") from error


def _zigzag(raw: int) -> int:
    return raw >> 1 ^ -(raw & 1)


def _double(raw: int) -> float | str:
    return json_float(struct.unpack("<d", struct.pack("<Q", raw))[0])


def _float(raw: int) -> float | str:
    return json_float(struct.unpack("<f", struct.pack("<I", raw & 0xFFFFFFFF))[0])


_DEFAULTS = defaults()
_WIDTHS = {
    FieldType.DOUBLE: 8, FieldType.FIXED64: 8, FieldType.SFIXED64: 8, FieldType.FLOAT: 4,
    FieldType.FIXED32: 4, FieldType.SFIXED32: 4,
}  # fmt: skip
_NUMBERS: dict[FieldType, Callable[[int], Any]] = {
    FieldType.DOUBLE: _double,
    FieldType.FLOAT: _float,
    FieldType.INT64: lambda raw: signed(raw, 64),
    FieldType.UINT64: lambda raw: raw,
    FieldType.INT32: lambda raw: signed(raw, 32),
    FieldType.FIXED64: lambda raw: raw,
    FieldType.FIXED32: lambda raw: raw & 0xFFFFFFFF,
    FieldType.BOOL: bool,
    FieldType.UINT32: lambda raw: raw & 0xFFFFFFFF,
    FieldType.SFIXED32: lambda raw: signed(raw, 32),
    FieldType.SFIXED64: lambda raw: signed(raw, 64),
    FieldType.SINT32: lambda raw: _zigzag(raw & 0xFFFFFFFF),
    FieldType.SINT64: _zigzag,
}
