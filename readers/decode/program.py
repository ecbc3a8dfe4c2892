"""The instructions of the decoding machine, and the builder that serializers emit them with.

An instruction is one row of six int64: `opcode, column, a, b, c, d`; `column` is where it writes, or
`NO_COLUMN` to step over the bytes. The builder walks the Arrow type tree beside the serializer tree:
`program.field(0)`, `program.list()` move the current column, so that a serializer emits its layout without
knowing who asked for it.

| opcode | bytes read | operands |
|---|---|---|
| END EXPECT_END SEGMENT SKIP REST | – / – / – / a / all that is left of the segment | segment a |
| FIXED1 2 4 8, FIXED8_FLIPPED, BOOLEAN | 1 2 4 8 8 1 | FLIPPED: sign bit inverted (timers) |
| STRING UTF BLOB CHAR | varint units / u2 + modified UTF-8 / i4 + bytes / u2 | STRING: a = 1 if the count is units + 1 (0 = null) |
| BIG_INTEGER BIG_DECIMAL | i4 + two's complement (+ i4 scale) | |
| MILLIS TIMESTAMP INSTANT LOCAL_DATE LOCAL_TIME LOCAL_DATE_TIME | 8 12 12 6 7 13 | null patterns of Flink's serializers |
| ENUM CONSTANT | i4 index / – | targets[a:] = (pool offset, length) each, b constants / pool offset a, length b |
| STRUCT NULL | – | |
| NULL_FLAG | 1 (+ b bytes of padding) | a: the flag value that means null; c: where to go on when null |
| LIST … LIST_NEXT | i4 count (a: least bytes an element) | c: behind the list |
| DELIMITED … DELIMITED_NEXT | elements joined by 0x2C up to the segment's end | c: behind the list |
| PRIMITIVES | i4 count, elements of a bytes | |
| SWITCH, CLASS | u1 / utf | targets[a:a+b] = where to go on; CLASS: (pool offset, length, where) |
| MASK MASK_NULL MASK_KIND MASK_END | a bytes / – | RowSerializer's bit mask, most significant bit first; bit a |
| MARK LENGTH_SUFFIX | – / key length, little endian, as many bytes as needed | the ambiguous composite keys of RocksDB |
| PYTHON | what leaf a reads | suspends the machine |
| JUMP | – | c |
| TEXT RAW_BYTES | i4 + UTF-8 / a bytes | |
| SWITCH_I4 | i4 | as SWITCH |
| BLOCKS … BLOCKS_NEXT | varint count, elements, … until 0 (a: least bytes an element) | c: behind the list |
| MASKED_LIST, ELEMENT_MASKED … LIST_NEXT | i4 count, a bit an element, those of bit 0 | c: behind the list; the element |
| DECIMAL | i8, or b bytes, or i4 + bytes of two's complement | a: 1 for i8; c: targets |
| TIMESTAMP_DATA | i8 ms, i4 nanos of the ms | b: nanos a unit |

The binary formats of `org.apache.flink.table.data.binary` are little endian and reached through 8-byte
slots, not in order:

| opcode | bytes | operands |
|---|---|---|
| BINARY, BINARY_SLOT … BINARY_END | i4 size, region / the region of slot a / back to where it began | |
| ROW, ROW_KIND, SLOT_NULL | a bytes must be there / byte 0 as text / null bit a | as ENUM; c: where to go on when null |
| SLOT1 2 4 8 | a number in slot a | SLOT4: b limits it, if not 0 |
| SLOT_TEXT SLOT_BYTES SLOT_DECIMAL SLOT_TIMESTAMP | in slot a, or where it points to | as DECIMAL (b: 1 for i8) and TIMESTAMP_DATA |
| ARRAY, ELEMENT_NULL … ARRAY_NEXT | count, null bits, elements of a bytes | b: 1 in a map; c: behind the array; behind the element |
| BINARY_KEYS BINARY_VALUES MAP_END | the two arrays of a map / – | |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from readers.decode.columns import NO_COLUMN, ColumnTree
from readers.errors import UnsupportedSerializerError

END = 0
EXPECT_END = 1
SEGMENT = 2
SKIP = 3
REST = 4
FIXED1 = 5
FIXED2 = 6
FIXED4 = 7
FIXED8 = 8
FIXED8_FLIPPED = 9
BOOLEAN = 10
STRING = 11
UTF = 12
BLOB = 13
CHAR = 14
BIG_INTEGER = 15
BIG_DECIMAL = 16
MILLIS = 17
TIMESTAMP = 18
INSTANT = 19
LOCAL_DATE = 20
LOCAL_TIME = 21
LOCAL_DATE_TIME = 22
ENUM = 23
CONSTANT = 24
STRUCT = 25
NULL = 26
NULL_FLAG = 27
LIST = 28
LIST_NEXT = 29
DELIMITED = 30
DELIMITED_NEXT = 31
PRIMITIVES = 32
SWITCH = 33
CLASS = 34
MASK = 35
MASK_NULL = 36
MASK_KIND = 37
MASK_END = 38
MARK = 39
LENGTH_SUFFIX = 40
PYTHON = 41
JUMP = 42
TEXT = 43
RAW_BYTES = 44
SWITCH_I4 = 45
BLOCKS = 46
BLOCKS_NEXT = 47
MASKED_LIST = 48
ELEMENT_MASKED = 49
DECIMAL = 50
TIMESTAMP_DATA = 51
BINARY = 52
BINARY_SLOT = 53
BINARY_END = 54
ROW = 55
ROW_KIND = 56
SLOT_NULL = 57
SLOT1 = 58
SLOT2 = 59
SLOT4 = 60
SLOT8 = 61
SLOT_TEXT = 62
SLOT_BYTES = 63
SLOT_DECIMAL = 64
SLOT_TIMESTAMP = 65
ARRAY = 66
ELEMENT_NULL = 67
ARRAY_NEXT = 68
BINARY_KEYS = 69
BINARY_VALUES = 70
MAP_END = 71

OPERANDS = 6
NOWHERE = -1  # a jump target that is an error to reach

_FIXED = {1: FIXED1, 2: FIXED2, 4: FIXED4, 8: FIXED8}
_SLOT = {1: SLOT1, 2: SLOT2, 4: SLOT4, 8: SLOT8}
MAX_COMPACT_PRECISION = 18
_MAX_DEPTH = 64


class PythonLeaf(Protocol):
    """A value that only Python can cut out of the bytes (Kryo objects, Java streams)."""

    def read(self, data: memoryview, position: int, limit: int) -> tuple[bytes | None, int]:
        """The value as bytes for its (string or binary) column, None for null, and the position behind it.

        Raises:
            ReaderError: the bytes contradict the format.
        """
        ...

    def last(self) -> PythonLeaf:
        """This leaf at the end of a segment, where it may take all that is left."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A finished program.

    Attributes:
        instructions: int64, shape (n, 6).
        targets: int64; jump tables and constant tables.
        pool: uint8; constant strings and class names.
        leaves: what PYTHON instructions call.
        paths: the field path of each instruction, for errors.
        depth: how deep lists and masks nest: the size of the machine's stack.
    """

    instructions: NDArray[np.int64]
    targets: NDArray[np.int64]
    pool: NDArray[np.uint8]
    leaves: tuple[PythonLeaf, ...]
    paths: tuple[tuple[str, ...], ...]
    depth: int


class Program:
    """Builds `Code` for one struct of columns.

    Args:
        tree: the columns; the current column is its root, column 0.
        enabled: whether to write at all; False emits a program that only walks.
    """

    def __init__(self, tree: ColumnTree, *, enabled: bool = True) -> None:
        self.tree = tree
        self.column = 0 if enabled else NO_COLUMN
        self._instructions: list[list[int]] = []
        self._targets: list[int] = []
        self._pool = bytearray()
        self._constants: dict[bytes, int] = {}
        self._leaves: list[PythonLeaf] = []
        self._paths: list[tuple[str, ...]] = []
        self._path: tuple[str, ...] = ()
        self._depth = 0
        self._max_depth = 0
        self._minimum = 0  # least bytes that the instructions of the current straight line read

    # ---- leaves ----------------------------------------------------------------------------------------------------

    def fixed(self, width: Literal[1, 2, 4, 8]) -> None:
        """A big-endian number of `width` bytes."""
        self._emit(_FIXED[width], minimum=width)

    def flipped(self) -> None:
        """An i8 whose sign bit is inverted, so that bytes sort like numbers."""
        self._emit(FIXED8_FLIPPED, minimum=8)

    def boolean(self) -> None:
        """One byte, 0 or 1."""
        self._emit(BOOLEAN, minimum=1)

    def string(self, *, nullable: bool = True) -> None:
        """`StringValue#writeString` (nullable: the count is units + 1, 0 is null), or `StringValue#write`."""
        self._emit(STRING, int(nullable), minimum=1)

    def utf(self) -> None:
        """`DataOutput#writeUTF`."""
        self._emit(UTF, minimum=2)

    def blob(self) -> None:
        """i4 length and bytes."""
        self._emit(BLOB, minimum=4)

    def char(self) -> None:
        """One UTF-16 unit."""
        self._emit(CHAR, minimum=2)

    def big_integer(self) -> None:
        """`BigIntSerializer`, as decimal text."""
        self._emit(BIG_INTEGER, minimum=4)

    def big_decimal(self) -> None:
        """`BigDecSerializer`, as decimal text (`BigDecimal#toPlainString`)."""
        self._emit(BIG_DECIMAL, minimum=4)

    def millis(self) -> None:
        """i8 milliseconds, the smallest for null: `DateSerializer`, `SqlDateSerializer`, `SqlTimeSerializer`."""
        self._emit(MILLIS, minimum=8)

    def timestamp(self) -> None:
        """`SqlTimestampSerializer`, as nanoseconds."""
        self._emit(TIMESTAMP, minimum=12)

    def instant(self) -> None:
        """`InstantSerializer`, as nanoseconds."""
        self._emit(INSTANT, minimum=12)

    def local_date(self) -> None:
        """`LocalDateSerializer`, as days."""
        self._emit(LOCAL_DATE, minimum=6)

    def local_time(self) -> None:
        """`LocalTimeSerializer`, as nanoseconds of the day."""
        self._emit(LOCAL_TIME, minimum=7)

    def local_date_time(self) -> None:
        """`LocalDateTimeSerializer`, as nanoseconds."""
        self._emit(LOCAL_DATE_TIME, minimum=13)

    def primitives(self, width: Literal[1, 2, 4, 8]) -> None:
        """i4 count and that many big-endian numbers, into a list column."""
        self._emit(PRIMITIVES, width, minimum=4)

    def enum(self, constants: Sequence[str]) -> None:
        """i4 index into `constants`, as text."""
        start = len(self._targets)
        for constant in constants:
            self._targets += self._constant(constant)
        self._emit(ENUM, start, len(constants), minimum=4)

    def constant(self, text: str) -> None:
        """No bytes; `text` is the value."""
        self._emit(CONSTANT, *self._constant(text))

    def null(self) -> None:
        """No bytes; the value (with all that is below it) is null."""
        if self.column != NO_COLUMN:
            self._emit(NULL)

    def struct(self) -> None:
        """No bytes; the current struct column has a value. Its fields follow, each by `field`."""
        if self.column != NO_COLUMN:
            self._emit(STRUCT)

    def skip(self, length: int) -> None:
        """`length` bytes that no column shows."""
        self._emit(SKIP, length, minimum=length)

    def rest(self) -> None:
        """All that is left of the segment, as bytes."""
        self._emit(REST)

    def python(self, leaf: PythonLeaf) -> None:
        """A value that `leaf` reads."""
        self._leaves.append(leaf)
        self._emit(PYTHON, len(self._leaves) - 1, minimum=1)

    def text(self) -> None:
        """i4 length and UTF-8; bytes that are none become U+FFFD, as Java decodes them."""
        self._emit(TEXT, minimum=4)

    def raw_bytes(self, length: int) -> None:
        """`length` bytes, as they are."""
        self._emit(RAW_BYTES, length, minimum=length)

    def compact_decimal(self, precision: int) -> None:
        """An unscaled i8."""
        self._emit(DECIMAL, 1, 0, self._decimal_bound(precision), minimum=8)

    def decimal(self, precision: int, length: int = 0) -> None:
        """The unscaled two's complement, `length` bytes of it; behind an i4 length if that is 0."""
        self._emit(DECIMAL, 0, length, self._decimal_bound(precision), minimum=length or 5)

    def timestamp_data(self, nanos_a_unit: int) -> None:
        """`TimestampDataSerializer` above precision 3: i8 ms, i4 nanos of the ms."""
        self._emit(TIMESTAMP_DATA, 0, nanos_a_unit, minimum=12)

    # ---- slots of a binary row, elements of a binary array ---------------------------------------------------------

    def slot(self, offset: int, width: Literal[1, 2, 4, 8], bound: int = 0) -> None:
        """A little-endian number in the slot at `offset`, from 0 to below `bound` if that is not 0."""
        self._emit(_SLOT[width], offset, bound)

    def slot_text(self, offset: int) -> None:
        """UTF-8, in the slot or where it points to."""
        self._emit(SLOT_TEXT, offset)

    def slot_bytes(self, offset: int) -> None:
        """Bytes, in the slot or where it points to."""
        self._emit(SLOT_BYTES, offset)

    def slot_decimal(self, offset: int, precision: int) -> None:
        """An i8 in the slot, or big-endian two's complement where it points to."""
        compact = precision <= MAX_COMPACT_PRECISION
        self._emit(SLOT_DECIMAL, offset, int(compact), self._decimal_bound(precision))

    def slot_timestamp(self, offset: int, nanos_a_unit: int) -> None:
        """i8 ms where the slot points to, nanos of the ms in the slot."""
        self._emit(SLOT_TIMESTAMP, offset, nanos_a_unit)

    # ---- structure -------------------------------------------------------------------------------------------------

    def segment(self, number: int) -> None:
        """Go on with segment `number` of the entry."""
        self._emit(SEGMENT, number)

    def expect_end(self) -> None:
        """The segment must be used up."""
        self._emit(EXPECT_END)

    def mark(self) -> None:
        """The key begins here."""
        self._emit(MARK)

    def length_suffix(self) -> None:
        """The length of what was read since `mark` (or the last suffix), as ambiguous composite keys carry it."""
        self._emit(LENGTH_SUFFIX, minimum=1)

    @contextmanager
    def field(self, index: int, name: str | None = None) -> Iterator[None]:
        """Child `index` of the current struct column."""
        with self._child(index, name or self._field_name(index)):
            yield

    @contextmanager
    def without_column(self) -> Iterator[None]:
        """What follows is read but not shown."""
        outer, self.column = self.column, NO_COLUMN
        yield
        self.column = outer

    @contextmanager
    def nullable(self, *, null_flag: bool, padding: int = 0) -> Iterator[None]:
        """A flag byte, `null_flag` for null (then `padding` bytes); else the value that is emitted inside."""
        flag = self._emit(NULL_FLAG, int(null_flag), padding)
        outer, self._minimum = self._minimum, 0
        yield
        self._minimum = outer + 1 + min(padding, self._minimum)
        self._land(flag)

    @contextmanager
    def nullable_field(self, index: int | None, name: str) -> Iterator[None]:
        """A field behind a null flag; read but not shown where `index` is None."""
        if index is None:
            with self.without_column(), self.nullable(null_flag=True):
                yield
        else:
            with self.field(index, name), self.nullable(null_flag=True):
                yield

    @contextmanager
    def list(self) -> Iterator[None]:
        """i4 count, then the elements: emit one inside. The current column is a list or a map."""
        start = self._emit(LIST)
        self._enter()
        outer, self._minimum = self._minimum, 0
        with self._child(0, "[]"):
            yield
        self._instructions[start][2] = self._minimum
        self._minimum = outer + 4
        self._leave()
        self._emit(LIST_NEXT)
        self._land(start)

    @contextmanager
    def delimited(self) -> Iterator[None]:
        """Elements joined by 0x2C up to the end of the segment (`ListDelimitedSerializer`): emit one inside."""
        start = self._emit(DELIMITED)
        self._enter()
        outer = self._minimum
        with self._child(0, "[]"):
            yield
        self._minimum = outer
        self._leave()
        self._emit(DELIMITED_NEXT)
        self._land(start)

    @contextmanager
    def mask(self, bits: int) -> Iterator[None]:
        """`bits` mask bits in whole bytes, most significant first (`RowSerializer`, `MaskUtils#writeMask`)."""
        self._emit(MASK, (bits + 7) // 8, minimum=(bits + 7) // 8)
        self._enter()
        yield
        self._leave()
        self._emit(MASK_END)

    @contextmanager
    def unmasked(self, bit: int) -> Iterator[None]:
        """Null if mask bit `bit` is set, else the value that is emitted inside."""
        test = self._emit(MASK_NULL, bit)
        outer = self._minimum
        yield
        self._minimum = outer
        self._land(test)

    def row_kind(self, names: Sequence[str]) -> None:
        """Mask bits 0 and 1 as one of four names (bit 0 + 2 · bit 1)."""
        start = len(self._targets)
        for name in names:
            self._targets += self._constant(name)
        self._emit(MASK_KIND, start, len(names))

    def switch(self, cases: dict[int, str]) -> Switch:
        """A byte decides; see `Switch`. `cases` names the values that are allowed."""
        size = max(cases) + 1
        start = len(self._targets)
        self._targets += [NOWHERE] * size
        self._emit(SWITCH, start, size, minimum=1)
        return Switch(self, {value: start + value for value in cases})

    def class_switch(self, names: Sequence[str]) -> Switch:
        """A class name (`writeUTF`) decides; the cases are the indexes of `names`."""
        start = len(self._targets)
        for name in names:
            self._targets += [*self._constant(name), NOWHERE]
        self._emit(CLASS, start, len(names), minimum=2)
        return Switch(self, {index: start + 3 * index + 2 for index in range(len(names))})

    def switch_i4(self, cases: int) -> Switch:
        """An i4 from 0 to below `cases` decides; see `Switch`."""
        start = len(self._targets)
        self._targets += [NOWHERE] * cases
        self._emit(SWITCH_I4, start, cases, minimum=4)
        return Switch(self, {value: start + value for value in range(cases)})

    @contextmanager
    def blocks(self) -> Iterator[None]:
        """Avro's blocks in Flink's encoding: varint count, elements, …, 0. The current column is a list or a map."""
        start = self._emit(BLOCKS)
        self._enter()
        outer, self._minimum = self._minimum, 0
        with self._child(0, "[]"):
            yield
        least, self._minimum = self._minimum, outer + 1
        self._instructions[start][2] = least
        self._leave()
        self._instructions[self._emit(BLOCKS_NEXT)][2] = least
        self._land(start)

    @contextmanager
    def masked_list(self) -> Iterator[None]:
        """i4 count, a bit an element (1 null, most significant first), the elements that are not null."""
        start = self._emit(MASKED_LIST)
        self._enter()
        outer = self._minimum
        with self._child(0, "[]"):
            test = self._emit(ELEMENT_MASKED)
            yield
            self._land(test)
        self._minimum = outer + 4
        self._leave()
        self._emit(LIST_NEXT)
        self._land(start)

    @contextmanager
    def binary(self) -> Iterator[None]:
        """i4 size and a region of that size, which is laid out inside."""
        with self._region(BINARY):
            yield
        self._minimum += 4

    @contextmanager
    def binary_slot(self, offset: int) -> Iterator[None]:
        """The region that the slot at `offset` points to."""
        with self._region(BINARY_SLOT, offset):
            yield

    def row(self, size: int) -> None:
        """The region is a row whose header and slots have `size` bytes."""
        self._emit(ROW, size)

    def binary_row_kind(self, names: Sequence[str]) -> None:
        """The first byte of the row as one of `names`."""
        start = len(self._targets)
        for name in names:
            self._targets += self._constant(name)
        self._emit(ROW_KIND, start, len(names))

    @contextmanager
    def slot_nullable(self, bit: int) -> Iterator[None]:
        """Null if null bit `bit` of the row is set, else what is emitted inside."""
        test = self._emit(SLOT_NULL, bit)
        yield
        self._land(test)

    @contextmanager
    def binary_array(self, width: int) -> Iterator[None]:
        """The region is an array of slots of `width` bytes: emit one at offset 0. The current column is a list."""
        with self._elements(width, in_map=False), self._child(0, "[]"):
            test = self._emit(ELEMENT_NULL)
            yield
            self._land(test)

    @contextmanager
    def binary_map_keys(self, width: int) -> Iterator[None]:
        """The region is a map: its keys. The current column is a map; see `outliers` for null keys."""
        with (
            self._region(BINARY_KEYS),
            self._elements(width, in_map=True),
            self._child(0, "{}"),
            self.field(0, "key"),
        ):
            test = self._emit(ELEMENT_NULL, 0, 1)
            yield
            self._land(test)

    @contextmanager
    def binary_map_values(self, width: int) -> Iterator[None]:
        """The map's values, behind its keys."""
        with (
            self._region(BINARY_VALUES),
            self._elements(width, in_map=True),
            self._child(0, "{}"),
            self.field(1, "value"),
        ):
            test = self._emit(ELEMENT_NULL)
            yield
            self._land(test)
        self._emit(MAP_END)

    def finish(self) -> Code:
        """The program, closed by END."""
        self._emit(END)
        return Code(
            instructions=np.array(self._instructions, dtype=np.int64),
            targets=np.array(self._targets or [0], dtype=np.int64),
            pool=np.frombuffer(bytes(self._pool) or b"\0", dtype=np.uint8),
            leaves=self._placed_leaves(),
            paths=tuple(self._paths),
            depth=self._max_depth + 1,
        )

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _emit(self, opcode: int, a: int = 0, b: int = 0, c: int = 0, *, minimum: int = 0) -> int:
        self._minimum += minimum
        self._instructions.append([opcode, self.column, a, b, c, 0])
        self._paths.append(self._path)
        return len(self._instructions) - 1

    def _placed_leaves(self) -> tuple[PythonLeaf, ...]:
        """The leaves; those that the end of the segment follows know it."""
        leaves = list(self._leaves)
        for place, instruction in enumerate(self._instructions):
            if instruction[0] == PYTHON:
                following = place + 1
                while self._instructions[following][0] == JUMP:
                    following = self._instructions[following][4]
                if self._instructions[following][0] == EXPECT_END:
                    leaves[instruction[2]] = leaves[instruction[2]].last()
        return tuple(leaves)

    def _land(self, instruction: int) -> None:
        """Where `instruction` jumps to is here."""
        self._instructions[instruction][4] = len(self._instructions)

    def _enter(self) -> None:
        self._depth += 1
        self._max_depth = max(self._depth, self._max_depth)
        if self._depth > _MAX_DEPTH:
            message = f"types nest deeper than {_MAX_DEPTH} levels"
            raise UnsupportedSerializerError(message)

    def _leave(self) -> None:
        self._depth -= 1

    @contextmanager
    def _region(self, opcode: int, offset: int = 0) -> Iterator[None]:
        """What stands in a region of its own does not count for the straight line outside."""
        outer = self._minimum
        self._emit(opcode, offset)
        self._enter()
        yield
        self._leave()
        self._emit(BINARY_END)
        self._minimum = outer

    @contextmanager
    def _elements(self, width: int, *, in_map: bool) -> Iterator[None]:
        start = self._emit(ARRAY, width, int(in_map))
        yield
        self._emit(ARRAY_NEXT, width, int(in_map))
        self._land(start)

    def _decimal_bound(self, precision: int) -> int:
        """Where 10^precision stands in the targets: its high and low 64 bits, as int64."""
        high, low = divmod(10**precision, 1 << 64)
        self._targets += [high, low - (1 << 64) if low >> 63 else low]
        return len(self._targets) - 2

    def _constant(self, text: str) -> tuple[int, int]:
        raw = text.encode("utf-8", "replace")
        if raw not in self._constants:
            self._constants[raw] = len(self._pool)
            self._pool += raw
        return self._constants[raw], len(raw)

    def _field_name(self, index: int) -> str:
        if self.column == NO_COLUMN:
            return str(index)
        return str(self.tree.types[self.column].field(index).name)

    @contextmanager
    def _child(self, index: int, name: str) -> Iterator[None]:
        column, path = self.column, self._path
        if column != NO_COLUMN:
            self.column = self.tree.children[column][index]
        self._path = (*path, name)
        yield
        self.column, self._path = column, path


class Switch:
    """Branches of a `switch` or `class_switch`: `with branches.case(2): …` for each, then `branches.end()`."""

    def __init__(self, program: Program, slots: dict[int, int]) -> None:
        self._program = program
        self._slots = slots
        self._jumps: list[int] = []
        self._least: int | None = None

    @contextmanager
    def case(self, value: int) -> Iterator[None]:
        """What is laid out behind the value `value`."""
        program = self._program
        program._targets[self._slots[value]] = len(program._instructions)
        outer, program._minimum = program._minimum, 0
        yield
        self._least = program._minimum if self._least is None else min(self._least, program._minimum)
        program._minimum = outer
        self._jumps.append(program._emit(JUMP))

    def end(self) -> None:
        """All cases go on here."""
        for jump in self._jumps:
            self._program._land(jump)
        self._program._minimum += self._least or 0
