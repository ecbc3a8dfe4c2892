"""Protobuf messages, where their descriptors are given: JSON text.

| written by | bytes |
|---|---|
| Kryo, with chill's `ProtobufSerializer` | varint length, message |
| a `byte[]` that `stateInfo` says is a message | i4 length, message |

A message is an object with the names of the `.proto` file. Repeated fields are arrays, maps arrays of key and value, enums the
names of their constants, bytes base64, NaN and infinities text. A field that proto3 does not write because it has its default is
shown with it; a field with presence that is absent is left out. Fields that the descriptors do not know stand in `@unknown`.

Source: `com.twitter.chill.protobuf.ProtobufSerializer`; protobuf's encoding and its rules for merging.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from readers.cursor import Cursor
from readers.serializers.base import Serializer
from readers.serializers.jsontree import MAX_NODES, clean_text, json_bytes, json_float, json_map
from readers.serializers.protobuf.descriptors import (
    Descriptors,
    Field,
    FieldType,
    Message,
    WireValue,
    defaults,
    signed,
    varint,
    wire_fields,
)
from readers.serializers.struct import JsonLayout

_MAX_DEPTH = 100
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

    @property
    def type_name(self) -> str:
        return f"Protobuf<{self.message}>"

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
    for number, field in message.fields.items():
        if field.oneof == known.oneof and number != known.number:
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
