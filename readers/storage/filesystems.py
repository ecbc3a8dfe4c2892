"""File systems and the streams they open.

    Location       an absolute path in some file system
    FileSystem     `LocalFileSystem` here, `RemoteFileSystem` in `readers.storage.remote`
    Stream         some bytes: `span(start, end)`, `spans(places)`, `view(start, length)`, `data`, `windows(start, end)`
    Windows         some bytes for who does not know yet how many of them it will take

Local files are memory-mapped. A file that shrinks under its map ends the process with SIGBUS when a page is touched that
is no more. Flink never changes a file, but a copy that is still running, or a careless hand, may: so the length is looked
at again before every span, and a file that is shorter than it was is a `FileChangedError`. What shrinks between that and the
decoding of the span, some milliseconds later, is not caught. (Reading into memory instead would be safe. On a canonical
savepoint in the page cache it costs a copy of every byte, which no span needs otherwise.)

Nothing here judges whether a path may be opened: that is what `readers.storage.location` is for.
"""

from __future__ import annotations

import mmap
import os
import posixpath
import re
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from readers.errors import CorruptDataError, FileChangedError, MissingFileError, ReaderError, StorageError

Bytes = npt.NDArray[np.uint8]

_STRETCH_BYTES = 4 << 20

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*|)", re.DOTALL)


def is_url(text: str) -> bool:
    """Whether it names a place by its scheme; a path of this machine does not."""
    return URL.fullmatch(text) is not None


def absolute(text: str) -> str:
    """A path or URL, so that it means the same in any working directory."""
    return text if is_url(text) else os.path.abspath(text)


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
        is_remote: what is not asked for is not there, and asking takes a while.
    """

    is_remote = False

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
    def span(self, start: int, end: int) -> Bytes:
        """Bytes `[start, end)`, each at its own position in the stream: positions mean the same as in `data`.

        Local: `data`. Remote: these bytes are fetched, and nothing else is there: what lies before `start` reads as
        zeros and takes no memory, and the array ends at `end`.

        Raises:
            CorruptDataError: out of bounds.
            FileChangedError: a local file is shorter than it was when it was opened.
        """

    def spans(self, places: Sequence[tuple[int, int]]) -> Iterator[Bytes]:
        """`span` of one place after the other; remote ones are fetched ahead, and neighbours at once.

        Args:
            places: start and end, in ascending order.
        """
        return (self.span(start, end) for start, end in places)

    def windows(self, start: int, end: int) -> Windows:
        """Bytes `[start, end)` for who will stop somewhere in them; remote ones are fetched as far as they are asked for.

        Raises:
            CorruptDataError, FileChangedError: as `span`.
        """
        return StreamWindows(self, self.span(start, end), start, end)

    @abstractmethod
    def _range(self, start: int, length: int) -> Bytes: ...

    def _check_bounds(self, start: int, length: int) -> None:
        if start < 0 or length < 0 or start + length > self.size_bytes:
            raise CorruptDataError(
                f"expected {length} bytes from {start} on, found a stream of {self.size_bytes} bytes",
                path=self.path,
                position=start,
            )

    def view(self, start: int, length: int) -> Bytes:
        """Bytes `[start, start + length)` as a read-only uint8 array, counted; no copy if local or inline.

        Raises:
            CorruptDataError: out of bounds.
        """
        self._check_bounds(start, length)
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


class Windows:
    """Bytes `[start, end)` that are walked through in order, to a place that shows on the way.

    Here those that are there already; what was walked through is given back now and then.

    Attributes:
        path: the file, for errors.
        data: what is there, up to the position that `reach` told last; `reach` may replace it.
        base: the position of the first byte of `data`.
        start: the position of the first byte.
        end: the position behind the last byte; more than any length where that is not known yet.
    """

    def __init__(self, path: str, data: Bytes, start: int, end: int) -> None:
        self.path = path
        self.data = data
        self.base = 0
        self.start = start
        self.end = end
        self._released = start

    def ask(self, position: int, needed: int) -> None:
        """Have the bytes come that `reach` will be asked for with these arguments; waits for none."""

    def reach(self, position: int, needed: int) -> int:
        """Have bytes there.

        Args:
            position: what stands before it is done with.
            needed: the position behind what has to be there; at most `end`.

        Returns:
            The position behind what is there: at least `needed`, unless `end` stands before it now.

        Raises:
            ReaderError: they cannot be read.
        """
        if position - self._released >= _STRETCH_BYTES:
            self._give_back(position)
        return min(self.end, max(needed, position + _STRETCH_BYTES))

    def taken_bytes(self, begun: int, position: int) -> int:
        """How many bytes of the file it took to come from one position to another."""
        return min(position, self.end) - begun

    def close(self, position: int) -> None:
        """What stands behind `position` will not be needed."""
        self._give_back(position)

    def _give_back(self, position: int) -> None:
        if position > self._released:
            self.release(self._released, min(position, self.end))
            self._released = position

    def release(self, start: int, end: int) -> None:
        """What stands from … to is done with; arrays of it stay valid."""


class StreamWindows(Windows):
    """Bytes of a stream: of a mapped file, what was walked through is memory until it is given back."""

    def __init__(self, stream: Stream, data: Bytes, start: int, end: int) -> None:
        super().__init__(stream.path, data, start, end)
        self._stream = stream

    def release(self, start: int, end: int) -> None:
        self._stream.release(start, end - start)


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

    def span(self, start: int, end: int) -> Bytes:
        self._check_bounds(start, end - start)
        self._check_length(end)
        return self._data

    def _range(self, start: int, length: int) -> Bytes:
        self._check_length(start + length)
        return self._data[start : start + length]

    def _check_length(self, end: int) -> None:
        """That the file still reaches to `end`; `mmap.size` asks the file."""
        if self._mapped is None:
            return
        mapped, offset = self._mapped
        if mapped.size() < offset + end:
            raise FileChangedError(
                f"expected {offset + end} bytes, as there were when it was opened, found {mapped.size()}",
                path=self.path,
            )

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


# --- file systems ---


class Listing(NamedTuple):
    """The names in a folder. Links to folders are neither: they are not followed."""

    folders: tuple[str, ...]
    files: tuple[str, ...]


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
    def is_there(self, location: Location) -> bool:
        """Whether there is such a file now; asks again, whatever was known of it."""

    @abstractmethod
    def folder(self, location: Location) -> Listing:
        """What is in a folder.

        Raises:
            MissingFileError: it is not there. An object store has no empty folders.
            AccessDeniedError: it may not be listed.
        """

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

    def is_there(self, location: Location) -> bool:
        return os.path.isfile(location.path)

    def folder(self, location: Location) -> Listing:
        with storage_errors(location.path), os.scandir(location.path) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False), entry.is_file()) for entry in entries]
        return Listing(
            folders=tuple(name for name, is_folder, _ in found if is_folder),
            files=tuple(name for name, _, is_file in found if is_file),
        )

    def open(self, location: Location, start: int, size_bytes: int, counter: ReadCounter) -> Stream:
        """The path is canonical, so a link in its last place was put there after it was checked: refused."""
        with storage_errors(location.path):
            descriptor = os.open(location.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or start + size_bytes > status.st_size:
                    raise FileChangedError(
                        "expected the file that was there a moment ago", path=location.path
                    )
                if size_bytes == 0:
                    return BufferStream(location.path, b"", counter)
                mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            finally:
                os.close(descriptor)
        whole = np.frombuffer(mapped, dtype=np.uint8)
        return BufferStream(location.path, whole[start : start + size_bytes], counter, (mapped, start))


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
    "swebhdfs": "webhdfs",
}
