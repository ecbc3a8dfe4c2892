"""Native RocksDB (and ForSt) snapshots: the files of one database instance, opened as one.

An `IncrementalRemoteKeyedStateHandle` names the SST files, MANIFEST, CURRENT and OPTIONS of an instance. Each state has a column
family of its name. Our reader (`sst/`) reads the files where they are. RocksDB itself needs them under their local names in one
folder (links to local files, copies of others), and opens them read-only with the column families and the merge operator
(`stringappendtest`, delimiter `,`) that the OPTIONS name. Both return the entries that Flink sees: with overwrites, deletes and
appended list elements applied.

Keys and values are those of `composite.py`. After rescaling, SST files may have key groups outside of the handle's range:
`source.py` does not ask for them.

The sources of one handle share a `RocksInstance`, which is opened when its first entry is read.

Flink: RocksIncrementalSnapshotStrategy, RocksDBIncrementalRestoreOperation.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from readers.errors import CorruptDataError, MissingFileError, ReaderError, StorageError
from readers.formats.rocksdb.files import LocalFiles, RemoteFiles
from readers.formats.rocksdb.sst.files import Files, TableBytes
from readers.formats.rocksdb.sst.manifest import NotReadHereError, read_manifest
from readers.formats.rocksdb.sst.scan import PAGE_BYTES, PAGE_ENTRIES, Entries, SstDatabase, TableShare
from readers.formats.rocksdb.sst.words import SLACK_BYTES
from readers.metadata import IncrementalRemoteKeyedStateHandle, StreamStateHandle
from readers.storage.filesystems import storage_errors
from readers.storage.location import SavepointLocation, file_identity

if TYPE_CHECKING:
    import rocksdict


_FILE_NAME = re.compile(r"\d+\.sst|MANIFEST-\d+|CURRENT|OPTIONS-\d+|IDENTITY|\d+\.blob")
# Folders of the machine that wrote the OPTIONS: RocksDB would create and use them on this one.
_FOREIGN_FOLDERS = re.compile(rb"(db_log_dir|wal_dir|db_paths|cf_paths)=[^\n]*")
_FORST_FOLDER = re.compile(rb"__attempt_\d+/db")
_ROCKSDB_FOLDER = re.compile(rb"__uuid_[0-9a-f-]+/db")
# A range that begins with more bytes than a key group has begins with a known key.
_LONGEST_KEY_GROUP_BYTES = 2


class RocksDatabase:
    """One RocksDB instance, for reading: its `files`, and our reader of its `tables`.

    `entries` is the only place that chooses a reader. Our reader of SST files (`sst/`) reads every range; RocksDB itself, which
    needs all files in one local folder, is opened only when our reader refuses one (`NotReadHereError`).
    docs/decisions.md has the measurements.

    Args:
        files: the files of the instance.
        path: the path for errors.
    """

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.tables = SstDatabase(files, path)
        self._path = path
        self._lock = threading.Lock()
        self._database: rocksdict.Rdict | None = None

    def close(self) -> None:
        """Release the files."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
        self.files.close()

    def entries(
        self, family: str, first: bytes, behind: bytes | None, *, keys_only: bool = False
    ) -> Iterator[Entries]:
        """Yield the entries with keys from `first` to `behind` (excluded) in pages: buffer, starts, ends, int64 (entries, 2).

        With `keys_only` values may be empty.

        Raises:
            CorruptDataError: the bytes contradict the format, or RocksDB cannot open what is there.
            StorageError: the file system or RocksDB fails to read.
        """
        few = len(first) > _LONGEST_KEY_GROUP_BYTES
        rest = first
        try:
            with storage_errors(self._path):
                for data, starts, ends in self.tables.entries(
                    family, first, behind, few=few, keys_only=keys_only
                ):
                    yield data, starts, ends
                    # The least key that is greater than the last one.
                    rest = data[starts[-1, 0] : ends[-1, 0]].tobytes() + b"\0"
        except NotReadHereError:
            # As a rule before the first entry: MANIFEST and tables' ends show everything but the types of entries and compression.
            yield from self._through_rocksdb(family, rest, behind)

    def shares(self, family: str, bounds: Sequence[bytes]) -> list[TableShare] | None:
        """Return what each table has between neighbouring keys, as its properties say; None if our reader does not know them.

        Raises:
            CorruptDataError: the bytes contradict the format.
            StorageError: the file system fails to read.
        """
        try:
            with storage_errors(self._path):
                return list(self.tables.shares(family, bounds))
        except NotReadHereError:
            return None

    def _through_rocksdb(self, family: str, first: bytes, behind: bytes | None) -> Iterator[Entries]:
        """Yield the same entries through RocksDB, row by row."""
        keys: list[bytes] = []
        values: list[bytes] = []
        size = 0
        database = self._opened()
        if family not in self._families:
            return
        try:
            pairs: Iterator[Any] = database.get_column_family(family).items(from_key=first)
            for key, value in pairs:
                if behind is not None and key >= behind:
                    break
                keys.append(key)
                values.append(value)
                size += len(key) + len(value)
                if len(keys) >= PAGE_ENTRIES or size >= PAGE_BYTES:
                    yield framed(keys, values)
                    keys, values, size = [], [], 0
        except Exception as error:  # rocksdict raises plain Exception
            message = f"expected to read column family {family}: {_first_line(error)}"
            raise StorageError(message, path=self._path) from error
        if keys:
            yield framed(keys, values)

    def _opened(self) -> rocksdict.Rdict:
        """Return the instance in RocksDB, opened read-only on first use."""
        # To load RocksDB takes 10 ms, and hardly any savepoint needs it.
        rocksdb = import_module("rocksdict")
        with self._lock:
            if self._database is None:
                try:
                    directory = str(self.files.directory())
                    options, families = rocksdb.Options.load_latest(directory)
                    self._families = frozenset(families)
                    self._database = rocksdb.Rdict(
                        directory,
                        options=options,
                        column_families=families,
                        access_type=rocksdb.AccessType.read_only(),
                    )
                except ReaderError:
                    raise
                except Exception as error:  # rocksdict raises plain Exception
                    message = f"expected a RocksDB database: {_first_line(error)}"
                    raise CorruptDataError(message, path=self._path) from error
            database: rocksdict.Rdict = self._database
            return database


def read_only_copy(
    storage: SavepointLocation, handle: IncrementalRemoteKeyedStateHandle, directory: Path
) -> None:
    """Put the files of a handle under their local names into `directory`: links to local files, copies of others.

    The OPTIONS file is always a copy, without the folders of the machine that wrote it.

    Raises:
        CorruptDataError: a local name that no RocksDB file has.
        ReaderError: a file cannot be read.
    """
    links = []
    for name, stream in files_of(handle).items():
        if name.startswith("OPTIONS-"):
            text = bytes(storage.open_stream(stream).data)
            (directory / name).write_bytes(_FOREIGN_FOLDERS.sub(rb"\1=", text))
        else:
            links.append((name, stream))
    storage.materialize(links, directory)


def files_of(handle: IncrementalRemoteKeyedStateHandle) -> dict[str, StreamStateHandle]:
    """Return the files of a handle by their local names.

    Raises:
        CorruptDataError: a local name that no RocksDB file has, or that two files have.
    """
    files: dict[str, StreamStateHandle] = {}
    for name, stream in handle.files():
        # The name becomes a path in our folder: hostile metadata must not lead out of it.
        if not _FILE_NAME.fullmatch(name):
            raise CorruptDataError(f"expected the name of a RocksDB file, found {name!r}")
        if name in files:
            raise CorruptDataError(f"expected files of different names, found {name} twice")
        files[name] = stream
    return files


def is_forst(storage: SavepointLocation, handle: IncrementalRemoteKeyedStateHandle) -> bool:
    """Return whether ForSt wrote the files; their format is RocksDB's.

    The OPTIONS record a folder: `…__attempt_<n>/db` of ForSt, `…__uuid_<id>/db` of RocksDB. If they record none, the index
    type decides: only ForSt partitions the index by default. Flink: ForStResourceContainer.

    Raises:
        ReaderError: a file cannot be read.
    """
    for stream in options_files(handle):
        text = bytes(storage.open_stream(stream).data)
        folders = b"".join(match[0] for match in _FOREIGN_FOLDERS.finditer(text))
        if _FORST_FOLDER.search(folders) or _ROCKSDB_FOLDER.search(folders):
            return _ROCKSDB_FOLDER.search(folders) is None
        return b"index_type=kTwoLevelIndexSearch" in text
    return False


def options_files(handle: IncrementalRemoteKeyedStateHandle) -> Iterator[StreamStateHandle]:
    """Yield the OPTIONS files; as a rule there is one."""
    return (stream for name, stream in handle.files() if name.startswith("OPTIONS-"))


def manifest_files(handle: IncrementalRemoteKeyedStateHandle) -> Iterator[StreamStateHandle]:
    """Yield CURRENT and the MANIFEST, which list the tables and their key ranges."""
    return (stream for name, stream in handle.files() if name == "CURRENT" or name.startswith("MANIFEST-"))


def framed(keys: list[bytes], values: list[bytes]) -> Entries:
    """Return entries as a page has them: a buffer with all keys, then all values, and slack behind; starts, ends, int64 (entries, 2)."""
    count = len(keys)
    sizes = np.fromiter(map(len, [*keys, *values]), dtype=np.int64, count=2 * count)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    data = np.frombuffer(b"".join([*keys, *values, bytes(SLACK_BYTES)]), dtype=np.uint8)[:-SLACK_BYTES]
    return data, _by_entry(starts, count), _by_entry(ends, count)


def _by_entry(bounds: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Turn the bounds of all keys, then of all values, into an array (entries, 2)."""
    return np.ascontiguousarray(bounds.reshape(2, count).T)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


_COMPARED_BYTES = 1 << 20


class RocksInstance:
    """A RocksDB instance that is opened when its first entry is read; the sources of one handle share it.

    Args:
        location: opens the files.
        handle: names them.
        path: the path for errors.
    """

    def __init__(
        self, location: SavepointLocation, handle: IncrementalRemoteKeyedStateHandle, path: str
    ) -> None:
        self.location = location
        self.handle = handle
        self.path = path
        # Several threads read splits of one savepoint and share this instance.
        self._lock = threading.Lock()
        self._database: RocksDatabase | None = None
        self._identities: dict[str, Hashable] = {}
        self._comparing = threading.Lock()
        # Splits of one comparison ask again and again.
        self._copies: WeakKeyDictionary[RocksInstance, dict[tuple[str, str], bool]] = WeakKeyDictionary()

    def family_bytes(self, first: bytes, behind: bytes) -> dict[str, int] | None:
        """Return the size of each column family's tables; None if it is not known, or only another machine knows it.

        Tables of which no key is from `first` to `behind` (excluded) belong to the subtasks that the job had before it was rescaled.

        It is for show: nothing that it reads is checked against checksums, which would load the machine.
        """
        try:
            files = self._files()
            if not files.is_local:
                return None
            families = read_manifest(files, self.path, verify=False).families
            sizes = {name: stream.size_bytes for name, stream in files_of(self.handle).items()}
        except (ReaderError, NotReadHereError, OSError):
            return None
        return {
            family: sum(
                sizes.get(f"{table.number:06}.sst", 0)
                for table in tables
                if table.first_key < behind and table.last_key >= first
            )
            for family, tables in families.items()
        }

    def is_local(self) -> bool:
        """Return whether no file is on another machine; False if one is missing."""
        try:
            return self._files().is_local
        except ReaderError:
            return False

    def missing(self) -> ReaderError | None:
        """Return the error of a file that is not there, or is too short; None if all are there."""
        try:
            files = self._files()
        except ReaderError as error:
            return error
        damaged = [] if files.is_local else self.location.damaged(files_of(self.handle).values())
        return damaged[0] if damaged else None

    def database(self) -> RocksDatabase:
        """Return the open instance.

        Raises:
            ReaderError: a file is missing.
        """
        with self._lock:
            if self._database is None:
                self._database = RocksDatabase(self._files(), self.path)
            return self._database

    def close(self) -> None:
        """Close the instance; the next use opens it again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def has_same(
        self, name: str, other: RocksInstance, other_name: str, account: Callable[[int], None]
    ) -> bool:
        """Return whether a file is the same as one of another instance, or a copy of it.

        Only files of this machine are compared byte by byte, from their ends on: there is what tells one table from another.

        Raises:
            ReaderError: a file is missing.
            OSError: it cannot be read.
        """
        if self.identity(name) == other.identity(other_name):
            return True
        one, two = self.database().files, other.database().files
        if not (one.is_local and two.is_local):
            return False
        with self._comparing:
            known = self._copies.setdefault(other, {})
            if (name, other_name) not in known:
                known[name, other_name] = _has_same_bytes(one.open(name), two.open(other_name), account)
            return known[name, other_name]

    def identity(self, name: str) -> Hashable:
        """Return the identity of a file.

        Raises:
            ReaderError: it is missing.
        """
        if name not in self._identities:
            handle = files_of(self.handle).get(name)
            if handle is None:
                raise MissingFileError("expected a file of the handle, found none of this name", path=name)
            self._identities[name] = file_identity(self.location, handle)
        return self._identities[name]

    def _files(self) -> Files:
        handles = files_of(self.handle)
        kind = RemoteFiles if self.location.is_remote(handles.values()) else LocalFiles
        return kind(self.location, handles, partial(read_only_copy, self.location, self.handle))


def _has_same_bytes(one: TableBytes, other: TableBytes, account: Callable[[int], None]) -> bool:
    """Compare two files, from their ends on, and close them."""
    buffers = np.empty((2, _COMPARED_BYTES), dtype=np.uint8)
    with closing(one), closing(other):
        if one.size_bytes != other.size_bytes:
            return False
        for end in range(one.size_bytes, 0, -_COMPARED_BYTES):
            start = max(0, end - _COMPARED_BYTES)
            parts = buffers[0, : end - start], buffers[1, : end - start]
            account(one.read_into(parts[0], start) + other.read_into(parts[1], start))
            if not np.array_equal(*parts):
                return False
    return True
