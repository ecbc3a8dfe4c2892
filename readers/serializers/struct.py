"""`StructSerializer`: values whose fields stand one after the other. They declare their fields; the rest is here.

A layout is what a program needs of one value: the type of its column and the instructions that read its bytes. Every
serializer is a layout. The others are for the fields of a value that have no serializer of their own in Flink:

| layout | bytes | column |
|---|---|---|
| `ScalarLayout`: INT, LONG, STRING … | those of one instruction | as declared |
| `JsonLayout` | those that a function reads | JSON text |
| `StructLayout` | the fields, in order, without flags | struct |
| `ListLayout` | i4 n, n × element | list |
| `OptionalLayout` | bool is present, value | that of the value |
| `AbsentLayout` | – | that of the value, always null |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa

from readers.cursor import Cursor
from readers.decode.program import Program
from readers.serializers.base import Layout, Serializer
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
    """A serializer that writes its fields in order: a subclass declares `layout`.

    Attributes:
        name: the type as a Flink user writes it, without its parameters.
    """

    __slots__ = ()

    name: ClassVar[str]

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
