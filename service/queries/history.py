"""What was asked lately: who, what, how long, how much. Bounded; gone when the service ends."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from service.engines.engine import Progress
from service.errors import QueryError
from service.queries.origin import Origin
from service.queries.state import QueryState


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRecord:
    """A query at one moment; after its end, as it ended.

    Attributes:
        id: its id.
        user: whose it is.
        source: the client, as it calls itself.
        sql: the statement, cut where it is long.
        state: where it is in its life.
        engine: what runs it.
        engine_reason: why that one.
        created: seconds since the epoch.
        queued_ms: milliseconds it waited for a slot.
        elapsed_ms: milliseconds since it was asked, until it ended.
        row_count: rows of the answer so far.
        is_ready: whether rows, or the end of them, wait to be read.
        progress: what it has read.
        origins: the savepoints it reads.
        error: why it failed.
    """

    id: str
    user: str
    source: str
    sql: str
    state: QueryState
    engine: str
    engine_reason: str
    created: float
    queued_ms: float
    elapsed_ms: float
    row_count: int
    is_ready: bool
    progress: Progress
    origins: tuple[Origin, ...]
    error: QueryError | None


class History:
    """The last queries that ended. Safe to share between threads.

    Args:
        length: how many are kept.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._lock = threading.Lock()
        self._records: OrderedDict[str, QueryRecord] = OrderedDict()

    def add(self, record: QueryRecord) -> None:
        """Keep a query; the oldest goes where there is no room."""
        with self._lock:
            self._records[record.id] = record
            while len(self._records) > self._length:
                self._records.popitem(last=False)

    def find(self, query_id: str) -> QueryRecord | None:
        """A query by id."""
        with self._lock:
            return self._records.get(query_id)

    def records(self) -> Sequence[QueryRecord]:
        """All, the latest first."""
        with self._lock:
            return tuple(reversed(self._records.values()))
