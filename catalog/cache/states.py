"""What was decoded once: a Parquet file a state, in a directory that processes may share.

An entry has all columns of one keyed state, in the order of key groups and keys. Its key is a digest of

* every file the state was read from: path, part, size and time of change, and those of `_metadata` and `stateInfo`;
* what it was read as: operator, state, serializers, columns;
* the source code of the readers, and the version of the entry's own layout.

All of these are looked at whenever a scan starts. So an entry of files that have changed is never found again, and where
one is gone, there is no entry to be found: the scan goes to the savepoint and says what is missing. Before a process
uses an entry for the first time it reads it whole and compares its digest.

Only a state that is asked for again is worth an entry: one is written, in the background, when a state has been scanned
whole for the second time by a process, or once if that scan took longer than `SLOW_SCAN_S`; and never of less than
`LEAST_BYTES` of savepoint. It is read for that once more: what a query decoded were the columns it asked for.

The rows lie in chunks, of the key groups that a split of the savepoint has, too: where an entry has been evicted when a
chunk of it is wanted, the split is read instead.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

import readers
from catalog.cache.files import CacheDirectory
from catalog.errors import CorruptCacheError
from catalog.references import SavepointReference, open_savepoint
from readers import KEY_GROUP, MissingFileError, ReaderError, Selection, State, StateKind, StatePart, is_keyed

LEAST_BYTES = 4 << 20
SLOW_SCAN_S = 1.0
CHUNK_BYTES = 32 << 20
_LAYOUT_VERSION = 1
_CHUNKS = b"savepointdb.chunks"
# One key is read with its row group, and all of a file's row groups are in its footer, which every read begins with.
_ROW_GROUP_ROWS, _ROW_GROUP_ROWS_OF_LARGE, _LARGE_BYTES = 1 << 14, 1 << 17, 256 << 20
_SORTED_BYTES = 64 << 20
_STOP_S = 0.05
_OPEN_FOOTERS = 16


@dataclass(frozen=True, slots=True)
class StatePlace:
    """Where a state is: what it takes to find it again, and to know that it is the same."""

    savepoint: SavepointReference
    operator_id: str
    number: int
    name: str
    parts: int

    def state(self) -> State:
        """The state.

        Raises:
            ReaderError: its savepoint cannot be opened, or not all that could be: on another machine, or later.
        """
        operators = open_savepoint(self.savepoint).operators
        states = next(one for one in operators if one.operator_id == self.operator_id).states
        found = states[self.number] if self.number < len(states) else None
        if found is not None and (found.name, len(found.parts)) == (self.name, self.parts):
            return found
        for state in states:
            state.check(Selection())
        raise MissingFileError(
            f"expected the state {self.name!r} in {self.parts} parts, found another", path=self.savepoint.path
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The rows of some key groups of one part of the state.

    Attributes:
        part: its number among those of the state.
        key_groups: all rows of these are in the chunk.
        row_groups: of the file, each with the least and the greatest key group in it.
    """

    part: int
    key_groups: frozenset[int]
    row_groups: tuple[tuple[int, int, int], ...]

    def row_groups_of(self, wanted: frozenset[int] | None) -> tuple[int, ...]:
        """The row groups that may have rows of the wanted key groups."""
        return tuple(
            number
            for number, least, greatest in self.row_groups
            if wanted is None or any(least <= group <= greatest for group in wanted)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """A cached state."""

    path: Path
    size_bytes: int
    chunks: tuple[Chunk, ...]
    row_group_bytes: tuple[int, ...]


class StateCache:
    """The cached states of a directory. Pickles: the copy reads and writes the same directory.

    Args:
        directory: where the files are; made when the first is written.
        max_bytes: of all files.
        writes: whether scans make entries; else those are used that others made.
        least_bytes: of savepoint that a state worth an entry has.
        slow_scan_s: seconds after which a state is worth one at once.
    """

    def __init__(
        self,
        directory: str | Path,
        max_bytes: int,
        *,
        writes: bool = True,
        least_bytes: int = LEAST_BYTES,
        slow_scan_s: float = SLOW_SCAN_S,
    ) -> None:
        self.directory = CacheDirectory(Path(directory), max_bytes)
        self._writes = writes
        self._least_bytes = least_bytes
        self._slow_scan_s = slow_scan_s
        self._lock = threading.Lock()
        self._known: dict[tuple[Path, int, int], CacheEntry] = {}
        self._scans: dict[str, int] = {}
        self._first_keys: dict[StatePlace, str] = {}
        self._waiting: queue.SimpleQueue[StatePlace | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._stopping = threading.Event()

    def __reduce__(self) -> tuple[Callable[..., StateCache], tuple[Any, ...]]:
        return _remade, (
            str(self.directory.path), self.directory.max_bytes, self._writes, self._least_bytes, self._slow_scan_s,
        )  # fmt: skip

    def find(self, place: StatePlace, state: State) -> CacheEntry | None:
        """The entry of a state whose files are as they were when it was made."""
        if not _is_cacheable(state, self._least_bytes):
            return None
        key = cache_key(place, state)
        if key is None:
            return None
        self._first_keys.setdefault(place, key)
        path = self.directory.find(key)
        return None if path is None else self._checked(path)

    def scanned(self, place: StatePlace, state: State, elapsed_s: float) -> None:
        """A state was scanned whole; it may be worth an entry now."""
        if not self._writes or not _is_cacheable(state, self._least_bytes):
            return
        key = cache_key(place, state)
        if key is None or self.directory.find(key) is not None:
            return
        with self._lock:
            self._scans[key] = scans = self._scans.get(key, 0) + 1
            is_first_time = scans == 2 or (scans == 1 and elapsed_s >= self._slow_scan_s)
            if is_first_time and not self._stopping.is_set():
                self._scans[key] = 2
                self._waiting.put(place)
                if self._writer is None:
                    self._writer = threading.Thread(target=self._write_all, name="state-cache", daemon=True)
                    self._writer.start()

    def write(self, place: StatePlace) -> Path | None:
        """Make the entry of a state now.

        Returns:
            None if it cannot have one, somebody else is making it, or its files change meanwhile.

        Raises:
            ReaderError: it cannot be read.
            OSError: the directory cannot be written.
        """
        state = place.state()
        key = cache_key(place, state)
        # Files that were replaced since they were opened here are still read as they were.
        if key is None or self._first_keys.setdefault(place, key) != key:
            return None

        def fill(file: BinaryIO) -> None:
            _write_rows(state, file, self._check_room)
            if cache_key(place, state) != key:
                raise _NotWritten

        try:
            return self.directory.write(key, fill)
        except (_NotWritten, pa.ArrowException):
            return None

    def flush(self) -> None:
        """Wait until everything that is worth an entry has one."""
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                self._waiting.put(None)
        if writer is not None:
            writer.join()

    def close(self) -> None:
        """Stop writing; what is half written goes."""
        self._stopping.set()
        self.flush()

    def _checked(self, path: Path) -> CacheEntry | None:
        try:
            status = path.stat()
            known = self._known.get((path, status.st_ino, status.st_size))
            if known is None:
                self.directory.check(path)
                known = _entry_of(path, status.st_size)
                self._known[path, status.st_ino, status.st_size] = known
        except CorruptCacheError:
            self.directory.drop(path)
            return None
        except OSError:
            return None
        self.directory.touch(path)
        return known

    def _write_all(self) -> None:
        self.directory.sweep()
        while (place := self._waiting.get()) is not None:
            if self._stopping.is_set():
                continue
            try:
                self.write(place)
            except (ReaderError, OSError):
                # The scan that asks next reads the savepoint, and says what is wrong with it.
                continue

    def _check_room(self, size_bytes: int) -> None:
        if self._stopping.is_set() or size_bytes > self.directory.max_bytes:
            raise _NotWritten


class _NotWritten(Exception):  # no error: an entry that is not to be
    """An entry is given up."""


def _remade(directory: str, max_bytes: int, writes: bool, least_bytes: int, slow_scan_s: float) -> StateCache:
    return StateCache(directory, max_bytes, writes=writes, least_bytes=least_bytes, slow_scan_s=slow_scan_s)


def cache_key(place: StatePlace, state: State) -> str | None:
    """What a state was read from and how, as hex digits; None where one of the files is not there."""
    location = open_savepoint(place.savepoint).location
    try:
        handles = [
            handle for part in state.parts for handle in part.source.streams() if handle.path is not None
        ]
        files = [
            (str(found.location), *found.identity, found.start, found.size_bytes)
            for found in location.each(location.resolve, handles)
        ]
        files.append((str(location.metadata), *location.identity(location.metadata), 0, 0))
    except ReaderError:
        return None
    entries = [
        [part.source.subtask, *(tree.serializer_name for tree in part.entry.serializers())]
        for part in state.parts
    ]
    facts = [
        _LAYOUT_VERSION, _readers_version(), place.savepoint.version, place.savepoint.state_info, place.operator_id,
        state.kind.value, state.name, state.max_parallelism, str(state.schema), entries, files,
    ]  # fmt: skip
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _is_cacheable(state: State, least_bytes: int) -> bool:
    """Whether a state is keyed, all there, in files, and large enough."""
    return (
        is_keyed(state.kind)
        and state.kind is not StateKind.RAW_KEYED
        and KEY_GROUP in state.schema.names
        and not state.failures
        and bool(state.parts)
        and all(next(part.source.streams(), None) is not None for part in state.parts)
        and state.size_bytes >= least_bytes
    )


@lru_cache(maxsize=1)
def _readers_version() -> str:
    """Changes when the code does that decodes."""
    digest = hashlib.blake2b(digest_size=16)
    assert readers.__file__ is not None
    for path in sorted(Path(readers.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    versions = [importlib.metadata.version(name) for name in ("pyarrow", "numba")]
    return ":".join([digest.hexdigest(), *versions])


# ---- writing ----


def _write_rows(state: State, file: BinaryIO, check: Callable[[int], None]) -> None:
    """All rows of a state, chunk after chunk."""
    chunks: list[dict[str, Any]] = []
    row_groups = 0
    rows = _ROW_GROUP_ROWS if state.size_bytes < _LARGE_BYTES else _ROW_GROUP_ROWS_OF_LARGE
    with parquet.ParquetWriter(
        file, state.schema, compression="zstd", compression_level=1, write_statistics=[KEY_GROUP]
    ) as writer:
        for number, part in enumerate(state.parts):
            for groups in key_group_chunks(part):
                found = []
                for table in _sorted_tables(part, state, groups, lambda: check(file.tell())):
                    for start in range(0, table.num_rows, rows):
                        piece = table.slice(start, rows)
                        writer.write_table(piece, row_group_size=rows)
                        bounds = pc.min_max(piece.column(KEY_GROUP)).as_py()
                        found.append([row_groups, bounds["min"], bounds["max"]])
                        row_groups += 1
                chunks.append({"part": number, "key_groups": sorted(groups), "row_groups": found})
        writer.add_key_value_metadata({_CHUNKS.decode(): json.dumps(chunks)})
    file.flush()
    if not parquet.read_schema(file).equals(state.schema):
        raise _NotWritten


def key_group_chunks(part: StatePart) -> Iterator[frozenset[int]]:
    """The key groups of a part, about `CHUNK_BYTES` of them at a time."""
    chosen: list[int] = []
    size_bytes = 0
    for group, size in part.source.key_group_bytes(part.name) or ():
        if chosen and size_bytes + size > CHUNK_BYTES:
            yield frozenset(chosen)
            chosen, size_bytes = [], 0
        chosen.append(group)
        size_bytes += size
    if chosen:
        yield frozenset(chosen)


def _sorted_tables(
    part: StatePart, state: State, groups: frozenset[int], check: Callable[[], None]
) -> Iterator[pa.Table]:
    """The rows of some key groups by key group and key; by the piece where they are too many to sort at once."""
    batches: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in part.read(state.schema.names, state.schema, Selection(key_groups=groups)):
        check()
        batches.append(batch)
        size_bytes += batch.nbytes
        if size_bytes > _SORTED_BYTES:
            yield _sorted(batches)
            batches, size_bytes = [], 0
    if batches:
        yield _sorted(batches)


def _sorted(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Rows of one key stay in order. Keys that Arrow does not compare are left in the order of their files."""
    table = pa.Table.from_batches(batches)
    is_plain = not pa.types.is_nested(table.schema.field("key").type)
    names = [KEY_GROUP, "key"] if is_plain else [KEY_GROUP]
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))


# ---- reading ----


@lru_cache(maxsize=_OPEN_FOOTERS)
def entry_footer(path: Path) -> parquet.FileMetaData:
    """The footer of an entry; its name has the digest of its bytes, so it is read once.

    Raises:
        FileNotFoundError: it was evicted.
    """
    return parquet.read_metadata(path)


def _entry_of(path: Path, size_bytes: int) -> CacheEntry:
    metadata = parquet.read_metadata(path)
    chunks = tuple(
        Chunk(
            part=chunk["part"],
            key_groups=frozenset(chunk["key_groups"]),
            row_groups=tuple((number, least, greatest) for number, least, greatest in chunk["row_groups"]),
        )
        for chunk in json.loads(metadata.metadata[_CHUNKS])
    )
    sizes = tuple(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    return CacheEntry(path=path, size_bytes=size_bytes, chunks=chunks, row_group_bytes=sizes)
