"""Memory and number of workers where the settings leave them open.

The workers share 80 % of the machine's memory: each gets the same part, for as many queries as run at a time, so no query
takes memory that another was promised. The engine gets 60 % of a worker's memory and spills beyond that; the rest is for
what the scans read and for the answer.

The workers of a server: warm ones wait for queries, lost ones are replaced, surplus ones end.

A worker runs one query at a time, so there are as many workers as queries that run or stall; `service.query.serving.slots` limits
those. To fork a worker takes some 30 ms: so a worker that has grown is not used again, and surplus workers wait for some
seconds only, because a worker keeps some 50 MB of a long query.

Three priorities, the highest first; a process without root cannot raise its priority, so a worker goes down only:

| worker | next query |
|---|---|
| has run lookups only | any; some of these always wait |
| has run something else | any but a lookup, if a worker of the first kind waits |
| its query took more than some tenths of a second of processor time, or is long (`Execution.is_long`) | a long one |
"""

from __future__ import annotations

import logging
import threading
from time import monotonic

from readers import missing_units
from service.base import machine
from service.base.errors import EngineUnavailableError
from service.base.settings import Settings, bytes_of
from service.query.engines.workers.forks import ForkServer, WorkerProcess

_OF_MACHINE = 0.8
_OF_WORKER = 0.6
_LEAST_BYTES = 512 << 20


def worker_memory_bytes(settings: Settings, running: int) -> int:
    """Return the memory of a worker.

    Args:
        settings: may name the memory.
        running: queries that run at a time.
    """
    if settings.workers.memory:
        return bytes_of(settings.workers.memory)
    return max(_LEAST_BYTES, int(machine.memory_bytes() * _OF_MACHINE / running))


def engine_settings(settings: Settings, worker_bytes: int) -> Settings:
    """Return the settings for the engine in a worker with this much memory."""
    # A larger limit than the worker's memory would let the kernel end the query before the engine spills.
    most = int(worker_bytes * _OF_WORKER)
    asked = bytes_of(settings.duckdb.memory_limit) if settings.duckdb.memory_limit else most
    return settings.replaced({"memory_limit": f"{min(most, asked)}B"})


def waiting_workers(settings: Settings) -> int:
    """Return how many workers wait for queries."""
    return settings.workers.count or (settings.duckdb.threads or machine.cores()) + 2


# A worker keeps some 50 MB of a long query.
_IDLE_S, _IDLE_AFTER_LONG_S = 30.0, 3.0
_LOOK_AFTER_S = 0.1
_RETRY_S = 5.0
_QUICK_CPU_S = 0.2
_NICE_OF_LOOKUPS, _NICE_OF_OTHERS, _NICE_OF_LONG = 0, 17, 19
# A worker that still writes to the cache this long after it was retired is killed.
_LAST_WORK_S = 120.0
_ENDING = "the service is about to end"
logger = logging.getLogger("savepointdb")


class WorkerPool:
    """The workers. Safe to share between threads.

    Args:
        settings: settings of the engines in the workers.
        waiting: least number of workers that have run lookups only.
        memory_bytes: memory that a worker may take; 0 for no limit.
    """

    def __init__(self, settings: Settings, waiting: int, memory_bytes: int) -> None:
        self._settings = settings
        self._waiting = waiting
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._retired: list[WorkerProcess] = []
        self._forks: list[ForkServer] = []
        self._watch: threading.Thread | None = None
        self._changed = threading.Event()
        self._has_tried = threading.Event()
        self._is_closed = False
        self._is_compiling = False

    @property
    def is_ready(self) -> bool:
        """True if there is a worker."""
        return bool(self._idle or self._busy)

    @property
    def has_idle(self) -> bool:
        """True if a worker waits for a query."""
        return bool(self._idle)

    @property
    def is_compiling(self) -> bool:
        """True if workers wait until the decoder is compiled for this processor: once, but for up to a minute."""
        return self._is_compiling

    def has_started(self, timeout_s: float) -> bool:
        """Wait for the first worker; return whether there was one, or an attempt that failed."""
        self.start()
        return self._has_tried.wait(timeout_s)

    @property
    def processes(self) -> tuple[int, ...]:
        """Process ids of all workers but those that are about to end."""
        with self._lock:
            return tuple(worker.number for worker in (*self._idle, *self._busy))

    def start(self) -> None:
        """Begin to start the workers that wait; does not wait for them."""
        with self._lock:
            if self._watch is None and not self._is_closed:
                self._watch = threading.Thread(target=self._look_after, name="workers", daemon=True)
                self._watch.start()

    def take(self, *, is_lookup: bool = False, is_long: bool = False) -> WorkerProcess:
        """Return a worker that waited, or a new one.

        Args:
            is_lookup: the query is sure to be short (`service.query.sql.plan`).
            is_long: the query runs behind all others from the start.

        Raises:
            EngineUnavailableError: no worker can be started.
        """
        self.start()
        nice = _NICE_OF_LONG if is_long else _NICE_OF_LOOKUPS if is_lookup else _NICE_OF_OTHERS
        while (worker := self._waiting_one(nice)) is not None and worker.has_died:
            self.discard(worker)
        if worker is None:
            worker = self._running_forks().fork()
            with self._lock:
                self._busy.add(worker)
                is_closed = self._is_closed
            if is_closed:
                # `close` may have looked through the workers before this one was among them.
                worker.channel.close()
                raise EngineUnavailableError(_ENDING)
        worker.slow_down(nice)
        return worker

    def give_back(self, worker: WorkerProcess, *, is_worn: bool = False) -> None:
        """Take back a worker whose query has ended.

        Args:
            worker: a worker that `take` returned.
            is_worn: the worker should not be used again.
        """
        with self._lock:
            worker.since = monotonic()
            self._busy.discard(worker)
            if not is_worn:
                self._idle.append(worker)
                return
            self._retired.append(worker)
        worker.retire()
        self._changed.set()

    def discard(self, worker: WorkerProcess) -> int:
        """End a worker, whatever it does; another one replaces it.

        Returns:
            Its exit code, negative for a signal.
        """
        with self._lock:
            self._busy.discard(worker)
            if worker in self._idle:
                self._idle.remove(worker)
        self._changed.set()
        return worker.reap()

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            self._is_closed = True
        self._changed.set()
        if not self._has_tried.is_set() and self._forks:
            self._forks[-1].kill()
        if self._watch is not None:
            self._watch.join()
        with self._lock:
            workers = (*self._idle, *self._busy, *self._retired)
            self._idle.clear()
            self._busy.clear()
            self._retired.clear()
        for worker in workers:
            worker.channel.close()
        for forks in self._forks:
            forks.close()
        self._forks.clear()

    @property
    def _missing(self) -> int:
        """Number of workers to fork; negative if there is a surplus."""
        return self._waiting - sum(not worker.nice for worker in (*self._idle, *self._busy))

    def _waiting_one(self, nice: int) -> WorkerProcess | None:
        """Return the worker that was used last, of this priority if there is one; None if none fits."""
        with self._lock:
            # The worker used last has the savepoints open that most queries read.
            able = [worker for worker in self._idle if worker.nice < _NICE_OF_LONG or nice == _NICE_OF_LONG]
            if not able:
                return None
            worker = next((one for one in reversed(able) if one.nice == nice), able[-1])
            self._idle.remove(worker)
            worker.begin()
            self._busy.add(worker)
            return worker

    def _running_forks(self) -> ForkServer:
        with self._starting:
            if self._is_closed:
                raise EngineUnavailableError(_ENDING)
            if not self._forks or self._forks[-1].has_died:
                self._start_forks()
            return self._forks[-1]

    def _start_forks(self) -> None:
        self._is_compiling = bool(missing_units())
        try:
            forks = ForkServer(self._settings, self._memory_bytes)
            # Dead fork servers stay in the list: their lifelines keep their workers alive.
            self._forks.append(forks)
            if self._is_closed:
                forks.kill()
            try:
                forks.wait_until_ready()
            except EngineUnavailableError:
                self._forks.remove(forks)
                forks.close()
                raise
        finally:
            self._is_compiling = False

    def _look_after(self) -> None:
        while not self._is_closed:
            try:
                self._replace()
            except Exception:  # without this thread no query is ever answered again
                self._has_tried.set()
                if self._is_closed:
                    return
                logger.exception("workers cannot be started")
                self._changed.wait(_RETRY_S)
            self._has_tried.set()
            self._changed.wait(_LOOK_AFTER_S)
            self._changed.clear()

    def _replace(self) -> None:
        """Reap dead workers, end surplus ones, start missing ones, and slow down those whose query takes long."""
        now = monotonic()
        with self._lock:
            busy = [worker for worker in self._busy if worker.nice < _NICE_OF_LONG]
        for worker in busy:
            if worker.cpu_s() > _QUICK_CPU_S:
                worker.slow_down(_NICE_OF_LONG)
        with self._lock:
            extra = -self._missing
            ended = [worker for worker in (*self._idle, *self._retired) if worker.has_died]
            ended += [worker for worker in self._retired if worker.since < now - _LAST_WORK_S]
            late = [
                worker
                for worker in self._idle
                if worker not in ended
                and now - worker.since > (_IDLE_S if worker.nice < _NICE_OF_LONG else _IDLE_AFTER_LONG_S)
            ]
            unwanted = [worker for worker in late if worker.nice]
            unwanted += [worker for worker in late if not worker.nice][: max(0, extra)]
            self._idle = [worker for worker in self._idle if worker not in (*ended, *unwanted)]
            self._retired = [worker for worker in (*self._retired, *unwanted) if worker not in ended]
        for worker in unwanted:
            worker.since = now
            worker.retire()
        for worker in dict.fromkeys(ended):
            worker.reap()
        while self._missing > 0 and not self._is_closed:
            worker = self._running_forks().fork()
            with self._lock:
                self._idle.insert(0, worker)
