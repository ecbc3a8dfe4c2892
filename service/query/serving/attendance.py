"""The clients of a query: they wait for its answer, or have left it alone for too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from service.base.errors import QueryCancelledError, QueryError, ReaderStalledError


class Attendance:
    """The clients of one query. Safe to share between threads.

    Args:
        abandoned_after_s: seconds without a request for the query after which it is abandoned; None for never.
        stall_timeout_s: seconds after which a client that gets the answer as a stream must have read some of it.
    """

    def __init__(self, abandoned_after_s: float | None, stall_timeout_s: float) -> None:
        self._abandoned_after_s = abandoned_after_s
        self._stall_timeout_s = stall_timeout_s
        self._lock = threading.Lock()
        self._waiting = 0
        self._touched = time.monotonic()
        self._is_claimed = False
        self._is_streamed = False

    def claim(self) -> bool:
        """Reserve the answer for the caller; return False if another caller did so before."""
        with self._lock:
            was_claimed, self._is_claimed = self._is_claimed, True
        return not was_claimed

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Keep the query from being abandoned while a client waits for it."""
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                self._touched = time.monotonic()

    def touch(self) -> None:
        """Note that a client still wants the query."""
        self._touched = time.monotonic()

    def stream(self) -> None:
        """Note that the answer is sent while the query runs: from now on a client that stalls ends the query."""
        self.touch()
        self._is_streamed = True

    def idle_s(self, now: float, since: float | None = None) -> float:
        """Return for how many seconds no client has read anything; 0 while one waits.

        Args:
            now: by the monotonic clock.
            since: count from then on at most.
        """
        with self._lock:
            # A client that waits wants the answer, however long the query takes.
            if self._waiting:
                return 0.0
            return now - (self._touched if since is None else max(since, self._touched))

    def abandonment(self, now: float) -> QueryError | None:
        """Return the error of a query that no client has wanted for too long; None otherwise."""
        idle_s = self.idle_s(now)
        if self._is_streamed and idle_s > self._stall_timeout_s:
            return stalled(idle_s)
        if self._abandoned_after_s is not None and idle_s > self._abandoned_after_s:
            return QueryCancelledError("nobody asked for the query's answer", code="ABANDONED")
        return None


def stalled(idle_s: float) -> ReaderStalledError:
    """Return the error of a query whose answer no client has read for so long."""
    return ReaderStalledError(
        f"nobody read the query's answer for {idle_s:.0f} s",
        hint="read it without long pauses, or ask for less",
    )
