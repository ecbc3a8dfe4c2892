"""Avro records: `org.apache.flink.formats.avro.typeutils.AvroSerializer`.

The snapshot carries the writer's schema: version 1 `utf schema`, 2 (1.8) `utf class, utf schema`, 3 (since 1.12)
both as `StringValue` strings. The values follow the schema in Avro's order but not in Avro's encoding
(`DataOutputEncoder`):

| Avro | bytes | column |
|---|---|---|
| null, boolean | –, one byte | bool |
| int long float double | 4 8 4 8 | ints and floats; date32, timestamp for these logical types |
| string, bytes | i4 length, UTF-8 or bytes | string, binary; decimal128 for the logical type up to 38 digits |
| enum | i4 index | string |
| fixed | the bytes | binary; decimal128 likewise |
| array, map | varint n, n items, … until n is 0 | list, map |
| record | its fields | struct |
| union | i4 branch, its value | with null: the other branch; else a struct of the branches, all but one null |

A record that contains itself has no finite column type: where it recurs it is JSON text, read in Python. Times of day
stay numbers.
"""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from readers.cursor import Cursor
from readers.decode.program import Program, PythonLeaf
from readers.errors import CorruptDataError
from readers.serializers.base import OpaqueSerializer, Serializer, Snapshot, SnapshotBody
from readers.serializers.jsontree import MAX_NODES, json_bytes, json_float, json_map, json_text
from readers.serializers.structs import StructLayout

_F4 = struct.Struct(">f")
_F8 = struct.Struct(">d")
_MAX_DEPTH = 48
_MAX_COLUMNS = 4096  # a named type may be used twice at each of many levels; a wider type is JSON text
_MAX_DECIMAL_DIGITS = 38
_MAX_FIXED_BYTES = 1 << 24  # a schema can state any size


class AvroCursor(Cursor):
    """Reads Flink's Avro encoding and counts the values in it, because empty ones take no bytes."""

    __slots__ = ("nodes",)

    def __init__(self, data: memoryview, *, position: int, end: int) -> None:
        super().__init__(data, position=position, end=end)
        self.nodes = 0

    def f4(self) -> float:
        """Read a float."""
        return float(_F4.unpack(self.read(4))[0])

    def f8(self) -> float:
        """Read a double."""
        return float(_F8.unpack(self.read(8))[0])

    def blocks(self) -> Iterator[int]:
        """Yield the indexes of the items of an array or map, block by block."""
        while (count := self.varint("block count")) != 0:
            for index in range(count):
                self.nodes += 1
                if self.nodes > MAX_NODES:
                    raise self.corrupt(f"expected at most {MAX_NODES} Avro items in one value")
                yield index


class AvroType(ABC):
    """A node of the schema: its column, its layout, and its reader in Python for types that recur."""

    name: str

    @abstractmethod
    def arrow(self) -> pa.DataType:
        """Return the column type."""

    @abstractmethod
    def emit(self, program: Program) -> None:
        """Declare the layout of one value."""

    @abstractmethod
    def read(self, cursor: AvroCursor, depth: int) -> Any:
        """Read one value as a JSON tree."""

    def columns(self) -> int:
        """Return the number of columns of the type, nested ones included."""
        return 1


@dataclass(frozen=True)
class AvroPrimitive(AvroType):
    name: str
    arrow_type: pa.DataType

    def arrow(self) -> pa.DataType:
        return self.arrow_type

    def emit(self, program: Program) -> None:
        _EMIT[self.name](program)

    def read(self, cursor: AvroCursor, depth: int) -> Any:
        return _READ[self.name](cursor)


@dataclass(frozen=True)
class AvroDecimal(AvroType):
    """A decimal in a `fixed` of `length` bytes; in `bytes` if that is 0."""

    name: str
    length: int
    precision: int
    scale: int

    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)

    def emit(self, program: Program) -> None:
        program.decimal(self.precision, self.length)

    def read(self, cursor: AvroCursor, depth: int) -> Any:
        raw = bytes(cursor.read(self.length)) if self.length else cursor.blob("decimal")
        # With zeros in front, so that a digit stands before the point.
        digits = f"{abs(unscaled := int.from_bytes(raw, 'big', signed=True)):0{self.scale + 1}d}"
        whole = digits[: len(digits) - self.scale]
        sign = "-" if unscaled < 0 else ""
        return f"{sign}{whole}.{digits[len(whole) :]}" if self.scale else f"{sign}{whole}"


@dataclass(frozen=True)
class AvroEnum(AvroType):
    name: str
    symbols: tuple[str, ...]

    def arrow(self) -> pa.DataType:
        return pa.string()

    def emit(self, program: Program) -> None:
        program.enum(list(self.symbols))

    def read(self, cursor: AvroCursor, depth: int) -> Any:
        return self.symbols[_index(cursor, len(self.symbols))]


@dataclass(frozen=True)
class AvroFixed(AvroType):
    name: str
    length: int

    def arrow(self) -> pa.DataType:
        return pa.binary()

    def emit(self, program: Program) -> None:
        program.raw_bytes(self.length)

    def read(self, cursor: AvroCursor, depth: int) -> Any:
        return json_bytes(bytes(cursor.read(self.length)))


@dataclass(frozen=True)
class AvroArray(AvroType):
    items: AvroType

    name = "array"

    def arrow(self) -> pa.DataType:
        return pa.list_(self.items.arrow())

    def emit(self, program: Program) -> None:
        with program.blocks():
            self.items.emit(program)

    def read(self, cursor: AvroCursor, depth: int) -> Any:
        return [self.items.read(cursor, depth + 1) for _ in cursor.blocks()]

    def columns(self) -> int:
        return 1 + self.items.columns()


@dataclass(frozen=True)
class AvroMap(AvroType):
    values: AvroType

    name = "map"

    def arrow(self) -> pa.DataType:
        return pa.map_(pa.string(), self.values.arrow())

    def emit(self, program: Program) -> None:
        with program.blocks():
            program.struct()
            with program.field(0, "key"):
                program.text()
            with program.field(1, "value"):
                self.values.emit(program)

    def read(self, cursor: AvroCursor, depth: int) -> Any:
        return json_map((_text(cursor), self.values.read(cursor, depth + 1)) for _ in cursor.blocks())

    def columns(self) -> int:
        return 3 + self.values.columns()


@dataclass(frozen=True)
class AvroRecord(AvroType):
    name: str
    fields: tuple[tuple[str, AvroType], ...]

    def arrow(self) -> pa.DataType:
        return StructLayout(*self.fields).arrow()

    def emit(self, program: Program) -> None:
        StructLayout(*self.fields).emit(program)

    def read(self, cursor: AvroCursor, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise cursor.corrupt(f"Avro records nest deeper than {_MAX_DEPTH} levels")
        return {name: kind.read(cursor, depth + 1) for name, kind in self.fields}

    def columns(self) -> int:
        return 1 + sum(kind.columns() for _, kind in self.fields)


@dataclass(frozen=True)
class AvroUnion(AvroType):
    branches: tuple[AvroType, ...]

    name = "union"

    @property
    def _values(self) -> list[AvroType]:
        return [branch for branch in self.branches if branch.name != "null"]

    @property
    def _layout(self) -> StructLayout:
        return StructLayout(*((branch.name, branch) for branch in self._values))

    def arrow(self) -> pa.DataType:
        if not self._values:
            return pa.bool_()
        if len(self._values) == 1:
            return self._values[0].arrow()
        return self._layout.arrow()

    def emit(self, program: Program) -> None:
        cases = program.switch_i4(len(self.branches))
        for index, branch in enumerate(self.branches):
            with cases.case(index):
                if branch.name == "null":
                    program.null()
                elif len(self._values) == 1:
                    branch.emit(program)
                else:
                    nulls = sum(earlier.name == "null" for earlier in self.branches[:index])
                    self._layout.emit_one(program, index - nulls)
        cases.end()

    def read(self, cursor: AvroCursor, depth: int) -> Any:
        branch = self.branches[_index(cursor, len(self.branches))]
        value = branch.read(cursor, depth + 1)
        return value if len(self._values) <= 1 or branch.name == "null" else {branch.name: value}

    def columns(self) -> int:
        return 1 + sum(branch.columns() for branch in self._values)


@dataclass(frozen=True)
class AvroReference(AvroType):
    """A named type inside itself (or a type too wide to be repeated): JSON text."""

    name: str
    names: dict[str, AvroType] = field(compare=False, repr=False)

    def arrow(self) -> pa.DataType:
        return pa.string()

    def emit(self, program: Program) -> None:
        program.python(AvroLeaf(self))

    def read(self, cursor: AvroCursor, depth: int) -> Any:
        return self.names[self.name].read(cursor, depth)


class AvroLeaf:
    """Reads one value of `kind` as JSON text."""

    def __init__(self, kind: AvroType) -> None:
        self.kind = kind

    def read(self, data: memoryview, position: int, limit: int) -> tuple[bytes | None, int]:
        cursor = AvroCursor(data, position=position, end=limit)
        return json_text(self.kind.read(cursor, 0)), cursor.position

    def last(self) -> PythonLeaf:
        return self


@dataclass(frozen=True)
class AvroSerializer(Serializer, package="org.apache.flink.formats.avro.typeutils."):
    """An Avro record; `schema` is the JSON text, `kind` the type that it describes."""

    schema: str
    runtime_class: str
    # Equal texts describe equal types, and a type that recurs has no end to compare.
    kind: AvroType = field(compare=False, repr=False)

    name = "Avro<{self.kind.name}>"

    @property
    def serializer_name(self) -> str:
        return f"AvroSerializer<{self.kind.name}>"

    def arrow(self) -> pa.DataType:
        return self.kind.arrow()

    def emit(self, program: Program) -> None:
        self.kind.emit(program)


class _Schema:
    """Reads one schema: `names` holds the named types that are complete, `open` those around the current one."""

    def __init__(self) -> None:
        self.names: dict[str, AvroType] = {}
        self.open: set[str] = set()

    def kind(self, schema: Any, namespace: str, depth: int = 0) -> AvroType:
        if depth > _MAX_DEPTH:
            raise CorruptDataError(f"Avro schemas nest deeper than {_MAX_DEPTH} levels")
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return AvroUnion(tuple(self.kind(branch, namespace, depth + 1) for branch in schema))
        if not isinstance(schema, dict) or "type" not in schema:
            raise CorruptDataError(f"expected an Avro schema, found {str(schema)[:100]}")
        if schema["type"] == "array":
            return AvroArray(self.kind(schema.get("items"), namespace, depth + 1))
        if schema["type"] == "map":
            return AvroMap(self.kind(schema.get("values"), namespace, depth + 1))
        if schema["type"] in ("record", "error", "enum", "fixed"):
            return self._definition(schema, namespace, depth)
        if isinstance(schema["type"], str) and schema["type"] in PRIMITIVES:
            return _logical(schema, schema["type"], 0) or AvroPrimitive(
                schema["type"], PRIMITIVES[schema["type"]]
            )
        return self.kind(schema["type"], namespace, depth + 1)

    def _named(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroPrimitive(name, PRIMITIVES[name])
        full_name = _full_name(name, namespace)
        if full_name in self.open:
            return AvroReference(full_name, self.names)
        known = self.names.get(full_name) or self.names.get(name)
        if known is None:
            raise CorruptDataError(f"expected a known Avro type, found {full_name}")
        return known

    def _definition(self, schema: dict[str, Any], namespace: str, depth: int) -> AvroType:
        name = _full_name(_member(schema, "name", str), schema.get("namespace") or namespace)
        if name in self.names or name in self.open:
            raise CorruptDataError(f"expected one Avro type {name}, found two")
        if schema["type"] == "enum":
            kind: AvroType = AvroEnum(name, tuple(str(symbol) for symbol in _member(schema, "symbols", list)))
        elif schema["type"] == "fixed":
            length = _member(schema, "size", int)
            if not 0 <= length <= _MAX_FIXED_BYTES:
                raise CorruptDataError(f"expected a size of the Avro fixed {name}, found {length}")
            kind = _logical(schema, "fixed", length) or AvroFixed(name, length)
        else:
            self.open.add(name)
            kind = AvroRecord(name, tuple(self._fields(schema, name.rpartition(".")[0], depth)))
            self.open.discard(name)
        self.names[name] = kind
        # Avro's own limit is none: types that refer to each other twice double their columns at each level.
        return kind if kind.columns() <= _MAX_COLUMNS else AvroReference(name, self.names)

    def _fields(self, schema: dict[str, Any], namespace: str, depth: int) -> Iterator[tuple[str, AvroType]]:
        columns = 0
        for member in _member(schema, "fields", list):
            if not isinstance(member, dict):
                raise CorruptDataError(f"expected an Avro field, found {str(member)[:100]}")
            kind = self.kind(member.get("type"), namespace, depth + 1)
            # A record of many wide fields is wide too, though each field alone is not.
            columns += kind.columns()
            if columns > _MAX_COLUMNS and kind.name in self.names:
                kind = AvroReference(kind.name, self.names)
            yield _member(member, "name", str), kind


def read_schema(schema: str) -> AvroType:
    """Return the type that a schema describes.

    Raises:
        CorruptDataError: not an Avro schema.
    """
    try:
        return _Schema().kind(json.loads(schema), "")
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"expected an Avro schema, found text that is no JSON: {error}") from error


def _logical(schema: dict[str, Any], base: str, length: int) -> AvroType | None:
    """Return the type that a logical type stands for; None where it adds nothing, as Avro ignores invalid ones."""
    logical = schema.get("logicalType")
    if logical == "decimal" and base in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or (base == "fixed" and length == 0):
            return None
        fits = 0 <= scale <= precision <= _MAX_DECIMAL_DIGITS and precision > 0
        return AvroDecimal(base, length, precision, scale) if fits else None
    arrow_type = _LOGICAL.get((base, logical)) if isinstance(logical, str) else None
    return AvroPrimitive(base, arrow_type) if arrow_type is not None else None


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _member(schema: dict[str, Any], name: str, kind: type) -> Any:
    value = schema.get(name)
    if not isinstance(value, kind):
        raise CorruptDataError(f"expected {name} in an Avro schema, found {str(value)[:100]}")
    return value


def _index(cursor: AvroCursor, count: int) -> int:
    start = cursor.position
    index = cursor.i4()
    if not 0 <= index < count:
        raise cursor.corrupt(f"expected an Avro index below {count}, found {index}", start)
    return index


def _text(cursor: AvroCursor) -> str:
    return cursor.blob("Avro text").decode("utf-8", "replace")


def _avro(snapshot: Snapshot) -> Serializer:
    cursor = snapshot.cursor
    # `writeUTF` holds at most 65,535 bytes, which schemas exceed; version 3 has no such limit.
    if snapshot.version >= 3:
        runtime_class, schema = cursor.string("runtime class") or "", cursor.string("Avro schema") or ""
    else:
        runtime_class = cursor.utf("runtime class") if snapshot.version == 2 else ""
        schema = cursor.utf("Avro schema")
    # A schema that does not parse leaves the rest of the savepoint readable.
    try:
        return AvroSerializer(schema, runtime_class, read_schema(schema))
    except CorruptDataError as error:
        return OpaqueSerializer(AvroSerializer.java_class, error.message)


PRIMITIVES: dict[str, pa.DataType] = {
    "null": pa.bool_(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "bytes": pa.binary(),
}  # fmt: skip

# The base type and the logical type on it.
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms"),
    ("long", "timestamp-micros"): pa.timestamp("us"),
    ("long", "timestamp-nanos"): pa.timestamp("ns"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}

_EMIT: dict[str, Callable[[Program], None]] = {
    "null": Program.null, "boolean": Program.boolean, "int": lambda program: program.fixed(4),
    "long": lambda program: program.fixed(8), "float": lambda program: program.fixed(4),
    "double": lambda program: program.fixed(8), "string": Program.text, "bytes": Program.blob,
}  # fmt: skip

_READ: dict[str, Callable[[AvroCursor], Any]] = {
    "null": lambda _cursor: None,
    "boolean": AvroCursor.boolean,
    "int": AvroCursor.i4,
    "long": AvroCursor.i8,
    "float": lambda cursor: json_float(cursor.f4()),
    "double": lambda cursor: json_float(cursor.f8()),
    "string": _text,
    "bytes": lambda cursor: json_bytes(cursor.blob("Avro bytes")),
}

_AVRO = "org.apache.flink.formats.avro.typeutils."

SNAPSHOTS: dict[str, SnapshotBody] = {
    _AVRO + "AvroSerializerSnapshot": _avro,
    _AVRO + "AvroSerializer$AvroSchemaSerializerConfigSnapshot": _avro,
}
