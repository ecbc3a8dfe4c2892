"""Decoded states, kept as one Parquet file a state, in a directory that processes may share.

An entry has all columns of one keyed state, in the order of key groups and keys. Its key is a digest of

* every file the state was read from: path, part, size and time of change, and those of `_metadata` and `stateInfo`;
* how it was read: operator, state, serializers, columns;
* the source code of the readers, and the version of the entry's own layout.

A scan that finds an entry computes the key anew when it is planned. So an entry of files that have changed is never found again. Where a
file is missing there is no key: the scan reads the savepoint and reports the missing file. Before a process finds an entry for the
first time, or a file in its place that has changed since, it reads the whole entry and compares its digest.

Only a state that is read repeatedly is worth an entry: one is written, in the background, when a process has scanned a state
whole for the second time, or once if that scan took longer than `SLOW_SCAN_S`; and never for less than `LEAST_BYTES` of
savepoint. Writing reads the state once more: a query decodes only the columns it needs.

The rows lie in chunks, each of the key groups of one split of the savepoint: if an entry is evicted before a chunk of it is
read, the split is read instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import pickle
import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

import readers
from catalog.cache.files import CacheDirectory, EntryIdentity, ListingCache
from catalog.errors import CorruptCacheError
from catalog.references import StateReference, open_savepoint
from readers import KEY_GROUP, ReaderError, key_group_chunks

if TYPE_CHECKING:
    from readers import KnownFiles, State, StatePart

LEAST_BYTES = 4 << 20
SLOW_SCAN_S = 1.0
CHUNK_BYTES = 32 << 20
_LAYOUT_VERSION = 3
_CHUNKS = b"savepointdb.chunks"
# A lookup that reads the cache decodes whole row groups; but to begin one takes DuckDB as long as 10,000 rows of it.
_ROW_GROUP_ROWS = 1 << 17
# To begin a page takes time, too; 1 MiB ends it in any case.
_PAGE_ROWS = _ROW_GROUP_ROWS
_SORTED_BYTES = 64 << 20
_OPEN_FOOTERS = 16
# Each holds the paths of the files of a state.
_KNOWN_KEYS = 256
_CACHES_OF_A_PROCESS = 8
_PACKED_USES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The rows of some key groups of one part of the state.

    Attributes:
        part: its number among the parts of the state.
        key_groups: the chunk has all their rows.
        row_groups: of the file, each with its least and its greatest key group.
    """

    part: int
    key_groups: frozenset[int]
    row_groups: tuple[tuple[int, int, int], ...]

    def row_groups_of(self, wanted: frozenset[int] | None) -> tuple[int, ...]:
        """Return the row groups that may have rows of the wanted key groups; None wants all."""
        return tuple(
            number
            for number, least, greatest in self.row_groups
            if wanted is None or any(least <= group <= greatest for group in wanted)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFile:
    """The file of an entry; small, and pickles with the splits that read it.

    Attributes:
        path: of the file.
        identity: when its digest was compared.
        row_groups: how many it has.
        rows: how many it has.
    """

    path: Path
    identity: EntryIdentity
    row_groups: int
    rows: int

    def is_file_of(self, descriptor: int) -> bool:
        """Return whether an open file is the one whose digest was compared, as it was then."""
        return EntryIdentity.of(os.fstat(descriptor)) == self.identity


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """A cached state."""

    file: CacheFile
    chunks: tuple[Chunk, ...]
    row_group_bytes: tuple[int, ...]


class StateCache:
    """The cached states of a directory. Pickles: the copies of one process are one object, of the same directory.

    Attributes:
        directory: its files.
        listings: the tables of savepoints, in a directory inside; None if scans make no entries.

    Args:
        directory: of the files; made when the first is written.
        max_bytes: of all files.
        writes: whether scans make entries; else they only use those that others made.
        least_bytes: of savepoint that a state worth an entry has.
        slow_scan_s: seconds after which a state is worth an entry at once.
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
        self.listings = ListingCache(Path(directory) / "tables") if writes else None
        self._writes = writes
        self._least_bytes = least_bytes
        self._slow_scan_s = slow_scan_s
        self._lock = threading.Lock()
        self._known: dict[str, CacheEntry] = {}
        self._keys: dict[StateReference, _KnownKey] = {}
        self._scans: dict[str, int] = {}
        self._first_keys: dict[StateReference, str] = {}
        self._waiting: queue.SimpleQueue[StateReference | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._stopping = threading.Event()

    def __reduce__(self) -> tuple[Callable[..., StateCache], tuple[Any, ...]]:
        return _cache_of_process, (
            str(self.directory.path), self.directory.max_bytes, self._writes, self._least_bytes, self._slow_scan_s,
        )  # fmt: skip

    def find(self, reference: StateReference, state: State) -> CacheEntry | None:
        """Return the entry of a state whose files have not changed since it was made; None if there is none."""
        first = self._first_keys.get(reference)
        # To compute the key anew is to look at all files of the state: only an entry that may be used is worth that.
        if first is not None and first not in self._known and self.directory.find(first) is None:
            return None
        key = self._key_of(reference, state)
        if key is None:
            return None
        known = self._known.get(key)
        found = None if known is None else self._checked(key, known.file.path)
        if found is not None:
            return found
        # Another process may have written it anew, of another digest.
        path = self.directory.find(key)
        return None if path is None else self._checked(key, path)

    def remember(self, reference: StateReference, state: Callable[[], State]) -> None:
        """Remember which files a state had when this process opened it; every process that reads it must.

        Raises:
            ReaderError: the state is not known yet, and cannot be opened.
        """
        if reference not in self._first_keys:
            self._key_of(reference, state())

    def _key_of(self, reference: StateReference, state: State) -> str | None:
        """Return the key of the entry of a state, the first of which is remembered; None for a state that has none."""
        known = self._keys.get(reference)
        if known is not None and known.is_still_of(state):
            return known.key
        if not _is_cacheable(state, self._least_bytes):
            return None
        found = _found_key(reference, state)
        if found is None:
            return None
        self._first_keys.setdefault(reference, found.key)
        if found.files is not None:
            if len(self._keys) >= _KNOWN_KEYS:
                self._keys.clear()
            self._keys[reference] = found
        return found.key

    def scanned(self, reference: StateReference, state: State, elapsed_s: float) -> None:
        """Count a scan of a whole state; it may make the state worth an entry."""
        if not self._writes or not _is_cacheable(state, self._least_bytes):
            return
        key = cache_key(reference, state)
        if key is None or self.directory.find(key) is not None:
            return
        with self._lock:
            self._scans[key] = scans = self._scans.get(key, 0) + 1
            is_first_time = scans == 2 or (scans == 1 and elapsed_s >= self._slow_scan_s)
            if is_first_time and not self._stopping.is_set():
                self._scans[key] = 2
                self._waiting.put(reference)
                if self._writer is None:
                    self._writer = threading.Thread(target=self._write_all, name="state-cache", daemon=True)
                    self._writer.start()

    def write(self, reference: StateReference) -> Path | None:
        """Make the entry of a state now.

        Returns:
            None if it cannot have one, another process is making it, or its files change meanwhile.

        Raises:
            ReaderError: it cannot be read.
            OSError: the directory cannot be written.
        """
        state = reference.state()
        key = cache_key(reference, state)
        # An open file that was replaced still gives its old rows: they must not become the entry of the new file.
        if key is None or self._first_keys.setdefault(reference, key) != key:
            return None

        def fill(file: BinaryIO) -> None:
            _write_rows(state, file, self._check_room)
            if cache_key(reference, state) != key:
                raise _NotWritten

        try:
            return self.directory.write(key, fill)
        except (_NotWritten, pa.ArrowException):
            return None

    def flush(self) -> None:
        """Wait until every state that is worth an entry has one."""
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                self._waiting.put(None)
        if writer is not None:
            writer.join()

    def close(self) -> None:
        """Stop writing; removes an entry that is half written."""
        self._stopping.set()
        self.flush()

    def _checked(self, key: str, path: Path) -> CacheEntry | None:
        try:
            status = path.stat()
            identity = EntryIdentity.of(status)
            known = self._known.get(key)
            if known is None or (known.file.path, known.file.identity) != (path, identity):
                self.directory.check(path)
                self._known[key] = known = _entry_of(path, identity)
        except CorruptCacheError:
            self.directory.drop(path)
            return None
        except OSError:
            return None
        self.directory.touch(path, status)
        return known

    def _write_all(self) -> None:
        self.directory.sweep()
        while (reference := self._waiting.get()) is not None:
            if self._stopping.is_set():
                continue
            try:
                self.write(reference)
            except (ReaderError, OSError):
                # The next scan reads the savepoint, and reports what is wrong with it.
                continue

    def _check_room(self, size_bytes: int) -> None:
        if self._stopping.is_set() or size_bytes > self.directory.max_bytes:
            raise _NotWritten


class _NotWritten(Exception):  # no error: an entry that is not to be
    """An entry is given up."""


@lru_cache(maxsize=_CACHES_OF_A_PROCESS)
def _cache_of_process(
    directory: str, max_bytes: int, writes: bool, least_bytes: int, slow_scan_s: float
) -> StateCache:
    """Return the same cache for every copy that is unpickled: it counts how often a state is scanned."""
    return StateCache(directory, max_bytes, writes=writes, least_bytes=least_bytes, slow_scan_s=slow_scan_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """What a scan means to the cache; pickles with the scan.

    Attributes:
        cache: of decoded states.
        states: that the scan reads.
        reads_whole_states: False if it reads only some of their key groups or keys.
    """

    cache: StateCache
    states: tuple[StateReference, ...]
    reads_whole_states: bool

    def __reduce__(self) -> tuple[Any, ...]:
        # Most scans of a table mean the same to the cache: that is pickled once, and unpickled once.
        return _use_of, (_packed(self.cache, self.states, self.reads_whole_states),)

    def begin(self) -> None:
        """Remember the files of the states, in a process that has not planned the scan.

        Raises:
            ReaderError: a state cannot be opened.
        """
        for reference in self.states:
            self.cache.remember(reference, reference.state)

    def completed(self, elapsed_s: float) -> None:
        """Count the scan, which has read all its splits."""
        if not self.reads_whole_states:
            return
        # The rows are there: a savepoint that was removed meanwhile must not fail the scan.
        with contextlib.suppress(ReaderError):
            for reference in self.states:
                self.cache.scanned(reference, reference.state(), elapsed_s)


@lru_cache(maxsize=_PACKED_USES)
def _packed(cache: StateCache, states: tuple[StateReference, ...], reads_whole_states: bool) -> bytes:
    return pickle.dumps((cache, states, reads_whole_states), pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=_PACKED_USES)
def _use_of(content: bytes) -> CacheUse:
    """Return the use of the cache from its pickle."""
    cache, states, reads_whole_states = pickle.loads(content)
    return CacheUse(cache=cache, states=states, reads_whole_states=reads_whole_states)


def cache_key(reference: StateReference, state: State) -> str | None:
    """Return a digest of the files and the types of a state, as hex digits; None where one of the files is missing."""
    found = _found_key(reference, state)
    return None if found is None else found.key


@dataclass(frozen=True, slots=True)
class _KnownKey:
    """The key of a state, and what it was made from.

    Attributes:
        key: the key.
        state: the state, as long as its savepoint is open.
        files: what tells whether the files are unchanged; None where they must be looked for.
    """

    key: str
    state: weakref.ref[State]
    files: KnownFiles | None

    def is_still_of(self, state: State) -> bool:
        """Return whether it is the key of this state still; False if that would take longer than to make the key."""
        return self.state() is state and self.files is not None and self.files.are_unchanged()


def _found_key(reference: StateReference, state: State) -> _KnownKey | None:
    """Look for all files of a state, and make its key; None where one is missing."""
    savepoint = open_savepoint(reference.savepoint)
    location = savepoint.location
    try:
        handles = [
            handle for part in state.parts for handle in part.source.streams() if handle.path is not None
        ]
        found = location.resolve_all(handles)
        metadata = location.identity(location.metadata)
        known = location.known_files(metadata, zip(handles, found, strict=True))
    except ReaderError:
        return None
    files = [(str(file.location), *file.identity, file.start, file.size_bytes) for file in found]
    files.append((str(location.metadata), *metadata, 0, 0))
    entries = [
        [part.source.subtask, *(tree.serializer_name for tree in part.entry.serializers())]
        for part in state.parts
    ]
    # Other classes may give other values of the same types.
    jars = savepoint.jars.identity if savepoint.jars is not None else ""
    facts = [
        _LAYOUT_VERSION, _readers_version(), reference.savepoint.version, reference.savepoint.state_info, jars,
        reference.operator_id, state.kind.value, state.name, state.max_parallelism, str(state.schema), entries, files,
    ]  # fmt: skip
    key = hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()
    return _KnownKey(key, weakref.ref(state), known)


def _is_cacheable(state: State, least_bytes: int) -> bool:
    """Return whether a state is keyed, complete, in files, and large enough."""
    return (
        readers.is_keyed(state.kind)
        and state.kind is not readers.StateKind.RAW_KEYED
        and KEY_GROUP in state.schema.names
        and not state.unread
        and bool(state.parts)
        and all(next(part.source.streams(), None) is not None for part in state.parts)
        and state.size_bytes >= least_bytes
    )


@lru_cache(maxsize=1)
def _readers_version() -> str:
    """Return a text that changes when the code that decodes does."""
    digest = hashlib.blake2b(digest_size=16)
    assert readers.__file__ is not None
    for path in sorted(Path(readers.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    versions = [importlib.metadata.version(name) for name in ("pyarrow", "numba")]
    return ":".join([digest.hexdigest(), *versions])


# ---- writing ----


def _write_rows(state: State, file: BinaryIO, check: Callable[[int], None]) -> None:
    """Write all rows of a state, chunk after chunk."""
    chunks: list[dict[str, Any]] = []
    row_groups = 0
    with parquet.ParquetWriter(
        file,
        state.schema,
        compression="zstd",
        compression_level=1,
        write_statistics=[KEY_GROUP],
        max_rows_per_page=_PAGE_ROWS,
    ) as writer:
        for number, part in enumerate(state.parts):
            sizes = part.source.key_group_bytes(part.name) or ()
            for groups, _ in key_group_chunks(sizes, CHUNK_BYTES):
                found = []
                for table in _sorted_tables(part, state, groups, lambda: check(file.tell())):
                    for start in range(0, table.num_rows, _ROW_GROUP_ROWS):
                        row_group = table.slice(start, _ROW_GROUP_ROWS)
                        writer.write_table(row_group, row_group_size=_ROW_GROUP_ROWS)
                        bounds = pc.min_max(row_group.column(KEY_GROUP)).as_py()
                        found.append([row_groups, bounds["min"], bounds["max"]])
                        row_groups += 1
                chunks.append({"part": number, "key_groups": sorted(groups), "row_groups": found})
        writer.add_key_value_metadata({_CHUNKS.decode(): json.dumps(chunks)})
    file.flush()
    # Parquet has no type for some of Arrow's: what would come back as another type is not cached.
    if not parquet.read_schema(file).equals(state.schema):
        raise _NotWritten


def _sorted_tables(
    part: StatePart, state: State, groups: frozenset[int], check: Callable[[], None]
) -> Iterator[pa.Table]:
    """Yield the rows of some key groups by key group and key; in several tables where one would be too large to sort."""
    batches: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in part.read(state.schema.names, state.schema, readers.Selection(key_groups=groups)):
        check()
        batches.append(batch)
        size_bytes += batch.nbytes
        if size_bytes > _SORTED_BYTES:
            yield _sorted(batches)
            batches, size_bytes = [], 0
    if batches:
        yield _sorted(batches)


def _sorted(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return the rows by key group and key; rows of one key stay in order."""
    table = pa.Table.from_batches(batches)
    # Arrow does not compare nested keys: they are left in the order of their files.
    is_plain = not pa.types.is_nested(table.schema.field("key").type)
    names = [KEY_GROUP, "key"] if is_plain else [KEY_GROUP]
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))


# ---- reading ----


@lru_cache(maxsize=_OPEN_FOOTERS)
def entry_footer(file: CacheFile) -> parquet.FileMetaData:
    """Return the footer of an entry, which is read once.

    Raises:
        FileNotFoundError: it was evicted.
    """
    return parquet.read_metadata(file.path)


def _entry_of(path: Path, identity: EntryIdentity) -> CacheEntry:
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
    file = CacheFile(path=path, identity=identity, row_groups=metadata.num_row_groups, rows=metadata.num_rows)
    return CacheEntry(file=file, chunks=chunks, row_group_bytes=sizes)
