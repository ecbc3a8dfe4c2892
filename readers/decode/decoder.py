"""The loop around the interpreter: batches, growth, Python leaves, errors.

A `Decoder` holds a program, the column tree it fills and the stack; one belongs to one thread. A batch that
outgrows its arena ends early and the next one is given more room, so memory follows the data, not the worst
case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode.columns import (
    DATA,
    DATA_CAPACITY,
    DATA_LENGTH,
    LENGTH,
    NO_COLUMN,
    VALUES,
    Arena,
    ColumnTree,
)
from readers.decode.machine import execute as machine
from readers.decode.outliers import Cell, Outlier, Place, located, maps_with_null_keys, value_text
from readers.decode.page import Page
from readers.decode.program import Code, Program
from readers.errors import (
    CorruptDataError,
    ReaderError,
    UnsupportedSerializerError,
    ValueOutOfRangeError,
    hex_window,
)

_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")
BATCH_ENTRIES = 32_768
BATCH_BYTES = 4 << 20

_MESSAGES = {
    machine.TOO_SHORT: "expected {a} bytes, found {b} left",
    machine.TRAILING: "expected the end of the entry, found {a} bytes more",
    machine.BAD_FLAG: "expected a flag 0 or 1, found {a}",
    machine.BAD_TAG: "expected a known tag, found {a}",
    machine.BAD_CLASS: "expected the name of a known class, found another of {a} bytes",
    machine.BAD_COUNT: "expected a count or length, found {a} with {b} bytes left",
    machine.BAD_DELIMITER: "expected the list delimiter 44, found {a}",
    machine.BAD_INDEX: "expected an index of {b} enum constants, found {a}",
    machine.BAD_TEXT: "expected text, found bytes that are none",
    machine.BAD_SUFFIX: "expected the length {b} behind the key, found {a}",
    machine.OUT_OF_RANGE: "the value does not fit its column type exactly ({a})",
    machine.BAD_DATE: "expected a date or time, found {a}",
}


@dataclass(frozen=True, slots=True)
class Batch:
    """Some decoded entries.

    Attributes:
        page: the entries.
        arrays: the children of the root struct.
        outliers: what these have NULL for because their types cannot hold it.
    """

    page: Page
    arrays: list[pa.Array]
    outliers: list[Outlier]


class Decoder:
    """Runs one program over pages.

    Args:
        tree: the columns.
        code: the program that fills them.
        undescribed: the program for entries whose value is of a class that the savepoint does not describe; an error
            if None.
        batch_entries, batch_bytes: the most of a page that becomes one batch; one entry always does.
    """

    def __init__(
        self,
        tree: ColumnTree,
        code: Code,
        *,
        undescribed: Code | None = None,
        batch_entries: int = BATCH_ENTRIES,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.tree = tree
        self.code = code
        self._undescribed = undescribed
        self._batch_entries = batch_entries
        self._batch_bytes = batch_bytes
        self._stack: NDArray[np.int64] = np.zeros((code.depth, machine.FRAME), dtype=np.int64)
        self._registers: NDArray[np.int64] = np.zeros(machine.REGISTERS, dtype=np.int64)
        self._cells: list[tuple[int, Cell]] = []  # of the batch under way, each with its entry

    def decode(self, page: Page) -> Iterator[Batch]:
        """The page's entries in batches.

        Raises:
            CorruptDataError: the bytes contradict the program.
            UnsupportedSerializerError: an object of a class that the savepoint does not describe.
            ValueOutOfRangeError: an entry of 2 GiB, a number longer than its type allows.
        """
        start = 0
        while start < len(page):
            stop, input_bytes = self._batch_end(page, start)
            arena = Arena(self.tree, stop - start, input_bytes)
            self._cells.clear()
            done = self._run(page, start, stop, arena)
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
            del arena
            yield batch.pop()  # not kept beside the next one
            start = done

    def _outliers(self, rows: int, end: int, arena: Arena) -> list[Outlier]:
        """What the first `rows` rows, up to entry `end`, cannot hold; it is NULL in the arena then."""
        cells = [cell for entry, cell in self._cells if entry < end]
        if arena.has_null_keys():
            arena.cut(rows)
            cells += maps_with_null_keys(arena)
        return located(cells, arena)

    def _batch_end(self, page: Page, start: int) -> tuple[int, int]:
        """As many entries as fit the limits of a batch, at least one: the first behind them, and their bytes."""
        stop = min(start + self._batch_entries, len(page))
        starts, ends = page.starts[start:stop], page.ends[start:stop]
        input_bytes = int(ends.sum() - starts.sum())
        if input_bytes > self._batch_bytes:
            sizes = np.cumsum((ends - starts).sum(axis=1))
            within = max(int(np.searchsorted(sizes, self._batch_bytes, side="right")), 1)
            stop, input_bytes = start + within, int(sizes[within - 1])
        return stop, input_bytes

    def _run(self, page: Page, start: int, stop: int, arena: Arena) -> int:
        """Decode entries `start` to `stop`; returns the first that did not fit."""
        registers = self._registers
        first = start
        while True:
            try:
                return self._execute(self.code, page, first, stop, arena)
            except UnsupportedSerializerError:
                if self._undescribed is None:
                    raise
                first = int(registers[machine.ROW])
                arena.cut(first - start)
                self._cells = [(entry, cell) for entry, cell in self._cells if entry < first]
            done = self._execute(self._undescribed, page, first, first + 1, arena)
            if done == first:
                return first
            first = done

    def _execute(self, code: Code, page: Page, start: int, stop: int, arena: Arena) -> int:
        registers = self._registers
        registers[machine.STATUS] = machine.DONE
        registers[machine.ROW] = start
        while True:
            machine.execute(
                code.instructions, code.targets, code.pool, page.data, page.starts, page.ends, page.starts.shape[1], stop,
                arena.table, arena.memory, self._stack, registers,
            )  # fmt: skip
            status = int(registers[machine.STATUS])
            if status in (machine.DONE, machine.FULL):
                return int(registers[machine.ROW])
            if status == machine.OUT_OF_RANGE:
                went_on = self._set_aside(code, page, arena)
            elif status == machine.CALL:
                went_on = self._call(page.data, page.path, arena)
            else:
                raise self.error(page.data, page.path)
            if not went_on:
                return int(registers[machine.ROW])

    def _set_aside(self, code: Code, page: Page, arena: Arena) -> bool:
        """Keep the text of a value that its column cannot hold, and go on behind it; False if the column is full.

        Raises:
            ValueOutOfRangeError: a number longer than its type allows.
        """
        registers = self._registers
        pc = int(registers[machine.PC])
        instruction = code.instructions[pc]
        top = int(registers[machine.TOP])
        place = Place(
            memoryview(page.data),
            instruction,
            int(registers[machine.POSITION]),
            region=int(self._stack[top, machine.REGION]) if top >= 0 else 0,
            slots=int(self._stack[top, machine.SLOTS]) if top >= 0 else 0,
        )
        found = value_text(place)
        if found is None:
            raise self.error(page.data, page.path)
        text, position = found
        column = int(instruction[1])
        index = int(arena.table[column][LENGTH])
        if machine.put_nulls(arena.table, arena.memory, column):
            return False
        self._cells.append((int(registers[machine.ROW]), Cell(column, index, text)))
        registers[machine.STATUS] = machine.CALL
        registers[machine.PC] = pc + 1
        registers[machine.POSITION] = position
        return True

    def _call(self, data: NDArray[np.uint8], path: str, arena: Arena | None) -> bool:
        """Read a Python leaf and go on behind it; False if its value did not fit."""
        registers = self._registers
        pc = int(registers[machine.PC])
        instruction = self.code.instructions[pc]
        leaf = self.code.leaves[int(instruction[2])]
        position, limit = int(registers[machine.POSITION]), int(registers[machine.LIMIT])
        try:
            value, position = leaf.read(memoryview(data), position, limit)
        except ReaderError as error:
            raise error.within(*self.code.paths[pc], path=path) from error
        column = int(instruction[1])
        if column != NO_COLUMN and arena is not None and not _append(arena, column, value):
            return False
        registers[machine.PC] = pc + 1
        registers[machine.POSITION] = position
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
        """Where `count` entries without lengths begin and end, from `position` on; see `machine.measure`.

        The decoder's program must have no columns (`Program(…, enabled=False)`). With `open_end` the entries may go on behind
        `limit`: they are as many as could be walked until there, perhaps none.

        Raises:
            CorruptDataError: the bytes contradict the program.
        """
        starts: NDArray[np.int64] = np.empty((count, 1), dtype=np.int64)
        ends: NDArray[np.int64] = np.empty((count, 1), dtype=np.int64)
        arena = Arena(self.tree, 0, 0)
        registers = self._registers
        registers[machine.STATUS] = machine.DONE
        registers[machine.ROW] = 0
        code = self.code
        while True:
            machine.measure(
                code.instructions, code.targets, code.pool, data, position, limit, starts, ends, count,
                arena.table, arena.memory, self._stack, registers,
            )  # fmt: skip
            status = int(registers[machine.STATUS])
            if status == machine.DONE:
                return starts, ends
            try:
                if status != machine.CALL:
                    raise self.error(data, path)
                self._call(data, path, None)
            except ReaderError:
                if not open_end:
                    raise
                walked = int(registers[machine.ROW])
                return starts[:walked], ends[:walked]

    def measure_each(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], limits: NDArray[np.int64], path: str
    ) -> NDArray[np.int64]:
        """Where what the program lays out ends if it begins at each of `starts`: int64 (parts,), as both arguments.

        Raises:
            CorruptDataError: the bytes contradict the program before the part's limit.
        """
        ends: NDArray[np.int64] = np.empty(len(starts), dtype=np.int64)
        firsts = np.ascontiguousarray(starts, dtype=np.int64).reshape(-1, 1)
        lasts = np.ascontiguousarray(limits, dtype=np.int64).reshape(-1, 1)
        arena = Arena(self.tree, 0, 0)
        registers = self._registers
        registers[machine.STATUS] = machine.DONE
        registers[machine.ROW] = 0
        code = self.code
        while True:
            machine.measure_each(
                code.instructions, code.targets, code.pool, data, firsts, lasts, ends, len(ends),
                arena.table, arena.memory, self._stack, registers,
            )  # fmt: skip
            status = int(registers[machine.STATUS])
            if status == machine.DONE:
                return ends
            if status != machine.CALL:
                raise self.error(data, path)
            self._call(data, path, None)

    def error(self, data: NDArray[np.uint8], path: str) -> ReaderError:
        """What the machine's error status means, with the field path and a hex window."""
        registers = self._registers
        status = int(registers[machine.STATUS])
        position = int(registers[machine.POSITION])
        if status == machine.BAD_CLASS:
            return self._unknown_class(data, path, position, int(registers[machine.DETAIL_A]))
        kind = ValueOutOfRangeError if status == machine.OUT_OF_RANGE else CorruptDataError
        text = _MESSAGES[status].format(
            a=int(registers[machine.DETAIL_A]), b=int(registers[machine.DETAIL_B])
        )
        at = max(position, 0)
        window = hex_window(memoryview(data), min(at, len(data)))
        crumbs = self.code.paths[int(registers[machine.PC])]
        return kind(f"{text}; bytes {window}", path=path, position=at, breadcrumbs=crumbs)

    def _unknown_class(self, data: NDArray[np.uint8], path: str, position: int, length: int) -> ReaderError:
        """A subclass that no snapshot describes; corruption where the bytes name no class."""
        crumbs = self.code.paths[int(self._registers[machine.PC])]
        name = data[position + 2 : position + 2 + length].tobytes().decode("utf-8", "replace")
        if _CLASS_NAME.fullmatch(name):
            message = f"expected a class that the savepoint describes, found an object of {name}"
            return UnsupportedSerializerError(message, path=path, position=position, breadcrumbs=crumbs)
        text = _MESSAGES[machine.BAD_CLASS].format(a=length)
        window = hex_window(memoryview(data), position)
        return CorruptDataError(f"{text}; bytes {window}", path=path, position=position, breadcrumbs=crumbs)


def _append(arena: Arena, column: int, value: bytes | None) -> bool:
    """Append one value to a VARIABLE column; False if it does not fit."""
    if value is None:
        return not machine.put_nulls(arena.table, arena.memory, column)
    entry = arena.table[column]
    used, length = int(entry[DATA_LENGTH]), int(entry[LENGTH])
    if used + len(value) > entry[DATA_CAPACITY]:
        return False
    start = int(entry[DATA]) + used
    arena.memory[start : start + len(value)] = np.frombuffer(value, dtype=np.uint8)
    if machine.close_variable(arena.table, arena.memory, column, used + len(value)):
        return False
    assert entry[VALUES] >= 0
    assert entry[LENGTH] == length + 1
    return True


def walker(emit: Callable[[Program], None]) -> Decoder:
    """A decoder that only walks: for `measure` and `measure_each`."""
    tree = ColumnTree(pa.struct([]))
    program = Program(tree, enabled=False)
    emit(program)
    return Decoder(tree, program.finish())


def load_machine() -> None:
    """Load the interpreter's object code into this process; compile it first where none is kept."""
    machine.execute.load()


def warm() -> None:
    """Load the machine, or compile it where no cache has it: what the first page of a process would wait for."""
    tree = ColumnTree(pa.struct([pa.field("value", pa.int32())]))
    program = Program(tree)
    program.struct()
    with program.field(0, "value"):
        program.fixed(4)
    program.expect_end()
    data = np.zeros(4, dtype=np.uint8)
    starts: NDArray[np.int64] = np.zeros((1, 1), dtype=np.int64)
    page = Page(
        data=data, starts=starts, ends=starts + 4, key_groups=np.zeros(1, dtype=np.int32), subtask=0, path=""
    )
    for _ in Decoder(tree, program.finish()).decode(page):
        pass
    walk = walker(lambda walked: walked.fixed(4))
    walk.measure(data, 0, 4, 1, "")
    walk.measure_each(data, starts[0], starts[0] + 4, "")
