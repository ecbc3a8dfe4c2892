"""Runs that one caller started for one purpose, and that end together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from service.base.errors import QueryCancelledError
from service.query.running.request import QueryRequest
from service.query.running.run import Run

Started = TypeVar("Started", bound=Run)


class QueryGroup(Generic[Started]):
    """The runs of one call. Safe to share between threads: one starts them and waits, another may cancel them.

    Args:
        start: starts one.
        started: gets those that were started; None for a list of its own.
    """

    def __init__(
        self, start: Callable[[QueryRequest], Started], started: list[Started] | None = None
    ) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._started = [] if started is None else started
        self._is_cancelled = False

    def start(self, request: QueryRequest) -> Started:
        """Start a statement.

        Raises:
            QueryError: the statement means nothing, or the call is cancelled.
        """
        run = self._start(request)
        with self._lock:
            self._started.append(run)
            is_late = self._is_cancelled
        if is_late:
            run.close()
            raise QueryCancelledError("the call was cancelled")
        return run

    def cancel(self) -> None:
        """Cancel those that still run; no other starts."""
        with self._lock:
            self._is_cancelled = True
        for run in self._started:
            run.cancel()

    def bytes_read(self) -> tuple[int, int]:
        """Return how many bytes of savepoints were read, and about how many are read in all."""
        with self._lock:
            found = [run.progress for run in self._started]
        return sum(one.bytes_read for one in found), sum(one.bytes_total for one in found)
