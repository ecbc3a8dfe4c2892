"""The rows of one running query, batch by batch.

A query that nobody reads to its end must not go on, so a stream ends its query when it is dropped. Python may drop it anywhere,
also while a lock is held that ending the query needs: a thread of the connection, the `Closer`, ends it then.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pyarrow as pa

from savepointdb.errors import IncompleteWarning, translated, warn
from service.base.errors import QueryCancelledError
from service.query.running.run import Run
from service.query.sql.types import Column

Close = Callable[[], None]


# A query that does not hear of its end must not keep the process for ever.
_LONGEST_END_S = 5.0


class Closer:
    """A thread that closes what was dropped. It ends with its owner."""

    def __init__(self) -> None:
        # Its `put` may be called from anywhere, also by the garbage collector within itself.
        self._dropped: SimpleQueue[Close | None] = SimpleQueue()
        thread = threading.Thread(
            target=_close_all, args=(self._dropped,), name="savepointdb-closer", daemon=True
        )
        _CLOSERS[thread] = self._dropped
        thread.start()

    def on_drop(self, owner: object, close: Close, *, is_last: bool = False) -> weakref.finalize[..., object]:
        """Close something when its owner is dropped, unless the result is detached before.

        Args:
            owner: the object that nobody holds any more.
            close: closes what the owner had open; must not refer to the owner.
            is_last: True if the thread ends after that.
        """
        finalizer = weakref.finalize(owner, _put, self._dropped, close, is_last)
        # At exit the queries end all together.
        finalizer.atexit = False
        return finalizer

    def stop(self) -> None:
        """End the thread."""
        self._dropped.put(None)


class Stream:
    """The batches of a query; an iterator that ends the query at its end, on an error, and when it is dropped.

    Args:
        query: it runs.
        closer: ends the query of a dropped stream.
        keeper: stays alive as long as the stream.
    """

    def __init__(self, query: Run, closer: Closer, keeper: object) -> None:
        self._query = query
        self._keeper = keeper
        self._process = os.getpid()
        self._has_ended = False
        self._finalizer = closer.on_drop(self, query.close)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns; waits until they are known.

        Raises:
            QueryError: the query failed or was cancelled.
        """
        with self._closed_on_error():
            return self._query.columns

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with the savepoints in its metadata; waits until it is known.

        Raises:
            QueryError: the query failed or was cancelled.
        """
        with self._closed_on_error():
            return self._query.schema

    @property
    def is_text(self) -> bool:
        """True if the rows are lines of text, such as a plan."""
        return self._query.plan.is_text

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the planner, in sentences."""
        return self._query.plan.warnings

    @property
    def truncated(self) -> bool:
        """True if there are more rows than were asked for; known after the last one."""
        return self._query.truncated

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._has_ended:
            raise StopIteration
        with self._closed_on_error():
            batch = self._query.take()
            if batch is None:
                self._has_ended = True
                for file in self._query.incomplete:
                    warn(file.text(), IncompleteWarning)
                self.close()
        if batch is None:
            raise StopIteration
        return batch

    def close(self) -> None:
        """End the query, if it has not ended."""
        # The thread of the query is in the process that started it.
        if self._finalizer.detach() and self._process == os.getpid():
            self._query.close()

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        with translated():
            if self._process != os.getpid():
                raise QueryCancelledError(
                    "the query belongs to the process that was forked", hint="run it again in this one"
                )
            try:
                yield
            except BaseException:
                self.close()
                raise


def _close_all(dropped: SimpleQueue[Close | None]) -> None:
    while (close := dropped.get()) is not None:
        close()
    _CLOSERS.pop(threading.current_thread(), None)


def _end_all() -> None:
    """Wait for the threads that close: one that holds an engine at the very end is taken for a leak, and said to be one."""
    threads = list(_CLOSERS.items())
    for _, dropped in threads:
        dropped.put(None)
    for thread, _ in threads:
        thread.join(_LONGEST_END_S)


_CLOSERS: dict[threading.Thread, SimpleQueue[Close | None]] = {}
atexit.register(_end_all)


def _put(dropped: SimpleQueue[Close | None], close: Close, is_last: bool) -> None:
    dropped.put(close)
    if is_last:
        dropped.put(None)
