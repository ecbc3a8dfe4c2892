"""Answers of slow clients, on disk: files of bounded size, each and all together.

A query can end when its rows are here, so a slow client holds no worker. A file has no name from the start: nothing stays
behind, however the service ends.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True, slots=True)
class Extent:
    """A range of bytes of a file.

    Attributes:
        offset: of the first byte.
        length: number of bytes.
    """

    offset: int
    length: int


class Spool:
    """All files of a service. Safe to share between threads.

    Args:
        folder: the directory of the files; the system's temporary directory if empty.
        max_bytes: most bytes of all files together.
    """

    def __init__(self, folder: str, max_bytes: int) -> None:
        self._folder = folder or None
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._taken_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes in all files."""
        return self._taken_bytes

    def file(self, max_bytes: int) -> SpoolFile:
        """Return a file; it is created when the first bytes are written.

        Args:
            max_bytes: most bytes of this file.
        """
        return SpoolFile(self, max_bytes)

    def opened(self) -> IO[bytes]:
        """Create an empty file without a name.

        Raises:
            OSError: the file cannot be created.
        """
        return tempfile.TemporaryFile(buffering=0, dir=self._folder, prefix="savepointdb-")

    def has_room(self, size_bytes: int) -> bool:
        """Return True if the files may grow by so many bytes."""
        return self._taken_bytes + size_bytes <= self._max_bytes

    def take(self, size_bytes: int) -> bool:
        """Reserve so many bytes; return False if there is no room for them."""
        with self._lock:
            if not self.has_room(size_bytes):
                return False
            self._taken_bytes += size_bytes
            return True

    def give_back(self, size_bytes: int) -> None:
        """Release reserved bytes."""
        with self._lock:
            self._taken_bytes -= size_bytes


class SpoolFile:
    """The file of one answer. One thread writes extents, another reads each of them once; any thread may close it."""

    def __init__(self, spool: Spool, max_bytes: int) -> None:
        self._spool = spool
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._end = 0
        self._unread = 0
        self._is_closed = False

    def has_room(self, size_bytes: int) -> bool:
        """Return True if the file may grow by so many bytes; the disk may be full nevertheless."""
        is_open = not self._is_closed and self._end + size_bytes <= self._max_bytes
        return is_open and self._spool.has_room(size_bytes)

    def put(self, content: memoryview) -> Extent | None:
        """Write an extent and return it; None if there is no room for it, in the limits or on the disk."""
        with self._lock:
            if not self.has_room(len(content)) or not self._spool.take(len(content)):
                return None
            try:
                if self._file is None:
                    self._file = self._spool.opened()
                written = 0
                while written < len(content):
                    written += os.pwrite(self._file.fileno(), content[written:], self._end + written)
            except OSError:  # the disk is full, or the directory is gone
                self._spool.give_back(len(content))
                return None
            extent = Extent(self._end, len(content))
            self._end += extent.length
            self._unread += 1
            return extent

    def take(self, extent: Extent) -> bytes | None:
        """Read an extent; return None if the file is closed."""
        with self._lock:
            if self._file is None:
                return None
            content = os.pread(self._file.fileno(), extent.length, extent.offset)
            self._unread -= 1
            # All is read: start again at the first byte, so that the file stays small.
            if not self._unread:
                self._empty()
            return content

    def close(self) -> None:
        """Delete the file."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._empty()
                self._file.close()
                self._file = None

    def _empty(self) -> None:
        """Empty the file and release its bytes."""
        assert self._file is not None
        self._file.truncate(0)
        self._spool.give_back(self._end)
        self._end = 0
