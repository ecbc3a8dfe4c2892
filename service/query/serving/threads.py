"""The threads that run queries: one each; a thread whose query has ended waits for the next one for a while.

To start a thread takes a tenth of what it takes to answer a lookup.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

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
