"""A RocksDB or ForSt instance as the sources of one handle share it: opened when its first entry is read."""

from __future__ import annotations

import threading
from functools import partial

from readers.errors import ReaderError
from readers.formats.rocksdb.database import RocksDatabase, files_of, read_only_copy
from readers.formats.rocksdb.files import LocalFiles, RemoteFiles
from readers.formats.rocksdb.sst import Files
from readers.formats.rocksdb.sst.errors import NotReadHereError
from readers.formats.rocksdb.sst.manifest import read_manifest
from readers.metadata import IncrementalRemoteKeyedStateHandle
from readers.storage.location import SavepointLocation


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

    def family_bytes(self) -> dict[str, int] | None:
        """Return the size of each column family's tables; None if it is not known, or only another machine knows it.

        It is for show: nothing that it reads is checked against checksums, which would load the machine.
        """
        try:
            files = self.files()
            if not files.is_local:
                return None
            families = read_manifest(files, self.path, verify=False).families
            sizes = {name: stream.size_bytes for name, stream in files_of(self.handle).items()}
        except (ReaderError, NotReadHereError, OSError):
            return None
        return {
            family: sum(sizes.get(f"{table.number:06}.sst", 0) for table in tables)
            for family, tables in families.items()
        }

    def is_local(self) -> bool:
        """Return whether no file is on another machine; False if one is missing."""
        try:
            return self.files().is_local
        except ReaderError:
            return False

    def missing(self) -> ReaderError | None:
        """Return the error of a file that is not there, or is too short; None if all are there."""
        try:
            files = self.files()
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
                self._database = RocksDatabase(self.files(), self.path)
            return self._database

    def close(self) -> None:
        """Close the instance; the next use opens it again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def files(self) -> Files:
        """Return the files, for reading.

        Raises:
            ReaderError: a file is missing.
        """
        handles = files_of(self.handle)
        kind = RemoteFiles if self.location.is_remote(handles.values()) else LocalFiles
        return kind(self.location, handles, partial(read_only_copy, self.location, self.handle))
