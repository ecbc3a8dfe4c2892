"""`WorkerEngine`: the local engine in the workers of a pool, an `Engine` to the rest of the service."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic

import pyarrow as pa

from catalog import CatalogError
from readers import ReaderError
from service.base import machine
from service.base.errors import (
    ConditionsDifferError,
    QueryCancelledError,
    QueryError,
    WorkerLostError,
    translated,
)
from service.base.settings import Settings
from service.query.engines.engine import Engine, Execution, Progress, ScanWork
from service.query.engines.registry import local_engine
from service.query.engines.workers import channel
from service.query.engines.workers.forks import WorkerProcess
from service.query.engines.workers.pool import (
    WorkerPool,
    engine_settings,
    waiting_workers,
    worker_memory_bytes,
)
from service.query.sql.plan import Plan, is_lookup

# A worker that still runs this long after a cancel is killed.
_PATIENCE_S = 1.0
# The least timeout of a socket: with 0 it does not wait at all.
_SHORT_S = 0.01
_LOOK_AGAIN_S = 0.1
COMPILING = "the decoder is compiled for this processor, once: queries wait for it, a minute at most"
# A worker that waits may die before it gets a task; several at once if the system is short of memory.
_TRIES = 4
# As many workers read scans as there are cores: more would only take turns. A reading that takes long, as from an object
# store, is not waited for.
_LEAST_PLACES, _WAIT_FOR_A_PLACE_S = 2, 0.02


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
        self._places = threading.Semaphore(max(_LEAST_PLACES, settings.duckdb.threads or machine.cores()))

    @property
    def notice(self) -> str:
        """Implement `Engine.notice`."""
        return COMPILING if self.pool.is_compiling else ""

    def start(self) -> None:
        """Begin to start workers; does not wait for them."""
        self.pool.start()

    def execution(self, plan: Plan, max_rows: int | None = None) -> WorkerExecution:
        """Implement `Engine.execution`; the worker computes rows as they are read, so it needs no `max_rows`."""
        return WorkerExecution(
            lambda: channel.task_content(plan),
            self.pool,
            is_lookup=is_lookup(plan),
            with_all_rows=lambda: channel.task_content(plan.with_all_rows()),
        )

    def reading(self, work: ScanWork) -> WorkerReading:
        """Implement `Engine.reading`."""
        return WorkerReading(work.content, self.pool, self._places)

    def close(self) -> None:
        """Implement `Engine.close`."""
        self.pool.close()


class WorkerExecution(Execution):
    """One task in a worker.

    One thread opens, reads and closes it; any may cancel it.

    Args:
        content: returns the task.
        pool: the workers.
        is_lookup: whether the task is sure to end soon.
        with_all_rows: returns the task with scans of all rows, for a statement whose conditions the worker reads differently.

    Attributes:
        has_begun: whether a worker has the task.
    """

    progress: Progress = Progress()

    def __init__(
        self,
        content: Callable[[], bytes],
        pool: WorkerPool,
        *,
        is_lookup: bool,
        with_all_rows: Callable[[], bytes] | None = None,
    ) -> None:
        self._content = content
        self._with_all_rows = with_all_rows
        self._is_lookup = is_lookup
        self._pool = pool
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._failure: QueryError | None = None
        self._cancelled: float | None = None
        self.has_begun = False

    def open(self) -> pa.RecordBatchReader:
        """Implement `Execution.open`."""
        try:
            return self._opened(self._content)
        except ConditionsDifferError:
            if self._with_all_rows is None:
                raise
            return self._opened(self._with_all_rows)

    def _opened(self, content: Callable[[], bytes]) -> pa.RecordBatchReader:
        """Start a task, and return its rows."""
        with translated(CatalogError, ReaderError):
            task = content()
        self._start(task)
        return self._rows()

    def _rows(self) -> pa.RecordBatchReader:
        """Return the rows, once the first BATCH is there, which has the schema only."""
        while (found := self._next()) is None:
            pass
        return pa.RecordBatchReader.from_batches(channel.stream_of(found).schema, self._batches())

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
            with suppress(channel.ChannelClosedError):
                worker.channel.send(channel.Frame.CANCEL)

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
        for tries_left in reversed(range(_TRIES)):
            worker = self._sent(channel.Frame.RUN, task)
            # Only the first PROGRESS shows that the worker is alive and has the task.
            try:
                worker.channel.receive()
            except channel.ChannelClosedError:
                error = self._lost(worker)
                if self._failure is not None or not tries_left:
                    raise error from None
            else:
                self.has_begun = True
                return

    def _sent(self, frame: channel.Frame, task: bytes) -> WorkerProcess:
        """Return a worker that was sent the task; it may have died before."""
        # The first one may have to compile the decoder, and a cancel must not wait for that.
        while not self._pool.has_started(_LOOK_AGAIN_S):
            if self._failure is not None:
                raise self._failure
        worker = self._pool.take(is_lookup=self._is_lookup, is_long=self.is_long)
        with self._lock:
            if self._failure is not None:
                self._pool.give_back(worker)
                raise self._failure
            self._worker = worker
            with suppress(channel.ChannelClosedError):
                worker.channel.send(frame, task)
        return worker

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while self._worker is not None:
            content = self._next()
            if content is not None:
                yield channel.stream_of(content).read_next_batch()

    def _next(self) -> bytearray | None:
        """Return the content of the next frame if it is a BATCH; handle another frame and return None.

        Raises:
            QueryError: the query failed, or its worker was lost.
        """
        worker = self._worker
        assert worker is not None
        try:
            frame, content = worker.channel.receive()
        except channel.ChannelClosedError as error:
            raise self._lost(worker) from error
        return self._noted(worker, frame, content)

    def _noted(self, worker: WorkerProcess, frame: channel.Frame, content: bytearray) -> bytearray | None:
        """Return the content of a BATCH; note that of another frame, and return None.

        Raises:
            QueryError: the query failed.
        """
        if frame is channel.Frame.BATCH:
            return content
        if frame is channel.Frame.COLUMNS:
            self.columns = channel.columns_of(content)
        elif frame is channel.Frame.PROGRESS:
            self.progress = channel.progress_of(content)
        else:
            self._ended(worker, channel.End.of(content))
        return None

    def _ended(self, worker: WorkerProcess, end: channel.End) -> None:
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
        cut = "; a file became shorter while it was read, as in a copy that starts anew" * (
            code == -signal.SIGBUS
        )
        return self._failure or WorkerLostError(
            f"the process that ran the query ended{f' by {signal.Signals(-code).name}' if code < 0 else ''}",
            hint=f"ask again; no other query was lost{cut}",
        )


class WorkerReading(WorkerExecution):
    """The scan of a short statement in a worker: one frame there, and one back if the rows are few.

    Args:
        content: returns the task.
        pool: the workers.
        places: limits how many workers read at a time.
    """

    def __init__(self, content: Callable[[], bytes], pool: WorkerPool, places: threading.Semaphore) -> None:
        super().__init__(content, pool, is_lookup=True)
        self._places = places
        self._has_place = False
        self._has_heard = False
        self._answer: channel.Answer | None = None

    def begin(self, timeout_s: float) -> bool:
        """Implement `Execution.begin`."""
        # To start a worker takes long, and so may those that read now.
        if not self._pool.has_idle or not self._places.acquire(blocking=False):
            return False
        self._has_place = True
        self._begin()
        worker = self._worker
        assert worker is not None
        if not worker.channel.has_arrived(timeout_s):
            return False
        self._hear()
        return self._answer is not None

    def open(self) -> pa.RecordBatchReader:
        """Implement `Execution.open`."""
        if not self.has_begun:
            self._has_place = self._places.acquire(timeout=_WAIT_FOR_A_PLACE_S)
            self._begin()
        if not self._has_heard:
            self._hear()
        if self._answer is not None:
            return channel.stream_of(self._answer.rows)
        return self._rows()

    def close(self) -> None:
        """Implement `Execution.close`."""
        super().close()
        self._leave_place()

    def _begin(self) -> None:
        """Send the task."""
        try:
            self._sent(channel.Frame.READ, self._content())
        except BaseException:
            self._leave_place()
            raise
        self.has_begun = True

    def _hear(self) -> None:
        """Wait for the first frame, and note it."""
        self._has_heard = True
        try:
            self._next()
        finally:
            self._leave_place()

    def _leave_place(self) -> None:
        if self._has_place:
            self._has_place = False
            self._places.release()

    def _noted(self, worker: WorkerProcess, frame: channel.Frame, content: bytearray) -> bytearray | None:
        if frame is not channel.Frame.ANSWER:
            return super()._noted(worker, frame, content)
        self._answer = answer = channel.Answer.of(content)
        self.columns, self.progress = answer.columns, answer.progress
        self._ended(worker, channel.End(is_worn=answer.is_worn))
        return None
