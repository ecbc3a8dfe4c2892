"""Answers of slow clients, on disk: files of bounded size, each and all together.

A query can end when its rows are here, so a slow client holds no worker. A file has no name from the start: nothing stays
behind, however the service ends.

The rows of a query that no client has read yet: in memory, and in a file behind it.

A batch that finds no room in memory for a while goes to a file, so a query can end although its client is slow. If the file is
full as well, the thread waits. Clients without a thread (`service.query.serving.query`) register a listener instead of waiting.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from service.base.errors import QueryError
from service.query.running.run import ResultBuffer


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

    def read(self, extent: Extent) -> bytes:
        """Read an extent that stays; a file of which no extent is taken keeps all. It must not be closed."""
        assert self._file is not None
        return os.pread(self._file.fileno(), extent.length, extent.offset)

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


Listener = Callable[[], None]


class SpooledResults(ResultBuffer):
    """Batches between the thread of a query and its client. Safe to share between threads.

    Args:
        max_bytes: most bytes of batches in memory; one batch always has room.
        file: takes the batches that have no room in memory.
    """

    def __init__(self, max_bytes: int, file: SpoolFile) -> None:
        super().__init__(max_bytes)
        self._file = file
        self._is_behind = False
        self._listeners: set[Listener] = set()

    def put(self, batch: pa.RecordBatch, wait_s: float) -> bool:
        """See `ResultBuffer`; a client that has fallen behind is not waited for again before it has caught up."""
        has_room = self._file.has_room(batch.nbytes)
        if super().put(batch, 0 if self._is_behind and has_room else wait_s):
            return True
        extent = self._file.put(content_of(batch)) if self._file.has_room(batch.nbytes) else None
        with self._changed:
            self._check()
            self._is_behind = extent is not None
            if extent is None:
                return False
            self._batches.append(lambda: self._fetched(extent))
        self._notify()
        return True

    def take(self) -> pa.RecordBatch | None:
        """See `ResultBuffer`."""
        batch = super().take()
        with self._changed:
            self._is_behind = self._is_behind and bool(self._batches)
        return batch

    def abort(self, error: QueryError) -> None:
        """See `ResultBuffer`."""
        super().abort(error)
        self._file.close()

    def add_listener(self, listener: Listener) -> None:
        """Call the listener from now on, from any thread, whenever something changes."""
        with self._changed:
            self._listeners.add(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling the listener."""
        with self._changed:
            self._listeners.discard(listener)

    def _fetched(self, extent: Extent) -> pa.RecordBatch | None:
        content = self._file.take(extent)
        return None if content is None else pa.ipc.open_stream(pa.py_buffer(content)).read_next_batch()

    def _notify(self) -> None:
        super()._notify()
        with self._changed:
            listeners = tuple(self._listeners)
        # Without the lock, for a listener may look at the buffer.
        for listener in listeners:
            listener()


def content_of(batch: pa.RecordBatch) -> memoryview:
    """Return a batch as an Arrow stream, because a bare batch loses its dictionaries."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())
