"""The rows of a run that nobody has read yet: a bounded number of bytes.

The thread of the run puts batches in, and its reader takes each of them out once. Where there is no room the thread waits: a
reader that stalls holds the engine back.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable

import pyarrow as pa

from service.base.errors import QueryError
from service.query.sql.types import Column

Stored = Callable[[], pa.RecordBatch | None]
"""Fetches a batch that is not in memory; None if it was dropped."""


class ResultBuffer:
    """Batches between the thread of a run and its reader. Safe to share between threads.

    Args:
        max_bytes: most bytes of batches in memory; one batch always has room.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch | Stored] = deque()
        self._size_bytes = 0
        self._head: tuple[tuple[Column, ...], pa.Schema] | None = None
        self._has_ended = False
        self._error: QueryError | None = None

    @property
    def is_open(self) -> bool:
        """True if `head` returns at once."""
        return self._head is not None or self._has_ended

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
        """Add a batch; return False if there was no room for it in so many seconds.

        Raises:
            QueryError: the error given to `abort`.
        """
        size_bytes = batch.nbytes
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._has_room(size_bytes), wait_s)
            self._check()
            if not self._has_room(size_bytes):
                return False
            self._batches.append(batch)
            self._size_bytes += size_bytes
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
        self._notify()

    def wait(self, happens: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something is true of the buffer; return whether it is."""
        with self._changed:
            return self._changed.wait_for(happens, timeout_s)

    def head(self) -> tuple[tuple[Column, ...], pa.Schema]:
        """Return the columns and their Arrow schema, once the buffer is open.

        Raises:
            QueryError: the error given to `abort`.
        """
        if self._error is not None:
            raise self._error
        assert self._head is not None
        return self._head

    def take(self) -> pa.RecordBatch | None:
        """Return the next batch, once the buffer is ready; None after the last one.

        Raises:
            QueryError: the error given to `abort`.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            if not self._batches:
                return None
            batch = self._batches.popleft()
            if isinstance(batch, pa.RecordBatch):
                self._size_bytes -= batch.nbytes
                self._changed.notify_all()
                return batch
        # Fetched without the lock: the thread of the run goes on meanwhile.
        fetched = batch()
        with self._changed:
            self._changed.notify_all()
            if self._error is not None:
                raise self._error
        return fetched

    def _check(self) -> None:
        if self._error is not None:
            # A copy: the reader raises the error, too, and its traceback would keep the engine's frames alive.
            raise copy.copy(self._error)

    def _has_room(self, size_bytes: int) -> bool:
        return not self._size_bytes or self._size_bytes + size_bytes <= self._max_bytes

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
