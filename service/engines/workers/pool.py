"""The workers of a server: warm ones wait for queries, lost ones are replaced, those that nobody needs end.

There are as many workers as queries run or stall, for each has one query at a time; `service.queries.slots` limits those. A worker is
forked in some 30 ms, so one that has grown is not used again, and those beyond the ones that always wait do not
wait long: some seconds after a query that took long, for they keep some 50 MB of it.

| a worker | goes before | |
|---|---|---|
| that has run nothing but lookups | all others | some always wait for a query |
| that has run something else | those below | runs something else again |
| whose query takes more than some tenths of a second of processor time, or whose user's did lately | none | runs such again |

A process never gets back the priority that it gave up, unless it belongs to root.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic

from service.engines.workers.forks import ForkServer, WorkerProcess
from service.errors import EngineUnavailableError
from service.settings import Settings

_IDLE_S, _IDLE_AFTER_LONG_S = 30.0, 3.0
_LOOK_AFTER_S = 0.1
_RETRY_S = 5.0
_QUICK_CPU_S = 0.2
_NICE_OF_LOOKUPS, _NICE_OF_OTHERS, _NICE_OF_LONG = 0, 17, 19
_LAST_WORK_S = 120.0
logger = logging.getLogger("savepointdb")


class WorkerPool:
    """Safe to share between threads.

    Args:
        settings: of the engines of the workers.
        waiting: workers there are at least, of those that ran nothing but lookups.
        memory_bytes: that a worker may take; any where 0.
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
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        """Whether there is a worker."""
        return bool(self._idle or self._busy)

    @property
    def processes(self) -> tuple[int, ...]:
        """The process ids of all workers but those that are about to end."""
        with self._lock:
            return tuple(worker.number for worker in (*self._idle, *self._busy))

    def start(self) -> None:
        """Start the workers that wait; does not wait for them."""
        with self._lock:
            if self._watch is None and not self._is_closed:
                self._watch = threading.Thread(target=self._look_after, name="workers", daemon=True)
                self._watch.start()

    def take(self, *, is_lookup: bool = False, is_long: bool = False) -> WorkerProcess:
        """A worker that has nothing to do, forked if there is none.

        Args:
            is_lookup: whether it is for a query that is sure to be done soon (`service.sql.lookups`).
            is_long: whether for one that goes behind all others from the start.

        Raises:
            EngineUnavailableError: none can be started.
        """
        self.start()
        nice = _NICE_OF_LONG if is_long else _NICE_OF_LOOKUPS if is_lookup else _NICE_OF_OTHERS
        while (worker := self._waiting_one(nice)) is not None and worker.has_died:
            self.discard(worker)
        if worker is None:
            worker = self._running_forks().fork()
            with self._lock:
                self._busy.add(worker)
        worker.slow_down(nice)
        return worker

    def give_back(self, worker: WorkerProcess, *, is_worn: bool = False) -> None:
        """It has nothing to do any more.

        Args:
            worker: what was taken.
            is_worn: whether it should not be used again.
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
        """End it, whatever it does; another takes its place.

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
        if self._watch is not None:
            self._watch.join()
        for worker in (*self._idle, *self._busy, *self._retired):
            worker.channel.close()
        for forks in self._forks:
            forks.close()
        self._idle.clear()
        self._busy.clear()
        self._retired.clear()
        self._forks.clear()

    @property
    def _missing(self) -> int:
        """How many workers are to be forked; negative where there are more than need be."""
        return self._waiting - sum(not worker.nice for worker in (*self._idle, *self._busy))

    def _waiting_one(self, nice: int) -> WorkerProcess | None:
        """The one used last, of those for such queries if there are some: it has open what is asked for most."""
        with self._lock:
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
                raise EngineUnavailableError("the service is about to end")
            if not self._forks or self._forks[-1].has_died:
                # Those that died are kept: their workers live as long as what they were started with is open.
                self._forks.append(ForkServer(self._settings, self._memory_bytes))
            return self._forks[-1]

    def _look_after(self) -> None:
        while not self._is_closed:
            try:
                self._replace()
            except EngineUnavailableError:
                logger.exception("workers cannot be started")
                self._changed.wait(_RETRY_S)
            self._changed.wait(_LOOK_AFTER_S)
            self._changed.clear()

    def _replace(self) -> None:
        """End those that died or waited for long, and start those that are missing; slow down those that run for long."""
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
            late = [worker for worker in self._idle if _is_late(worker, now) and worker not in ended]
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


def _is_late(worker: WorkerProcess, now: float) -> bool:
    """Whether it has waited for long."""
    return now - worker.since > (_IDLE_S if worker.nice < _NICE_OF_LONG else _IDLE_AFTER_LONG_S)
