"""The threads that run queries: one each; a thread whose query has ended waits for the next one for a while.

To start a thread takes a tenth of what it takes to answer a lookup.

Starts queries for a loop, in threads: a few at a time, and more while these take long.

Most queries are planned in less than a millisecond, and a lookup ends in the thread that starts it: with more threads than cores
each would only wait for the others, and for the interpreter. A savepoint that nobody has opened may take seconds. So when none of the
threads is done with a query for a while, as many more start at once, each for one query.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

IDLE_S = 10.0
"""Seconds that threads of a process with many queries wait for the next one."""

_IDLE_NAME = "query threads"
_Work = tuple[str, Callable[[], None]]


class QueryThreads:
    """Threads for as many queries as run. Safe to share between threads.

    Args:
        idle_s: seconds that a thread waits for another query; 0 for none.
    """

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[_Work | None]] = []
        self._threads: set[threading.Thread] = set()

    def run(self, name: str, work: Callable[[], None]) -> None:
        """Call a function in a thread that has this name meanwhile; the function raises nothing."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is not None:
            inbox.put((name, work))
            return
        thread = threading.Thread(target=self._work, args=(name, work), name=name, daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def close(self) -> None:
        """End the threads that wait, and wait for all."""
        with self._lock:
            self._idle_s = 0.0
            idle, self._idle = self._idle, []
            threads = [thread for thread in self._threads if thread is not threading.current_thread()]
        for inbox in idle:
            inbox.put(None)
        for thread in threads:
            thread.join()

    def _work(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.current_thread()
        inbox: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        following: _Work | None = (name, work)
        while following is not None:
            thread.name, run = following
            run()
            # What a query holds must not wait with its thread.
            del run, following
            thread.name = _IDLE_NAME
            following = self._next(inbox)
        with self._lock:
            self._threads.discard(thread)

    def _next(self, inbox: queue.SimpleQueue[_Work | None]) -> _Work | None:
        with self._lock:
            if not self._idle_s:
                return None
            self._idle.append(inbox)
            idle_s = self._idle_s
        try:
            return inbox.get(timeout=idle_s)
        except queue.Empty:
            with self._lock:
                if inbox in self._idle:
                    self._idle.remove(inbox)
                    return None
        # Somebody took it meanwhile: a query is on its way.
        return inbox.get()


_NAME = "start of a query"
_LONG_S = 0.02
_LEAST, _MOST = 2, 40

_Started = TypeVar("_Started")


class _Start(Generic[_Started]):
    """One query to start.

    Args:
        start: starts it.
    """

    def __init__(self, start: Callable[[], _Started]) -> None:
        self._start = start
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[_Started] = self._loop.create_future()

    def run(self) -> None:
        """Start the query; the loop gets it, or the error."""
        try:
            started = self._start()
        except BaseException as error:  # the loop raises it
            self._tell(self.future.set_exception, error)
        else:
            self._tell(self.future.set_result, started)

    def _tell(self, tell: Callable[..., None], outcome: object) -> None:
        # The loop may have ended, and with it everybody who waits; to ask it whether it has would be too early.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._told, tell, outcome)

    def _told(self, tell: Callable[..., None], outcome: object) -> None:
        if not self.future.done():
            tell(outcome)


class QueryStarts:
    """The starts of queries. Loops use it.

    Args:
        idle_s: seconds that a thread waits for the next query.
        cores: as many starts take place at the same time, two at least, as long as they take no time to speak of.
    """

    def __init__(self, idle_s: float, cores: int) -> None:
        self._threads = QueryThreads(idle_s)
        self._few = max(_LEAST, cores)
        self._lock = threading.Lock()
        self._waiting: deque[_Start[Any]] = deque()
        self._running = 0
        self._ended = 0
        self._look: asyncio.TimerHandle | None = None

    async def run(self, start: Callable[[], _Started]) -> _Started:
        """Call a function in a thread, and return what it returns; raises what it raises."""
        wanted = _Start(start)
        with self._lock:
            has_thread = self._running < self._few
            if has_thread:
                self._running += 1
            else:
                self._waiting.append(wanted)
            ended = self._ended
        if has_thread:
            self._threads.run(_NAME, partial(self._work, wanted))
        else:
            self._look_later(ended)
        return await wanted.future

    def close(self) -> None:
        """Wait until all starts have ended."""
        self._threads.close()

    def _work(self, first: _Start[Any]) -> None:
        following: _Start[Any] | None = first
        while following is not None:
            following.run()
            with self._lock:
                self._ended += 1
                # Those beyond the few end: the few take what waits.
                following = self._waiting.popleft() if self._waiting and self._running <= self._few else None
                self._running -= following is None

    def _look_later(self, ended: int) -> None:
        """Look again soon whether any start has ended, if nobody looks already."""
        loop = asyncio.get_running_loop()
        # A loop that has ended looks at nothing any more.
        if self._look is None or self._look.when() + 1 < loop.time():
            self._look = loop.call_later(_LONG_S, self._look_again, ended)

    def _look_again(self, ended_before: int) -> None:
        self._look = None
        with self._lock:
            ended = self._ended
            is_stuck = ended == ended_before
            count = min(len(self._waiting), self._running, _MOST - self._running) if is_stuck else 0
            more = [self._waiting.popleft() for _ in range(count)]
            self._running += count
            waits = bool(self._waiting)
        for start in more:
            self._threads.run(_NAME, partial(self._work, start))
        if waits:
            self._look_later(ended)
