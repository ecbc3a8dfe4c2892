"""The loop around the interpreter: batches, growth, Python leaves, outliers, errors.

A `Page`, a buffer and the positions of entries of one state in it, is the seam between state-file formats and value types. A
`Decoder` holds a program, the tree of columns that it fills, and the machine's stack and registers; it belongs to
one thread. A batch that outgrows its arena ends early, and the next one is given more room: memory follows the data,
not the worst case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode.columns import (
    CAPACITY,
    DATA,
    DATA_CAPACITY,
    DATA_LENGTH,
    FIXED,
    LAYOUT,
    LENGTH,
    NO_COLUMN,
    VALUES,
    WIDTH,
    Arena,
    Cell,
    ColumnTree,
    Outlier,
    UnreadValue,
    located,
    maps_with_null_keys,
    value_text,
)
from readers.decode.instructions import COLUMN, LEAF
from readers.decode.machine import execute as machine
from readers.decode.machine.registers import (
    ALL_ELEMENTS,
    BAD_CLASS,
    CALL,
    DETAIL_A,
    DETAIL_B,
    DONE,
    FRAME_REGION,
    FRAME_SLOTS,
    FRAME_WORDS,
    FULL,
    KEPT,
    LIMIT,
    MESSAGES,
    OUT_OF_RANGE,
    PC,
    POSITION,
    READ,
    REGISTERS,
    ROW,
    STATUS,
    TOP,
)
from readers.decode.program import Code, Program
from readers.errors import (
    CorruptDataError,
    ReaderError,
    UnsupportedSerializerError,
    ValueOutOfRangeError,
    hex_window,
)

Chosen = slice | NDArray[np.bool_] | NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Entries of one state.

    Attributes:
        data: uint8 buffer that all positions refer to.
        starts: int64, shape (entries, segments): the first byte of each segment of an entry. Canonical and RocksDB
            data have two segments (key bytes, value bytes), everything else one.
        ends: int64, same shape: the first byte behind each segment.
        key_groups: int32, shape (entries,); -1 where the state is not keyed.
        subtask: the subtask that wrote the state.
        path: the file, as the savepoint names it, for errors.
        indexes: int32, shape (entries,), the element index of operator list states; None elsewhere.
        undivided: True if an entry here is many entries whose ends are not known: one segment, shown as bytes.
        first_index: the index of the first element here, if the only entry has some elements of a longer list.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    key_groups: NDArray[np.int32]
    subtask: int
    path: str
    indexes: NDArray[np.int32] | None = None
    undivided: bool = False
    first_index: int = 0

    @classmethod
    def of(
        cls,
        data: NDArray[np.uint8],
        bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
        key_groups: NDArray[np.int32] | int,
        subtask: int,
        path: str,
    ) -> Page:
        """Return the page of entries with these starts and ends; of one key group if only its number is given."""
        starts, ends = bounds
        if isinstance(key_groups, int):
            key_groups = np.full(len(starts), key_groups, dtype=np.int32)
        return cls(data=data, starts=starts, ends=ends, key_groups=key_groups, subtask=subtask, path=path)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def first_byte(self) -> int | None:
        """Where its first entry begins; None if it has none."""
        return int(self.starts[0, 0]) if len(self) else None

    def slice(self, start: int, stop: int) -> Page:
        """Return entries `start` to `stop`, without a copy."""
        return self.only(slice(start, stop))

    def only(self, chosen: Chosen) -> Page:
        """Return some of the entries; a slice of them without a copy."""
        return replace(
            self,
            starts=np.ascontiguousarray(self.starts[chosen]),
            ends=np.ascontiguousarray(self.ends[chosen]),
            key_groups=np.ascontiguousarray(self.key_groups[chosen]),
            indexes=None if self.indexes is None else self.indexes[chosen],
        )

    def counts(self) -> Iterator[tuple[int, int]]:
        """Yield each key group and its number of entries."""
        groups, numbers = np.unique(self.key_groups, return_counts=True)
        yield from zip(groups.tolist(), numbers.tolist(), strict=True)


# Of Java and Scala, nested ones with `$`: anything else there is corruption.
_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")
# Large enough that Arrow and Python cost little beside decoding, small enough for the processor's cache.
BATCH_ENTRIES = 32_768
BATCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """Decoded entries.

    Attributes:
        page: the entries.
        arrays: the children of the root struct.
        outliers: the values that the arrays cannot hold and have NULL for.
    """

    page: Page
    arrays: list[pa.Array]
    outliers: list[Outlier]


class Decoder:
    """One program, run over pages.

    Args:
        tree: the columns.
        code: the program that fills them.
        undescribed: the program for an entry that holds an object of a class that the savepoint does not describe; if None,
            such an entry is an error. Its ELEMENTS are those before the object.
        is_assumed: whether the program may be that of other classes: an entry that contradicts it is undescribed, too.
        keeps_objects: whether a value that only Python can cut out of the bytes is kept as those bytes, in a column of
            bytes, instead of read: for writers, which put them back.
        batch_entries, batch_bytes: the limits of a batch. A longer entry is a batch of its own.
    """

    def __init__(
        self,
        tree: ColumnTree,
        code: Code,
        *,
        undescribed: Code | None = None,
        is_assumed: bool = False,
        keeps_objects: bool = False,
        batch_entries: int = BATCH_ENTRIES,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.tree = tree
        self.code = code
        self._undescribed = undescribed
        self._is_assumed = is_assumed
        self._unread = (
            (UnsupportedSerializerError, CorruptDataError) if is_assumed else (UnsupportedSerializerError,)
        )
        self._keeps_objects = keeps_objects
        self._batch_entries = batch_entries
        self._batch_bytes = batch_bytes
        self._stack: NDArray[np.int64] = np.zeros((code.depth, FRAME_WORDS), dtype=np.int64)
        self._registers: NDArray[np.int64] = np.zeros(REGISTERS, dtype=np.int64)
        self._cells: list[tuple[int, Cell]] = []  # set aside in this batch, each with its entry

    def anew(self) -> Decoder:
        """Return a decoder of the same program for another thread, or another read."""
        return Decoder(
            self.tree.anew(),
            self.code,
            undescribed=self._undescribed,
            is_assumed=self._is_assumed,
            keeps_objects=self._keeps_objects,
            batch_entries=self._batch_entries,
            batch_bytes=self._batch_bytes,
        )

    def decode(self, page: Page) -> Iterator[Batch]:
        """Yield the page's entries in batches.

        Raises:
            CorruptDataError: the bytes contradict the program.
            UnsupportedSerializerError: an object is of a class that the savepoint does not describe.
            ValueOutOfRangeError: an entry needs 2 GiB in one column, or a number is longer than its type allows.
        """
        start = 0
        while start < len(page):
            stop, input_bytes = self._batch_end(page, start)
            arena = Arena(self.tree, stop - start, input_bytes)
            self._cells.clear()
            done = self._run(page, start, stop, arena)
            # Not one entry fitted: the densities that earlier batches left are too small for it.
            if done == start:
                if not arena.grow():
                    raise ValueOutOfRangeError(
                        f"expected an entry whose columns hold less than 2 GiB each, found one of {input_bytes} bytes",
                        path=page.path,
                        position=int(page.starts[start, 0]),
                    )
                continue
            arena.settle()
            outliers = self._outliers(done - start, done, arena)
            batch = [Batch(page.slice(start, done), arena.to_arrays(done - start), outliers)]
            # Nothing here may refer to the batch while its reader has it: the next arena would stand beside it.
            del arena
            yield batch.pop()
            start = done

    def batch_end(self, page: Page, start: int) -> int:
        """Return the end of the batch that begins at entry `start`, if nothing in it is larger than its bytes."""
        return self._batch_end(page, start)[0]

    def readable(self, page: Page) -> NDArray[np.bool_]:
        """Return which entries of a page its program can read; an array of its length."""
        found: NDArray[np.bool_] = np.ones(len(page), dtype=np.bool_)
        first = 0
        while first < len(page):
            try:
                for _ in self.decode(page.slice(first, len(page))):
                    pass
            except (CorruptDataError, UnsupportedSerializerError):
                first += int(self._registers[ROW])
                found[first] = False
                first += 1
            else:
                break
        return found

    def _outliers(self, rows: int, end: int, arena: Arena) -> list[Outlier]:
        """Return the outliers of the first `rows` rows, before entry `end`, and make them NULL in the arena."""
        cells = [cell for entry, cell in self._cells if entry < end]
        if arena.has_null_keys():
            arena.cut(rows)
            cells += maps_with_null_keys(arena)
        return located(cells, arena)

    def _batch_end(self, page: Page, start: int) -> tuple[int, int]:
        """Return the end of the batch of at least one entry that begins at `start`, and the bytes of its entries."""
        stop = min(start + self._batch_entries, len(page))
        starts, ends = page.starts[start:stop], page.ends[start:stop]
        input_bytes = int(ends.sum() - starts.sum())
        if input_bytes > self._batch_bytes:
            sizes = np.cumsum((ends - starts).sum(axis=1))
            within = max(int(np.searchsorted(sizes, self._batch_bytes, side="right")), 1)
            stop, input_bytes = start + within, int(sizes[within - 1])
        return stop, input_bytes

    def _run(self, page: Page, start: int, stop: int, arena: Arena) -> int:
        """Decode entries `start` to `stop`; return the first that did not fit, or `stop`."""
        registers = self._registers
        first = start
        while True:
            try:
                return self._execute(self.code, page, first, stop, arena)
            except self._unread:
                if self._undescribed is None:
                    raise
                first = int(registers[ROW])
                self._cut(first, start, arena)
            done = self._run_undescribed(self._undescribed, page, first, start, arena)
            if done == first:
                return first
            first = done

    def _run_undescribed(self, code: Code, page: Page, entry: int, start: int, arena: Arena) -> int:
        """Decode an entry by the program for undescribed values; return the next entry, or the same one if it did not fit."""
        registers = self._registers
        registers[READ], registers[KEPT] = 0, ALL_ELEMENTS
        try:
            return self._execute(code, page, entry, entry + 1, arena)
        except self._unread:
            # The first run counts the elements that can be read. The second one reads no more than these.
            registers[KEPT] = registers[READ]
            self._cut(entry, start, arena)
        try:
            return self._execute(code, page, entry, entry + 1, arena)
        except CorruptDataError:
            # Bytes of another class may end too early: then it is the last of the elements that does not fit.
            if not self._is_assumed or not registers[KEPT]:
                raise
            registers[KEPT] -= 1
            self._cut(entry, start, arena)
        return self._execute(code, page, entry, entry + 1, arena)

    def _cut(self, entry: int, start: int, arena: Arena) -> None:
        """Take back what an entry has written: it is read again, by another program."""
        arena.cut(entry - start)
        self._cells = [(number, cell) for number, cell in self._cells if number < entry]

    def _execute(self, code: Code, page: Page, start: int, stop: int, arena: Arena) -> int:
        """Run the machine on entries `start` to `stop`; return the first that did not fit, or `stop`."""
        registers = self._registers
        registers[STATUS], registers[ROW] = DONE, start
        while True:
            machine.execute(
                code.instructions, code.targets, code.pool, page.data, page.starts, page.ends, page.starts.shape[1], stop,
                arena.table, arena.memory, self._stack, registers,
            )  # fmt: skip
            status = int(registers[STATUS])
            if status in (DONE, FULL):
                return int(registers[ROW])
            if status == OUT_OF_RANGE:
                goes_on = self._set_aside(code, page, arena)
            elif status == CALL:
                goes_on = self._call(code, page.data, page.path, arena)
            else:
                raise self._error(code, page.data, page.path)
            if not goes_on:
                return int(registers[ROW])

    def _set_aside(self, code: Code, page: Page, arena: Arena) -> bool:
        """Keep the text of a value that its column cannot hold, and let the machine go on behind it.

        Returns:
            False if the column has no room for the NULL in its place.

        Raises:
            ValueOutOfRangeError: the value is a number longer than its type allows.
        """
        registers = self._registers
        pc = int(registers[PC])
        instruction = code.instructions[pc]
        top = int(registers[TOP])
        unread = UnreadValue(
            memoryview(page.data),
            instruction,
            int(registers[POSITION]),
            region=int(self._stack[top, FRAME_REGION]) if top >= 0 else 0,
            slots=int(self._stack[top, FRAME_SLOTS]) if top >= 0 else 0,
        )
        text_and_end = value_text(unread)
        if text_and_end is None:
            raise self._error(code, page.data, page.path)
        text, position = text_and_end
        column = int(instruction[COLUMN])
        index = int(arena.table[column][LENGTH])
        if machine.append_nulls(arena.table, arena.memory, column):
            return False
        self._cells.append((int(registers[ROW]), Cell(column, index, text)))
        registers[STATUS] = CALL
        registers[PC] = pc + 1
        registers[POSITION] = position
        return True

    def _call(self, code: Code, data: NDArray[np.uint8], path: str, arena: Arena | None) -> bool:
        """Read a Python leaf and let the machine go on behind it; return False if its value does not fit."""
        registers = self._registers
        pc = int(registers[PC])
        instruction = code.instructions[pc]
        leaf = code.leaves[int(instruction[LEAF])]
        start, limit = int(registers[POSITION]), int(registers[LIMIT])
        try:
            value, position = leaf.read(memoryview(data), start, limit)
        except ReaderError as error:
            raise error.within(*code.paths[pc], path=path) from error
        if self._keeps_objects:
            value = data[start:position].tobytes()
        column = int(instruction[COLUMN])
        if column != NO_COLUMN and arena is not None and not _append(arena, column, value):
            return False
        registers[PC] = pc + 1
        registers[POSITION] = position
        return True

    def measure(
        self,
        data: NDArray[np.uint8],
        position: int,
        limit: int,
        count: int,
        path: str,
        *,
        open_end: bool = False,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where `count` entries without lengths begin and end, from `position` on; for a `walker`.

        Args:
            open_end: the entries may go on behind `limit`: return those that end before it, perhaps none.

        Returns:
            Two int64 arrays of shape (entries, 1).

        Raises:
            CorruptDataError: the bytes contradict the program.
        """
        starts: NDArray[np.int64] = np.empty((count, 1), dtype=np.int64)
        ends: NDArray[np.int64] = np.empty((count, 1), dtype=np.int64)
        arena, code, registers = Arena(self.tree, 0, 0), self.code, self._registers
        registers[STATUS], registers[ROW] = DONE, 0
        while True:
            machine.measure(
                code.instructions, code.targets, code.pool, data, position, limit, starts, ends, count,
                arena.table, arena.memory, self._stack, registers,
            )  # fmt: skip
            status = int(registers[STATUS])
            if status == DONE:
                return starts, ends
            try:
                if status != CALL:
                    raise self._error(code, data, path)
                self._call(code, data, path, None)
            except ReaderError:
                if not open_end:
                    raise
                walked = int(registers[ROW])
                return starts[:walked], ends[:walked]

    def measure_each(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], limits: NDArray[np.int64], path: str
    ) -> NDArray[np.int64]:
        """Return the ends of values that begin at `starts`; for a `walker`. All arrays are int64 (values,).

        Raises:
            CorruptDataError: the bytes before the limit of a value contradict the program.
        """
        ends: NDArray[np.int64] = np.empty(len(starts), dtype=np.int64)
        firsts = np.ascontiguousarray(starts, dtype=np.int64).reshape(-1, 1)
        lasts = np.ascontiguousarray(limits, dtype=np.int64).reshape(-1, 1)
        arena, code, registers = Arena(self.tree, 0, 0), self.code, self._registers
        registers[STATUS], registers[ROW] = DONE, 0
        while True:
            machine.measure_each(
                code.instructions, code.targets, code.pool, data, firsts, lasts, ends, len(ends),
                arena.table, arena.memory, self._stack, registers,
            )  # fmt: skip
            status = int(registers[STATUS])
            if status == DONE:
                return ends
            if status != CALL:
                raise self._error(code, data, path)
            self._call(code, data, path, None)

    def _error(self, code: Code, data: NDArray[np.uint8], path: str) -> ReaderError:
        """Return the error for the machine's status, with the field path and a hex window."""
        registers = self._registers
        status = int(registers[STATUS])
        position = int(registers[POSITION])
        if status == BAD_CLASS:
            return self._unknown_class(code, data, path, position, int(registers[DETAIL_A]))
        kind = ValueOutOfRangeError if status == OUT_OF_RANGE else CorruptDataError
        text = MESSAGES[status].format(a=int(registers[DETAIL_A]), b=int(registers[DETAIL_B]))
        at = max(position, 0)
        window = hex_window(memoryview(data), min(at, len(data)))
        crumbs = code.paths[int(registers[PC])]
        return kind(f"{text}; bytes {window}", path=path, position=at, breadcrumbs=crumbs)

    def _unknown_class(
        self, code: Code, data: NDArray[np.uint8], path: str, position: int, length: int
    ) -> ReaderError:
        """Return the error for a class that no snapshot describes, or for corruption if the bytes name no class."""
        crumbs = code.paths[int(self._registers[PC])]
        name = data[position + 2 : position + 2 + length].tobytes().decode("utf-8", "replace")
        if _CLASS_NAME.fullmatch(name):
            message = f"expected a class that the savepoint describes, found an object of {name}"
            return UnsupportedSerializerError(message, path=path, position=position, breadcrumbs=crumbs)
        text = MESSAGES[BAD_CLASS].format(a=length)
        window = hex_window(memoryview(data), position)
        return CorruptDataError(f"{text}; bytes {window}", path=path, position=position, breadcrumbs=crumbs)


def _append(arena: Arena, column: int, value: bytes | None) -> bool:
    """Append one value to a FIXED or VARIABLE column; return False if it does not fit."""
    if value is None:
        return not machine.append_nulls(arena.table, arena.memory, column)
    entry = arena.table[column]
    if entry[LAYOUT] == FIXED:
        return _append_fixed(arena, entry, value)
    used, length = int(entry[DATA_LENGTH]), int(entry[LENGTH])
    if used + len(value) > entry[DATA_CAPACITY]:
        return False
    start = int(entry[DATA]) + used
    arena.memory[start : start + len(value)] = np.frombuffer(value, dtype=np.uint8)
    if machine.append_variable(arena.table, arena.memory, column, used + len(value)):
        return False
    assert entry[VALUES] >= 0
    assert entry[LENGTH] == length + 1
    return True


def _append_fixed(arena: Arena, entry: NDArray[np.int64], value: bytes) -> bool:
    """Append one value, as Arrow stores it, to a FIXED column; return False if it does not fit."""
    length, width = int(entry[LENGTH]), int(entry[WIDTH])
    if length >= entry[CAPACITY]:
        return False
    start = int(entry[VALUES]) + length * width
    arena.memory[start : start + width] = np.frombuffer(value, dtype=np.uint8)
    entry[LENGTH] = length + 1
    return True


def walker(emit: Callable[[Program], None]) -> Decoder:
    """Return a decoder without columns, for `measure` and `measure_each`: it finds where values end."""
    tree = ColumnTree(pa.struct([]))
    program = Program(tree, enabled=False)
    emit(program)
    return Decoder(tree, program.finish())


def load_machine() -> None:
    """Load the interpreter's object code into this process; compile it first where none is kept."""
    machine.execute.load()


def warm() -> None:
    """Load and run the machine once, so that the first page of this process need not wait; compile it if need be."""
    tree = ColumnTree(pa.struct([pa.field("value", pa.int32())]))
    program = Program(tree)
    program.struct()
    with program.field(0, "value"):
        program.fixed(4)
    program.expect_end()
    data = np.zeros(4, dtype=np.uint8)
    starts: NDArray[np.int64] = np.zeros((1, 1), dtype=np.int64)
    for _ in Decoder(tree, program.finish()).decode(Page.of(data, (starts, starts + 4), 0, 0, "")):
        pass
    numbers = walker(lambda program: program.fixed(4))
    numbers.measure(data, 0, 4, 1, "")
    numbers.measure_each(data, starts[0], starts[0] + 4, "")
