"""`Query`: a run of a client. It waits for a slot, and keeps its answer until the client has read it or has left it alone.

Hundreds of clients may wait for a query, or for other work, without a thread each. `Queries` (`service.query.serving.registry`) starts
queries, and ends those that are late or abandoned. Those that have ended stay as a bounded number of records, in memory only.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from anyio import CancelScope
from starlette.requests import Request

from service.base.errors import QueryCancelledError, QueryError, ReaderStalledError
from service.base.principal import Identity
from service.query.engines.engine import Engine, Execution, Progress
from service.query.running.request import Origin, QueryRequest, sendable
from service.query.running.run import CHECK_EVERY_S, Prepared, QueryState, Run
from service.query.serving.results import SpooledResults
from service.query.serving.slots import Slots, Ticket
from service.query.serving.starts import QueryThreads
from service.query.sql.plan import UnreadFile, is_lookup

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


class Keeper(Protocol):
    """Keeps queries and remembers them."""

    def ended(self, query: Query) -> None:
        """Remember a query that has ended; its answer may still be unread."""

    def closed(self, query: Query) -> None:
        """Forget a query: its answer was read, or nobody wants it."""


class Query(Run):
    """A query of a client.

    Args:
        request: what the client asks.
        prepared: what runs.
        results: keeps the answer.
        is_large: True if it reads so much that it leaves the last slots to others.
        stall_timeout_s: seconds after which it ends if its answer is streamed and its client reads nothing.
        slots: where it waits to run.
        threads: run it.
        keeper: keeps it.

    Attributes:
        owner: the user who asked.
        attendance: its clients.
    """

    results: SpooledResults

    def __init__(
        self,
        request: QueryRequest,
        prepared: Prepared,
        results: SpooledResults,
        *,
        is_large: bool,
        stall_timeout_s: float,
        slots: Slots,
        threads: QueryThreads,
        keeper: Keeper,
    ) -> None:
        super().__init__(request, prepared, results)
        self.owner = request.owner
        self.created = time.time()
        self.attendance = Attendance(request.abandoned_after_s, stall_timeout_s)
        self._slots = slots
        self._threads = threads
        self._keeper = keeper
        self._ticket = Ticket(
            user=request.owner,
            is_large=is_large,
            is_lookup=is_lookup(prepared.plan, prepared.size_bytes),
            size_bytes=prepared.size_bytes,
            grant=self._granted,
        )
        # The thread that starts a short query, while it does; and whether the query got its slot there.
        self._starter: int | None = None
        self._is_begun_here = False
        self._resumed = threading.Event()
        # Since when its thread waits for room in the results, by the monotonic clock.
        self._blocked_since: float | None = None
        self._sufficient_rows: int | None = None
        self._last_record: QueryRecord | None = None

    def start(self) -> None:
        """Wait for a slot; then it runs, a short one perhaps in this thread.

        Raises:
            TooManyQueriesError: too many queries wait.
        """
        self._starter = threading.get_ident() if self.plan.short is not None else None
        try:
            self._slots.enter(self._ticket)
        finally:
            self._starter = None
            if self._is_begun_here:
                self._go()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The assumptions of the planner, and the reason why the query waits at present."""
        notice = "" if self.state.has_ended else self._engine.notice
        return (*self.plan.warnings, *([notice] if notice else ()))

    @property
    def is_ready(self) -> bool:
        """True if rows, or the end of the answer, wait to be read."""
        return self.results.is_ready

    @property
    def record(self) -> QueryRecord:
        """The query as it is now."""
        if self._last_record is not None:
            return self._last_record
        has_ended = self.state.has_ended
        record = record_of(
            self.request,
            self.id,
            self.state,
            self.lifecycle.error,
            engine=self.engine,
            engine_reason=self.engine_reason,
            created=self.created,
            queued_ms=self.lifecycle.queued_ms,
            elapsed_ms=self.elapsed_ms,
            row_count=self.row_count,
            is_ready=self.is_ready or self.state.has_ended,
            progress=self.progress,
            origins=self.origins,
            incomplete=self.incomplete,
            warnings=self.warnings,
        )
        if has_ended:
            # The history, the log and the metrics want it.
            self._last_record = record
        return record

    @property
    def is_blocked(self) -> bool:
        """True if its thread waits until a client reads, because its rows have no room."""
        return self._blocked_since is not None

    def stalled_s(self, now: float) -> float:
        """Return for how many seconds it has been blocked and no client has read anything; 0 if it is not blocked."""
        since = self._blocked_since
        return 0.0 if since is None else self.attendance.idle_s(now, since)

    def cancel(self, error: QueryError | None = None) -> QueryState | None:
        """See `Run`; a query that waits for a slot leaves the queue."""
        before = super().cancel(error)
        self._resumed.set()
        if before is QueryState.QUEUED:
            self.attendance.touch()
            self._slots.leave(self._ticket)
            self._keeper.ended(self)
        return before

    def suffice(self, row_count: int) -> None:
        """End it because its client has enough: it finishes as truncated, with so many rows."""
        self._sufficient_rows = row_count
        self.cancel(QueryCancelledError("the rest of the answer is not wanted"))

    def close(self) -> None:
        """End it and release everything."""
        super().close()
        self._keeper.closed(self)

    def check(self, now: float) -> None:
        """End it if it is late or abandoned; the keeper calls this every now and then."""
        super().check(now)
        abandonment = self.attendance.abandonment(now)
        if abandonment is not None and not self.state.has_ended:
            self.cancel(abandonment)
        elif abandonment is not None:
            self.close()

    def _await(self, happens: Callable[[], bool]) -> None:
        if happens():
            self.attendance.touch()
        else:
            with self.attendance.attended():
                super()._await(happens)

    def _granted(self) -> None:
        """Run, now that there is a slot: for the first time, or again after a pause."""
        is_wanted = self.lifecycle.grant(self._enter)
        self._resumed.set()
        if not is_wanted:
            self._slots.leave(self._ticket)

    def _enter(self) -> None:
        super()._enter()
        if self._starter == threading.get_ident():
            self._is_begun_here = True
        else:
            self._spawn()

    def _spawn(self) -> None:
        self._threads.run(f"query-{self.id}", self._run)

    def _new_execution(self, engine: Engine) -> Execution:
        execution = super()._new_execution(engine)
        execution.is_long = self._ticket.counts_as_large(time.monotonic())
        return execution

    def _ended(self, error: QueryError | None) -> QueryError | None:
        if self._sufficient_rows is not None:
            # The client did not fail: it has the rows that it wanted.
            error, self.row_count, self.truncated = None, self._sufficient_rows, True
        self._blocked_since = None
        self.attendance.touch()
        super()._ended(error)
        self._slots.leave(self._ticket)
        # Before its client hears of the end: the client may ask for its record then, and waits for no log.
        self._keeper.ended(self)
        return error

    def _put_later(self, batch: pa.RecordBatch) -> None:
        """Hand on rows that have no room; wait without a slot while nobody reads."""
        self._resumed.clear()
        self._blocked_since = time.monotonic()
        is_paused = self._slots.pause(self._ticket)
        while not self.results.put(batch, CHECK_EVERY_S):
            self.lifecycle.check_not_cancelled()
            # Only so many may pause, and another one may have gone on.
            is_paused = is_paused or self._slots.pause(self._ticket)
        self._blocked_since = None
        if is_paused and not self.truncated:
            self._slots.enter_again(self._ticket)
            self._resumed.wait()
        self.lifecycle.check_not_cancelled()


async def wait_until_ready(query: Query, timeout_s: float | None = None) -> bool:
    """Wait until rows are ready, or the query has ended; return False after the timeout."""
    return await _wait_until(lambda: query.is_ready, query, timeout_s)


async def wait_until_ended(query: Query, timeout_s: float) -> bool:
    """Wait until the query has found all rows, or failed; return False after the timeout."""
    return await _wait_until(lambda: query.state.has_ended, query, timeout_s)


async def _wait_until(happens: Callable[[], bool], query: Query, timeout_s: float | None) -> bool:
    if happens():
        return True
    loop = asyncio.get_running_loop()
    happened = asyncio.Event()

    def notify() -> None:
        # The query may outlive the client's request, and the loop.
        if happens() and not loop.is_closed():
            loop.call_soon_threadsafe(happened.set)

    query.results.add_listener(notify)
    try:
        async with asyncio.timeout(timeout_s):
            with query.attendance.attended():
                # It may have happened between the first check and the listener.
                if not happens():
                    await happened.wait()
    except TimeoutError:
        return happens()
    finally:
        query.results.remove_listener(notify)
    return True


@asynccontextmanager
async def cancelled_on_disconnect(request: Request, query: Query) -> AsyncIterator[None]:
    """Cancel the query if its client disconnects before the block ends."""

    watching = asyncio.create_task(_call_on_disconnect(request, query.cancel))
    try:
        yield
    finally:
        watching.cancel()


@asynccontextmanager
async def ended_on_disconnect(request: Request) -> AsyncIterator[None]:
    """Cancel the block if its client disconnects before the block ends.

    Raises:
        QueryCancelledError: it did.
    """
    with CancelScope() as scope:
        watching = asyncio.create_task(_call_on_disconnect(request, scope.cancel))
        try:
            yield
        finally:
            watching.cancel()
    if scope.cancelled_caught:
        raise QueryCancelledError("the client is gone")


async def _call_on_disconnect(request: Request, call: Callable[[], object]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    call()
