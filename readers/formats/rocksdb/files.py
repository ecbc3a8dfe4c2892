"""The files of a RocksDB snapshot, on this machine or elsewhere.

Local files are read where they are; only RocksDB itself needs them in one folder, under their local names.

Of remote files, small ones (CURRENT, MANIFEST, OPTIONS) are read whole. A lookup fetches the end of a table first, which has
everything that leads to its data, then the blocks with the keys. A scan downloads whole files, and keeps them if there is a
cache: a request of some megabytes takes no more time than one of some kilobytes, and the next scan needs none.

The index is at the end of a table. With Flink's options (blocks of 4 kB, one index entry each) it is 0.7 to 2.1 % of the file. The
first request for a table fetches so much, within a limit for all tables of a lookup, so that the index costs no request of
its own; the missing part of a larger index costs one. Bloom filters are not used: at ten bits a key they are as large as
the index, and would only save a block of 4 kB that is fetched at the same time as those of the other tables.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from readers.errors import MissingFileError
from readers.formats.rocksdb.sst.files import Files, LocalBytes, TableBytes
from readers.metadata import StreamStateHandle
from readers.storage.filesystems import Stream
from readers.storage.location import SavepointLocation, file_identity
from readers.storage.temporary import TemporaryFolder

_LEAST_TAIL_BYTES = 1 << 16
_LARGEST_TAIL = 1 / 48  # of a table: a little more than the largest index that Flink's options give
_ALL_TAILS_BYTES = 2 << 20  # of all tables of a lookup
_MOST_KEPT_BYTES = 4 << 20  # of a table

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(eq=False)
class HandleFiles(Files):
    """The files of a handle; `LocalFiles` and `RemoteFiles` read them.

    Attributes:
        storage: opens the files.
        handles: local name → handle.
        copy_all: puts all files into a folder, as RocksDB needs them.
    """

    storage: SavepointLocation
    handles: Mapping[str, StreamStateHandle]
    copy_all: Callable[[Path], None]

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def _handle(self, name: str) -> StreamStateHandle:
        handle = self.handles.get(name)
        if handle is None:
            raise MissingFileError("expected a file of the handle, found none of this name", path=name)
        return handle

    def _stream(self, name: str) -> Stream:
        return self.storage.open_stream(self._handle(name))

    def _whole(self, name: str) -> bytes:
        with self._stream(name) as stream:
            return stream.read(0, stream.size_bytes)


class LocalFiles(HandleFiles):
    """Files on this machine.

    A folder of links to them is made when RocksDB has to open it, and is removed with this object.

    Raises:
        MissingFileError: one of the files is not there, also if it would never be read.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._folder: TemporaryFolder | None = None
        # Lookups open the same tables again and again, and finding a path takes longer than reading a block.
        self._paths: dict[str, Path | None] = {}
        for handle in self.handles.values():
            if handle.path is not None:
                self.storage.resolve(handle)

    @property
    def is_local(self) -> bool:
        return True

    def read(self, name: str) -> bytes:
        return self._whole(name)

    def open(self, name: str) -> TableBytes:
        if name not in self._paths:
            link = self.storage.link_of(self._handle(name))
            self._paths[name] = None if link is None else Path(link)
        path = self._paths[name]
        return StreamBytes(self._stream(name)) if path is None else LocalBytes(path)

    def identity(self, name: str) -> Hashable | None:
        handle = self._handle(name)
        return None if handle.path is None else file_identity(self.storage, handle)

    def directory(self) -> Path:
        with self._lock:
            if self._folder is None:
                folder = TemporaryFolder()
                self.copy_all(Path(folder.path))
                self._folder = folder
            return Path(self._folder.path)


class StreamBytes(TableBytes):
    """A table within `_metadata`, or within a larger local file (file merging)."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.size_bytes = stream.size_bytes

    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> int:
        length = min(len(buffer), max(0, self.size_bytes - offset))
        buffer[:length] = self._stream.span(offset, offset + length)[offset : offset + length]
        self._stream.release(offset, length)
        return length

    def close(self) -> None:
        self._stream.close()


class RemoteFiles(HandleFiles):
    """Files that are not on this machine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._tail = 0.0
        self._tables: dict[str, RemoteBytes] = {}
        self._fetched: dict[str, Path] = {}
        self._fetching: dict[str, threading.Lock] = {}
        self._folder: TemporaryFolder | None = None
        self._all: Path | None = None

    @property
    def is_local(self) -> bool:
        return False

    def read(self, name: str) -> bytes:
        return self._small[name] if name in self._small else self._whole(name)

    @cached_property
    def _small(self) -> dict[str, bytes]:
        """CURRENT and MANIFEST; fetched at the same time, as both are always needed."""
        names = [name for name in self.handles if name == "CURRENT" or name.startswith("MANIFEST-")]
        return dict(zip(names, self.each(self._whole, names), strict=True))

    def open(self, name: str) -> TableBytes:
        with self._lock:
            fetched = self._fetched.get(name)
            known = self._tables.get(name)
        # A scan brought the whole file: a lookup after it needs no requests.
        if fetched is not None:
            return LocalBytes(fetched)
        if known is None:
            known = RemoteBytes(self._stream(name), self._tail)
            # Another thread may have been faster: all use the table that keeps the bytes which `warm` fetched.
            with self._lock:
                known = self._tables.setdefault(name, known)
        return known

    def fetch(self, names: Iterable[str]) -> None:
        self._scratch()
        self.each(self._fetch, names)

    def _fetch(self, name: str) -> None:
        """Download a file; threads that need the same file wait for the first one."""
        with self._lock:
            lock = self._fetching.setdefault(name, threading.Lock())
        with lock:
            if name not in self._fetched:
                path = self._scratch() / name
                self.storage.bring(self._handle(name), path)
                self._fetched[name] = path

    def announce(self, size_bytes: int) -> None:
        self._tail = min(_LARGEST_TAIL, _ALL_TAILS_BYTES / max(size_bytes, 1))

    def each(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        return self.storage.each(function, items)

    def directory(self) -> Path:
        with self._lock:
            if self._all is None:
                self._all = self._scratch_locked() / "all"
                self._all.mkdir()
                self.copy_all(self._all)
            return self._all

    def close(self) -> None:
        with self._lock:
            if self._folder is not None:
                self._folder.close()
            self._folder = self._all = None
            self._fetched.clear()
            self._tables.clear()

    def _scratch(self) -> Path:
        with self._lock:
            return self._scratch_locked()

    def _scratch_locked(self) -> Path:
        if self._folder is None:
            self._folder = self.storage.cache.folder()
        return Path(self._folder.path)


class RemoteBytes(TableBytes):
    """A table that is read by ranges; keeps its tail and the ranges that `keep` names.

    Args:
        stream: the bytes.
        tail: the part of the table, at its end, that is fetched at once; 64 kB at least.
    """

    def __init__(self, stream: Stream, tail: float) -> None:
        self._stream = stream
        self.size_bytes = stream.size_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, NDArray[np.uint8]] = OrderedDict()
        tail_bytes = min(max(int(tail * self.size_bytes), _LEAST_TAIL_BYTES), self.size_bytes)
        self.keep(self.size_bytes - tail_bytes, tail_bytes)

    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> int:
        length = min(len(buffer), max(0, self.size_bytes - offset))
        kept = self._find(offset, length)
        if kept is None:
            kept = self._stream.view(offset, length)
        buffer[:length] = kept
        return length

    def keep(self, offset: int, length: int) -> None:
        length = min(length, self.size_bytes - offset)
        if not 0 < length <= _MOST_KEPT_BYTES or offset < 0 or self._find(offset, length) is not None:
            return
        end = offset + length
        # An index that is larger than the tail: only what is missing before the tail is fetched.
        known = self._end_of(offset, end)
        data = self._stream.view(offset, length - len(known))
        if len(known):
            data = np.concatenate((data, known))
        with self._lock:
            self._kept[offset] = data
            while sum(map(len, self._kept.values())) > _MOST_KEPT_BYTES:
                self._kept.popitem(last=False)

    def _end_of(self, offset: int, end: int) -> NDArray[np.uint8]:
        """Return the kept bytes at the end of a range; empty if there are none."""
        with self._lock:
            for start, data in self._kept.items():
                if offset < start < end <= start + len(data):
                    return data[: end - start]
        return np.empty(0, dtype=np.uint8)

    def _find(self, offset: int, length: int) -> NDArray[np.uint8] | None:
        with self._lock:
            for start, data in self._kept.items():
                if start <= offset and offset + length <= start + len(data):
                    self._kept.move_to_end(start)
                    return data[offset - start : offset - start + length]
        return None

    def close(self) -> None:
        """Keep the bytes: `RemoteFiles.open` returns the same object again, until the files are closed."""
