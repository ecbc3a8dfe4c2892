"""Entries → the key groups of a canonical file; `readers/formats/full/layout.py` has the layout.

Entries are the addresses of their bytes: those of the source, and those that were encoded, side by side in any order. An entry says in
its first bit that the id of another state follows it. So the last entry of a state is kept back until the next state, or the end of the
key group, is known. The positions of key groups stand in `_metadata`, so one pass over a file is enough. Compressed key groups are
streams of their own, of snappy's framing format with right checksums. Flink: FullSnapshotAsyncWriter.

Flink takes the last of two entries with one key, without an error: so a key that is added must be new. Keys are equal where their
bytes are, as in RocksDB.

States that an operator gets have their entries behind those of the states that it has, in every key group.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import cramjam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import (
    Page,
    ResolvedFile,
    Source,
    Stream,
    copy_bytes,
    kernel,
    load_le_i8,
    load_u1,
    store_1,
    store_be_4,
)
from readers.metadata import (
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    Offsets,
    RelativeFileStateHandle,
)
from writers.edits import Create, KeyedStateMaker
from writers.headers import RegisteredState, write_keyed_header
from writers.target import Chunk, NewFile

KEY_ADDRESS, KEY_BYTES, VALUE_ADDRESS, VALUE_BYTES = range(4)
FIELDS = 4


def groups_within(groups: NDArray[Any], within: KeyGroupRange) -> NDArray[Any]:
    """Return those of some key groups that are in a range."""
    return groups[(groups >= within.start) & (groups <= within.end)]


@dataclass(frozen=True, slots=True)
class EntrySegments:
    """Canonical entries: a composite key and a value each.

    Attributes:
        table: int64 (entries, FIELDS); see the names above.
        buffers: the arrays that the addresses lie in: they live as long as the entries.
    """

    table: NDArray[np.int64]
    buffers: tuple[NDArray[np.uint8], ...]

    def __len__(self) -> int:
        return len(self.table)

    @classmethod
    def of(cls, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> EntrySegments:
        """Return entries of one buffer; `starts` and `ends` are int64 (entries, 2)."""
        base = int(data.__array_interface__["data"][0])
        table: NDArray[np.int64] = np.empty((len(starts), FIELDS), dtype=np.int64)
        table[:, KEY_ADDRESS::2] = starts + base
        table[:, KEY_BYTES::2] = ends - starts
        return cls(table, (data,))

    @classmethod
    def of_page(cls, page: Page) -> EntrySegments:
        """Return the entries of a page."""
        return cls.of(page.data, page.starts, page.ends)

    def page(self, origin: Page) -> Page:
        """Return entries of one buffer as a page that stands for some of another one."""
        [data] = self.buffers
        base = int(data.__array_interface__["data"][0])
        starts = self.table[:, KEY_ADDRESS::2] - base
        bounds = starts, starts + self.table[:, KEY_BYTES::2]
        return Page.of(data, bounds, 0, origin.subtask, origin.path)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> EntrySegments:
        """Return some of the entries, by their numbers or by a mask."""
        return EntrySegments(np.ascontiguousarray(self.table[rows]), self.buffers)

    def with_values(self, rows: NDArray[np.int64], values: EntrySegments) -> EntrySegments:
        """Return the entries; those at `rows` have the values of `values`, in order, and keep their keys."""
        table = self.table.copy()
        table[rows, VALUE_ADDRESS:] = values.table[:, VALUE_ADDRESS:]
        return EntrySegments(table, (*self.buffers, *values.buffers))

    def replaced(self, rows: NDArray[np.int64], entries: EntrySegments) -> EntrySegments:
        """Return the entries with others at `rows`, in order."""
        table = self.table.copy()
        table[rows] = entries.table
        return EntrySegments(table, (*self.buffers, *entries.buffers))


_END_OF_KEY_GROUP = 0xFFFF
_META_FOLLOWS = 0x80
_LENGTH_BYTES = 4
_BUFFERED_BYTES = 1 << 20
_COPIED_BYTES = 8 << 20


@kernel
def _assemble(table: int, count: int, output: int) -> int:
    """Write entries, none of which is marked as the last one; return the position of the last one's key."""
    position = 0
    key = 0
    for entry in range(count):
        field = entry * 32
        size = load_le_i8(table, field + 8)
        store_be_4(output, position, size)
        key = position + 4
        copy_bytes(load_le_i8(table, field), output + key, size)
        # Entries of a canonical source may be marked.
        store_1(output, key, load_u1(output, key) & 0x7F)
        position = key + size
        size = load_le_i8(table, field + 24)
        store_be_4(output, position, size)
        copy_bytes(load_le_i8(table, field + 16), output + position + 4, size)
        position += 4 + size
    return key


def page_of(entries: EntrySegments, group: int, source: Source) -> Page:
    """Return entries of a key group in one buffer, as a page of a source has them."""
    output, _ = _assembled(entries.table)
    lengths = entries.table[:, KEY_BYTES::2]
    ends = np.cumsum(lengths + _LENGTH_BYTES, dtype=np.int64).reshape(-1, 2)
    return Page.of(output, (ends - lengths, ends), group, source.subtask, source.path)


def marked_run(entries: Sequence[EntrySegments]) -> NDArray[np.uint8] | None:
    """Return entries as a canonical file has them, the last of them marked; None if there are none."""
    tables = [one.table for one in entries if len(one)]
    if not tables:
        return None
    output, last_key = _assembled(np.concatenate(tables))
    output[last_key] |= _META_FOLLOWS
    return output


def made_file(
    create: Create, groups: KeyGroupRange, write: Callable[[StateFile], Offsets]
) -> KeyGroupsSavepointStateHandle:
    """Write a new file with the state of a subtask, and return its handle.

    Args:
        create: begins it.
        groups: the key groups of the subtask.
        write: writes all of it; returns the position of each key group.
    """
    name = str(uuid.uuid4())
    with create(name) as new:
        file = StateFile(new)
        offsets = write(file)
        file.flush()
    delegate = RelativeFileStateHandle(relative_path=name, state_size=file.position)
    return KeyGroupsSavepointStateHandle(key_group_range=groups, offsets=offsets, delegate=delegate)


class StateFile:
    """A file of the target, with the position in it.

    Attributes:
        position: the number of bytes so far.
    """

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._waiting = bytearray()
        self.position = 0

    def write(self, chunk: Chunk | NDArray[np.uint8]) -> None:
        """Append bytes; small ones wait for others."""
        view = memoryview(chunk)
        self.position += view.nbytes
        if len(self._waiting) + view.nbytes <= _BUFFERED_BYTES:
            self._waiting += view
            return
        self.flush()
        if view.nbytes < _BUFFERED_BYTES:
            self._waiting += view
        else:
            self._file.write(view)

    def copy(self, stream: Stream, file: ResolvedFile | None, start: int, end: int) -> None:
        """Append bytes `[start, end)` of a stream.

        Args:
            stream: its bytes.
            file: the file that it is a range of; None for bytes of `_metadata`.
            start, end: positions in the stream.
        """
        size = end - start
        if file is not None and size >= _BUFFERED_BYTES:
            self.flush()
            if self._file.copy(file, file.start + start, size):
                self.position += size
                return
        for first in range(start, end, _COPIED_BYTES):
            length = min(_COPIED_BYTES, end - first)
            self.write(memoryview(stream.view(first, length)))
            stream.release(first, length)

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            self._file.write(self._waiting)
            self._waiting = bytearray()


class KeyGroupAssembler:
    """Assembles the key groups of one file.

    Args:
        file: takes them.
        compressed: whether each is a stream of snappy.
    """

    def __init__(self, file: StateFile, *, compressed: bool) -> None:
        self._file = file
        self._packed = _PackedGroup(file) if compressed else None
        self._start = 0
        self._state: int | None = None  # whose id is written before the next entry
        self._is_empty = True
        self._last: NDArray[np.uint8] | None = None
        self._last_key = 0

    def begin(self) -> None:
        """Begin a key group."""
        self._start = self._file.position
        self._is_empty = True
        if self._packed is not None:
            self._packed.begin()

    def state(self, state: int) -> None:
        """Begin the entries of a state; it may turn out to have none."""
        self._state = state

    def add(self, entries: EntrySegments) -> None:
        """Append entries of the state."""
        if not len(entries):
            return
        self._begin_state()
        self._last, self._last_key = _assembled(entries.table)

    def add_run(self, run: NDArray[np.uint8]) -> None:
        """Append entries of the state as a canonical file has them: the last of the state is marked, in the last piece."""
        self._begin_state()
        self._write(run)

    def end(self) -> int:
        """End the key group; return its position in the file, 0 if it is empty."""
        if self._is_empty:
            return 0
        self._mark()
        self._write(_END_OF_KEY_GROUP.to_bytes(2, "big"))
        if self._packed is not None:
            self._packed.end()
        return self._start

    def _begin_state(self) -> None:
        if self._state is None:
            self._release()
            return
        self._mark()
        self._write(self._state.to_bytes(2, "big"))
        self._state = None
        self._is_empty = False

    def _mark(self) -> None:
        """Mark the last entry of a state: the id of another follows."""
        if self._last is not None:
            self._last[self._last_key] |= _META_FOLLOWS
        self._release()

    def _release(self) -> None:
        if self._last is not None:
            self._write(self._last)
            self._last = None

    def _write(self, data: NDArray[np.uint8] | bytes) -> None:
        if self._packed is not None:
            self._packed.write(data)
        else:
            self._file.write(data)


def _assembled(table: NDArray[np.int64]) -> tuple[NDArray[np.uint8], int]:
    """Return the entries of a table one after the other, with the position of the last one's key."""
    size = int(table[:, KEY_BYTES::2].sum()) + 2 * _LENGTH_BYTES * len(table)
    output: NDArray[np.uint8] = np.empty(size, dtype=np.uint8)
    return output, _assemble(np.ascontiguousarray(table), len(table), output)


def assembled(entries: EntrySegments) -> NDArray[np.uint8]:
    """Return entries one after the other, as a canonical file has them; none of them is marked as the last one."""
    return _assembled(entries.table)[0]


class _PackedGroup:
    """A key group as a stream of snappy."""

    def __init__(self, file: StateFile) -> None:
        self._file = file
        self._plain = bytearray()
        self._packer: Any = None

    def begin(self) -> None:
        self._packer = cramjam.snappy.Compressor()

    def write(self, data: NDArray[np.uint8] | bytes) -> None:
        self._plain += memoryview(data)
        if len(self._plain) >= _BUFFERED_BYTES:
            self._pack()

    def end(self) -> None:
        self._pack()
        self._file.write(bytes(self._packer.finish()))

    def _pack(self) -> None:
        self._packer.compress(bytes(self._plain))
        self._plain = bytearray()
        self._file.write(bytes(self._packer.flush()))


@kernel
def _gather(table: int, count: int, skipped: int, output: int) -> int:
    """Copy keys one after the other; the mark of the last entry of a state is no part of its key."""
    position = 0
    for entry in range(count):
        field = entry * 32
        size = load_le_i8(table, field + 8) - skipped
        copy_bytes(load_le_i8(table, field) + skipped, output + position, size)
        if size > 0 and skipped == 0:
            store_1(output, position, load_u1(output, position) & 0x7F)
        position += size
    return position


def key_column(entries: EntrySegments, skipped: int = 0) -> pa.LargeBinaryArray:
    """Return the composite key of each entry, without some bytes at its begin."""
    table = np.ascontiguousarray(entries.table)
    sizes = table[:, KEY_BYTES] - skipped
    offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    output: NDArray[np.uint8] = np.empty(max(int(offsets[-1]), 1), dtype=np.uint8)
    _gather(table, len(table), skipped, output)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(table), [None, pa.py_buffer(offsets), pa.py_buffer(output)]
    )


class NewKeys:
    """The keys of entries that are added to a key group.

    Args:
        entries: those that are added.
    """

    def __init__(self, entries: EntrySegments) -> None:
        self._keys = key_column(entries)
        self._sizes = np.unique(entries.table[:, KEY_BYTES])

    def repeated(self) -> int | None:
        """Return the number of the first entry whose key an earlier one has; None if there is none."""
        firsts = pc.index_in(self._keys, self._keys).to_numpy()
        later = np.flatnonzero(firsts != np.arange(len(firsts)))
        return int(later[0]) if len(later) else None

    def found(self, entries: EntrySegments) -> NDArray[np.int64]:
        """Return which of the new keys each entry has, int64 (entries,); -1 where it has none."""
        numbers: NDArray[np.int64] = np.full(len(entries), -1, dtype=np.int64)
        alike = np.flatnonzero(np.isin(entries.table[:, KEY_BYTES], self._sizes))
        if len(alike):
            keys = key_column(entries.take(alike))
            numbers[alike] = pc.index_in(keys, value_set=self._keys).fill_null(-1).to_numpy()
        return numbers


class AddedState(Protocol):
    """A state with entries that no source has."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def groups(self) -> NDArray[np.int64]:
        """The key groups that have entries, ascending."""

    @property
    def size_bytes(self) -> int:
        """The bytes of its entries, as far as they are known."""

    def registered(self) -> RegisteredState:
        """Return its registration in the header of a state file."""

    def key_block(self) -> bytes:
        """Return the snapshot of its keys, as the header of a keyed state file has it."""

    def run(self, group: int) -> NDArray[np.uint8] | None:
        """Return the entries of a key group as a canonical file has them, the last of them marked; None if it has none."""


def add_states(assembler: KeyGroupAssembler, states: Sequence[AddedState], first_id: int, group: int) -> None:
    """Append the entries of states to a key group that is being assembled."""
    for number, state in enumerate(states):
        run = state.run(group)
        if run is not None:
            assembler.state(first_id + number)
            assembler.add_run(run)


@dataclass(frozen=True, slots=True)
class AddedStatesMaker(KeyedStateMaker):
    """Makes the keyed state of a subtask that has added states and no others.

    Attributes:
        states: the states.
        groups: the key groups of the subtask.
    """

    states: Sequence[AddedState]
    groups: KeyGroupRange

    @property
    def size_bytes(self) -> int:
        owned = ((state, len(groups_within(state.groups, self.groups))) for state in self.states)
        return sum(state.size_bytes * own // max(1, len(state.groups)) for state, own in owned)

    def make(self, create: Create) -> KeyedStateHandle:
        header = write_keyed_header(self.states[0].key_block(), [state.registered() for state in self.states])

        def write(file: StateFile) -> Offsets:
            file.write(header)
            assembler = KeyGroupAssembler(file, compressed=False)
            offsets: Offsets = np.zeros(self.groups.number_of_key_groups, dtype=np.int64)
            for number in range(len(offsets)):
                assembler.begin()
                add_states(assembler, self.states, 0, self.groups.start + number)
                offsets[number] = assembler.end()
            return offsets

        return made_file(create, self.groups, write)
