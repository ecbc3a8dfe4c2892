"""`Program` builds what the decoding machine runs: serializers emit their layout with it, instruction by instruction.

See `instructions.py` for the instruction set. The builder walks the tree of Arrow types beside the tree of
serializers: `program.field(0)` and `program.list()` move the current column, so that a serializer emits its layout
without knowledge of the types around it. The same program steps over the bytes without columns where the builder is
not enabled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from readers.decode import instructions as op
from readers.decode.columns import NO_COLUMN, ColumnTree
from readers.errors import UnsupportedSerializerError

_FIXED = {1: op.FIXED1, 2: op.FIXED2, 4: op.FIXED4, 8: op.FIXED8}
_SLOT = {1: op.SLOT1, 2: op.SLOT2, 4: op.SLOT4, 8: op.SLOT8}
# The bytes alone say where their values end.
_SELF_DELIMITING = frozenset(
    {
        op.FIXED1, op.FIXED2, op.FIXED4, op.FIXED8, op.FIXED8_FLIPPED, op.BOOLEAN, op.STRING, op.UTF, op.TEXT, op.SKIP,
        op.MARK, op.LENGTH_SUFFIX,
    }
)  # fmt: skip
MAX_COMPACT_PRECISION = 18  # Flink: DecimalData; more digits do not fit an i8
# Deeper than types in use: the serializers of a hostile snapshot may nest without end.
_MAX_DEPTH = 64


class PythonLeaf(Protocol):
    """A value that only Python can cut out of the bytes (Kryo objects, Java streams)."""

    def read(self, data: memoryview, position: int, limit: int) -> tuple[bytes | None, int]:
        """Return the value as bytes for its string or binary column, None for null, and the position behind it.

        Raises:
            ReaderError: the bytes contradict the format.
        """
        ...

    def last(self) -> PythonLeaf:
        """Return this leaf for the end of a segment, where the leaf may take all that is left."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A finished program.

    Attributes:
        instructions: int64, shape (n, WORDS).
        targets: int64; the tables of SWITCH, CLASS and constants, and the bounds of decimals.
        pool: uint8; constant strings and class names.
        leaves: the objects that PYTHON instructions call.
        paths: the field path of each instruction, for errors.
        depth: how deep lists, masks and regions nest: the frames of the machine's stack.
    """

    instructions: NDArray[np.int64]
    targets: NDArray[np.int64]
    pool: NDArray[np.uint8]
    leaves: tuple[PythonLeaf, ...]
    paths: tuple[tuple[str, ...], ...]
    depth: int

    @property
    def objects(self) -> frozenset[int]:
        """The columns of values that only Python can cut out of the bytes."""
        found = self.instructions[self.instructions[:, op.OPCODE] == op.PYTHON, op.COLUMN]
        return frozenset(found.tolist()) - {NO_COLUMN}


class Program:
    """The builder of `Code` for one struct of columns. Each method declares what is laid out next.

    Args:
        tree: the columns; the current column is its root, column 0.
        enabled: False for a walker, whose instructions have no columns.
    """

    def __init__(self, tree: ColumnTree, *, enabled: bool = True) -> None:
        self.tree = tree
        self.column = 0 if enabled else NO_COLUMN
        self._instructions: list[list[int]] = []
        self._targets: list[int] = []
        self._pool = bytearray()
        self._offsets: dict[bytes, int] = {}  # of each text in the pool
        self._leaves: list[PythonLeaf] = []
        self._paths: list[tuple[str, ...]] = []
        self._path: tuple[str, ...] = ()
        self._depth = 0
        self._max_depth = 0
        # Least bytes that the instructions emitted so far in this element, branch or entry read. A list carries that
        # of its element, so that the machine can refuse a hostile count before it loops.
        self._least_bytes = 0

    # ---- leaves ----------------------------------------------------------------------------------------------------

    def fixed(self, width: Literal[1, 2, 4, 8]) -> None:
        """A big-endian number of `width` bytes."""
        self._emit(_FIXED[width], least=width)

    def flipped(self) -> None:
        """An i8 whose sign bit is inverted, so that bytes sort like numbers."""
        self._emit(op.FIXED8_FLIPPED, least=8)

    def boolean(self) -> None:
        """One byte, 0 or 1."""
        self._emit(op.BOOLEAN, least=1)

    def string(self, *, nullable: bool = True) -> None:
        """A string of `StringValue#writeString` if nullable (the count is units + 1, 0 is null), else of `StringValue#write`."""
        self._emit(op.STRING, {op.NULLABLE: int(nullable)}, least=1)

    def utf(self) -> None:
        """A string of `DataOutput#writeUTF`."""
        self._emit(op.UTF, least=2)

    def blob(self) -> None:
        """Bytes behind their i4 length."""
        self._emit(op.BLOB, least=4)

    def char(self) -> None:
        """One UTF-16 unit."""
        self._emit(op.CHAR, least=2)

    def big_integer(self) -> None:
        """A number of `BigIntSerializer`, shown as decimal text."""
        self._emit(op.BIG_INTEGER, least=4)

    def big_decimal(self) -> None:
        """A number of `BigDecSerializer`, shown as decimal text (`BigDecimal#toPlainString`)."""
        self._emit(op.BIG_DECIMAL, least=4)

    def millis(self) -> None:
        """Milliseconds in an i8, the smallest for null: `DateSerializer`, `SqlDateSerializer`, `SqlTimeSerializer`."""
        self._emit(op.MILLIS, least=8)

    def timestamp(self) -> None:
        """A timestamp of `SqlTimestampSerializer`, shown as nanoseconds."""
        self._emit(op.TIMESTAMP, least=12)

    def instant(self) -> None:
        """An instant of `InstantSerializer`, shown as nanoseconds."""
        self._emit(op.INSTANT, least=12)

    def local_date(self) -> None:
        """A date of `LocalDateSerializer`, shown as days."""
        self._emit(op.LOCAL_DATE, least=6)

    def local_time(self) -> None:
        """A time of `LocalTimeSerializer`, shown as nanoseconds of the day."""
        self._emit(op.LOCAL_TIME, least=7)

    def local_date_time(self) -> None:
        """A date and time of `LocalDateTimeSerializer`, shown as nanoseconds."""
        self._emit(op.LOCAL_DATE_TIME, least=13)

    def primitives(self, width: Literal[1, 2, 4, 8]) -> None:
        """An i4 count and that many big-endian numbers of `width` bytes, into a list column."""
        self._emit(op.PRIMITIVES, {op.WIDTH: width}, least=4)

    def enum(self, constants: Sequence[str]) -> None:
        """An i4 index into `constants`, shown as the constant's text."""
        table = self._constant_table(constants)
        self._emit(op.ENUM, {op.TABLE: table, op.CASES: len(constants)}, least=4)

    def constant(self, text: str) -> None:
        """The value `text`, for which no bytes stand."""
        offset, length = self._pooled(text)
        self._emit(op.CONSTANT, {op.CONSTANT_OFFSET: offset, op.CONSTANT_BYTES: length})

    def null(self) -> None:
        """Null, with all columns below the current one; no bytes stand for it."""
        if self.column != NO_COLUMN:
            self._emit(op.NULL)

    def struct(self) -> None:
        """A value of the current struct column, not null; its fields follow, each by `field`."""
        if self.column != NO_COLUMN:
            self._emit(op.STRUCT)

    def skip(self, length: int, fill: int = 0) -> None:
        """A gap of `length` bytes that no column shows; Flink writes `fill` in each."""
        self._emit(op.SKIP, {op.BYTES: length, op.FILL: fill}, least=length)

    def key_group(self, length: int) -> None:
        """The key group of the entry, in `length` bytes."""
        self._emit(op.KEY_GROUP, {op.BYTES: length}, least=length)

    def rest(self) -> None:
        """All bytes that are left of the segment."""
        self._emit(op.REST)

    def python(self, leaf: PythonLeaf) -> None:
        """A value that `leaf` reads."""
        self._leaves.append(leaf)
        self._emit(op.PYTHON, {op.LEAF: len(self._leaves) - 1}, least=1)

    def text(self) -> None:
        """UTF-8 behind its i4 length; bytes that are no UTF-8 become U+FFFD, as in Java."""
        self._emit(op.TEXT, least=4)

    def raw_bytes(self, length: int) -> None:
        """A value of exactly `length` bytes, shown unchanged."""
        self._emit(op.RAW_BYTES, {op.BYTES: length}, least=length)

    def compact_decimal(self, precision: int) -> None:
        """A decimal as an unscaled i8."""
        operands = {op.COMPACT: 1, op.PRECISION_BOUND: self._precision_bound(precision)}
        self._emit(op.DECIMAL, operands, least=8)

    def decimal(self, precision: int, length: int = 0) -> None:
        """A decimal as unscaled two's complement of `length` bytes, or behind an i4 length if `length` is 0."""
        operands = {op.BYTES: length, op.PRECISION_BOUND: self._precision_bound(precision)}
        self._emit(op.DECIMAL, operands, least=length or 5)

    def timestamp_data(self, nanos_a_unit: int) -> None:
        """A timestamp of `TimestampDataSerializer` above precision 3: i8 milliseconds, i4 nanoseconds of the millisecond."""
        self._emit(op.TIMESTAMP_DATA, {op.NANOS_A_UNIT: nanos_a_unit}, least=12)

    # ---- slots of a binary row, elements of a binary array ---------------------------------------------------------

    def slot(self, offset: int, width: Literal[1, 2, 4, 8], bound: int = 0) -> None:
        """A little-endian number in the slot at `offset`; at least 0 and less than `bound` if `bound` is not 0."""
        self._emit(_SLOT[width], {op.SLOT: offset, op.BOUND: bound})

    def slot_text(self, offset: int) -> None:
        """UTF-8, in the slot or where the slot points to."""
        self._emit(op.SLOT_TEXT, {op.SLOT: offset})

    def slot_bytes(self, offset: int) -> None:
        """Bytes, in the slot or where the slot points to."""
        self._emit(op.SLOT_BYTES, {op.SLOT: offset})

    def slot_decimal(self, offset: int, precision: int) -> None:
        """A decimal as an i8 in the slot, or as big-endian two's complement where the slot points to."""
        compact = int(precision <= MAX_COMPACT_PRECISION)
        operands = {
            op.SLOT: offset,
            op.COMPACT: compact,
            op.PRECISION_BOUND: self._precision_bound(precision),
        }
        self._emit(op.SLOT_DECIMAL, operands)

    def slot_timestamp(self, offset: int, nanos_a_unit: int) -> None:
        """A timestamp: i8 milliseconds where the slot points to, nanoseconds of the millisecond in the slot."""
        self._emit(op.SLOT_TIMESTAMP, {op.SLOT: offset, op.NANOS_A_UNIT: nanos_a_unit})

    # ---- structure -------------------------------------------------------------------------------------------------

    def segment(self, number: int) -> None:
        """Go on at the begin of segment `number` of the entry."""
        self._emit(op.SEGMENT, {op.SEGMENT_NUMBER: number})

    def expect_end(self) -> None:
        """The end of the segment: more bytes are an error."""
        self._emit(op.EXPECT_END)

    def mark(self) -> None:
        """The begin of a key whose length a `length_suffix` repeats."""
        self._emit(op.MARK)

    def length_suffix(self) -> None:
        """The number of bytes since `mark` or the last suffix, which ambiguous composite keys carry."""
        self._emit(op.LENGTH_SUFFIX, least=1)

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Bytes that no column shows and that entry after entry has in common, as those of a map have their key."""
        start = self._emit(op.REPEATED)
        yield
        inside = {instruction[op.OPCODE] for instruction in self._instructions[start + 1 :]}
        # Any other instruction may read as far as the segment goes, or in Python.
        if not inside <= _SELF_DELIMITING:
            self._instructions[start][op.OPCODE] = op.JUMP
            self._instructions[start][op.BEHIND] = start + 1
            return
        self._emit(op.REPEATED_END)
        self._land(start)

    @contextmanager
    def field(self, index: int, name: str | None = None) -> Iterator[None]:
        """Child `index` of the current struct column, laid out inside."""
        with self._child(index, name or self._field_name(index)):
            yield

    @contextmanager
    def without_column(self) -> Iterator[None]:
        """Bytes that are laid out inside but that no column shows."""
        outer, self.column = self.column, NO_COLUMN
        yield
        self.column = outer

    @contextmanager
    def nullable(self, *, null_flag: bool, padding: int = 0) -> Iterator[None]:
        """A flag byte: `null_flag` for null, with `padding` bytes behind it; else the value that is emitted inside."""
        flag = self._emit(op.NULL_FLAG, {op.NULL_VALUE: int(null_flag), op.PADDING: padding})
        outer, self._least_bytes = self._least_bytes, 0
        yield
        self._least_bytes = outer + 1 + min(padding, self._least_bytes)
        self._land(flag)

    @contextmanager
    def nullable_field(self, index: int | None, name: str) -> Iterator[None]:
        """A field behind a null flag; no column shows it if `index` is None."""
        if index is None:
            with self.without_column(), self._child(0, name), self.nullable(null_flag=True):
                yield
        else:
            with self.field(index, name), self.nullable(null_flag=True):
                yield

    @contextmanager
    def list(self) -> Iterator[None]:
        """An i4 count and the elements: emit one inside. The current column is a list or a map."""
        start = self._emit(op.LIST)
        self._enter()
        outer, self._least_bytes = self._least_bytes, 0
        with self._child(0, "[]"):
            yield
        self._instructions[start][op.LEAST_BYTES] = self._least_bytes
        self._least_bytes = outer + 4
        self._leave()
        self._emit(op.LIST_NEXT)
        self._land(start)

    @contextmanager
    def delimited(self) -> Iterator[None]:
        """Elements joined by 0x2C up to the end of the segment (`ListDelimitedSerializer`): emit one inside."""
        with self._repeated(op.DELIMITED, op.DELIMITED_NEXT):
            yield

    @contextmanager
    def first_elements(self, *, counted: bool) -> Iterator[None]:
        """The elements before the first one that cannot be read, of a `list` if counted, else of a `delimited`: emit one inside.

        An element that is null stands for the rest, whose bytes follow.
        """
        with self._repeated(
            op.ELEMENTS, op.ELEMENTS_NEXT, {op.COUNTED: int(counted)}, least=4 if counted else 0
        ):
            yield

    @contextmanager
    def _repeated(
        self, opcode: int, next_opcode: int, operands: Mapping[int, int] | None = None, least: int = 0
    ) -> Iterator[None]:
        """Emit a loop over elements of which there may be none, so that they add nothing to the least bytes."""
        start = self._emit(opcode, operands, least=least)
        self._enter()
        outer = self._least_bytes
        with self._child(0, "[]"):
            yield
        self._least_bytes = outer
        self._leave()
        self._emit(next_opcode, operands)
        self._land(start)

    @contextmanager
    def mask(self, bits: int) -> Iterator[None]:
        """A mask of `bits` bits in whole bytes, most significant first (`RowSerializer`, `MaskUtils#writeMask`)."""
        length = (bits + 7) // 8
        self._emit(op.MASK, {op.BYTES: length}, least=length)
        self._enter()
        yield
        self._leave()
        self._emit(op.MASK_END)

    @contextmanager
    def unmasked(self, bit: int) -> Iterator[None]:
        """Null if mask bit `bit` is set, else the value that is emitted inside."""
        test = self._emit(op.MASK_NULL, {op.BIT: bit})
        # Null has no bytes: what is emitted inside adds nothing to the least.
        outer = self._least_bytes
        yield
        self._least_bytes = outer
        self._land(test)

    def row_kind(self, names: Sequence[str]) -> None:
        """One of four names, by mask bits 0 and 1 (bit 0 + 2 · bit 1)."""
        assert len(names) == 4  # two bits select among them: the machine checks no bound
        self._emit(op.MASK_KIND, {op.TABLE: self._constant_table(names)})

    def switch(self, cases: dict[int, str]) -> Switch:
        """A byte that selects a case; see `Switch`. `cases` names the values that are allowed."""
        count = max(cases) + 1
        table = len(self._targets)
        self._targets += [op.NOWHERE] * count
        self._emit(op.SWITCH, {op.TABLE: table, op.CASES: count}, least=1)
        return Switch(self, {value: table + value for value in cases})

    def class_switch(self, names: Sequence[str]) -> Switch:
        """A class name (`writeUTF`) that selects a case; the cases are the indexes of `names`."""
        table = len(self._targets)
        for name in names:
            self._targets += [*self._pooled(name), op.NOWHERE]
        self._emit(op.CLASS, {op.TABLE: table, op.CASES: len(names)}, least=2)
        first = table + op.ENTRY_TARGET
        return Switch(self, {index: first + op.CLASS_WORDS * index for index in range(len(names))})

    def switch_i4(self, cases: int) -> Switch:
        """An i4, at least 0 and less than `cases`, that selects a case; see `Switch`."""
        table = len(self._targets)
        self._targets += [op.NOWHERE] * cases
        self._emit(op.SWITCH_I4, {op.TABLE: table, op.CASES: cases}, least=4)
        return Switch(self, {value: table + value for value in range(cases)})

    @contextmanager
    def blocks(self) -> Iterator[None]:
        """Blocks of Avro in Flink's encoding: varint count, elements, …, 0. The current column is a list or a map."""
        start = self._emit(op.BLOCKS)
        self._enter()
        outer, self._least_bytes = self._least_bytes, 0
        with self._child(0, "[]"):
            yield
        least, self._least_bytes = self._least_bytes, outer + 1
        self._instructions[start][op.LEAST_BYTES] = least
        self._leave()
        self._emit(op.BLOCKS_NEXT, {op.LEAST_BYTES: least})
        self._land(start)

    @contextmanager
    def masked_list(self) -> Iterator[None]:
        """An i4 count, a bit an element (1 is null, most significant first) and the elements that are not null."""
        with self._repeated(op.MASKED_LIST, op.LIST_NEXT, least=4):
            test = self._emit(op.ELEMENT_MASKED)
            yield
            self._land(test)

    @contextmanager
    def binary(self) -> Iterator[None]:
        """An i4 size and a region of that size, which is laid out inside."""
        with self._region(op.BINARY):
            yield
        self._least_bytes += 4

    @contextmanager
    def binary_slot(self, offset: int) -> Iterator[None]:
        """The region that the slot at `offset` points to, laid out inside."""
        with self._region(op.BINARY_SLOT, {op.SLOT: offset}):
            yield

    def row(self, size: int) -> None:
        """A row as the region; its header and slots have `size` bytes."""
        self._emit(op.ROW, {op.BYTES: size})

    def binary_row_kind(self, names: Sequence[str]) -> None:
        """One of `names`, by the first byte of the row."""
        self._emit(op.ROW_KIND, {op.TABLE: self._constant_table(names), op.CASES: len(names)})

    @contextmanager
    def slot_nullable(self, bit: int) -> Iterator[None]:
        """Null if null bit `bit` of the row is set, else the value that is emitted inside."""
        test = self._emit(op.SLOT_NULL, {op.BIT: bit})
        yield
        self._land(test)

    @contextmanager
    def binary_array(self, width: int) -> Iterator[None]:
        """An array as the region, of slots of `width` bytes: emit one at offset 0. The current column is a list."""
        with self._elements(width, in_map=False), self._child(0, "[]"):
            test = self._emit(op.ELEMENT_NULL)
            yield
            self._land(test)

    @contextmanager
    def binary_map_keys(self, width: int) -> Iterator[None]:
        """The keys of a map, which is the region. The current column is a map; see `columns.py` for null keys."""
        with (
            self._region(op.BINARY_KEYS),
            self._elements(width, in_map=True),
            self._child(0, "{}"),
            self.field(0, "key"),
        ):
            test = self._emit(op.ELEMENT_NULL)
            yield
            self._land(test)

    @contextmanager
    def binary_map_values(self, width: int) -> Iterator[None]:
        """The values of the map, behind its keys."""
        with (
            self._region(op.BINARY_VALUES),
            self._elements(width, in_map=True),
            self._child(0, "{}"),
            self.field(1, "value"),
        ):
            test = self._emit(op.ELEMENT_NULL)
            yield
            self._land(test)
        self._emit(op.MAP_END)

    def finish(self) -> Code:
        """Close the program by END and return it."""
        self._emit(op.END)
        return Code(
            instructions=np.array(self._instructions, dtype=np.int64),
            targets=np.array(self._targets or [0], dtype=np.int64),
            pool=np.frombuffer(bytes(self._pool) or b"\0", dtype=np.uint8),
            leaves=self._finished_leaves(),
            paths=tuple(self._paths),
            depth=self._max_depth + 1,
        )

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _emit(self, opcode: int, operands: Mapping[int, int] | None = None, *, least: int = 0) -> int:
        """Append an instruction and return its number. `least` is the number of bytes that it reads at least."""
        self._least_bytes += least
        instruction = [0] * op.WORDS
        instruction[op.OPCODE] = opcode
        instruction[op.COLUMN] = self.column
        for word, operand in (operands or {}).items():
            instruction[word] = operand
        self._instructions.append(instruction)
        self._paths.append(self._path)
        return len(self._instructions) - 1

    def _finished_leaves(self) -> tuple[PythonLeaf, ...]:
        """Return the leaves, each as `last()` if the end of the segment follows it."""
        leaves = list(self._leaves)
        for number, instruction in enumerate(self._instructions):
            if instruction[op.OPCODE] == op.PYTHON:
                following = self._instructions[number + 1]
                # Each case of a switch ends with a jump to where all cases go on.
                while following[op.OPCODE] == op.JUMP:
                    following = self._instructions[following[op.BEHIND]]
                if following[op.OPCODE] == op.EXPECT_END:
                    leaf = instruction[op.LEAF]
                    leaves[leaf] = leaves[leaf].last()
        return tuple(leaves)

    def _land(self, instruction: int) -> None:
        """Let `instruction` jump to the next instruction that is emitted."""
        self._instructions[instruction][op.BEHIND] = len(self._instructions)

    def _enter(self) -> None:
        self._depth += 1
        self._max_depth = max(self._depth, self._max_depth)
        if self._depth > _MAX_DEPTH:
            message = f"types nest deeper than {_MAX_DEPTH} levels"
            raise UnsupportedSerializerError(message)

    def _leave(self) -> None:
        self._depth -= 1

    @contextmanager
    def _region(self, opcode: int, operands: Mapping[int, int] | None = None) -> Iterator[None]:
        # A region is elsewhere: its bytes do not count for the element around it.
        outer = self._least_bytes
        self._emit(opcode, operands)
        self._enter()
        yield
        self._leave()
        self._emit(op.BINARY_END)
        self._least_bytes = outer

    @contextmanager
    def _elements(self, width: int, *, in_map: bool) -> Iterator[None]:
        operands = {op.WIDTH: width, op.IN_MAP: int(in_map)}
        start = self._emit(op.ARRAY, operands)
        yield
        self._emit(op.ARRAY_NEXT, operands)
        self._land(start)

    def _precision_bound(self, precision: int) -> int:
        """Append 10^precision to the targets as its high and low 64 bits; return its index there."""
        high, low = divmod(10**precision, 1 << 64)
        self._targets += [high, low - (1 << 64) if low >> 63 else low]
        return len(self._targets) - 2

    def _constant_table(self, constants: Sequence[str]) -> int:
        """Append a table of constants to the targets; return its index there."""
        table = len(self._targets)
        for constant in constants:
            self._targets += self._pooled(constant)
        return table

    def _pooled(self, text: str) -> tuple[int, int]:
        """Offset and length in bytes of a text in the pool, where each text stands once."""
        # Names come from modified UTF-8, which can hold a lone surrogate; UTF-8 cannot.
        raw = text.encode("utf-8", "replace")
        if raw not in self._offsets:
            self._offsets[raw] = len(self._pool)
            self._pool += raw
        return self._offsets[raw], len(raw)

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
    """The cases of a `switch`: `with switch.case(2): …` for each, then `switch.end()`."""

    def __init__(self, program: Program, targets: dict[int, int]) -> None:
        self._program = program
        self._targets = targets  # of each case, its index in the targets
        self._jumps: list[int] = []
        self._least_bytes: int | None = None  # of all cases

    @contextmanager
    def case(self, value: int) -> Iterator[None]:
        """The layout behind the value `value`."""
        program = self._program
        program._targets[self._targets[value]] = len(program._instructions)
        outer, program._least_bytes = program._least_bytes, 0
        yield
        least = program._least_bytes
        self._least_bytes = least if self._least_bytes is None else min(self._least_bytes, least)
        program._least_bytes = outer
        self._jumps.append(program._emit(op.JUMP))

    def end(self) -> None:
        """Let all cases go on here."""
        for jump in self._jumps:
            self._program._land(jump)
        self._program._least_bytes += self._least_bytes or 0
