"""What a worker does: it runs tasks, one after the other, until the server is gone.

Three threads: the first runs DuckDB; one listens, for a cancel must be heard while DuckDB runs; one tells of progress.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import resource
import threading
import time
from collections.abc import Callable

from catalog.cache.states import StateCache
from service.engines.engine import Engine, Execution, Progress
from service.engines.workers.channel import Channel, ChannelClosedError, Frame
from service.engines.workers.messages import (
    End,
    Task,
    batch_content,
    columns_content,
    pieces,
    progress_content,
)
from service.errors import QueryCancelledError, QueryError, query_error_of
from service.settings import Settings

_REPORT_S = 0.1
_WORN_BYTES = 256 << 20
_WORN_PART = 8
_OOM_SCORE = "500"
_NICE = 5


class Worker:
    """The worker of this process.

    Args:
        channel: to the server.
        settings: limits of the engine.
        memory_bytes: that this process may take beyond what it has; any where 0.
        open_engine: opens the engine that runs the tasks.
    """

    def __init__(
        self,
        channel: Channel,
        settings: Settings,
        memory_bytes: int,
        open_engine: Callable[[Settings], Engine],
    ) -> None:
        self._channel = channel
        self._settings = settings
        if memory_bytes:
            _limit_memory(memory_bytes)
        spill = os.path.join(settings.storage.temp_directory, str(os.getpid()))
        os.mkdir(spill)  # the server removes it, for this process may be killed
        self._engine = open_engine(settings.replaced({"temp_directory": spill}))
        growth = min(_WORN_BYTES, memory_bytes // _WORN_PART) if memory_bytes else _WORN_BYTES
        self._worn_bytes = data_bytes() + growth
        self._tasks: queue.SimpleQueue[bytearray | None] = queue.SimpleQueue()
        self._caches: set[StateCache] = set()
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._execution: Execution | None = None
        self._is_running = threading.Event()

    def run(self) -> None:
        """Run tasks until there are no more, or the server is gone."""
        for target in (self._listen, self._report):
            threading.Thread(target=target, name=target.__name__, daemon=True).start()
        while (content := self._tasks.get()) is not None:
            failure: QueryError | None = None
            try:
                self._channel.send(Frame.PROGRESS, progress_content(Progress()))
                self._answer(pickle.loads(content))  # from the server, over a socket that both inherited
            except ChannelClosedError:
                os._exit(0)
            except Exception as error:  # the server tells whoever asked
                failure = query_error_of(error)
                failure.__cause__ = failure.__cause__ or (None if failure is error else error)
            self._finish(failure)
        for cache in self._caches:
            cache.flush()

    def _answer(self, task: Task) -> None:
        plan = task.plan()
        self._caches |= {database.cache for database in plan.databases if database.cache is not None}
        execution = self._engine.execution(plan)
        with self._lock:
            self._execution = execution
            is_cancelled = self._is_cancelled
        if is_cancelled:
            raise QueryCancelledError("the query was cancelled")
        self._is_running.set()
        try:
            reader = execution.open()
            self._channel.send(Frame.COLUMNS, columns_content(execution.columns))
            self._channel.send(Frame.BATCH, batch_content(reader.schema, None))
            for batch in reader:
                for piece in pieces(batch, self._settings.queries.max_row_bytes):
                    self._channel.send(Frame.BATCH, batch_content(reader.schema, piece))
        finally:
            self._is_running.clear()
            execution.close()
            self._channel.send(Frame.PROGRESS, progress_content(execution.progress))

    def _finish(self, failure: QueryError | None) -> None:
        with self._lock:
            self._execution = None
            self._is_cancelled = False
        end = End(is_worn=data_bytes() > self._worn_bytes, error=failure)
        self._channel.send(Frame.END if failure is None else Frame.ERROR, end.content())

    def _listen(self) -> None:
        while True:
            try:
                frame, content = self._channel.receive()
            except ChannelClosedError:
                os._exit(0)
            if frame is Frame.RUN:
                with self._lock:
                    self._is_cancelled = False
                self._tasks.put(content)
            elif frame is Frame.RETIRE:
                self._tasks.put(None)
            elif frame is Frame.CANCEL:
                self._cancel()

    def _cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            execution = self._execution
        if execution is not None:
            execution.cancel(QueryCancelledError("the query was cancelled"))

    def _report(self) -> None:
        """Tell how far it is; cancel again what was cancelled, for DuckDB may miss it while it starts."""
        told: Progress | None = None
        while True:
            self._is_running.wait()
            with self._lock:  # nothing follows the end of a query
                execution, is_cancelled = self._execution, self._is_cancelled
                progress = told if execution is None else execution.progress
                if progress is not None and progress != told:
                    told = progress
                    with contextlib.suppress(ChannelClosedError):
                        self._channel.send(Frame.PROGRESS, progress_content(progress), wait=False)
            if is_cancelled:
                self._cancel()
            time.sleep(_REPORT_S)


def yield_to_the_server() -> None:
    """Where the machine is short of time, the server goes first; where it is short of memory, this process does."""
    os.nice(_NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_OOM_SCORE)


def data_bytes() -> int:
    """The private memory that this process has asked for, used or not; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def _limit_memory(memory_bytes: int) -> None:
    """`RLIMIT_DATA`: private writable memory. Mapped files do not count, so savepoints of any size can be read."""
    limit = data_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
