"""A directory of cache files. Each file appears whole or not at all, also when processes write at the same time or are killed.

| file | content |
|---|---|
| `<key>.<digest>.parquet` | an entry; the digest is BLAKE2b of its bytes, its time of access is that of the last use |
| `<key>.partial` | while it is locked, an entry that is being written; else the rest of a killed writer |
| `lock` | nothing; locked while entries are added or evicted |

A writer locks the partial file, writes it and renames it. So a key has one writer, in however many processes, and the lock of
a killed process is free at once. Readers lock nothing: a process that has an evicted entry open can still read it. Nothing changes an
entry, so one whose identity has changed since its digest was compared is damaged, or another one.

The tables that savepoints have, remembered on disk: a listing of many savepoints reads the headers of all their state files.

Most savepoints of a job have the same tables, so one file holds the tables of all savepoints that have just these. Its name is the digest
of its content.

| bytes | content of a file of tables |
|---|---|
| 16 | BLAKE2b of the rest |
| others | a stream of Arrow's IPC, compressed: name, comment, and the columns as a schema of Arrow |

The file `index` says which savepoint has which tables. It only grows, until it is half thrown away. The last line of a savepoint counts.

| bytes | content of a line of the index |
|---|---|
| 16 | key of the savepoint, or of an outline |
| 16 | digest in the name of the file of its tables |
| 8 | BLAKE2b of these |

The key of a savepoint is a digest of

* path, size and time of change of `_metadata` and of `stateInfo`;
* how it is opened: more roots, other paths, uids;
* the source code of the readers and of the catalog, and the version of the layout.

A line may also begin with the digest of an outline (`Savepoint.outline`): what decides on the tables of a savepoint, which the
checkpoints of a job share, and the same code and uids. So of a job the headers of one checkpoint are parsed, and of all others
only compared.

A savepoint of which a file could not be read is not remembered. A file that is damaged, or does not fit its digest, is as good
as none: it is removed, and the headers are read again; a damaged line counts as none. Nothing here has a path or a row in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pyarrow as pa

import catalog as own_package
import readers
from catalog.errors import CorruptCacheError
from catalog.references import SavepointReference
from readers import METADATA_FILE_NAME, STATE_INFO_FILE_NAME, MissingFileError, ReaderError, SavepointLocation

_SUFFIX = ".parquet"
_PARTIAL = ".partial"
_LOCK = "lock"
_DIGEST_BYTES = 16
_BLOCK_BYTES = 1 << 20
# Which entries were used last matters when one must go, which is seldom.
_SAME_USE_NS = 10_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryIdentity:
    """What changes when a file is replaced or written."""

    inode: int
    size_bytes: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> EntryIdentity:
        """Return the identity of a file with this status."""
        return cls(inode=status.st_ino, size_bytes=status.st_size, modified_ns=status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class CacheDirectory:
    """The files of a cache; the directory is made when the first of them is written.

    Attributes:
        path: of the directory, which holds no other files.
        max_bytes: of all entries together.
    """

    path: Path
    max_bytes: int

    def find(self, key: str) -> Path | None:
        """Return the entry of a key; None if there is none."""
        for name in self._names():
            if name.startswith(key + ".") and name.endswith(_SUFFIX):
                return self.path / name
        return None

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries."""
        return sum(size for _, size, _ in self._entries())

    def check(self, entry: Path) -> None:
        """Read a whole entry and compare it with its digest.

        Raises:
            CorruptCacheError: its bytes have changed.
            OSError: it was removed.
        """
        with entry.open("rb") as file:
            found = _file_digest(file)
        if found != entry.name.split(".")[1]:
            raise CorruptCacheError(
                f"expected a cache file of digest {entry.name.split('.')[1]}, found {found}"
            )

    def touch(self, entry: Path, status: os.stat_result) -> None:
        """Note that an entry with this status was used now; its time of change stays."""
        now = time.time_ns()
        if abs(now - status.st_atime_ns) > _SAME_USE_NS:
            with contextlib.suppress(OSError):
                os.utime(entry, ns=(now, status.st_mtime_ns))

    def drop(self, entry: Path) -> None:
        """Remove an entry, if it still exists."""
        with contextlib.suppress(OSError):
            entry.unlink()

    def write(self, key: str, fill: Callable[[BinaryIO], None]) -> Path | None:
        """Make the entry of a key; removes the entry that it replaces, and the least recently used ones for their room.

        Args:
            key: hex digits.
            fill: writes the entry; if it raises, there is no entry.

        Returns:
            None if another writer is at it, or it is larger than all entries together may be.

        Raises:
            OSError: the file system fails.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self.path / (key + _PARTIAL)
        with _opened(partial) as file:
            if not _is_locked(file, partial):
                return None
            try:
                file.truncate()
                fill(file)
                file.flush()
                os.fsync(file.fileno())
                file.seek(0)
                return self._publish(key, partial, _file_digest(file), os.fstat(file.fileno()).st_size)
            finally:
                self.drop(partial)

    def sweep(self) -> None:
        """Remove the files of killed writers."""
        for name in self._names():
            if name.endswith(_PARTIAL):
                partial = self.path / name
                with contextlib.suppress(OSError), partial.open("r+b") as file:
                    if _is_locked(file, partial):
                        partial.unlink()

    def _publish(self, key: str, partial: Path, digest: str, size_bytes: int) -> Path | None:
        if size_bytes > self.max_bytes:
            return None
        entry = self.path / f"{key}.{digest}{_SUFFIX}"
        with _opened(self.path / _LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._evict(key, self.max_bytes - size_bytes)
            partial.rename(entry)
        return entry

    def _evict(self, key: str, allowed_bytes: int) -> None:
        """Remove the entries of a key, then the least recently used others until `allowed_bytes` or less are left."""
        entries = sorted(self._entries(), key=lambda entry: (not entry[2].name.startswith(key), entry[0]))
        left = sum(size for _, size, _ in entries)
        for _, size, entry in entries:
            if left <= allowed_bytes and not entry.name.startswith(key):
                break
            self.drop(entry)
            left -= size

    def _entries(self) -> Iterator[tuple[int, int, Path]]:
        """Yield (time of the last use, bytes, file) of each entry."""
        for name in self._names():
            if name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):
                    status = (self.path / name).stat()
                    yield status.st_atime_ns, status.st_size, self.path / name

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except OSError:
            return []


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")


def _is_locked(file: BinaryIO, path: Path) -> bool:
    """Lock a file for this process; returns False if another process has the lock, or has renamed or removed the file."""
    try:
        # The lock is of the open file, not of its name: between the opening and the lock the name may have changed hands.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(file.fileno()).st_ino == path.stat().st_ino
    except OSError:
        return False


def _file_digest(file: BinaryIO) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest()


MOST_BYTES = 256 << 20
# A savepoint of some thousand operators has some megabytes.
_LARGEST_BYTES = 64 << 20
_LAYOUT_VERSION = 2
_CHECK_BYTES = 8
_LINE_BYTES = 2 * _DIGEST_BYTES + _CHECK_BYTES
# Of the bytes of a cache; 1.6 million savepoints.
_INDEX_SHARE = 4
_TABLES, _INDEX = ".tables", "index"
_DAY_S, _HOUR_S = 86_400, 3_600
_ON_THIS_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
_Files: TypeAlias = tuple[str, tuple[int, int], tuple[int, int] | None]
"""The path of `_metadata`; its size and time; those of the `stateInfo` beside it."""

_COLUMNS = pa.schema([("name", pa.string()), ("comment", pa.string()), ("columns", pa.binary())])


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table as lists show it.

    Attributes:
        name: as listed.
        comment: what it holds, for people.
        schema: its columns, in order.
    """

    name: str
    comment: str
    schema: pa.Schema


class ListingCache:
    """Remembered tables in a directory, which processes may share.

    Args:
        directory: of the files; made when the first is written.
        max_bytes: of all files.
    """

    def __init__(self, directory: Path, max_bytes: int = MOST_BYTES) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._room = 0
        self._digests: dict[bytes, bytes] = {}
        self._index_state: tuple[int, int] = (0, 0)
        self._found: dict[bytes, tuple[ListedTable, ...]] = {}

    def read(self, key: str) -> tuple[ListedTable, ...] | None:
        """Return the tables of a key, the same object for savepoints that have the same; None if they are not remembered."""
        with self._lock:
            digest = self._digests.get(bytes.fromhex(key))
            if digest is None:
                self._read_index()
                digest = self._digests.get(bytes.fromhex(key))
            if digest is None:
                return None
            found = self._found.get(digest)
            if found is None:
                found = self._read_tables(digest)
                if found is not None:
                    self._found[digest] = found
        return found

    def _read_tables(self, digest: bytes) -> tuple[ListedTable, ...] | None:
        path = self._directory / (digest.hex() + _TABLES)
        try:
            with path.open("rb") as file:
                content = file.read(_LARGEST_BYTES + 1)
                modified = os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        found = _tables_in(content)
        with contextlib.suppress(OSError):
            if found is None:
                path.unlink()
            elif time.time() - modified > _DAY_S:
                # The files that were not used for the longest time go first.
                os.utime(path)
        return found

    def write(self, key: str, tables: Iterable[ListedTable]) -> None:
        """Remember the tables of a key; without effect where the directory cannot be written."""
        listed = tuple(tables)
        content = _content_of(listed)
        if len(content) > min(_LARGEST_BYTES, self._max_bytes):
            return
        digest = content[:_DIGEST_BYTES]
        with contextlib.suppress(OSError), self._lock:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._room < len(content) + _LINE_BYTES:
                self._room = self._sweep(len(content) + _LINE_BYTES)
            path = self._directory / (digest.hex() + _TABLES)
            if not path.exists():
                self._room -= len(content)
                self._write_file(path, content)
            self._room -= _LINE_BYTES
            self._append(bytes.fromhex(key), digest)
            self._found[digest] = listed

    def link(self, key: str, known: str) -> tuple[ListedTable, ...] | None:
        """Remember for a key the tables of another one, and return them; None if they are not remembered."""
        found = self.read(known)
        if found is not None:
            with contextlib.suppress(OSError), self._lock:
                if self._room < _LINE_BYTES:
                    self._room = self._sweep(_LINE_BYTES)
                # The line of the other key may have been thrown away with the older half of the index.
                digest = self._digests.get(bytes.fromhex(known))
                if digest is not None:
                    self._room -= _LINE_BYTES
                    self._append(bytes.fromhex(key), digest)
        return found

    def _write_file(self, path: Path, content: bytes) -> None:
        # A file that is half written after a power cut does not fit its digest.
        descriptor, partial = tempfile.mkstemp(suffix=_PARTIAL, dir=self._directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(partial).replace(path)
        except OSError:
            Path(partial).unlink(missing_ok=True)
            raise

    def _append(self, key: bytes, digest: bytes) -> None:
        """Append a line to the index. Other processes may do so at the same time: each line is one write."""
        line = key + digest
        with (self._directory / _INDEX).open("ab") as file:
            size = os.fstat(file.fileno()).st_size
            # What a power cut or a full disk has left of a line would move all lines behind it.
            padding = bytes(-size % _LINE_BYTES)
            file.write(padding + line + _digest(line)[:_CHECK_BYTES])
        self._digests[key] = digest

    def _read_index(self) -> None:
        """Read the lines of the index that are new; all of them if the file is another one."""
        path = self._directory / _INDEX
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                number, read = self._index_state
                if number != status.st_ino or read > status.st_size:
                    self._digests, read = {}, 0
                file.seek(read)
                content = file.read(min(status.st_size - read, self._max_bytes))
        except OSError:
            return
        whole = len(content) - len(content) % _LINE_BYTES
        self._index_state = status.st_ino, read + whole
        for start in range(0, whole, _LINE_BYTES):
            line = content[start : start + 2 * _DIGEST_BYTES]
            if _digest(line)[:_CHECK_BYTES] == content[start + 2 * _DIGEST_BYTES : start + _LINE_BYTES]:
                self._digests[line[:_DIGEST_BYTES]] = line[_DIGEST_BYTES:]

    def _halve_index(self) -> None:
        """Throw the older half of the index away."""
        path = self._directory / _INDEX
        lines = path.read_bytes()
        keep = len(lines) // _LINE_BYTES // 2 * _LINE_BYTES
        self._write_file(path, lines[-keep:] if keep else b"")
        self._digests, self._index_state = {}, (0, 0)
        self._read_index()

    def _sweep(self, size_bytes: int) -> int:
        """Remove the files of killed writers, and the least recently used others if a quarter is not free; return the free bytes."""
        with contextlib.suppress(FileNotFoundError):
            if (self._directory / _INDEX).stat().st_size > self._max_bytes // _INDEX_SHARE:
                self._halve_index()
        files = sorted(self._files())
        left = sum(size for _, size, _ in files)
        allowed = min(self._max_bytes * 3 // 4, self._max_bytes - size_bytes)
        for modified, size, path in files:
            is_rest = path.suffix == _PARTIAL and time.time() - modified > _HOUR_S
            if is_rest or (left > allowed and path.name != _INDEX):
                self._found.clear()
                path.unlink(missing_ok=True)
                left -= size
        return self._max_bytes - left

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield (time of change, bytes, file)."""
        for path in self._directory.iterdir():
            if path.suffix in (_TABLES, _PARTIAL) or path.name == _INDEX:
                with contextlib.suppress(OSError):
                    status = path.stat()
                    yield status.st_mtime, status.st_size, path


def listing_key(
    reference: SavepointReference, modified_ns: int, operator_uids: Sequence[tuple[str, str]]
) -> str | None:
    """Return the key of a savepoint's tables; None where the storage does not say whether its files have changed.

    Args:
        reference: opens the savepoint.
        modified_ns: when its `_metadata` was modified, as far as the catalog knows.
        operator_uids: (operator id, uid) for uids that the savepoint does not store.
    """
    try:
        # A list asks this of thousands of savepoints.
        found = _remote_files(reference) if "://" in reference.path else _local_files(reference.path)
        given = []
        for path in filter(None, (reference.state_info, *reference.jars)):
            status = Path(path).stat()
            given.append((path, status.st_size, status.st_mtime_ns))
    except (ReaderError, OSError):
        return None
    file, metadata, beside = found
    if not metadata[1]:
        return None
    facts = [
        _LAYOUT_VERSION, _code_version(), file, metadata, beside, given, reference.version, modified_ns,
        reference.roots, reference.path_map, sorted(operator_uids),
    ]  # fmt: skip
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def outline_key(outline: bytes, operator_uids: Sequence[tuple[str, str]]) -> str:
    """Return the key of the tables of all savepoints with an outline.

    Args:
        outline: of a savepoint; see `Savepoint.outline`.
        operator_uids: (operator id, uid) for uids that the savepoint does not store.
    """
    facts = [_LAYOUT_VERSION, _code_version(), outline.hex(), sorted(operator_uids)]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _local_files(path: str) -> _Files:
    metadata = os.path.abspath(path if os.path.isfile(path) else os.path.join(path, METADATA_FILE_NAME))
    status, beside = os.stat(metadata), None
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(os.path.join(os.path.dirname(metadata), STATE_INFO_FILE_NAME))
        beside = found.st_size, found.st_mtime_ns
    return metadata, (status.st_size, status.st_mtime_ns), beside


def _remote_files(reference: SavepointReference) -> _Files:
    location = SavepointLocation(reference.path, options=reference.options)
    metadata = location.identity(location.metadata)
    beside = None
    with contextlib.suppress(MissingFileError):
        beside = location.identity(location.exclusive_directory / STATE_INFO_FILE_NAME)
    return str(location.metadata), metadata, beside


def _content_of(tables: Iterable[ListedTable]) -> bytes:
    rows = [(table.name, table.comment, table.schema.serialize().to_pybytes()) for table in tables]
    columns = [pa.array([row[index] for row in rows], field.type) for index, field in enumerate(_COLUMNS)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _COLUMNS, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.record_batch(columns, schema=_COLUMNS))
    content: bytes = sink.getvalue().to_pybytes()
    return _digest(content) + content


def _tables_in(content: bytes) -> tuple[ListedTable, ...] | None:
    """Return the tables in the bytes of a file; None if these are damaged."""
    digest, stream = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if len(content) > _LARGEST_BYTES or digest != _digest(stream):
        return None
    try:
        with pa.ipc.open_stream(stream, options=_ON_THIS_THREAD) as reader:
            if not reader.schema.equals(_COLUMNS):
                return None
            rows = reader.read_all().to_pydict()
        columns = [_schema_in(schema) for schema in rows["columns"]]
    except (pa.ArrowException, OSError, ValueError):
        return None
    return tuple(map(ListedTable, rows["name"], rows["comment"], columns))


# Most savepoints of a job have the same columns: one schema in memory for all of them.
@lru_cache(maxsize=4096)
def _schema_in(content: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(content))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


@lru_cache(maxsize=1)
def _code_version() -> str:
    """Return a text that changes when the code that finds tables and their columns does."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for package in (readers, own_package):
        assert package.__file__ is not None
        for path in sorted(Path(package.__file__).parent.rglob("*.py")):
            digest.update(path.read_bytes())
    return f"{digest.hexdigest()}:{pa.__version__}"
