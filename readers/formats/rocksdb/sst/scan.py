"""The scan of a column family: reads its tables window by window, and merges them into pages.

Before the first entry a scan checks what our reader must know for certain: the MANIFEST, and the footer, properties and range
tombstones of every table with wanted keys. Then each sorted run (see `merge.py`) reads its tables one after the other, some
blocks at a time, into memory that is used again. No lock is held while compiled code runs or files are read.

What is known of tables that several instances share: incremental checkpoints of a job have most files in common.

Ten checkpoints that share a table parse its footer, its properties and its index once. The file is known again by its identity, whatever
name and path an instance has for it.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from readers.formats.rocksdb.sst import merge
from readers.formats.rocksdb.sst.blocks import SEQUENCE_BYTES, TRAILER_BYTES, Keys, decompress_elsewhere
from readers.formats.rocksdb.sst.files import Files
from readers.formats.rocksdb.sst.manifest import DataFile, Manifest, NotReadHereError, read_manifest
from readers.formats.rocksdb.sst.table import IndexBlocks, Table, TableFile, read_table
from readers.formats.rocksdb.sst.words import SLACK_BYTES

_MOST_TABLES = 2048
_INDEX_BLOCKS_BYTES = 32 << 20


class SharedTables:
    """The tables that were read last, by the identities of their files. Safe to share between threads.

    Attributes:
        index_blocks: the index blocks of these tables.
    """

    def __init__(self) -> None:
        self.index_blocks = IndexBlocks(_INDEX_BLOCKS_BYTES)
        self._lock = threading.Lock()
        self._tables: OrderedDict[Hashable, Table] = OrderedDict()

    def table(self, identity: Hashable, file: DataFile, read: Callable[[], Table]) -> Table:
        """Return the table of a file as some instance read it; reads it the first time.

        Args:
            identity: of the file.
            file: the file as the MANIFEST of this instance describes it: a table is checked against that.
            read: reads the table.

        Raises:
            ReaderError, NotReadHereError: as `read` does.
        """
        key = identity, file.size_bytes, file.smallest, file.largest
        with self._lock:
            known = self._tables.get(key)
            if known is not None:
                self._tables.move_to_end(key)
                return known
        table = read()
        with self._lock:
            self._tables[key] = table
            if len(self._tables) > _MOST_TABLES:
                self._tables.popitem(last=False)
        return table


SHARED = SharedTables()


Entries = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]

PAGE_ENTRIES = 1 << 15
PAGE_BYTES = 1 << 22
# A window of a run; with very many runs (files of level 0) less, so that all windows together stay bounded.
_WINDOW_BYTES = 1 << 18
_ALL_WINDOWS_BYTES = 1 << 24
_LEAST_WINDOW_BYTES = 1 << 14
# Of a remote table: to look up keys in more bytes takes longer than to download it.
_MOST_WARM_BYTES = 1 << 20
# To begin with: these grow where a block, a key or the operands of a key need more.
_PLAIN_BYTES = 1 << 15
_KEY_BYTES = 1 << 10
_OPERANDS_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A sorted run: tables whose keys follow each other, and the files that have them."""

    files: Files
    tables: list[Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShare:
    """The parts of a table that lie between some keys.

    Attributes:
        table: the table.
        shares: (number of the range, the part of the table that lies in it, from 0 to 1); none for ranges without blocks.
    """

    table: Table
    shares: tuple[tuple[int, float], ...]


class SstDatabase:
    """The SST files of a RocksDB instance.

    Args:
        files: CURRENT, MANIFEST and the SST files.
        path: the path for errors.
    """

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._manifest: Manifest | None = None
        self._tables: dict[int, Table] = {}
        self._index_blocks = IndexBlocks()

    def entries(
        self,
        family: str,
        first: bytes,
        behind: bytes | None,
        *,
        few: bool = False,
        keys_only: bool = False,
        keys: Keys | None = None,
    ) -> Iterator[Entries]:
        """Yield the entries with keys from `first` to `behind` (excluded) in pages: buffer, starts, ends, int64 (entries, 2).

        Args:
            family: the name of the column family.
            first: the least wanted key.
            behind: the key behind the last wanted one; None for no end.
            few: True for a lookup of a few keys: of remote files it fetches the blocks with these keys, else whole files.
            keys_only: True if values may be empty.
            keys: the wanted keys; None for all. Only blocks that may hold these are read, so other keys of the range come too,
                or not at all, or without what stands in other blocks.

        Raises:
            NotReadHereError: anything that our reader does not know; the entries until then are right and complete.
            CorruptDataError: the bytes contradict the format.
            OSError: a file cannot be read.
        """
        files = self.tables(family, first, behind)
        if keys is not None:
            files = [file for file in files if len(keys.between(file.first_key, file.last_key))]
        runs = self.runs(files, first, behind, few=few, keys=keys)
        if runs:
            with _Scan(runs, first, behind, keys=keys, keys_only=keys_only) as scan:
                yield from scan.pages()

    def shares(self, family: str, bounds: Sequence[bytes]) -> Iterator[TableShare]:
        """Yield what each table of a family has between neighbouring bounds, by its properties and its index.

        Args:
            family: the name of the column family.
            bounds: keys, ascending; a share is of the keys from one to the next (excluded).

        Raises:
            NotReadHereError: anything that our reader does not know.
            CorruptDataError: the bytes contradict the format.
            OSError: a file cannot be read.
        """
        manifest = self._known()
        files = list(manifest.families.get(family, ()))
        self._files.announce(sum(file.size_bytes for file in files))
        tables = self._files.each(lambda file: self._table(file, manifest.last_sequence), files)
        for file, table in zip(files, tables, strict=True):
            opened = TableFile(self._files, table.name, table.path)
            try:
                blocks = _block_bytes(table, opened, b"", None)
                start = max(bisect_right(bounds, file.first_key) - 1, 0)
                stop = min(bisect_right(bounds, file.last_key), len(bounds) - 1)
                found = [
                    (number, _block_bytes(table, opened, bounds[number], bounds[number + 1]))
                    for number in range(start, stop)
                ]
                # A block may lie on a bound: the parts together are no more than the table.
                whole = max(blocks, sum(size for _, size in found), 1)
                yield TableShare(table=table, shares=tuple((number, size / whole) for number, size in found))
            finally:
                opened.close()

    def through(self, files: Files) -> SstDatabase:
        """Return the same database, whose files are read in another way; what is known of its tables is shared.

        Raises:
            NotReadHereError, CorruptDataError, OSError: see `entries`.
        """
        found = SstDatabase(files, self._path)
        found._manifest = self._known()
        found._tables = self._tables
        found._index_blocks = self._index_blocks
        return found

    def tables(self, family: str, first: bytes, behind: bytes | None) -> list[DataFile]:
        """Return the tables of a column family that may have keys from `first` to `behind` (excluded).

        Raises:
            NotReadHereError, CorruptDataError, OSError: see `entries`.
        """
        manifest = self._known()
        if family not in manifest.families:
            raise NotReadHereError(f"a column family {family!r} that the MANIFEST has not")
        return [
            file
            for file in manifest.families[family]
            if file.last_key >= first and (behind is None or file.first_key < behind)
        ]

    def runs(
        self,
        files: list[DataFile],
        first: bytes,
        behind: bytes | None,
        *,
        few: bool = False,
        keys: Keys | None = None,
    ) -> list[Run]:
        """Return tables by sorted runs: a file of level 0 is a run, and so is each other level. See `entries` for the errors."""
        runs = [[file] for file in files if file.level == 0]
        for level in sorted({file.level for file in files} - {0}):
            run = [file for file in files if file.level == level]
            runs.append(sorted(run, key=lambda file: file.first_key))
        for one, other in (pair for run in runs for pair in pairwise(run)):
            _check_order(one, other)
        # From here on files are read, of all tables at the same time where they are remote.
        if few:
            self._files.announce(sum(file.size_bytes for file in files))
        else:
            self._files.fetch(file.name for file in files)
        last_sequence = self._known().last_sequence

        whole: list[str] = []

        def table_of(file: DataFile) -> Table:
            table = self._table(file, last_sequence)
            if few and not self._files.is_local:
                opened = TableFile(self._files, table.name, table.path)
                if keys is not None and _block_bytes(table, opened, first, behind, keys) > _MOST_WARM_BYTES:
                    whole.append(table.name)
                else:
                    table.warm(opened, first, behind, keys)
            return table

        found = {
            file.name: table for file, table in zip(files, self._files.each(table_of, files), strict=True)
        }
        # Not in the threads above: they are those that download.
        self._files.fetch(whole)
        tables = [[found[file.name] for file in run] for run in runs]
        if any(table.has_tombstone(first, behind) for run in tables for table in run):
            raise NotReadHereError("a range tombstone")
        return [Run(files=self._files, tables=run) for run in tables]

    def _known(self) -> Manifest:
        manifest = self._manifest
        if manifest is None:
            manifest = self._manifest = self._read_manifest()
        return manifest

    def _read_manifest(self) -> Manifest:
        if self._files.has_log:
            raise NotReadHereError("a write-ahead log")
        return read_manifest(self._files, self._path)

    def _table(self, file: DataFile, last_sequence: int) -> Table:
        if file.largest_sequence > last_sequence:
            raise NotReadHereError("entries newer than the last sequence number of the MANIFEST")
        table = self._tables.get(file.number)
        if table is None:
            table = self._tables[file.number] = self._shared(file)
        return table

    def _shared(self, file: DataFile) -> Table:
        """Return a table, as another instance that has the same file read it; reads it if there is none."""
        identity = self._files.identity(file.name)
        if identity is None:
            return read_table(self._files, self._path, file, self._index_blocks)

        def read() -> Table:
            return read_table(self._files, self._path, file, SHARED.index_blocks, identity)

        table = SHARED.table(identity, file, read)
        return replace(table, name=file.name, path=f"{self._path}/{file.name}")


def _block_bytes(
    table: Table, opened: TableFile, first: bytes, behind: bytes | None, keys: Keys | None = None
) -> int:
    """Return the bytes of the data blocks that may hold keys of a range, or some of these."""
    return sum(int(handles[:, 1].sum()) for handles in table.handles(opened, first, behind, keys))


def written_keys(runs: list[Run], first: bytes, behind: bytes | None, max_keys: int) -> Iterator[Keys]:
    """Yield the keys from `first` to `behind` (excluded) that tables have an entry of, at most `max_keys` at once.

    A key comes once, also if it is deleted, and if the tables are of several databases.

    Raises:
        NotReadHereError, CorruptDataError, OSError: see `SstDatabase.entries`.
    """
    if runs:
        with _Scan(runs, first, behind, keys_only=merge.ALL_KEYS, max_entries=max_keys) as scan:
            for data, starts, ends in scan.pages():
                yield Keys(data=data, starts=starts, ends=ends)


def _check_order(one: DataFile, other: DataFile) -> None:
    """Refuse tables of a level that are not in order; two neighbours may share a key, the newer entries first."""
    if (one.last_key, -_order(one.largest)) >= (other.first_key, -_order(other.smallest)):
        raise NotReadHereError("tables of a level that overlap")


def _order(internal_key: bytes) -> int:
    return int.from_bytes(internal_key[-SEQUENCE_BYTES:], "little")


class _Memory:
    """Memory for compiled code, with slack behind it."""

    def __init__(self, capacity: int) -> None:
        self._allocate(capacity)

    def _allocate(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes: NDArray[np.uint8] = np.empty(capacity + SLACK_BYTES, dtype=np.uint8)
        self.address = self.bytes.ctypes.data

    def grow(self, capacity: int, *, keep: int = 0) -> None:
        """Grow to at least `capacity` bytes, and keep the first `keep`; the address changes."""
        old = self.bytes
        # At least twice as much: a key that grows byte by byte would be copied for every one.
        self._allocate(max(capacity, 2 * self.capacity))
        self.bytes[:keep] = old[:keep]


class _SortedRun:
    """Tables whose keys follow each other (RocksDB's term), read one after the other in windows of whole blocks."""

    def __init__(
        self, run: Run, first: bytes, behind: bytes | None, keys: Keys | None, window_bytes: int
    ) -> None:
        self._files = run.files
        self.raw = _Memory(window_bytes)
        self.plain = _Memory(_PLAIN_BYTES)
        self.key = _Memory(_KEY_BYTES)
        self.handles: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
        self.start = 0
        self.table = run.tables[0]
        self.file: TableFile | None = None
        self._window_bytes = window_bytes
        self._windows = self._read_windows(run.tables, first, behind, keys)

    def next_window(self) -> bool:
        """Read the next blocks; return whether there were any."""
        return next(self._windows, False)

    def close(self) -> None:
        """Close the file that is open."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def _read_windows(
        self, tables: list[Table], first: bytes, behind: bytes | None, keys: Keys | None
    ) -> Iterator[bool]:
        for table in tables:
            self.table = table
            self.file = TableFile(self._files, table.name, table.path)
            read_to = 0
            for handles in table.handles(self.file, first, behind, keys):
                read_to = self._check(handles, read_to)
                for window in self._cut(handles):
                    self._read(window)
                    yield True
            self.close()

    def _check(self, handles: NDArray[np.int64], read_to: int) -> int:
        """Refuse blocks that do not follow each other: a hostile index would lead to the same bytes again and again."""
        assert self.file is not None
        ends = handles[:, 0] + handles[:, 1] + TRAILER_BYTES
        if (handles[:, 0] < np.append(read_to, ends[:-1])).any() or (ends > self.file.size_bytes).any():
            raise self.file.corrupt("expected an index of blocks that follow each other", read_to)
        return int(ends[-1]) if len(ends) else read_to

    def _cut(self, handles: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Cut the handles into windows of `window_bytes`, or of one block if that is larger, without blocks between that are not wanted."""
        ends = handles[:, 0] + handles[:, 1] + TRAILER_BYTES
        gaps = np.append(np.flatnonzero(handles[1:, 0] > ends[:-1]) + 1, len(handles))
        start = 0
        while start < len(handles):
            fitting = int(np.searchsorted(ends, handles[start, 0] + self._window_bytes, side="right"))
            stop = min(max(fitting, start + 1), int(gaps[np.searchsorted(gaps, start, side="right")]))
            yield handles[start:stop]
            start = stop

    def _read(self, window: NDArray[np.int64]) -> None:
        assert self.file is not None
        self.start = int(window[0, 0])
        length = int(window[-1, 0] + window[-1, 1]) + TRAILER_BYTES - self.start
        if length > self.raw.capacity:
            self.raw.grow(length)
        self.file.read_into(self.raw.bytes[:length], self.start)
        self.handles = np.ascontiguousarray(window - (self.start, 0))


class _Scan:
    """One merge: owns its memory, and does what `merge_runs` needs from Python."""

    def __init__(
        self,
        runs: list[Run],
        first: bytes,
        behind: bytes | None,
        *,
        keys: Keys | None = None,
        keys_only: int = False,
        max_entries: int = PAGE_ENTRIES,
    ) -> None:
        window_bytes = min(_WINDOW_BYTES, max(_ALL_WINDOWS_BYTES // len(runs), _LEAST_WINDOW_BYTES))
        self._runs = [_SortedRun(run, first, behind, keys, window_bytes) for run in runs]
        self._max_entries = max_entries
        self._cursors = np.zeros((len(runs), merge.CURSOR_FIELDS), dtype=np.int64)
        self._cursors[:, merge.READY] = -1
        self._cursors[:, merge.SEEKING] = 1
        self._heap = np.zeros(len(runs) + 1, dtype=np.int64)
        self._scratch = np.zeros(8, dtype=np.int64)
        self._bounds = _Memory(len(first) + SLACK_BYTES + len(behind or b""))
        self._copy = _Memory(_KEY_BYTES)
        self._operands = _Memory(_OPERANDS_BYTES)
        self._fields = np.zeros(merge.MERGE_FIELDS, dtype=np.int64)
        self._fields[merge.KEYS_ONLY] = keys_only
        self._bound(first, behind)
        self._connect()
        self._new_page(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for run in self._runs:
            run.close()

    def pages(self) -> Iterator[Entries]:
        """Yield the entries in pages.

        Raises:
            NotReadHereError, CorruptDataError, OSError: see `SstDatabase.entries`.
        """
        while (status := merge.merge_runs(self._fields.ctypes.data)) != merge.DONE:
            if status == merge.PAGE_FULL:
                if self._fields[merge.PAGE_ENTRIES]:
                    yield self._page()
                self._new_page(int(self._fields[merge.DETAIL]))
            elif status == merge.UNKNOWN:
                if self._fields[merge.PAGE_ENTRIES]:
                    yield self._page()
                raise NotReadHereError("an entry or a compression")
            else:
                self._serve(status)
        if self._fields[merge.PAGE_ENTRIES]:
            yield self._page()

    def _bound(self, first: bytes, behind: bytes | None) -> None:
        fields = self._fields
        begin = len(first) + SLACK_BYTES
        self._bounds.bytes[: len(first)] = np.frombuffer(first, dtype=np.uint8)
        self._bounds.bytes[begin : begin + len(behind or b"")] = np.frombuffer(behind or b"", dtype=np.uint8)
        fields[merge.FIRST] = self._bounds.address
        fields[merge.FIRST_BYTES] = len(first)
        fields[merge.BEHIND] = self._bounds.address + begin
        fields[merge.BEHIND_BYTES] = -1 if behind is None else len(behind)

    def _connect(self) -> None:
        fields = self._fields
        fields[merge.CURSORS] = self._cursors.ctypes.data
        fields[merge.RUNS] = len(self._runs)
        fields[merge.HEAP] = self._heap.ctypes.data
        fields[merge.SCRATCH] = self._scratch.ctypes.data
        fields[merge.CURRENT] = fields[merge.CURRENT_COPY] = self._copy.address
        fields[merge.CURRENT_BYTES] = -1
        fields[merge.OPERANDS] = self._operands.address
        fields[merge.OPERANDS_CAPACITY] = self._operands.capacity
        fields[merge.MAX_PAGE_ENTRIES] = self._max_entries
        for number in range(len(self._runs)):
            self._connect_memory(number)

    def _connect_memory(self, number: int) -> None:
        cursor, run = self._cursors[number], self._runs[number]
        cursor[merge.KEY] = run.key.address
        cursor[merge.KEY_CAPACITY] = run.key.capacity
        cursor[merge.PLAIN] = run.plain.address
        cursor[merge.PLAIN_CAPACITY] = run.plain.capacity
        cursor[merge.RAW] = run.raw.address
        cursor[merge.HANDLES] = run.handles.ctypes.data

    # --- pages ---

    def _new_page(self, needed: int) -> None:
        """Make room for a page of at least `needed` bytes.

        A page is given away, so its memory is not used again. Untouched memory costs nothing: a page of a lookup may be as large.
        """
        fields = self._fields
        self._keep_current()
        self._memory = _Memory(max(PAGE_BYTES, needed))
        self._starts: NDArray[np.int64] = np.empty((self._max_entries, 2), dtype=np.int64)
        self._ends: NDArray[np.int64] = np.empty((self._max_entries, 2), dtype=np.int64)
        fields[merge.PAGE] = self._memory.address
        fields[merge.PAGE_CAPACITY] = self._memory.capacity
        fields[merge.STARTS] = self._starts.ctypes.data
        fields[merge.ENDS] = self._ends.ctypes.data
        fields[merge.PAGE_USED] = fields[merge.PAGE_ENTRIES] = 0

    def _keep_current(self) -> None:
        """Copy the current key out of the page that is given away, if it is there."""
        fields = self._fields
        length = int(fields[merge.CURRENT_BYTES])
        if length >= 0 and fields[merge.CURRENT] != self._copy.address:
            start = int(fields[merge.CURRENT]) - self._memory.address
            self._copy.bytes[:length] = self._memory.bytes[start : start + length]
            fields[merge.CURRENT] = self._copy.address

    def _page(self) -> Entries:
        count = int(self._fields[merge.PAGE_ENTRIES])
        used = int(self._fields[merge.PAGE_USED])
        return self._memory.bytes[:used], self._starts[:count], self._ends[:count]

    # --- what the merge needs ---

    def _serve(self, status: int) -> None:
        number = int(self._fields[merge.WHICH])
        detail = int(self._fields[merge.DETAIL])
        run = self._runs[number]
        if status == merge.NEED_WINDOW:
            self._next_window(number)
        elif status == merge.NEED_PLAIN:
            run.plain.grow(detail)
        elif status == merge.NEED_LIBRARY:
            self._decompress(number, detail)
        elif status == merge.NEED_KEY:
            self._grow_keys(number, detail)
        elif status == merge.NEED_OPERANDS:
            self._operands.grow(detail, keep=int(self._fields[merge.OPERANDS_USED]))
            self._fields[merge.OPERANDS] = self._operands.address
            self._fields[merge.OPERANDS_CAPACITY] = self._operands.capacity
        else:
            self._fail(number, status)
        self._connect_memory(number)

    def _next_window(self, number: int) -> None:
        cursor, run = self._cursors[number], self._runs[number]
        if run.next_window():
            cursor[merge.BLOCKS] = len(run.handles)
            cursor[merge.BLOCK] = 0
            cursor[merge.READY] = -1
            cursor[merge.CHECKSUM] = run.table.checksum
            cursor[merge.CAN_MERGE] = run.table.can_merge
        else:
            cursor[merge.EXHAUSTED] = 1

    def _grow_keys(self, number: int, capacity: int) -> None:
        """Grow the memory for the key of a cursor, and that for the copy of the current key, which must not be smaller."""
        fields, run = self._fields, self._runs[number]
        run.key.grow(capacity, keep=int(self._cursors[number, merge.KEY_BYTES]))
        if run.key.capacity > self._copy.capacity:
            is_copy = fields[merge.CURRENT] == self._copy.address
            self._copy.grow(run.key.capacity, keep=self._copy.capacity)
            fields[merge.CURRENT_COPY] = self._copy.address
            if is_copy:
                fields[merge.CURRENT] = self._copy.address

    def _decompress(self, number: int, plain_bytes: int) -> None:
        run = self._runs[number]
        block = int(self._cursors[number, merge.BLOCK])
        offset, length = run.handles[block].tolist()
        raw = run.raw.bytes[offset : offset + length]
        kind = int(run.raw.bytes[offset + length])
        if not decompress_elsewhere(kind, raw, run.plain.bytes, plain_bytes):
            self._fail(number, merge.CORRUPT)
        self._cursors[number, merge.READY] = block

    def _fail(self, number: int, status: int) -> None:
        run = self._runs[number]
        assert run.file is not None
        block = int(self._cursors[number, merge.BLOCK])
        # While a block is open BLOCK is already the next one.
        opened = self._cursors[number, merge.POSITION] < self._cursors[number, merge.END]
        offset = run.start + int(run.handles[block - opened, 0])
        what = "one with another checksum" if status == merge.WRONG_CHECKSUM else "one that is malformed"
        raise run.file.corrupt(f"expected a block of entries, found {what}", offset)
