"""The entries of one new state, by key group, in a file that is gone with the program.

Batches of rows come in any order of keys. The entries of each batch are sorted by key group and appended to the file; a table in
memory holds where each batch has each key group. So the size of a state is bounded by the disk, and the memory that a key group
takes by the key group.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import ComposedSource, Page, StateKind, StateName, StatePart, composite_program
from writers.creation.grouping import FRAME_BYTES, EntryRun, packed
from writers.creation.states import NewState
from writers.encode.encoder import Encoder
from writers.encode.fitting import shown
from writers.errors import UnencodableValueError, WriterError
from writers.hashes import key_groups_of
from writers.headers import RegisteredState
from writers.keyed.assembly import EntrySegments, assembled
from writers.target import TargetPart

_IN_MEMORY_BYTES = 32 << 20
_BATCH_ROWS = 1 << 17
_HELD_BYTES = 8 << 20


class _OfNewState:
    """What entries of a new keyed state say of it, as an `AddedState`."""

    state: NewState

    @property
    def name(self) -> str:
        """The name of the state."""
        return self.state.name

    def registered(self) -> RegisteredState:
        """Return its registration in the header of a state file."""
        return self.state.registered()

    def key_block(self) -> bytes:
        """Return the snapshot of its keys, as the header of a keyed state file has it."""
        return self.state.key_block()


class SpooledEntries(_OfNewState):
    """The entries of a new keyed state: an `AddedState`.

    Args:
        state: its types.
        max_parallelism: the number of key groups.
        folder: where the file is; the system's if None.

    Attributes:
        rows: how many were added.
    """

    def __init__(self, state: NewState, max_parallelism: int, folder: Path | None = None) -> None:
        self.state = state
        self.max_parallelism = max_parallelism
        self.rows = 0
        entry = state.entry
        tree, code = composite_program(entry, max_parallelism)
        self._encoder = Encoder(tree, code, segments=2)
        self._key = state.types["key"]
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(folder) if folder else None)  # noqa: SIM115  # closed below
        self._closing = weakref.finalize(self, self._file.close)
        self._size = 0
        # Of each batch: where it begins in the file, and where each key group begins in it.
        self._runs: list[tuple[int, NDArray[np.int32]]] = []
        self._counts: NDArray[np.int64] = np.zeros(max_parallelism, dtype=np.int64)

    @property
    def size_bytes(self) -> int:
        """The bytes of its entries."""
        return self._size

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; each makes an entry, or an element of a list.

        Raises:
            WriterError: a value does not fit, or a key has no hash that is known.
        """
        for start in range(0, rows.num_rows, _BATCH_ROWS):
            self._add(rows.slice(start, _BATCH_ROWS))

    def _add(self, rows: pa.RecordBatch) -> None:
        try:
            columns = self._columns(rows)
            keys = columns[self._encoder.schema.get_field_index("key")]
            groups = key_groups_of(self._key, keys, self.max_parallelism)
            encoded, error = self._encoder.encode_arrays(columns, rows.num_rows, groups)
            if error is not None:
                raise error
        except WriterError as error:
            if error.row >= 0:
                error.row += self.rows
            raise
        order = np.argsort(groups, kind="stable")
        data = packed(encoded, order)
        sizes = encoded.ends[:, 1] - encoded.starts[:, 0] + FRAME_BYTES
        self._append(data, np.bincount(groups, weights=sizes, minlength=self.max_parallelism))
        self._counts += np.bincount(groups, minlength=self.max_parallelism)
        self.rows += rows.num_rows

    def add_entries(self, entries: Iterable[tuple[int, EntrySegments]]) -> None:
        """Add entries that are made already, each with its key group."""
        held: list[tuple[int, NDArray[np.uint8]]] = []
        size = 0
        for group, some in entries:
            if not len(some):
                continue
            held.append((group, assembled(some)))
            size += held[-1][1].size
            self._counts[group] += len(some)
            self.rows += len(some)
            if size >= _HELD_BYTES:
                self._write(held)
                held, size = [], 0
        if held:
            self._write(held)

    def _write(self, held: list[tuple[int, NDArray[np.uint8]]]) -> None:
        held.sort(key=lambda one: one[0])
        groups = [group for group, _ in held]
        by_group = np.bincount(
            groups, weights=[data.size for _, data in held], minlength=self.max_parallelism
        )
        self._append(np.concatenate([data for _, data in held]), by_group)

    def _append(self, data: NDArray[np.uint8], by_group: NDArray[Any]) -> None:
        """Append entries in the order of their key groups, whose sizes are given."""
        begins = np.zeros(self.max_parallelism + 1, dtype=np.int32)
        begins[1:] = np.cumsum(by_group)
        self._file.seek(self._size)
        self._file.write(memoryview(data))
        self._runs.append((self._size, begins))
        self._size += len(data)

    def _columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        schema = self._encoder.schema
        if self.state.kind is not StateKind.LIST:
            return self.state.entry_columns(rows, schema)
        # Each row is a list of one element; lists of one key are joined later.
        number = schema.get_field_index("value")
        field = schema.field(number)
        elements = schema.set(number, field.with_type(field.type.value_type))
        columns = self.state.entry_columns(rows, elements)
        offsets = pa.array(np.arange(rows.num_rows + 1, dtype=np.int32))
        columns[number] = pa.ListArray.from_arrays(offsets, columns[number], type=field.type)
        return columns

    @property
    def groups(self) -> NDArray[np.int64]:
        """The key groups that have entries, ascending."""
        return np.flatnonzero(self._counts)

    def entries(self, group: int) -> EntryRun | None:
        """Return the entries of a key group; None if it has none.

        Raises:
            UnencodableValueError: a key comes twice.
        """
        count = int(self._counts[group])
        if not count:
            return None
        found = EntryRun(self._read(group), count)
        if self.state.kind is StateKind.LIST:
            return found.joined()
        twice = found.duplicate()
        if twice is not None:
            raise UnencodableValueError(
                f"expected each {self._key_columns} once in {self.state.name}, found twice {self._shown(found, twice, group)}"
            )
        return found

    @property
    def _key_columns(self) -> str:
        names = [name for name in ("key", "namespace", "map_key") if name in self.state.types]
        return " and ".join([*names, "timestamp"] if self.state.kind is StateKind.TIMER else names)

    def _shown(self, run: EntryRun, number: int, group: int) -> str:
        """Return the key of an entry as text."""
        name = StateName(name=self.state.name)
        source = ComposedSource(
            subtask=0,
            path="",
            size_bytes=0,
            entries={name: self.state.entry},
            max_parallelism=self.max_parallelism,
        )
        page = Page.of(run.data, run.bounds(), group, 0, "").slice(number, number + 1)
        part = StatePart(source=source, name=name, entry=self.state.entry)
        (batch,) = part.decoded(iter([page]))
        columns = dict(zip(self._encoder.schema.names, batch.arrays, strict=True))
        wanted = [name for name in columns if name in self.state.types and name != "value"]
        return ", ".join(f"{name} {shown(columns[name][0])}" for name in wanted)

    def run(self, group: int) -> NDArray[np.uint8] | None:
        """Return the entries of a key group as a canonical file has them, the last of them marked; None if it has none."""
        found = self.entries(group)
        return None if found is None else found.marked()

    def _read(self, group: int) -> NDArray[np.uint8]:
        pieces = []
        for position, begins in self._runs:
            begin, end = int(begins[group]), int(begins[group + 1])
            if begin < end:
                self._file.seek(position + begin)
                pieces.append(self._file.read(end - begin))
        return np.frombuffer(bytearray().join(pieces), dtype=np.uint8)

    def stored(
        self, first: int, last: int, write: Callable[[NDArray[np.uint8]], TargetPart]
    ) -> StoredEntries:
        """Return the entries of the key groups `first` to `last` for another process.

        Args:
            first, last: the key groups.
            write: writes bytes where that process finds them.
        """
        groups = [group for group in self.groups.tolist() if first <= group <= last]
        return StoredEntries(
            state=self.state,
            parts={group: write(self._read(group)) for group in groups},
            counts={group: int(self._counts[group]) for group in groups},
        )

    def runs(self) -> Iterator[EntryRun]:
        """Yield the entries of each key group that has some.

        Raises:
            UnencodableValueError: a key comes twice.
        """
        for group in self.groups.tolist():
            found = self.entries(group)
            assert found is not None
            yield found

    def check(self) -> None:
        """Check that no key comes twice.

        Raises:
            UnencodableValueError: one does.
        """
        for _ in self.runs():
            pass

    def close(self) -> None:
        """Remove the file."""
        self._closing()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntries(_OfNewState):
    """Some of the entries of a new keyed state, whose keys differ, in a file of the target: an `AddedState`.

    Attributes:
        state: its types.
        parts: key group → its entries.
        counts: key group → the number of its entries.
    """

    state: NewState
    parts: Mapping[int, TargetPart]
    counts: Mapping[int, int]

    @property
    def groups(self) -> NDArray[np.int64]:
        """The key groups that have entries, ascending."""
        return np.array(sorted(self.parts), dtype=np.int64)

    @property
    def size_bytes(self) -> int:
        """The bytes of its entries."""
        return sum(part.size_bytes for part in self.parts.values())

    def run(self, group: int) -> NDArray[np.uint8] | None:
        """Return the entries of a key group as a canonical file has them, the last of them marked; None if it has none."""
        if group not in self.parts:
            return None
        data = np.frombuffer(bytearray(self.parts[group].read()), dtype=np.uint8)
        found = EntryRun(data, self.counts[group])
        return (found.joined() if self.state.kind is StateKind.LIST else found).marked()
