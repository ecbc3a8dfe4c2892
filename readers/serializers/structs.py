"""Values whose fields stand one after the other: `StructSerializer`, its layouts, tuples and rows.

A serializer declares its fields; the rest is here. A layout is what a program needs of one value: the type of its column and the
instructions that read its bytes. Every serializer is a layout. The others are for the fields of a value that have no serializer of
their own in Flink:

| layout | bytes | column |
|---|---|---|
| `ScalarLayout`: INT, LONG, STRING … | those of one instruction | as declared |
| `JsonLayout` | those that a function reads | JSON text |
| `StructLayout` | the fields, in order, without flags | struct |
| `ListLayout` | i4 n, n × element | list |
| `OptionalLayout` | bool is present, value | that of the value |
| `AbsentLayout` | – | that of the value, always null |

The serializers of package `org.apache.flink.api.java.typeutils.runtime`:

| serializer | snapshot | bytes |
|---|---|---|
| Tuple1…25 | composite 2: utf class; [fields] | the fields, no flags |
| Row | composite 2 (no row kind), 3 (row kind), 4: bool row kind; [fields] | mask, the fields that are not null |
| Either | composite 1: [left, right] | bool is left, value |
| CRow (rows that change, of the SQL planner up to 1.13) | composite 1: [row] | the row, bool is added |

The mask has 2 bits of row kind and a bit a field (1 null), most significant bit first, in whole bytes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from readers.cursor import Cursor
from readers.decode.program import Program
from readers.keygroups import hash_row, hash_tuple
from readers.serializers.base import (
    Layout,
    RecordSerializer,
    Serializer,
    Snapshot,
    SnapshotBody,
    composite_body,
    field_names,
)
from readers.serializers.jsontree import json_text


@dataclass(frozen=True, slots=True)
class ScalarLayout:
    """A value that one instruction reads."""

    arrow_type: pa.DataType
    instruction: Callable[[Program], None]

    def arrow(self) -> pa.DataType:
        return self.arrow_type

    def emit(self, program: Program) -> None:
        self.instruction(program)


@dataclass(slots=True, eq=False)
class JsonLayout:
    """A value that `tree` reads in Python, shown as JSON text; it is the leaf of its program, too."""

    tree: Callable[[Cursor], Any]

    def arrow(self) -> pa.DataType:
        return pa.string()

    def emit(self, program: Program) -> None:
        program.python(self)

    def read(self, data: memoryview, position: int, limit: int) -> tuple[bytes, int]:
        """Return the JSON text of one value, and the position behind it; see `PythonLeaf`."""
        cursor = Cursor(data, position=position, end=limit)
        return json_text(self.tree(cursor)), cursor.position

    def last(self) -> JsonLayout:
        """Return itself: a value ends where its bytes say so."""
        return self


class StructLayout:
    """Named fields, one after the other."""

    __slots__ = ("fields",)  # a new one for each `arrow` and `emit`: it stays small

    def __init__(self, *fields: tuple[str, Layout]) -> None:
        self.fields = fields

    def arrow(self) -> pa.DataType:
        return pa.struct([pa.field(name, layout.arrow()) for name, layout in self.fields])

    def emit(self, program: Program) -> None:
        self.emit_in_order(program, range(len(self.fields)))

    def emit_in_order(self, program: Program, order: Iterable[int]) -> None:
        """Declare a struct whose fields stand in another order in the bytes than in the column."""
        program.struct()
        for index in order:
            name, layout = self.fields[index]
            with program.field(index, name):
                layout.emit(program)

    def emit_one(self, program: Program, present: int) -> None:
        """Declare a struct whose field `present` has a value; the others are null, and have no bytes."""
        program.struct()
        for index, (name, layout) in enumerate(self.fields):
            with program.field(index, name):
                if index == present:
                    layout.emit(program)
                else:
                    program.null()


@dataclass(frozen=True, slots=True)
class ListLayout:
    """A count and that many elements."""

    element: Layout

    def arrow(self) -> pa.DataType:
        return pa.list_(self.element.arrow())

    def emit(self, program: Program) -> None:
        with program.list():
            self.element.emit(program)


@dataclass(frozen=True, slots=True)
class OptionalLayout:
    """A flag, and the value if the flag is set."""

    value: Layout

    def arrow(self) -> pa.DataType:
        return self.value.arrow()

    def emit(self, program: Program) -> None:
        with program.nullable(null_flag=False):
            self.value.emit(program)


@dataclass(frozen=True, slots=True)
class AbsentLayout:
    """A field that other versions of the bytes hold, and these do not."""

    value: Layout

    def arrow(self) -> pa.DataType:
        return self.value.arrow()

    def emit(self, program: Program) -> None:
        program.null()


def number(arrow_type: pa.DataType, width: Literal[1, 2, 4, 8]) -> ScalarLayout:
    """Return the layout of a number of `width` bytes."""
    return ScalarLayout(arrow_type, lambda program: program.fixed(width))


def numbers(arrow_type: pa.DataType, width: Literal[1, 2, 4, 8]) -> ScalarLayout:
    """Return the layout of an array of numbers, which is copied in bulk."""
    return ScalarLayout(pa.list_(arrow_type), lambda program: program.primitives(width))


BOOLEAN, CHAR = ScalarLayout(pa.bool_(), Program.boolean), ScalarLayout(pa.string(), Program.char)
BYTE, SHORT, INT, LONG = (
    number(pa.int8(), 1),
    number(pa.int16(), 2),
    number(pa.int32(), 4),
    number(pa.int64(), 8),
)
FLOAT, DOUBLE, MILLISECONDS = number(pa.float32(), 4), number(pa.float64(), 8), number(pa.timestamp("ms"), 8)
# Timers sort by their bytes, so Flink inverts the sign bit.
SORTED_MILLISECONDS = ScalarLayout(pa.timestamp("ms"), Program.flipped)
STRING, UTF = ScalarLayout(pa.string(), Program.string), ScalarLayout(pa.string(), Program.utf)
TEXT, BLOB = ScalarLayout(pa.string(), Program.text), ScalarLayout(pa.binary(), Program.blob)
INTS = numbers(pa.int32(), 4)


class StructSerializer(Serializer):
    """A serializer that writes its fields in order: a subclass declares `layout`, and its `name` without parameters."""

    __slots__ = ()

    @property
    @abstractmethod
    def layout(self) -> StructLayout:
        """The fields with their names, in the order of the bytes."""

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return tuple((name, field) for name, field in self.layout.fields if isinstance(field, Serializer))

    @property
    def type_name(self) -> str:
        parameters = ", ".join(child.type_name for _, child in self.children)
        return f"{self.name}<{parameters}>" if parameters else self.name


RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
ROW_KIND = "__row_kind"
ROW_KINDS = ["+I", "-U", "+U", "-D"]


@dataclass(frozen=True)
class TupleSerializer(StructSerializer, RecordSerializer, package=RUNTIME):
    """One of `Tuple1` to `Tuple25`."""

    tuple_class: str
    fields: tuple[Serializer, ...]
    names: tuple[str, ...] = ()

    @property
    def layout(self) -> StructLayout:
        return StructLayout(*zip(field_names(self.width, self.names), self.fields, strict=True))

    @property
    def fixed_length(self) -> int:  # type: ignore[override]  # derived here
        lengths = [field.fixed_length for field in self.fields]
        return -1 if any(length < 0 for length in lengths) else sum(lengths)

    @property
    def width(self) -> int:
        return len(self.fields)

    def with_names(self, names: tuple[str, ...]) -> TupleSerializer:
        return replace(self, names=names)

    @property
    def type_name(self) -> str:
        simple_name = self.tuple_class.rsplit(".", 1)[-1]
        return f"{simple_name}<{', '.join(field.type_name for field in self.fields)}>"

    def hash_code(self, value: Any) -> int | None:
        codes = _field_codes(self.children, value)
        # Java counts a null field as 0.
        return None if codes is None else hash_tuple([code or 0 for code in codes])

    def encode(self, value: Any) -> bytes | None:
        if not isinstance(value, dict) or set(value) != {name for name, _ in self.children}:
            return None
        fields = [field.encode(value[name]) for name, field in self.children]
        return None if any(field is None for field in fields) else b"".join(field or b"" for field in fields)


@dataclass(frozen=True)
class RowSerializer(RecordSerializer, package=RUNTIME):
    """A row by position: the names of named rows are not in the savepoint."""

    fields: tuple[Serializer, ...]
    has_row_kind: bool = True
    names: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return len(self.fields)

    def with_names(self, names: tuple[str, ...]) -> RowSerializer:
        return replace(self, names=names)

    @property
    def type_name(self) -> str:
        return f"Row<{', '.join(field.type_name for field in self.fields)}>"

    @property
    def children(self) -> tuple[tuple[str, Serializer], ...]:
        return tuple(zip(field_names(self.width, self.names), self.fields, strict=True))

    def arrow(self) -> pa.DataType:
        fields = [pa.field(name, field.arrow()) for name, field in self.children]
        return pa.struct([*fields, pa.field(ROW_KIND, pa.string())] if self.has_row_kind else fields)

    def emit(self, program: Program) -> None:
        program.struct()
        # Before Flink 1.11 rows had no kind, and so no bits of it.
        kind_bits = 2 if self.has_row_kind else 0
        with program.mask(len(self.fields) + kind_bits):
            if self.has_row_kind:
                with program.field(len(self.fields), ROW_KIND):
                    program.row_kind(ROW_KINDS)
            for index, (name, field) in enumerate(self.children):
                with program.field(index, name), program.unmasked(index + kind_bits):
                    field.emit(program)

    def hash_code(self, value: Any) -> int | None:
        codes = _field_codes(self.children, value)
        if codes is None:
            return None
        kind = ROW_KINDS.index(value[ROW_KIND]) if value.get(ROW_KIND) in ROW_KINDS else 0
        return hash_row(codes, kind)


@dataclass(frozen=True)
class EitherSerializer(StructSerializer, package=RUNTIME):
    """A value of one of two types: a struct with one side null."""

    left: Serializer
    right: Serializer

    name = "Either"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("left", self.left), ("right", self.right))

    def emit(self, program: Program) -> None:
        flags = program.switch({0: "right", 1: "left"})
        for flag, present in ((1, 0), (0, 1)):
            with flags.case(flag):
                self.layout.emit_one(program, present)
        flags.end()

    def hash_code(self, value: Any) -> int | None:
        """Return the hash code of the side that is present."""
        if not isinstance(value, dict) or set(value) != {"left", "right"}:
            return None
        present = [(side, value[name]) for name, side in self.children if value[name] is not None]
        return present[0][0].hash_code(present[0][1]) if len(present) == 1 else None


@dataclass(frozen=True)
class CRowSerializer(StructSerializer, package="org.apache.flink.table.runtime.types."):
    """A row of the SQL planner before 1.14, with a flag: False retracts the row."""

    row: Serializer

    name = "CRow"

    @property
    def layout(self) -> StructLayout:
        return StructLayout(("row", self.row), ("is_added", BOOLEAN))


def _field_codes(children: tuple[tuple[str, Serializer], ...], value: Any) -> list[int | None] | None:
    """Return the hash codes of the fields of a struct value (None: null field); None where one is not known."""
    if not isinstance(value, dict) or not {name for name, _ in children} <= set(value):
        return None
    codes: list[int | None] = []
    for name, field in children:
        code = None if value[name] is None else field.hash_code(value[name])
        if code is None and value[name] is not None:
            return None
        codes.append(code)
    return codes


def _tuple(snapshot: Snapshot) -> Serializer:
    snapshot.composite()
    tuple_class = snapshot.cursor.utf("tuple class")
    return TupleSerializer(tuple_class, snapshot.nested())


def _row(snapshot: Snapshot) -> Serializer:
    version = snapshot.composite()
    has_row_kind = snapshot.cursor.boolean() if version >= 4 else version == 3
    return RowSerializer(snapshot.nested(), has_row_kind)


SNAPSHOTS: dict[str, SnapshotBody] = {
    RUNTIME + "TupleSerializerSnapshot": _tuple,
    RUNTIME + "RowSerializer$RowSerializerSnapshot": _row,
    RUNTIME + "JavaEitherSerializerSnapshot": composite_body(EitherSerializer, 2),
    RUNTIME + "EitherSerializerSnapshot": composite_body(EitherSerializer, 2),
    "org.apache.flink.table.runtime.types.CRowSerializerSnapshot": composite_body(CRowSerializer, 1),
}
