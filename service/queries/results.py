"""What a query has found and nobody has read yet: at most so many bytes, whatever the reader does.

The thread that runs the query puts batches in. Where there is no room for a while they go to a file, so the query ends although
its reader is slow; where the file is full, too, that thread waits, so a reader that stalls holds the engine back. Whoever reads
takes them out, once. Readers that must not wait (`service.queries.waiting`) are called when something changes.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable

import pyarrow as pa

from service.errors import QueryError
from service.queries.spool import Place, SpoolFile
from service.sql.types import Column

Listener = Callable[[], None]


class ResultBuffer:
    """Batches between the thread that finds them and whoever reads them.

    Args:
        max_bytes: of batches that wait in memory; one batch always has room.
        file: for those that have no room there.
    """

    def __init__(self, max_bytes: int, file: SpoolFile) -> None:
        self._max_bytes = max_bytes
        self._file = file
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch | Place] = deque()
        self._is_behind = False
        self._size_bytes = 0
        self._head: tuple[tuple[Column, ...], pa.Schema] | None = None
        self._has_ended = False
        self._error: QueryError | None = None
        self._listeners: set[Listener] = set()

    @property
    def is_open(self) -> bool:
        """Whether the columns are known."""
        return self._head is not None

    @property
    def is_ready(self) -> bool:
        """Whether `take` answers at once."""
        with self._changed:
            return bool(self._batches) or self._has_ended

    @property
    def is_read(self) -> bool:
        """Whether the last batch was taken."""
        with self._changed:
            return self._has_ended and not self._batches

    @property
    def size_bytes(self) -> int:
        """Of the batches that wait in memory."""
        return self._size_bytes

    def open(self, columns: tuple[Column, ...], schema: pa.Schema) -> None:
        """Say what the columns are."""
        with self._changed:
            self._head = (columns, schema)
        self._tell()

    def put(self, batch: pa.RecordBatch, wait_s: float) -> bool:
        """Add a batch; False if there was no room for so long.

        A reader that was waited for once is not waited for again before it has caught up: the file is for what it leaves.

        Raises:
            QueryError: what `abort` was given.
        """
        if not self._put_in_memory(batch, wait_s) and not self._put_in_file(batch):
            return False
        self._tell()
        return True

    def end(self) -> None:
        """Say that no batch follows."""
        with self._changed:
            self._has_ended = True
        self._tell()

    def abort(self, error: QueryError) -> None:
        """Let go of all batches; whoever puts or takes gets this error. The first one counts."""
        with self._changed:
            self._error = self._error or error
            self._has_ended = True
            self._batches.clear()
            self._size_bytes = 0
        self._file.close()
        self._tell()

    def head(self) -> tuple[tuple[Column, ...], pa.Schema]:
        """The columns and their Arrow schema; waits until they are known.

        Raises:
            QueryError: what `abort` was given.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._head is not None or self._has_ended)
            if self._error is not None:
                raise self._error
            assert self._head is not None
            return self._head

    def take(self) -> pa.RecordBatch | None:
        """The next batch, None behind the last one; waits for it.

        Raises:
            QueryError: what `abort` was given.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._has_ended)
            if self._error is not None:
                raise self._error
            if not self._batches:
                return None
            found = self._batches.popleft()
            self._is_behind = self._is_behind and bool(self._batches)
            if not isinstance(found, Place):
                self._size_bytes -= found.nbytes
                self._changed.notify_all()
                return found
        content = self._file.take(found)
        with self._changed:
            self._changed.notify_all()
            if self._error is not None:
                raise self._error
        assert content is not None  # only an error closes the file
        return _batch_of(content)

    def add_listener(self, listener: Listener) -> None:
        """Call this whenever something changes, from any thread."""
        with self._changed:
            self._listeners.add(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Call it no more."""
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
        place = self._file.put(_content_of(batch)) if self._file.has_room(batch.nbytes) else None
        with self._changed:
            self._check()
            self._is_behind = place is not None
            if place is not None:
                self._batches.append(place)
        return place is not None

    def _check(self) -> None:
        if self._error is not None:
            # A copy: the reader raises the error, too, and its trace would hold what the engine's frames do.
            raise copy.copy(self._error)

    def _has_room(self, size_bytes: int) -> bool:
        return not self._size_bytes or self._size_bytes + size_bytes <= self._max_bytes

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()


def _content_of(batch: pa.RecordBatch) -> memoryview:
    """A batch as a stream of its own, for it may have dictionaries."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def _batch_of(content: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(pa.py_buffer(content)).read_next_batch()
