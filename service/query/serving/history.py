"""The queries that have ended: a bounded number of records, in memory only."""

from __future__ import annotations

import copy
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from service.base.errors import QueryError
from service.base.principal import Identity
from service.query.engines.engine import Progress
from service.query.running.origin import Origin, sendable
from service.query.running.request import QueryRequest
from service.query.running.run import QueryState
from service.query.sql.plan import UnreadFile

# Characters of a statement that its record keeps: the history holds a thousand of them.
_LISTED_SQL = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRecord:
    """A query at one moment; after its end, as it was then.

    Attributes:
        id: its id.
        owner: the user who asked.
        source: the client, as it calls itself.
        sql: the statement, cut if it is long.
        database: the database of tables without one, as it was asked; None if it was not.
        state: its state.
        engine: the engine that runs it.
        engine_reason: why this engine.
        created: seconds since the epoch.
        queued_ms: milliseconds that it waited for a slot.
        elapsed_ms: milliseconds from its start to its end, or until this moment.
        row_count: rows of the answer so far.
        is_ready: True if rows, or the end of the answer, wait to be read.
        progress: what it has read so far.
        origins: the savepoints that it reads.
        incomplete: files of which its answer has no rows, or not all.
        warnings: what the planner assumed.
        error: why it failed; None if it did not.
    """

    id: str
    owner: Identity
    source: str
    sql: str
    database: str | None
    state: QueryState
    engine: str
    created: float
    engine_reason: str = ""
    queued_ms: float = 0.0
    elapsed_ms: float = 0.0
    row_count: int = 0
    is_ready: bool = False
    progress: Progress = field(default_factory=Progress)
    origins: tuple[Origin, ...] = ()
    incomplete: tuple[UnreadFile, ...] = ()
    warnings: tuple[str, ...] = ()
    error: QueryError | None = None


def record_of(
    request: QueryRequest, query_id: str, state: QueryState, error: QueryError | None, **known: Any
) -> QueryRecord:
    """Return the record of a query: what it asked, and what is known of how it went."""
    return QueryRecord(
        id=query_id,
        owner=request.owner,
        source=request.source,
        sql=sendable((request.written or request.sql)[:_LISTED_SQL]),
        database=request.schema,
        state=state,
        # A copy: the client raises the error, too, and its traceback would keep the engine's frames alive.
        error=copy.copy(error),
        **known,
    )


def refused_record(request: QueryRequest, error: QueryError) -> QueryRecord:
    """Return the record of a statement that was refused before it ran."""
    query_id = request.query_id or secrets.token_hex(16)
    return record_of(request, query_id, QueryState.FAILED, error, engine=request.engine, created=time.time())


class History:
    """The records of the last queries that ended. Safe to share between threads.

    Args:
        length: number of records that are kept.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._lock = threading.Lock()
        self._records: OrderedDict[str, QueryRecord] = OrderedDict()

    def add(self, record: QueryRecord) -> None:
        """Keep a record; drop the oldest one if there are too many."""
        with self._lock:
            self._records[record.id] = record
            while len(self._records) > self._length:
                self._records.popitem(last=False)

    def find(self, query_id: str) -> QueryRecord | None:
        """Return the record of a query; None if there is none."""
        with self._lock:
            return self._records.get(query_id)

    def records(self) -> Sequence[QueryRecord]:
        """Return all records, the latest first."""
        with self._lock:
            return tuple(reversed(self._records.values()))
