"""File systems and the streams they open.

    Location       an absolute path in a file system
    FileSystem     `LocalFileSystem` here, `RemoteFileSystem` in `readers.storage.remote`
    Stream         the bytes of a handle: `span(start, end)`, `spans(ranges)`, `view(start, length)`, `data`, `windows(start, end)`
    Windows        bytes that a reader walks through until it has found what it needs

Local files are memory-mapped. Flink never changes a file, but a copy that is still running may, so the length is checked again
before every span and after it was walked through, and a file that became shorter raises `FileChangedError`. (Reading into
memory instead would be safe, but on a canonical savepoint in the page cache it copies every byte, which nothing else needs.)

A process that touches a page of a map that is gone, because its file became shorter, gets SIGBUS, which ends it. That is right for
workers of a service: another process tells the client. A program that is alone asks for `survive_lost_pages`: then a handler puts
zeros in the place of all pages behind the first lost one, and remembers the file. What was read is worthless from then on, so
readers ask `check_lost_pages` before rows leave them, writers before a new savepoint is published, and the program at its end. The
handler is a function of Python that C calls in the thread that touched the page. That is allowed here, and not in most handlers:
the signal comes from a read of the map, never from the middle of the allocator, and the thread may have or take Python's lock.

This module does not check whether a path may be opened: `readers.storage.location` does.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import posixpath
import re
import signal
import stat
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from readers.errors import CorruptDataError, FileChangedError, MissingFileError, ReaderError, StorageError

# glibc and musl, on processors with 64 bits: the handler, a mask of 1,024 bits, flags, and a pointer of the library's own.
_FLAGS_AT, _ACTION_BYTES = 8 + 128, 8 + 128 + 8 + 8
_WITH_INFORMATION = 4  # SA_SIGINFO
_ADDRESS_AT = 16  # in siginfo_t
_FAILED = ctypes.c_void_p(-1).value


class _Maps:
    """The maps of files of this process, while it survives lost pages."""

    def __init__(self) -> None:
        self.lost: str | None = None
        self._known: dict[int, tuple[int, str]] = {}
        self._libc = ctypes.CDLL(None)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
        )  # fmt: skip
        self._libc.sigaction.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(self._replace)
        self._before = ctypes.create_string_buffer(_ACTION_BYTES)

    def watch(self) -> None:
        """Handle SIGBUS from now on."""
        action = bytearray(_ACTION_BYTES)
        action[:8] = (ctypes.cast(self._function, ctypes.c_void_p).value or 0).to_bytes(8, sys.byteorder)
        action[_FLAGS_AT : _FLAGS_AT + 4] = _WITH_INFORMATION.to_bytes(4, sys.byteorder)
        self._libc.sigaction(signal.SIGBUS, bytes(action), self._before)

    def add(self, mapped: mmap.mmap, path: str) -> None:
        """Know a map, as long as it lives."""
        address = int(np.frombuffer(mapped, dtype=np.uint8).__array_interface__["data"][0])
        entry = (-(-len(mapped) // mmap.PAGESIZE) * mmap.PAGESIZE, path)
        self._known[address] = entry
        weakref.finalize(mapped, self._forget, address, entry).atexit = False

    def _forget(self, address: int, entry: tuple[int, str]) -> None:
        # Another map may be there by now.
        if self._known.get(address) is entry:
            del self._known[address]

    def _replace(self, _number: int, information: int, _context: int) -> None:
        touched = ctypes.c_size_t.from_address(information + _ADDRESS_AT).value
        page = touched // mmap.PAGESIZE * mmap.PAGESIZE
        for address, (size, path) in list(self._known.items()):
            if address <= touched < address + size:
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
                made = self._libc.mmap(page, address + size - page, mmap.PROT_READ, flags, -1, 0)
                if made != _FAILED:
                    self.lost = self.lost or path
                    return
        # None of ours: the read happens again, and ends the process, or is handled by whoever was here before.
        self._libc.sigaction(signal.SIGBUS, self._before.raw, None)


_MAPS: list[_Maps] = []


def survive_lost_pages() -> None:
    """Survive the loss of pages from now on, in programs that call `check_lost_pages`.

    Nothing is done on systems other than Linux, and where the system allows no functions that are made while a program runs.
    """
    if sys.platform.startswith("linux") and sys.maxsize > 2**32 and not _MAPS:
        with suppress(OSError, MemoryError, AttributeError):
            maps = _Maps()
            maps.watch()
            _MAPS.append(maps)


def watch_map(mapped: mmap.mmap, path: str) -> None:
    """Watch the pages of a map of a file; nothing happens where nobody survives their loss."""
    for maps in _MAPS:
        maps.add(mapped, path)


def check_lost_pages() -> None:
    """Refuse all that this process has read, if pages were lost.

    Raises:
        FileChangedError: a file became shorter while it was read.
    """
    for maps in _MAPS:
        if maps.lost is not None:
            raise _error(maps.lost)


def take_lost_pages() -> FileChangedError | None:
    """Return the error of `check_lost_pages`, and forget it: it is told once, in the place of any other that it led to."""
    for maps in _MAPS:
        path, maps.lost = maps.lost, None
        if path is not None:
            return _error(path)
    return None


def _error(path: str) -> FileChangedError:
    return FileChangedError(
        "the file became shorter while it was read, and what was read of it is wrong; try again when nothing changes it",
        path=path,
    )


Bytes = npt.NDArray[np.uint8]

# Windows of local bytes end this far ahead, and walked pages are given back in steps of it.
_STRETCH_BYTES = 4 << 20
# Pages of so many bytes are mapped at once: they count as this process's memory until they are released.
_AHEAD_BYTES = 8 << 20
_POPULATE_READ = 22  # MADV_POPULATE_READ, which Python does not name

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*|)", re.DOTALL)


def absolute(text: str) -> str:
    """Make a path or URL independent of the working directory."""
    return text if URL.fullmatch(text) else os.path.abspath(text)


class ReadCounter:
    """A count of bytes read, shared by threads. A pickled copy counts for itself, from 0."""

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
    """Size and time of a file. They change with the file, so caches use them as a key."""

    size_bytes: int
    mtime_ns: int


class Location(NamedTuple):
    """An absolute path in a file system.

    `scheme` is the family ("s3" also for s3a and s3p, "abfs" also for abfss, …), `authority` the bucket or host.
    """

    scheme: str
    authority: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Location:
        """Parse a URL or an absolute path. Nothing is percent-decoded: Flink's `Path` is not encoded.

        Raises:
            StorageError: the text has a null byte, which no file system allows in a name.
        """
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
        is_inside = self.path == root.path or self.path.startswith(root.path.rstrip("/") + "/")
        return self[:2] == root[:2] and is_inside

    def __str__(self) -> str:
        return self.path if self.scheme == "file" else f"{self.scheme}://{self.authority}{self.path}"


def _normalized(path: str) -> str:
    """Normalize a path, also two leading slashes, which `posixpath.normpath` keeps."""
    return "/" + posixpath.normpath("/" + _without_null(path)).lstrip("/")


def _without_null(path: str) -> str:
    """Return the path; the functions of `os` raise ValueError for a null byte, in places where nobody expects it."""
    if "\0" in path:
        raise StorageError(f"expected a path without a null byte, found {path[:200]!r}")
    return path


# --- streams ---


class Stream(AbstractContextManager["Stream"], ABC):
    """The bytes of one handle. Arrays that it returned stay valid after `close`.

    Attributes:
        path: the opened file; the name of the handle for inline state.
        size_bytes: length.
        is_remote: True if bytes have to be fetched, which takes time.
    """

    is_remote = False

    def __init__(self, path: str, size_bytes: int, counter: ReadCounter) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._counter = counter

    @property
    @abstractmethod
    def data(self) -> Bytes:
        """All bytes, read-only. Free for local and inline state; a remote file is fetched whole and kept.

        Local reads through it are not counted, because it is not known which pages are touched.
        """

    @abstractmethod
    def span(self, start: int, end: int) -> Bytes:
        """Return an array in which bytes `[start, end)` stand at their own positions, as in `data`.

        Local: `data`. Remote: only these bytes are fetched; bytes before `start` are zeros that take no memory, and
        the array ends at `end`.

        Raises:
            CorruptDataError: out of bounds.
            FileChangedError: a local file is shorter than it was when it was opened.
        """

    def spans(self, ranges: Sequence[tuple[int, int]]) -> Iterator[Bytes]:
        """Yield the `span` of each range; remote ranges are fetched ahead, and neighbours in one request.

        Args:
            ranges: start and end, in ascending order.
        """
        return (self.span(start, end) for start, end in ranges)

    def windows(self, start: int, end: int) -> Windows:
        """Return bytes `[start, end)` for a reader that may stop before `end`; remote bytes are fetched on demand.

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
        """Return bytes `[start, start + length)` as a read-only uint8 array, counted; no copy if local or inline.

        Raises:
            CorruptDataError: out of bounds.
        """
        self._check_bounds(start, length)
        view = self._range(start, length)
        self._counter.add(length)
        return view

    def read(self, start: int, length: int) -> bytes:
        """Return a copy of the bytes that `view` returns."""
        return self.view(start, length).tobytes()

    def prepare(self, start: int, length: int) -> None:  # most streams have their bytes in memory
        """Map the pages of the first of these bytes, which are about to be read, by one call instead of a fault for some."""

    def release(self, start: int, length: int) -> None:  # most streams have nothing to give back
        """Give back the pages of bytes that are not needed for now. Arrays into them stay valid."""

    @abstractmethod
    def close(self) -> None:
        """Release the bytes. A memory map is unmapped with the last array into it, never earlier."""

    def __exit__(self, *_: object) -> None:
        self.close()


class Windows:
    """Bytes `[start, end)` that a reader walks through in order, one window after the other, until it stops.

    This class serves bytes that are in memory, and gives back those that were walked through.

    Attributes:
        path: the file, for errors.
        data: the bytes of the window, up to the position that `reach` returned; `reach` may replace the array.
        base: position of the first byte of `data`.
        start: position of the first byte.
        end: position behind the last byte; larger than any length while the end is not known.
        is_plain: whether a position is a place of the file, from which it can be read.
    """

    is_plain = True

    def __init__(self, path: str, data: Bytes, start: int, end: int) -> None:
        self.path = path
        self.data = data
        self.base = 0
        self.start = start
        self.end = end
        self._released = start

    def ask(self, position: int, needed: int) -> None:
        """Begin to fetch the bytes that `reach` returns for the same arguments. Does not wait."""

    def reach(self, position: int, needed: int) -> int:
        """Move the window until `data` holds the bytes from `position` to `needed`.

        Args:
            position: bytes before it are no longer needed.
            needed: position behind the last byte that is needed; at most `end`.

        Returns:
            The position behind the last byte of the window: at least `needed`, unless `end` turns out to be smaller.

        Raises:
            ReaderError: the bytes cannot be read.
        """
        if position - self._released >= _STRETCH_BYTES:
            self._give_back(position)
        return min(self.end, max(needed, position + _STRETCH_BYTES))

    def taken_bytes(self, begun: int, position: int) -> int:
        """Number of file bytes read to move from one position to another."""
        return min(position, self.end) - begun

    def close(self, position: int) -> None:
        """End the walk; bytes behind `position` are not needed."""
        self._give_back(position)

    def _give_back(self, position: int) -> None:
        if position > self._released:
            self.release(self._released, min(position, self.end))
            self._released = position

    def release(self, start: int, end: int) -> None:
        """Give back the memory of bytes `[start, end)`; arrays into it stay valid."""


class StreamWindows(Windows):
    """Windows of a stream. Walked pages of a mapped file count as this process's memory until they are released."""

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
        counter: counts bytes read.
        mapped: the map that contains `buffer`, and the position of `buffer` in it.
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
        """Check that the file still has bytes up to `end`; `mmap.size` asks the file."""
        if self._mapped is None:
            return
        mapped, offset = self._mapped
        if mapped.size() < offset + end:
            raise FileChangedError(
                f"expected {offset + end} bytes, as there were when it was opened, found {mapped.size()}",
                path=self.path,
            )

    def prepare(self, start: int, length: int) -> None:
        if self._mapped is None or _MADVISE is None:
            return
        address = int(self._data.__array_interface__["data"][0]) + start
        behind = address + min(length, _AHEAD_BYTES, self.size_bytes - start)
        first = address // mmap.PAGESIZE * mmap.PAGESIZE
        # Older kernels do not know this advice, and a page that is gone is an error here: then reading it decides.
        if behind > address:
            _MADVISE(first, behind - first, _POPULATE_READ)

    def release(self, start: int, length: int) -> None:
        if self._mapped is None:
            return
        # What was read while the file became shorter may be zeros: the rest of a last page is no lost page.
        self._check_length(self.size_bytes)
        mapped, offset = self._mapped
        # Whole pages only: the first and the last page may hold bytes that are still needed.
        first = -(-(offset + start) // mmap.PAGESIZE) * mmap.PAGESIZE
        pages = (offset + start + length - first) // mmap.PAGESIZE
        if pages <= 0:
            return
        if _MADVISE is None:
            mapped.madvise(mmap.MADV_DONTNEED, first, pages * mmap.PAGESIZE)
            return
        # `mmap.madvise` keeps Python's lock meanwhile, and the other threads of a scan would wait.
        address = int(self._data.__array_interface__["data"][0]) + first - offset
        _MADVISE(address, pages * mmap.PAGESIZE, mmap.MADV_DONTNEED)

    def close(self) -> None:
        self._data = np.empty(0, dtype=np.uint8)
        self._mapped = None
        self.size_bytes = 0


# --- file systems ---


class Listing(NamedTuple):
    """Names in a folder. Links to folders are in neither tuple: they are not followed."""

    folders: tuple[str, ...]
    files: tuple[str, ...]


class FileSystem(ABC):
    """A file system as a location uses it. Paths are absolute; no method checks roots."""

    is_local = False

    @abstractmethod
    def canonical(self, location: Location, folders: dict[str, str] | None = None) -> Location:
        """Follow all symbolic links.

        Args:
            location: a file or a folder.
            folders: remembers where the links of local folders lead, for as long as the caller looks at many files at once.
        """

    @abstractmethod
    def identity(self, location: Location) -> FileIdentity | None:
        """Return size and time of a file; None if it does not exist.

        Raises:
            StorageError: it is a directory or a device, or its status cannot be read.
        """

    @abstractmethod
    def is_directory(self, location: Location) -> bool: ...

    @abstractmethod
    def is_there(self, location: Location) -> bool:
        """Return whether the file exists now; always asks the file system again."""

    @abstractmethod
    def folder(self, location: Location) -> Listing:
        """List a folder.

        Raises:
            MissingFileError: it does not exist. An object store has no empty folders.
            AccessDeniedError: listing is not permitted.
        """

    @abstractmethod
    def open(self, location: Location, start: int, size_bytes: int, counter: ReadCounter) -> Stream:
        """Open bytes `[start, start + size_bytes)` of a file; `identity` gives the file's size."""


class LocalFileSystem(FileSystem):
    """Files of this machine, memory-mapped: they must not shrink while they are open (Flink never changes a file)."""

    is_local = True

    def canonical(self, location: Location, folders: dict[str, str] | None = None) -> Location:
        with storage_errors(location.path):
            if folders is None:
                return location._replace(path=os.path.realpath(location.path))
            folder, name = os.path.split(location.path)
            if folder not in folders:
                folders[folder] = os.path.realpath(folder)
            path = os.path.join(folders[folder], name)
            return location._replace(path=os.path.realpath(path) if os.path.islink(path) else path)

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
        """Map a file. The path is canonical, so a link as its last name was made after the check: it is refused."""
        with storage_errors(location.path):
            # O_NONBLOCK: opening a pipe that replaced the file would wait for a writer.
            descriptor = os.open(location.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or start + size_bytes > status.st_size:
                    raise FileChangedError(
                        "expected the file that was there a moment ago", path=location.path
                    )
                if size_bytes == 0:  # mmap refuses to map nothing
                    return BufferStream(location.path, b"", counter)
                mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
                watch_map(mapped, location.path)
            finally:
                os.close(descriptor)
        whole = np.frombuffer(mapped, dtype=np.uint8)
        return BufferStream(location.path, whole[start : start + size_bytes], counter, (mapped, start))


def _madvise() -> Callable[[int, int, int], int] | None:
    """Return the C library's `madvise`, which waits for files without Python's lock; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    found = ctypes.CDLL(None).madvise
    found.argtypes, found.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return found


_MADVISE = _madvise()


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Translate errors of file systems to ours, in one place for the whole room."""
    try:
        yield
    except ReaderError:
        raise
    except FileNotFoundError as error:
        raise MissingFileError("expected a file, found nothing", path=path) from error
    except (OSError, ValueError, ImportError) as error:  # pyarrow raises ValueError for invalid options
        reason = getattr(error, "strerror", None) or str(error)
        raise StorageError(f"expected to read: {reason}", path=path) from error


SCHEME_FAMILIES = {"s3a": "s3", "s3n": "s3", "s3p": "s3", "gcs": "gs", "abfss": "abfs", "swebhdfs": "webhdfs"}
