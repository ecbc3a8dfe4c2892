"""One query from start to end: it waits for a slot, runs on an engine, and keeps its answer until a client has read it.

A thread of its own runs it when it gets a slot, and puts the rows into a `ResultBuffer`; the client takes them from there. A short
statement that gets its slot at once begins in the thread that starts it, and ends there if its answer comes at once.
`Queries` (`service.query.serving.registry`) starts queries, and ends those that are late or abandoned.
"""

from __future__ import annotations

import copy
import secrets
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol

import pyarrow as pa

from service.base.errors import QueryCancelledError, QueryError
from service.query.engines.engine import Engine, Progress
from service.query.serving.attendance import Attendance
from service.query.serving.history import QueryRecord, listed_sql
from service.query.serving.lifecycle import Lifecycle, QueryState
from service.query.serving.origin import Origin, metadata_of
from service.query.serving.request import QueryRequest
from service.query.serving.results import ResultBuffer
from service.query.serving.runner import Runner
from service.query.serving.slots import Slots, Ticket
from service.query.serving.threads import QueryThreads
from service.query.sql.explain import Explanation
from service.query.sql.plan import Plan, UnreadFile
from service.query.sql.types import Column

# So long a short statement may keep the thread that starts it: no client is looked after meanwhile.
_AT_ONCE_S = 0.02


class Keeper(Protocol):
    """Keeps queries and remembers them."""

    def ended(self, query: Query) -> None:
        """Remember a query that has ended; its answer may still be unread."""

    def closed(self, query: Query) -> None:
        """Forget a query: its answer was read, or nobody wants it."""


class Query:
    """A query. Use it in `with`: leaving ends it.

    Args:
        request: what the client asked.
        plan: what the statement means.
        origins: the savepoints that it reads.
        engine: the engine that runs it.
        engine_reason: why this engine.
        explanation: what it reads, if the client asked for that.
        fallback: the engine that takes over if that one refuses or is gone; None if the request names its engine.
        timeout_s: seconds after which it ends with QueryTimeoutError, those in the queue included.
        started: when it was started, by the monotonic clock.
        is_large: True if it reads so much that it leaves the last slots to others.
        is_lookup: True if it is sure to end soon.
        size_bytes: about how many bytes it reads.
        results: keeps the answer.
        stall_timeout_s: seconds after which it ends if its answer is streamed and its client reads nothing.
        slots: where it waits to run.
        threads: run it.
        keeper: keeps it.

    Attributes:
        owner: the user who asked.
        lifecycle: its state, deadline and end.
        attendance: its clients.
        results: its answer.
    """

    def __init__(
        self,
        *,
        request: QueryRequest,
        plan: Plan,
        origins: tuple[Origin, ...],
        engine: Engine,
        engine_reason: str,
        explanation: Explanation | None = None,
        fallback: Engine | None = None,
        timeout_s: float,
        started: float,
        is_large: bool,
        is_lookup: bool = False,
        size_bytes: int = 0,
        results: ResultBuffer,
        stall_timeout_s: float,
        slots: Slots,
        threads: QueryThreads,
        keeper: Keeper,
    ) -> None:
        self.id = request.query_id or secrets.token_hex(16)
        self.request = request
        self.owner = request.owner
        self.plan = plan
        self.origins = origins
        self.explanation = explanation
        self.created = time.time()
        self.lifecycle = Lifecycle(started, timeout_s)
        self.attendance = Attendance(request.abandoned_after_s, stall_timeout_s)
        self.results = results
        self._slots = slots
        self._threads = threads
        self._keeper = keeper
        self._engine = engine
        self._close_lock = threading.Lock()
        # Several threads may close it; the owner hears of it once.
        self._is_closed = False
        self._sufficient_rows: int | None = None
        self._ticket = Ticket(
            user=request.owner,
            is_large=is_large,
            is_lookup=is_lookup,
            size_bytes=size_bytes,
            grant=self._granted,
        )
        self._runner = Runner(
            plan=plan,
            max_rows=request.max_rows,
            engine=engine,
            engine_reason=engine_reason,
            fallback=fallback,
            explanation=explanation,
            results=results,
            slots=slots,
            ticket=self._ticket,
            lifecycle=self.lifecycle,
        )
        # Once it has begun to run, and until its thread has nothing more to do for it.
        self._has_run: threading.Event | None = None
        # The thread that enters a short query, while it does; and whether the query got its slot there.
        self._entering: int | None = None
        self._is_begun_here = False
        self._runner_thread: int | None = None
        self._last_record: QueryRecord | None = None

    def enter(self) -> None:
        """Wait for a slot; then the query runs, a short one perhaps in this thread.

        Raises:
            TooManyQueriesError: too many queries wait.
        """
        self._entering = threading.get_ident() if self.plan.short is not None else None
        try:
            self._slots.enter(self._ticket)
        finally:
            self._entering = None
            if self._is_begun_here:
                self._run_here()

    @property
    def state(self) -> QueryState:
        """The state of its life."""
        return self.lifecycle.state

    @property
    def engine(self) -> str:
        """The engine that runs it."""
        return self._runner.engine

    @property
    def engine_reason(self) -> str:
        """The reason for this engine."""
        return self._runner.engine_reason

    @property
    def row_count(self) -> int:
        """Rows of the answer so far."""
        return self._runner.row_count

    @property
    def truncated(self) -> bool:
        """True if there are more rows than `max_rows`."""
        return self._runner.truncated

    @property
    def progress(self) -> Progress:
        """Progress of its reading."""
        return self._runner.progress

    @property
    def incomplete(self) -> tuple[UnreadFile, ...]:
        """The files of which the answer has no rows, or not all; more may follow until it has ended."""
        return tuple(dict.fromkeys((*self.plan.incomplete, *self.progress.incomplete)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The assumptions of the planner, and the reason why the query waits at present."""
        notice = "" if self.state.has_ended else self._engine.notice
        return (*self.plan.warnings, *([notice] if notice else ()))

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds from its start to its end, or until now."""
        return self.lifecycle.elapsed_ms

    @property
    def is_ready(self) -> bool:
        """True if rows, or the end of the answer, wait to be read."""
        return self.results.is_ready

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the answer; waits until they are known."""
        return self._head[0]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the answer, with the savepoints in its metadata; waits until it is known."""
        schema = self._head[1]
        return schema.with_metadata(
            {**(schema.metadata or {}), **metadata_of(self.id, self.origins, self.incomplete)}
        )

    @property
    def _head(self) -> tuple[tuple[Column, ...], pa.Schema]:
        if self.results.is_open:
            self.attendance.touch()
            return self.results.head()
        with self.attendance.attended():
            return self.results.head()

    @property
    def record(self) -> QueryRecord:
        """The query as it is now."""
        if self._last_record is not None:
            return self._last_record
        has_ended = self.state.has_ended
        record = self._record
        if has_ended:
            # The history, the log and the metrics want it.
            self._last_record = record
        return record

    @property
    def _record(self) -> QueryRecord:
        return QueryRecord(
            id=self.id,
            owner=self.owner,
            source=self.request.source,
            sql=listed_sql(self.request),
            database=self.request.schema,
            state=self.state,
            engine=self.engine,
            engine_reason=self.engine_reason,
            created=self.created,
            queued_ms=self.lifecycle.queued_ms,
            elapsed_ms=self.lifecycle.elapsed_ms,
            row_count=self.row_count,
            is_ready=self.is_ready or self.state.has_ended,
            progress=self.progress,
            origins=self.origins,
            incomplete=self.incomplete,
            warnings=self.warnings,
            error=copy.copy(self.lifecycle.error),
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `max_rows`, each once; after them, `truncated` is True if there are more.

        Raises:
            QueryError: the query failed or was cancelled.
        """
        while (batch := self.take()) is not None:
            yield batch

    def take(self) -> pa.RecordBatch | None:
        """Return the next rows; None after the last ones.

        Raises:
            QueryError: the query failed or was cancelled.
        """
        if self.results.is_ready:
            self.attendance.touch()
            return self.results.take()
        with self.attendance.attended():
            return self.results.take()

    @property
    def is_blocked(self) -> bool:
        """True if its thread waits until a client reads, because its rows have no room."""
        return self._runner.blocked_since is not None

    def stalled_s(self, now: float) -> float:
        """Return for how many seconds it has been blocked and no client has read anything; 0 if it is not blocked."""
        since = self._runner.blocked_since
        return 0.0 if since is None else self.attendance.idle_s(now, since)

    def cancel(self, error: QueryError | None = None) -> None:
        """End it, from any thread. Clients that read it get the error.

        Args:
            error: QueryCancelledError if None.
        """
        before = self.lifecycle.cancel(error or QueryCancelledError("the query was cancelled"))
        failure = self.lifecycle.failure
        if before is None or failure is None:
            return
        if before is QueryState.QUEUED:
            self.attendance.touch()
            self._slots.leave(self._ticket)
        # The thread may wait for room in the results or for a slot: both calls wake it up.
        self.results.abort(failure)
        self._runner.resume()
        if before is QueryState.QUEUED:
            self._keeper.ended(self)
        self._runner.cancel(failure)

    def suffice(self, row_count: int) -> None:
        """End it because its client has enough: it finishes as truncated, with so many rows."""
        self._sufficient_rows = row_count
        self.cancel(QueryCancelledError("the rest of the answer is not wanted"))

    def close(self) -> None:
        """End it and release everything."""
        if not self.state.has_ended:
            self.cancel()
        # A thread cannot wait for itself.
        if self._has_run is not None and self._runner_thread != threading.get_ident():
            self._has_run.wait()
        with self._close_lock:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self.results.abort(self.lifecycle.error or QueryCancelledError("the query was cancelled"))
            self._keeper.closed(self)

    def check(self, now: float) -> None:
        """End it if it is late or abandoned; the keeper calls this every now and then."""
        failure = self.lifecycle.failure
        if failure is not None:
            # Once more: an engine may miss a cancel while it starts.
            self._runner.cancel(failure)
        else:
            timeout = self.lifecycle.timeout(now)
            if timeout is not None:
                timeout.hint = self._engine.notice or timeout.hint
                self.cancel(timeout)
        abandonment = self.attendance.abandonment(now)
        if abandonment is not None and not self.state.has_ended:
            self.cancel(abandonment)
        elif abandonment is not None:
            self.close()

    def _granted(self) -> None:
        """Run, now that there is a slot: for the first time, or again after a pause."""
        is_wanted = self.lifecycle.grant(self._start)
        self._runner.resume()
        if not is_wanted:
            self._slots.leave(self._ticket)

    def _start(self) -> None:
        self._has_run = threading.Event()
        if self._entering == threading.get_ident():
            self._is_begun_here = True
        else:
            self._run_elsewhere()

    def _run_here(self) -> None:
        """Run in this thread if that takes no time to speak of: to wake another one takes longer than most lookups."""
        if self._runner.begin(_AT_ONCE_S):
            self._run()
        else:
            self._run_elsewhere()

    def _run_elsewhere(self) -> None:
        self._threads.run(f"query-{self.id}", self._run)

    def _run(self) -> None:
        assert self._has_run is not None
        self._runner_thread = threading.get_ident()
        try:
            error = self._runner.run()
            if self._sufficient_rows is not None:
                # The client did not fail: it has the rows that it wanted.
                error, self._runner.row_count, self._runner.truncated = None, self._sufficient_rows, True
            self.attendance.touch()
            self.lifecycle.end(error)
            self._slots.leave(self._ticket)
            # Before its client hears of the end: the client may ask for its record then, and waits for no log.
            self._keeper.ended(self)
            if error is None:
                self.results.end()
            else:
                self.results.abort(error)
        finally:
            self._has_run.set()

    def __enter__(self) -> Query:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
