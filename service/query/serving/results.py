"""The rows of a query that no client has read yet: a bounded number of bytes, however slow the client is.

The thread of the query puts batches in, and the client takes each of them out once. A batch that finds no room in memory for a
while goes to a file, so a query can end although its client is slow. If the file is full as well, the thread waits: a client
that stalls holds the engine back. Clients without a thread (`service.query.serving.waiting`) register a listener instead of waiting.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable

import pyarrow as pa

from service.base.errors import QueryError
from service.query.serving.spool import Extent, SpoolFile
from service.query.sql.types import Column

_LONGEST_WAIT_S = 0.2

Listener = Callable[[], None]


class ResultBuffer:
    """Batches between the thread of a query and its client. Safe to share between threads.

    Args:
        max_bytes: most bytes of batches in memory; one batch always has room.
        file: takes the batches that have no room in memory.
    """

    def __init__(self, max_bytes: int, file: SpoolFile) -> None:
        self._max_bytes = max_bytes
        self._file = file
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch | Extent] = deque()
        self._is_behind = False
        self._size_bytes = 0
        self._head: tuple[tuple[Column, ...], pa.Schema] | None = None
        self._has_ended = False
        self._error: QueryError | None = None
        self._listeners: set[Listener] = set()

    @property
    def is_open(self) -> bool:
        """True if the columns are known."""
        return self._head is not None

    @property
    def is_ready(self) -> bool:
        """True if `take` returns at once."""
        with self._changed:
            return bool(self._batches) or self._has_ended

    @property
    def size_bytes(self) -> int:
        """Bytes of the batches in memory."""
        return self._size_bytes

    def open(self, columns: tuple[Column, ...], schema: pa.Schema) -> None:
        """Set the columns, before the first batch."""
        with self._changed:
            self._head = (columns, schema)
        self._notify()

    def put(self, batch: pa.RecordBatch, wait_s: float) -> bool:
        """Add a batch; return False if there was no room for it.

        Args:
            batch: the rows.
            wait_s: seconds to wait for room in memory. A client that has fallen behind is not waited for again before it has
                caught up.

        Raises:
            QueryError: the error given to `abort`.
        """
        if not self._put_in_memory(batch, wait_s) and not self._put_in_file(batch):
            return False
        self._notify()
        return True

    def end(self) -> None:
        """Note that no batch follows."""
        with self._changed:
            self._has_ended = True
        self._notify()

    def abort(self, error: QueryError) -> None:
        """Drop all batches; `put` and `take` raise this error from now on. The first error counts."""
        with self._changed:
            self._error = self._error or error
            self._has_ended = True
            self._batches.clear()
            self._size_bytes = 0
        self._file.close()
        self._notify()

    def head(self) -> tuple[tuple[Column, ...], pa.Schema]:
        """Wait until the columns are known; return them and their Arrow schema.

        Raises:
            QueryError: the error given to `abort`.
        """
        with self._changed:
            self._wait(lambda: self._head is not None or self._has_ended)
            if self._error is not None:
                raise self._error
            assert self._head is not None
            return self._head

    def take(self) -> pa.RecordBatch | None:
        """Wait for the next batch and return it; None after the last one.

        Raises:
            QueryError: the error given to `abort`.
        """
        with self._changed:
            self._wait(lambda: bool(self._batches) or self._has_ended)
            if self._error is not None:
                raise self._error
            if not self._batches:
                return None
            batch = self._batches.popleft()
            self._is_behind = self._is_behind and bool(self._batches)
            if not isinstance(batch, Extent):
                self._size_bytes -= batch.nbytes
                self._changed.notify_all()
                return batch
        # Read without the lock: the thread of the query goes on meanwhile.
        content = self._file.take(batch)
        with self._changed:
            self._changed.notify_all()
            if self._error is not None:
                raise self._error
        assert content is not None  # only an error closes the file
        return _batch_of(content)

    def add_listener(self, listener: Listener) -> None:
        """Call the listener from now on, from any thread, whenever something changes."""
        with self._changed:
            self._listeners.add(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling the listener."""
        with self._changed:
            self._listeners.discard(listener)

    def _put_in_memory(self, batch: pa.RecordBatch, wait_s: float) -> bool:
        size_bytes = batch.nbytes
        patience_s = 0 if self._is_behind and self._file.has_room(size_bytes) else wait_s
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._has_room(size_bytes), patience_s)
            self._check()
            if not self._has_room(size_bytes):
                return False
            self._batches.append(batch)
            self._size_bytes += size_bytes
            return True

    def _put_in_file(self, batch: pa.RecordBatch) -> bool:
        extent = self._file.put(_content_of(batch)) if self._file.has_room(batch.nbytes) else None
        with self._changed:
            self._check()
            self._is_behind = extent is not None
            if extent is not None:
                self._batches.append(extent)
        return extent is not None

    def _wait(self, is_true: Callable[[], bool]) -> None:
        # A wait without an end hides Ctrl-C where a library has system calls go on after a signal: polars does.
        while not self._changed.wait_for(is_true, _LONGEST_WAIT_S):
            pass

    def _check(self) -> None:
        if self._error is not None:
            # A copy: the client raises the error, too, and its traceback would keep the engine's frames alive.
            raise copy.copy(self._error)

    def _has_room(self, size_bytes: int) -> bool:
        return not self._size_bytes or self._size_bytes + size_bytes <= self._max_bytes

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
            listeners = tuple(self._listeners)
        # Without the lock, for a listener may look at the buffer.
        for listener in listeners:
            listener()


def _content_of(batch: pa.RecordBatch) -> memoryview:
    """Return a batch as an Arrow stream, because a bare batch loses its dictionaries."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def _batch_of(content: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(pa.py_buffer(content)).read_next_batch()
