"""A RocksDB or ForSt instance as the sources of one handle share it: opened when its first entry is read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextlib import closing
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from readers.errors import MissingFileError, ReaderError
from readers.formats.rocksdb.database import RocksDatabase, files_of, read_only_copy
from readers.formats.rocksdb.files import LocalFiles, RemoteFiles
from readers.formats.rocksdb.sst import Files, TableBytes
from readers.formats.rocksdb.sst.manifest import NotReadHereError, read_manifest
from readers.metadata import IncrementalRemoteKeyedStateHandle
from readers.storage.location import SavepointLocation, file_identity

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
