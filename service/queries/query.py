"""One query from start to end: its limits, its engine, its answer.

A thread of its own runs it when it gets a slot, and puts what it finds into a `ResultBuffer`; whoever asked takes it from
there. `Queries` (`service.queries`) starts queries, and ends those that are late or forgotten.
"""

from __future__ import annotations

import copy
import secrets
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

import pyarrow as pa

from catalog import Database
from service.engines.engine import Engine, Execution, Progress
from service.errors import (
    EngineRefusesError,
    EngineUnavailableError,
    QueryCancelledError,
    QueryError,
    QueryTimeoutError,
    ReaderStalledError,
    SavepointError,
    query_error_of,
)
from service.queries.history import QueryRecord
from service.queries.origin import Origin, metadata_of
from service.queries.request import QueryRequest
from service.queries.results import Listener, ResultBuffer
from service.queries.slots import Slots, Ticket
from service.queries.state import QueryState
from service.sql.explain import Explanation
from service.sql.plan import Plan
from service.sql.types import Column

_STALLED_AFTER_S = 0.5
_LOOK_UP_S = 0.1
_LISTED_SQL = 10_000
_GONE_CODES = frozenset({"MISSING_FILE", "NOT_A_SAVEPOINT", "SAVEPOINT_GONE"})


class Owner(Protocol):
    """Who is told how a query goes."""

    def ended(self, query: Query) -> None:
        """It runs no more; its answer may still be unread."""

    def closed(self, query: Query) -> None:
        """Nobody wants it any more."""


class Query:
    """A query. Use it in `with`: leaving ends it.

    Args:
        request: what was asked.
        plan: what it means.
        origins: the savepoints it reads.
        engine: what runs it.
        engine_reason: why that one.
        explanation: what it reads, where that is asked.
        fallback: what runs it where that one cannot; None if the request is for that one alone.
        timeout_s: seconds until it ends with QueryTimeoutError, those in the queue included.
        is_large: whether it reads so much that it leaves the last slots to others.
        is_lookup: whether it is sure to be done soon.
        size_bytes: about how much it reads.
        results: where the answer waits to be read.
        stall_timeout_s: seconds after which it ends while its answer is streamed and its reader takes nothing.
        slots: where it waits.
        owner: who is told.
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
        owner: Owner,
    ) -> None:
        self.id = request.query_id or secrets.token_hex(16)
        self.request = request
        self.user = request.user
        self.plan = plan
        self.origins = origins
        self.engine = engine.name
        self.engine_reason = engine_reason
        self.explanation = explanation
        self.row_count = 0
        self.truncated = False
        self.state = QueryState.QUEUED
        self.error: QueryError | None = None
        self.created = time.time()
        self._engine = engine
        self._fallback = fallback
        self._timeout_s = timeout_s
        self._started = started
        self._granted_after_s: float | None = None
        self._elapsed_s: float | None = None
        self._progress = Progress()
        self._execution: Execution | None = None
        self._results = results
        self._stall_timeout_s = stall_timeout_s
        self._slots = slots
        self._owner = owner
        self._lock = threading.Lock()
        self._failure: QueryError | None = None
        self._is_closed = False
        self._is_claimed = False
        self._is_streamed = False
        self._enough: int | None = None
        self._blocked_since: float | None = None
        self._resumed = threading.Event()
        self._attending = 0
        self._touched = time.monotonic()
        self._ticket = Ticket(
            user=request.user,
            is_large=is_large,
            is_lookup=is_lookup,
            size_bytes=size_bytes,
            grant=self._granted,
        )
        self._thread = threading.Thread(target=self._run, name=f"query-{self.id}", daemon=True)

    def enter(self) -> None:
        """Wait for a slot; then it runs.

        Raises:
            TooManyQueriesError: as many wait as may.
        """
        self._slots.enter(self._ticket)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the answer; waits until they are known."""
        with self.attended():
            return self._results.head()[0]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the answer, which names the savepoints; waits until it is known."""
        with self.attended():
            schema = self._results.head()[1]
        return schema.with_metadata({**(schema.metadata or {}), **metadata_of(self.id, self.origins)})

    @property
    def is_open(self) -> bool:
        """Whether the columns are known."""
        return self._results.is_open

    @property
    def is_ready(self) -> bool:
        """Whether rows, or the end of them, wait to be read."""
        return self._results.is_ready

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the answer that wait in memory to be read."""
        return self._results.size_bytes

    @property
    def databases(self) -> tuple[Database, ...]:
        """The databases it reads."""
        return self.plan.databases

    @property
    def progress(self) -> Progress:
        """What it has read."""
        execution = self._execution
        return self._progress if execution is None else execution.progress

    @property
    def bytes_read(self) -> int:
        """Bytes of savepoints read so far."""
        return self.progress.bytes_read

    @property
    def bytes_total(self) -> int:
        """About how many bytes it is going to read, of all scans started so far."""
        return self.progress.bytes_total

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since it started, until it ended."""
        elapsed_s = time.monotonic() - self._started if self._elapsed_s is None else self._elapsed_s
        return elapsed_s * 1000

    @property
    def queued_ms(self) -> float:
        """Milliseconds it waited for a slot."""
        return self.elapsed_ms if self._granted_after_s is None else self._granted_after_s * 1000

    @property
    def record(self) -> QueryRecord:
        """How it is now."""
        return QueryRecord(
            id=self.id,
            user=self.user,
            source=self.request.source,
            sql=self.request.sql[:_LISTED_SQL],
            state=self.state,
            engine=self.engine,
            engine_reason=self.engine_reason,
            created=self.created,
            queued_ms=self.queued_ms,
            elapsed_ms=self.elapsed_ms,
            row_count=self.row_count,
            is_ready=self.is_ready,
            progress=self.progress,
            origins=self.origins,
            error=copy.copy(self.error),
        )

    def claim(self) -> bool:
        """Whether the caller may read the answer: only the first one may."""
        with self._lock:
            was_claimed, self._is_claimed = self._is_claimed, True
        return not was_claimed

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, `max_rows` at most, each once; then `truncated` says whether there were more.

        Raises:
            QueryError: it failed, or was cancelled.
        """
        while (batch := self.take()) is not None:
            yield batch

    def take(self) -> pa.RecordBatch | None:
        """The next rows; None if there are no more.

        Raises:
            QueryError: it failed, or was cancelled.
        """
        with self.attended():
            return self._results.take()

    @contextmanager
    def attended(self) -> Iterator[None]:
        """While somebody waits for it, it is not abandoned."""
        with self._lock:
            self._attending += 1
        try:
            yield
        finally:
            with self._lock:
                self._attending -= 1
                self._touched = time.monotonic()

    def touch(self) -> None:
        """Somebody still wants it."""
        with self.attended():
            pass

    def add_listener(self, listener: Listener) -> None:
        """Call this whenever rows come or it ends, from any thread."""
        self._results.add_listener(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Call it no more."""
        self._results.remove_listener(listener)

    def stream(self) -> None:
        """Its answer is going to be sent as it is found: from now on it ends if its reader stalls."""
        self.touch()
        self._is_streamed = True

    @property
    def is_blocked(self) -> bool:
        """Whether what runs it waits until somebody reads, for what it found has no room."""
        return self._blocked_since is not None

    def stalled_s(self, now: float) -> float:
        """For how long it has been blocked and nobody has read anything; 0 if that is not so."""
        since = self._blocked_since
        return 0.0 if since is None or self._attending else now - max(since, self._touched)

    def cancel(self, error: QueryError | None = None) -> None:
        """End it; whoever reads it gets the error. From any thread.

        Args:
            error: QueryCancelledError where None.
        """
        with self._lock:
            if self.state.has_ended:
                return
            self._failure = self._failure or error or QueryCancelledError("the query was cancelled")
            failure, is_waiting = self._failure, self.state is QueryState.QUEUED
            if is_waiting:
                self._set_ended(failure)
        if is_waiting:
            self._slots.leave(self._ticket)
        self._results.abort(failure)
        self._resumed.set()
        if is_waiting:
            self._owner.ended(self)
        self.cancel_again()

    def suffice(self, row_count: int) -> None:
        """Its reader has enough: it ends as one that found no more rows than these, and more there were."""
        self._enough = row_count
        self.cancel(QueryCancelledError("the rest of the answer is not wanted"))

    def cancel_again(self) -> None:
        """Tell the engine once more of a cancel: it may miss one that comes while it starts."""
        execution, failure = self._execution, self._failure
        if execution is not None and failure is not None:
            # A copy: whoever reads raises the error, too, and its trace would hold what the engine's frames do.
            execution.cancel(copy.copy(failure))

    def close(self) -> None:
        """End it and let go of everything."""
        self.cancel(QueryCancelledError("the query was closed"))
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._results.abort(self.error or QueryCancelledError("the query was closed"))
            self._owner.closed(self)

    def check(self, now: float) -> None:
        """End it if it is late or abandoned; to be called every now and then."""
        if self._failure is not None:
            self.cancel_again()
        elif not self.state.has_ended and now - self._started > self._timeout_s:
            self.cancel(
                QueryTimeoutError(
                    f"the query was not done within {self._timeout_s:g} s",
                    hint="ask for less, or give it more time with timeout_s",
                )
            )
        abandoned = self._abandoned(now)
        if abandoned is not None and not self.state.has_ended:
            self.cancel(abandoned)
        elif abandoned is not None:
            self.close()

    def _abandoned(self, now: float) -> QueryError | None:
        """What it is told if nobody has wanted it for too long."""
        with self._lock:
            unread_s = 0.0 if self._attending else now - self._touched
        limit_s = self.request.abandoned_after_s
        if self._is_streamed and unread_s > self._stall_timeout_s:
            return stalled(unread_s)
        if limit_s is not None and unread_s > limit_s:
            return QueryCancelledError("nobody asked for the query's answer", code="ABANDONED")
        return None

    def _granted(self) -> None:
        """It has a slot."""
        with self._lock:
            if self.state is QueryState.QUEUED:
                self.state = QueryState.RUNNING
                self._granted_after_s = time.monotonic() - self._started
                self._thread.start()
            ended = self.state.has_ended
        self._resumed.set()
        if ended:
            self._slots.leave(self._ticket)

    def _run(self) -> None:
        error: QueryError | None = None
        try:
            self._execute()
        except Exception as raised:  # the thread's last word: whoever reads gets it
            error = self._failure
            if error is None:
                error = self._gone(query_error_of(raised))
                error.__cause__ = error.__cause__ or (None if error is raised else raised)
            _clear_frames(raised)
        self._end(error)

    def _gone(self, error: QueryError) -> QueryError:
        """What became of an error if Flink removed one of the savepoints meanwhile: it was there when this was planned."""
        if error.code in _GONE_CODES:
            gone = [f'"{database.name}"' for database in self.databases if database.is_gone]
            if gone:
                return SavepointError(
                    f"savepoint {', '.join(gone)} was removed while the query ran",
                    hint="SHOW SCHEMAS lists those that are there",
                    detail=error.detail,
                    code="SAVEPOINT_GONE",
                    status=410,
                )
        return error

    def _execute(self) -> None:
        execution, reader = self._opened()
        self._results.open(execution.columns, reader.schema)
        for batch in reader:
            self._put(self._explained(batch))
            if self.truncated:
                return

    def _opened(self) -> tuple[Execution, pa.RecordBatchReader]:
        """What runs, and its rows."""
        try:
            return self._opened_by(self._engine)
        except (EngineRefusesError, EngineUnavailableError) as error:
            if self._fallback is None or self._failure is not None or self._execution is None:
                raise
            self._execution.close()
            self.engine = self._fallback.name
            self.engine_reason = f"{self.engine_reason}; but {error.message}"
        return self._opened_by(self._fallback)

    def _opened_by(self, engine: Engine) -> tuple[Execution, pa.RecordBatchReader]:
        execution = self._execution = engine.execution(self.plan, self.request.max_rows)
        execution.is_long = self._ticket.counts_as_large(time.monotonic())
        self._check_not_cancelled()
        reader = execution.open()
        if execution.remark:
            self.engine_reason = f"{self.engine_reason}; {execution.remark}"
        return execution, reader

    def _explained(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The engine and why it was chosen, at the head of a plan that it explains; other rows as they are."""
        if not self.plan.prefix.startswith("EXPLAIN"):
            return batch
        *names, texts = batch.columns
        head = f"engine: {self.engine}\nreason: {self.engine_reason}\n"
        head += self.explanation.text() if self.explanation is not None else ""
        told = pa.array([f"{head}{text}" for text in texts.to_pylist()], texts.type)
        return pa.RecordBatch.from_arrays([*names, told], schema=batch.schema)

    def _put(self, batch: pa.RecordBatch) -> None:
        """Hand on a batch, as far as there may be rows; waits where nobody reads, without a slot."""
        max_rows = self.request.max_rows
        left = batch.num_rows if max_rows is None else max_rows - self.row_count
        self.truncated = batch.num_rows > left
        kept = batch.slice(0, max(left, 0))
        self.row_count += kept.num_rows
        if not kept.num_rows or self._results.put(kept, _STALLED_AFTER_S):
            return
        self._resumed.clear()
        self._blocked_since = time.monotonic()
        is_paused = self._slots.pause(self._ticket)
        while not self._results.put(kept, _LOOK_UP_S):
            self._check_not_cancelled()
            is_paused = is_paused or self._slots.pause(self._ticket)
        self._blocked_since = None
        if is_paused and not self.truncated:
            self._slots.enter_again(self._ticket)
            self._resumed.wait()
        self._check_not_cancelled()

    def _check_not_cancelled(self) -> None:
        if self._failure is not None:
            raise copy.copy(self._failure)

    def _end(self, error: QueryError | None) -> None:
        execution = self._execution
        if execution is not None:
            execution.close()
            self._progress = execution.progress
        with self._lock:
            self._set_ended(error)
        self._execution = None
        self._blocked_since = None
        if error is None:
            self._results.end()
        else:
            self._results.abort(error)
        self._slots.leave(self._ticket)
        self._owner.ended(self)

    def _set_ended(self, error: QueryError | None) -> None:
        self._elapsed_s = time.monotonic() - self._started
        self._touched = time.monotonic()
        if self._enough is not None:
            error, self.row_count, self.truncated = None, self._enough, True
        self.error = error
        self.state = _state_after(error)

    def __enter__(self) -> Query:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _clear_frames(error: BaseException) -> None:
    """Let go of what the frames of an error hold, the engine's rows among it: it is remembered for long."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        known = waiting.pop()
        if known is not None and id(known) not in seen:
            seen.add(id(known))
            traceback.clear_frames(known.__traceback__)
            waiting += [known.__cause__, known.__context__]


def stalled(unread_s: float) -> ReaderStalledError:
    """What a query is told whose answer nobody has read for so long."""
    return ReaderStalledError(
        f"nobody read the query's answer for {unread_s:.0f} s",
        hint="read it without long pauses, or ask for less",
    )


def _state_after(error: QueryError | None) -> QueryState:
    if error is None:
        return QueryState.FINISHED
    return QueryState.CANCELLED if isinstance(error, QueryCancelledError) else QueryState.FAILED
