"""`WorkerEngine`: the local engine in the workers of a pool, an `Engine` to the rest of the service."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

import pyarrow as pa

from catalog import CatalogError
from readers import ReaderError
from service.engines.engine import Engine, Execution, Progress
from service.engines.registry import local_engine
from service.engines.workers.channel import ChannelClosedError, Frame
from service.engines.workers.forks import WorkerProcess
from service.engines.workers.limits import engine_settings, waiting_workers, worker_memory_bytes
from service.engines.workers.messages import End, batch_of, columns_of, progress_of, schema_of, task_content
from service.engines.workers.pool import WorkerPool
from service.errors import QueryCancelledError, QueryError, WorkerLostError, query_error_of
from service.settings import Settings
from service.sql.lookups import is_lookup
from service.sql.plan import Plan
from service.sql.types import Column

# A worker that still runs this long after a cancel is killed.
_PATIENCE_S = 1.0
# The least timeout of a socket: with 0 it does not wait at all.
_SHORT_S = 0.01
_LOOK_AGAIN_S = 0.1
COMPILING = "the decoder is compiled for this processor, once: queries wait for it, a minute at most"
# A worker that waits may die before it gets a task; several at once if the system is short of memory.
_TRIES = 4


class WorkerEngine(Engine):
    """The local engine, each query in a process of its own.

    Args:
        settings: memory, threads and number of the workers.
        running: queries that run at a time.
    """

    name = local_engine().name

    def __init__(self, settings: Settings, running: int) -> None:
        memory_bytes = worker_memory_bytes(settings, running)
        self.pool = WorkerPool(
            engine_settings(settings, memory_bytes), waiting_workers(settings), memory_bytes
        )

    @property
    def is_ready(self) -> bool:
        """True if a worker is there to run a query."""
        return self.pool.is_ready

    @property
    def is_compiling(self) -> bool:
        """True if queries wait until the decoder is compiled."""
        return self.pool.is_compiling

    @property
    def notice(self) -> str:
        """Implement `Engine.notice`."""
        return COMPILING if self.is_compiling else ""

    def start(self) -> None:
        """Begin to start workers; does not wait for them."""
        self.pool.start()

    def execution(self, plan: Plan, max_rows: int | None = None) -> WorkerExecution:
        """Implement `Engine.execution`; the worker computes rows as they are read, so it needs no `max_rows`."""
        return WorkerExecution(plan, self.pool)

    def close(self) -> None:
        """Implement `Engine.close`."""
        self.pool.close()


class WorkerExecution(Execution):
    """One plan in a worker.

    One thread opens, reads and closes it; any may cancel it.

    Attributes:
        has_begun: whether a worker has the task.
    """

    def __init__(self, plan: Plan, pool: WorkerPool) -> None:
        self._plan = plan
        self._is_lookup = is_lookup(plan)
        self._pool = pool
        self._columns: tuple[Column, ...] = ()
        self._progress = Progress()
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._failure: QueryError | None = None
        self._cancelled: float | None = None
        self.has_begun = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the answer; see `Execution`."""
        return self._columns

    @property
    def bytes_read(self) -> int:
        """Bytes of savepoints read so far; see `Execution`."""
        return self._progress.bytes_read

    @property
    def bytes_total(self) -> int:
        """Estimate of the bytes to read; see `Execution`."""
        return self._progress.bytes_total

    @property
    def progress(self) -> Progress:
        """The latest progress that the worker sent; see `Execution`."""
        return self._progress

    def open(self) -> pa.RecordBatchReader:
        """Implement `Execution.open`."""
        try:
            task = task_content(self._plan)
        except (CatalogError, ReaderError) as error:
            raise query_error_of(error) from error
        self._start(task)
        while (content := self._next()) is None:
            pass
        schema = schema_of(content)
        return pa.RecordBatchReader.from_batches(schema, self._batches())

    def cancel(self, error: QueryError) -> None:
        """Implement `Execution.cancel`; one of the next calls kills a worker that does not react."""
        with self._lock:
            self._failure = self._failure or error
            self._cancelled = self._cancelled or monotonic()
            worker = self._worker
            if worker is None:
                return
            if monotonic() - self._cancelled > _PATIENCE_S:
                worker.kill()
                return
            with suppress(ChannelClosedError):
                worker.channel.send(Frame.CANCEL)

    def close(self) -> None:
        """Implement `Execution.close`."""
        self.cancel(QueryCancelledError("the query was closed"))
        deadline = monotonic() + _PATIENCE_S
        while (worker := self._worker) is not None:
            if monotonic() > deadline:
                worker.kill()
            worker.channel.set_timeout(max(_SHORT_S, deadline - monotonic()))
            with suppress(QueryError):
                self._next()

    def _start(self, task: bytes) -> None:
        """Send the task to a worker, to another one if the worker has died while it waited."""
        # The first one may have to compile the decoder, and a cancel must not wait for that.
        while not self._pool.has_started(_LOOK_AGAIN_S):
            if self._failure is not None:
                raise self._failure
        for tries_left in reversed(range(_TRIES)):
            worker = self._pool.take(is_lookup=self._is_lookup, is_long=self.is_long)
            with self._lock:
                if self._failure is not None:
                    self._pool.give_back(worker)
                    raise self._failure
                self._worker = worker
                with suppress(ChannelClosedError):
                    worker.channel.send(Frame.RUN, task)
            # Only the first PROGRESS shows that the worker is alive and has the task.
            try:
                worker.channel.receive()
            except ChannelClosedError:
                error = self._lost(worker)
                if self._failure is not None or not tries_left:
                    raise error from None
            else:
                self.has_begun = True
                return

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while self._worker is not None:
            content = self._next()
            if content is not None:
                yield batch_of(content)

    def _next(self) -> bytearray | None:
        """Return the content of the next frame if it is a BATCH; handle another frame and return None.

        Raises:
            QueryError: the query failed, or its worker was lost.
        """
        worker = self._worker
        assert worker is not None
        try:
            frame, content = worker.channel.receive()
        except ChannelClosedError as error:
            raise self._lost(worker) from error
        if frame is Frame.BATCH:
            return content
        if frame is Frame.COLUMNS:
            self._columns = columns_of(content)
        elif frame is Frame.PROGRESS:
            self._progress = progress_of(content)
        else:
            self._ended(worker, End.of(content))
        return None

    def _ended(self, worker: WorkerProcess, end: End) -> None:
        with self._lock:
            self._worker = None
        worker.channel.set_timeout(None)
        self._pool.give_back(worker, is_worn=end.is_worn)
        if end.error is not None:
            # The reason of a cancel, where there is one: the worker knows only that it was cancelled.
            raise self._failure or end.error

    def _lost(self, worker: WorkerProcess) -> QueryError:
        with self._lock:
            self._worker = None
        code = self._pool.discard(worker)
        return self._failure or WorkerLostError(
            f"the process that ran the query ended{f' by {signal.Signals(-code).name}' if code < 0 else ''}",
            hint="ask again; no other query was lost",
        )
