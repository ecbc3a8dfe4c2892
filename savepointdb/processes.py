"""What a connection has open in this process: its catalog, the queries with their engines, and the rows of those that run.

A query that nobody reads to its end must not go on, so a stream ends its query when it is dropped. Python may drop it anywhere,
also while a lock is held that ending the query needs: a thread of the connection, the `Closer`, ends it then.

A fork copies the memory of a process but not its threads: a child that asks opens everything anew, and never closes what its
parent has open.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import pyarrow as pa

from catalog import Catalog, Root
from doctor import Against, against_of
from readers import load_machine
from savepointdb.errors import IncompleteWarning, QueryWarning, translated, warn
from service.base.errors import InvalidRequestError, QueryCancelledError
from service.base.settings import Settings, parts_of
from service.doors.cli.output import log_compilation
from service.doors.cli.sources import cache_of, no_savepoint
from service.query.encode.formats import Column
from service.query.engines.registry import open_engines
from service.query.running.request import QueryRequest
from service.query.running.run import Run
from service.query.running.session import Session
from service.tasks.task import Context, storage_options

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The savepoints of a connection, and how they are read; picklable.

    Attributes:
        roots: savepoints, or folders with several; none for what is made from nothing.
        allowed_roots: more directories that savepoints may refer to.
        path_map: recorded path prefixes and the present ones.
        uids: uids of operators of which savepoints store only the ids.
        state_info: a `stateInfo` file in place of those beside the savepoints; None for those.
        jars: jars of the job, beside those of the settings.
        settings: limits, engines and storage.
    """

    roots: tuple[Root, ...]
    allowed_roots: tuple[str, ...] = ()
    path_map: Mapping[str, str] = field(default_factory=dict)
    uids: tuple[str, ...] = ()
    state_info: str | None = None
    jars: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)

    @property
    def paths(self) -> str:
        """The paths of the roots, for people."""
        return ", ".join(root.path for root in self.roots)

    def catalog(self) -> Catalog:
        """Open the catalog.

        Raises:
            ReaderError: a root does not exist, or nothing was found.
            CatalogError: two roots have one name, or one is inside another.
        """
        catalog = Catalog(
            self.roots,
            allowed_roots=self.allowed_roots,
            path_map=self.path_map,
            uids=self.uids,
            state_info=self.state_info,
            jars=(*self.jars, *parts_of(self.settings.storage.jar)),
            rescan_after_s=self.settings.storage.rescan_after_s,
            cache=cache_of(self.settings, writes=False),
            options=storage_options(self.settings),
        )
        if self.roots and not catalog.databases:
            raise no_savepoint(", ".join(root.path for root in self.roots))
        return catalog


@dataclass(frozen=True, slots=True)
class _Running:
    """The queries, with what ends them if their connection is dropped."""

    queries: Session
    closer: Closer
    finalizer: weakref.finalize[..., object]


class OpenSavepoints:
    """The catalog and the queries of a connection. Safe to share between threads.

    Args:
        sources: what to open.

    Raises:
        ReaderError: a root does not exist, or nothing was found.
        CatalogError: two roots have one name, or one is inside another.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._is_closed = False
        self._lock = threading.Lock()
        self._catalog: Catalog | None = sources.catalog()
        self._running: _Running | None = None
        _OPEN.add(self)

    @property
    def catalog(self) -> Catalog:
        """The databases.

        Raises:
            InvalidRequestError: the connection is closed.
        """
        with self._lock:
            self._check_open()
            if self._catalog is None:
                self._catalog = self.sources.catalog()
            return self._catalog

    @property
    def queries(self) -> Session:
        """The queries of this process; the first look opens the engines.

        Raises:
            InvalidRequestError: the connection is closed.
        """
        return self._queries().queries

    def start(self, request: QueryRequest) -> Stream:
        """Start a query.

        Raises:
            QueryError: the statement means nothing or is not allowed, or the connection is closed.
        """
        running = self._queries()
        stream = Stream(running.queries.start(request), running.closer, self)
        for warning in stream.assumptions:
            warn(f"{warning}; connect(…, database=…) names another", QueryWarning)
        return stream

    def context(self, **about: Any) -> Context:
        """Return what a use case may use.

        Args:
            **about: what all its queries have, as `QueryRequest` has it.

        Raises:
            QueryError: the connection is closed.
        """
        return Context(
            catalog=self.catalog,
            settings=self.sources.settings,
            start=lambda request: self.queries.start(request),
            request=lambda: QueryRequest(sql="", source="savepointdb", **about),
            is_alone=True,
            warn=lambda text: warn(text, QueryWarning),
            worker=lambda name, size_bytes: self.queries.worker(name, size_bytes),
            against=self.against,
        )

    def against(self, paths: Sequence[str]) -> tuple[Against, ...]:
        """Return what files tell of a new job.

        Raises:
            ReaderError: one cannot be read.
        """
        sources = self.sources
        options = storage_options(sources.settings)
        return against_of(paths, roots=sources.allowed_roots, path_map=sources.path_map, options=options)

    def prefix_of(self, request: QueryRequest) -> str:
        """Return what stands before the query of a statement: EXPLAIN, DESCRIBE or nothing.

        Raises:
            QueryError: the statement means nothing or is not allowed, or the connection is closed.
        """
        limits = self.sources.settings.queries
        return request.plan(self.catalog, limits.max_sql_bytes, limits.compat).prefix

    def close(self) -> None:
        """End all queries and close the engines."""
        with self._lock:
            self._is_closed = True
            running, self._running = self._running, None
            self._catalog = None
        if running is not None and running.finalizer.detach():
            running.queries.close()
            running.closer.stop()

    def _queries(self) -> _Running:
        catalog = self.catalog
        with self._lock:
            self._check_open()
            if self._running is None:
                # Before the deadline of a query counts: if the decoder is not compiled yet, this takes seconds.
                log_compilation()
                load_machine()
                settings = self.sources.settings
                queries, closer = Session(catalog, open_engines(settings), settings), Closer()
                self._running = _Running(queries, closer, closer.on_drop(self, queries.close, is_last=True))
            return self._running

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidRequestError("the connection is closed", hint="connect again")

    def forget_parent(self) -> None:
        """Open everything anew in a process that was forked; its parent has it open."""
        self._lock = threading.Lock()
        if self._running is not None:
            atexit.unregister(self._running.queries.close)
            # Never freed, at exit neither: an engine without its threads ends the process when it is.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._running))
        self._catalog, self._running = None, None


def _after_fork() -> None:
    for one in list(_OPEN):
        one.forget_parent()


_OPEN: weakref.WeakSet[OpenSavepoints] = weakref.WeakSet()
os.register_at_fork(after_in_child=_after_fork)
