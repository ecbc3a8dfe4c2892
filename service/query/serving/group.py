"""Queries that one caller started for one purpose, and that end together."""

from __future__ import annotations

import threading

from service.base.errors import QueryCancelledError
from service.query.serving.query import Query
from service.query.serving.registry import Queries
from service.query.serving.request import QueryRequest


class QueryGroup:
    """The queries of one call. Safe to share between threads: one starts them and waits, another may cancel them.

    Args:
        queries: starts them.
        started: gets those that were started; None for a list of its own.
    """

    def __init__(self, queries: Queries, started: list[Query] | None = None) -> None:
        self._queries = queries
        self._lock = threading.Lock()
        self._started = [] if started is None else started
        self._is_cancelled = False

    def start(self, request: QueryRequest) -> Query:
        """Start a query.

        Raises:
            QueryError: the statement means nothing, or the call is cancelled.
        """
        query = self._queries.start(request)
        with self._lock:
            self._started.append(query)
            is_late = self._is_cancelled
        if is_late:
            query.close()
            raise QueryCancelledError("the call was cancelled")
        return query

    def cancel(self) -> None:
        """Cancel the queries that still run; no other starts."""
        with self._lock:
            self._is_cancelled = True
        for query in self._started:
            query.cancel()

    def bytes_read(self) -> tuple[int, int]:
        """Return how many bytes of savepoints the queries have read, and about how many they read in all."""
        with self._lock:
            found = [query.progress for query in self._started]
        return sum(one.bytes_read for one in found), sum(one.bytes_total for one in found)
