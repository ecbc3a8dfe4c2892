"""The life of a query: its state, its deadline, and why it ends.

    QUEUED ──grant──▶ RUNNING ──end──▶ FINISHED | FAILED | CANCELLED
       └──────────────cancel───────────────────────────▲

A query that waits ends at once when it is cancelled. One that runs ends when its thread sees the failure: until then it is RUNNING.

The states of a query: queued → running → finished, failed or cancelled.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from enum import StrEnum

from service.base.errors import QueryCancelledError, QueryError, QueryTimeoutError


class QueryState(StrEnum):
    """A state of a query; its text is part of the HTTP interface."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """True if no other state follows."""
        return self not in (QueryState.QUEUED, QueryState.RUNNING)


class Lifecycle:
    """The state of one query. Safe to share between threads.

    Args:
        started: when the query was started, by the monotonic clock.
        timeout_s: seconds that it may take from then on, those in the queue included.

    Attributes:
        state: the state.
        error: the error that ended the query; None while it has not ended, and if it finished.
        failure: the reason to end the query; None until it is cancelled.
    """

    def __init__(self, started: float, timeout_s: float) -> None:
        self.state = QueryState.QUEUED
        self.error: QueryError | None = None
        self.failure: QueryError | None = None
        self._started = started
        self._timeout_s = timeout_s
        self._queued_s: float | None = None
        self._elapsed_s: float | None = None
        self._lock = threading.Lock()

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds from the start to the end, or until now."""
        elapsed_s = time.monotonic() - self._started if self._elapsed_s is None else self._elapsed_s
        return elapsed_s * 1000

    @property
    def queued_ms(self) -> float:
        """Milliseconds that the query waited for a slot."""
        return self.elapsed_ms if self._queued_s is None else self._queued_s * 1000

    def grant(self, run: Callable[[], None]) -> bool:
        """Let a query that waits run; return False if it has ended.

        Args:
            run: starts the query's thread. It is called under the lock, so a query that is cancelled later has a thread to join.
        """
        with self._lock:
            if self.state is QueryState.QUEUED:
                self.state = QueryState.RUNNING
                self._queued_s = time.monotonic() - self._started
                run()
            return not self.state.has_ended

    def cancel(self, error: QueryError) -> QueryState | None:
        """Note the reason to end, unless there is one; a query that waits ends.

        Returns:
            The state before; None if the query had ended.
        """
        with self._lock:
            if self.state.has_ended:
                return None
            before = self.state
            # The first reason counts: a close after a timeout does not hide it.
            self.failure = self.failure or error
            if before is QueryState.QUEUED:
                self._end(self.failure)
            return before

    def end(self, error: QueryError | None) -> None:
        """End a query that ran.

        Args:
            error: None if it finished.
        """
        with self._lock:
            self._end(error)

    def check_not_cancelled(self) -> None:
        """Stop the thread of a query that is to end.

        Raises:
            QueryError: the reason.
        """
        if self.failure is not None:
            # A copy: the reader raises the error, too, and its traceback would keep the engine's frames alive.
            raise copy.copy(self.failure)

    def timeout(self, now: float) -> QueryTimeoutError | None:
        """Return the error of a query that has passed its deadline; None before it."""
        if self.state.has_ended or now - self._started <= self._timeout_s:
            return None
        return QueryTimeoutError(
            f"the query was not done within {self._timeout_s:g} s",
            hint="ask for less, or give it more time with timeout_s",
        )

    def _end(self, error: QueryError | None) -> None:
        self._elapsed_s = time.monotonic() - self._started
        self.error = error
        self.state = _state_after(error)


def _state_after(error: QueryError | None) -> QueryState:
    if error is None:
        return QueryState.FINISHED
    return QueryState.CANCELLED if isinstance(error, QueryCancelledError) else QueryState.FAILED
