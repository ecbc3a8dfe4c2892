"""Answers whose readers are slow, on disk: files without a name, of bounded size each and together.

What ran a query can end when its rows are here, so a slow reader costs no process. A file has no name from the moment
it is made: nothing is left behind, whatever ends the service.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is in a file.

    Attributes:
        offset: of its first byte.
        length: in bytes.
    """

    offset: int
    length: int


class Spool:
    """All the files of a service. Safe to share between threads.

    Args:
        folder: where they are; the system's folder for temporary files where empty.
        max_bytes: of all of them.
    """

    def __init__(self, folder: str, max_bytes: int) -> None:
        self._folder = folder or None
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._taken_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Of what is in the files."""
        return self._taken_bytes

    def file(self, max_bytes: int) -> SpoolFile:
        """A file, made when something is put there first.

        Args:
            max_bytes: of this one.
        """
        return SpoolFile(self, max_bytes)

    def opened(self) -> IO[bytes]:
        """An empty file without a name.

        Raises:
            OSError: none can be made.
        """
        return tempfile.TemporaryFile(buffering=0, dir=self._folder, prefix="savepointdb-")

    def has_room(self, size_bytes: int) -> bool:
        """Whether the files may grow by so much."""
        return self._taken_bytes + size_bytes <= self._max_bytes

    def take(self, size_bytes: int) -> bool:
        """Whether there was room for so much; it is taken then."""
        with self._lock:
            if not self.has_room(size_bytes):
                return False
            self._taken_bytes += size_bytes
            return True

    def give_back(self, size_bytes: int) -> None:
        """Have room for so much again."""
        with self._lock:
            self._taken_bytes -= size_bytes


class SpoolFile:
    """Pieces of one answer: put in by one thread, taken out by another, each once; any may close it."""

    def __init__(self, spool: Spool, max_bytes: int) -> None:
        self._spool = spool
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._end = 0
        self._unread = 0
        self._is_closed = False

    def has_room(self, size_bytes: int) -> bool:
        """Whether so much may be put here, if the disk has room for it."""
        is_open = not self._is_closed and self._end + size_bytes <= self._max_bytes
        return is_open and self._spool.has_room(size_bytes)

    def put(self, content: memoryview) -> Place | None:
        """Write a piece; where it is, None if there is no room for it, here or on the disk."""
        with self._lock:
            if not self.has_room(len(content)) or not self._spool.take(len(content)):
                return None
            try:
                if self._file is None:
                    self._file = self._spool.opened()
                written = 0
                while written < len(content):
                    written += os.pwrite(self._file.fileno(), content[written:], self._end + written)
            except OSError:  # the disk is full, or not there
                self._spool.give_back(len(content))
                return None
            place = Place(self._end, len(content))
            self._end += place.length
            self._unread += 1
            return place

    def take(self, place: Place) -> bytes | None:
        """Read a piece; None if the file was closed."""
        with self._lock:
            if self._file is None:
                return None
            content = os.pread(self._file.fileno(), place.length, place.offset)
            self._unread -= 1
            if not self._unread:
                self._empty()
            return content

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._empty()
                self._file.close()
                self._file = None

    def _empty(self) -> None:
        """Give back what nobody is going to read; the file is as good as new."""
        assert self._file is not None
        self._file.truncate(0)
        self._spool.give_back(self._end)
        self._end = 0
