"""The rows of a query that no client has read yet: in memory, and in a file behind it.

A batch that finds no room in memory for a while goes to a file, so a query can end although its client is slow. If the file is
full as well, the thread waits. Clients without a thread (`service.query.serving.waiting`) register a listener instead of waiting.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from service.base.errors import QueryError
from service.query.running.results import ResultBuffer
from service.query.serving.spool import Extent, SpoolFile

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
        extent = self._file.put(_content_of(batch)) if self._file.has_room(batch.nbytes) else None
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


def _content_of(batch: pa.RecordBatch) -> memoryview:
    """Return a batch as an Arrow stream, because a bare batch loses its dictionaries."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())
