"""File systems and the streams they open: local files as memory maps, remote ones by range reads.

    Location       an absolute path in some file system
    FileSystem     `LocalFileSystem`, or `RemoteFileSystem` for all that pyarrow.fs serves
    Stream         some bytes: `view(start, length)`, `data`; counted by a `ReadCounter`

Nothing here judges whether a path may be opened: that is what `readers.storage` is for.
"""

from __future__ import annotations

import mmap
import os
import posixpath
import re
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from readers.errors import CorruptDataError, MissingFileError, ReaderError, StorageError

if TYPE_CHECKING:
    from pyarrow import fs

Bytes = npt.NDArray[np.uint8]

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*|)", re.DOTALL)


class ReadCounter:
    """How many bytes were read; shared by threads. A pickled copy counts on its own, from 0."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes_read = 0

    def add(self, bytes_read: int) -> None:
        with self._lock:
            self._bytes_read += bytes_read

    @property
    def bytes_read(self) -> int:
        return self._bytes_read

    def __reduce__(self) -> tuple[type[ReadCounter], tuple[()]]:
        return (ReadCounter, ())


class FileIdentity(NamedTuple):
    """What changes when a file does: the key of caches."""

    size_bytes: int
    mtime_ns: int


class Location(NamedTuple):
    """An absolute path in some file system.

    `scheme` is the family ("s3" also for s3a and s3p, "abfs" also for abfss, …), `authority` the bucket or
    host.
    """

    scheme: str
    authority: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Location:
        """From a URL or an absolute path. Not percent-decoded: Flink's `Path` is not encoded."""
        match = URL.fullmatch(text)
        if match is None:
            return cls("file", "", _normalized(text))
        scheme, authority, path = match.groups()
        scheme = SCHEME_FAMILIES.get(scheme.lower(), scheme.lower())
        authority = "" if authority is None or (scheme, authority) == ("file", "localhost") else authority
        return cls(scheme, authority, _normalized(path))

    def __truediv__(self, tail: str) -> Location:
        return self._replace(path=posixpath.join(self.path, tail))

    @property
    def parent(self) -> Location:
        return self._replace(path=posixpath.dirname(self.path))

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    def is_inside(self, root: Location) -> bool:
        same_file_system = self.scheme == root.scheme and self.authority == root.authority
        return same_file_system and (
            self.path == root.path or self.path.startswith(root.path.rstrip("/") + "/")
        )

    def __str__(self) -> str:
        return self.path if self.scheme == "file" else f"{self.scheme}://{self.authority}{self.path}"


def _normalized(path: str) -> str:
    """Without doubled slashes; `posixpath.normpath` keeps two leading ones."""
    return "/" + posixpath.normpath("/" + path).lstrip("/")


# --- streams ---


class Stream(ABC):
    """The bytes of one handle. Arrays given out stay valid after `close`.

    Attributes:
        path: the file, as opened; the name of the handle for inline state.
        size_bytes: length.
    """

    def __init__(self, path: str, size_bytes: int, counter: ReadCounter) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._counter = counter

    @property
    @abstractmethod
    def data(self) -> Bytes:
        """All bytes, read-only. Free for local and inline state; a remote file is read whole and kept.

        Local reads through it are not counted: nobody knows which pages get touched.
        """

    @abstractmethod
    def _range(self, start: int, length: int) -> Bytes: ...

    def view(self, start: int, length: int) -> Bytes:
        """Bytes `[start, start + length)` as a read-only uint8 array, counted; no copy if local or inline.

        Raises:
            CorruptDataError: out of bounds.
        """
        if start < 0 or length < 0 or start + length > self.size_bytes:
            raise CorruptDataError(
                f"expected {length} bytes from {start} on, found a stream of {self.size_bytes} bytes",
                path=self.path,
                position=start,
            )
        view = self._range(start, length)
        self._counter.add(length)
        return view

    def read(self, start: int, length: int) -> bytes:
        """As `view`, copied."""
        return self.view(start, length).tobytes()

    def release(self, start: int, length: int) -> None:  # noqa: B027  # most streams have nothing to give back
        """These bytes are not needed for now: a memory map gives its pages back. Arrays into it stay valid."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the bytes. A memory map goes when the last array into it does, never earlier."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BufferStream(Stream):
    """Bytes in memory, or in a memory map.

    Args:
        path: the file, or the name of the handle.
        buffer: the bytes.
        counter: counts what is read.
        mapped: the map that `buffer` is a part of, and where it begins in it.
    """

    def __init__(
        self,
        path: str,
        buffer: bytes | Bytes,
        counter: ReadCounter,
        mapped: tuple[mmap.mmap, int] | None = None,
    ) -> None:
        data = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, dtype=np.uint8)
        super().__init__(path, len(data), counter)
        self._data = data
        self._mapped = mapped

    @property
    def data(self) -> Bytes:
        return self._data

    def _range(self, start: int, length: int) -> Bytes:
        return self._data[start : start + length]

    def release(self, start: int, length: int) -> None:
        if self._mapped is None:
            return
        mapped, offset = self._mapped
        first = -(-(offset + start) // mmap.PAGESIZE) * mmap.PAGESIZE
        pages = (offset + start + length - first) // mmap.PAGESIZE
        if pages > 0:
            mapped.madvise(mmap.MADV_DONTNEED, first, pages * mmap.PAGESIZE)

    def close(self) -> None:
        self._data = np.empty(0, dtype=np.uint8)
        self._mapped = None
        self.size_bytes = 0


class RemoteStream(Stream):
    """Range reads of an object: one request a view."""

    def __init__(
        self, path: str, file: fs.NativeFile, start: int, size_bytes: int, counter: ReadCounter
    ) -> None:
        super().__init__(path, size_bytes, counter)
        self._file = file
        self._start = start
        self._whole: Bytes | None = None

    @property
    def data(self) -> Bytes:
        if self._whole is None:
            self._whole = self.view(0, self.size_bytes)
        return self._whole

    def _range(self, start: int, length: int) -> Bytes:
        if self._whole is not None:
            return self._whole[start : start + length]
        with storage_errors(self.path):
            data = self._file.read_at(length, self._start + start)
        if len(data) != length:
            raise StorageError(
                f"expected {length} bytes, read {len(data)}", path=self.path, position=self._start + start
            )
        return np.frombuffer(data, dtype=np.uint8)

    def close(self) -> None:
        self._file.close()
        self._whole = None


# --- file systems ---


class FileSystem(ABC):
    """What a location needs of a file system. Paths are absolute; none of these methods checks roots."""

    is_local = False

    @abstractmethod
    def canonical(self, location: Location) -> Location:
        """With all symbolic links followed."""

    @abstractmethod
    def identity(self, location: Location) -> FileIdentity | None:
        """None if it does not exist.

        Raises:
            StorageError: it is a directory or a device, or cannot be looked at.
        """

    @abstractmethod
    def is_directory(self, location: Location) -> bool: ...

    @abstractmethod
    def open(self, location: Location, start: int, size_bytes: int, counter: ReadCounter) -> Stream:
        """Bytes `[start, start + size_bytes)` of a file that has them (see `identity`)."""


class LocalFileSystem(FileSystem):
    """Files of this machine, memory-mapped: they must not shrink meanwhile (Flink never changes one)."""

    is_local = True

    def canonical(self, location: Location) -> Location:
        with storage_errors(location.path):
            return location._replace(path=os.path.realpath(location.path))

    def identity(self, location: Location) -> FileIdentity | None:
        with storage_errors(location.path):
            try:
                status = os.stat(location.path)
            except (FileNotFoundError, NotADirectoryError):
                return None
        if not stat.S_ISREG(status.st_mode):
            raise StorageError("expected a file, found a directory or device", path=location.path)
        return FileIdentity(status.st_size, status.st_mtime_ns)

    def is_directory(self, location: Location) -> bool:
        return os.path.isdir(location.path)

    def open(self, location: Location, start: int, size_bytes: int, counter: ReadCounter) -> Stream:
        """The path is canonical, so a link in its last place was put there after it was checked: refused."""
        with storage_errors(location.path):
            descriptor = os.open(location.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or start + size_bytes > status.st_size:
                    raise StorageError("expected the file that was there a moment ago", path=location.path)
                if size_bytes == 0:
                    return BufferStream(location.path, b"", counter)
                mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            finally:
                os.close(descriptor)
        whole = np.frombuffer(mapped, dtype=np.uint8)
        return BufferStream(location.path, whole[start : start + size_bytes], counter, (mapped, start))


class RemoteFileSystem(FileSystem):
    """Any file system of pyarrow. Object stores have no links: every path is canonical.

    Args:
        arrow: the file system.
        with_authority: whether its paths begin with the bucket or container, as those of object stores do.
    """

    def __init__(self, arrow: fs.FileSystem, *, with_authority: bool) -> None:
        self._arrow = arrow
        self._with_authority = with_authority

    @classmethod
    def of(cls, location: Location, options: str = "") -> RemoteFileSystem:
        """For a scheme that pyarrow knows; `options`: the query of the URL (`region=…&endpoint_override=…`).

        Raises:
            StorageError: unknown scheme, missing library or credentials.
        """
        from pyarrow import fs  # heavy, and not needed for local savepoints

        if location.scheme not in REMOTE_SCHEMES:
            raise StorageError(
                f"expected a path of this machine or one of {sorted(REMOTE_SCHEMES)}, found {location.scheme}://",
                path=str(location),
            )
        url = f"{location.scheme}://{location.authority}/"
        with storage_errors(str(location)):
            arrow, _ = fs.FileSystem.from_uri(f"{url}?{options}" if options else url)
        return cls(arrow, with_authority=location.scheme != "hdfs")

    def _path(self, location: Location) -> str:
        # abfs://container@account.host/path: the account is in the file system, the container in the path.
        container = location.authority.partition("@")[0]
        return container + location.path if self._with_authority else location.path

    def canonical(self, location: Location) -> Location:
        return location

    def identity(self, location: Location) -> FileIdentity | None:
        info = self._info(location)
        if info.type.name == "NotFound":
            return None
        if info.type.name != "File":
            raise StorageError("expected a file, found a directory", path=str(location))
        return FileIdentity(info.size, info.mtime_ns or 0)

    def is_directory(self, location: Location) -> bool:
        return bool(self._info(location).type.name == "Directory")

    def _info(self, location: Location) -> fs.FileInfo:
        with storage_errors(str(location)):
            return self._arrow.get_file_info(self._path(location))

    def open(self, location: Location, start: int, size_bytes: int, counter: ReadCounter) -> Stream:
        with storage_errors(str(location)):
            file = self._arrow.open_input_file(self._path(location))
        return RemoteStream(str(location), file, start, size_bytes, counter)


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """The one place where errors of file systems become ours; pyarrow adds ValueError, for bad options."""
    try:
        yield
    except ReaderError:
        raise
    except FileNotFoundError as error:
        raise MissingFileError("expected a file, found nothing", path=path) from error
    except (OSError, ValueError, ImportError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StorageError(f"expected to read: {reason}", path=path) from error


SCHEME_FAMILIES = {
    "s3a": "s3",
    "s3n": "s3",
    "s3p": "s3",
    "gcs": "gs",
    "abfss": "abfs",
}

REMOTE_SCHEMES = frozenset({"s3", "gs", "abfs", "hdfs"})
