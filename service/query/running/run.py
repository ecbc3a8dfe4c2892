"""`Run`: a plan that runs on an engine, in a thread of its own, and puts its rows into a `ResultBuffer`; the reader takes them there.

The buffer holds a bounded number of bytes. The thread of the run puts batches in, and its reader takes each of them out once. Where
there is no room the thread waits: a reader that stalls holds the engine back. A short statement begins in the thread that starts
it, and ends there if its answer comes at once.

The life of a query: its state, its deadline, and why it ends.

    QUEUED ──grant──▶ RUNNING ──end──▶ FINISHED | FAILED | CANCELLED
       └──────────────cancel───────────────────────────▲

A query that waits ends at once when it is cancelled. One that runs ends when its thread sees the failure: until then it is RUNNING.

Errors about keys get a hint: what a key of the table looks like, read from the table itself.
"""

from __future__ import annotations

import copy
import secrets
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import pyarrow as pa
from sqlglot import exp

from catalog import CatalogError, Database, Table
from readers import ReaderError, json_text
from service.base.errors import (
    EngineRefusesError,
    EngineUnavailableError,
    InvalidQueryError,
    QueryCancelledError,
    QueryError,
    QueryTimeoutError,
    SavepointError,
    query_error_of,
)
from service.query.encode.formats import Column
from service.query.engines.engine import Engine, Execution, Progress
from service.query.running.request import Origin, QueryRequest, metadata_of
from service.query.sql.plan import Plan, ScanExplanation, UnreadFile

Stored = Callable[[], pa.RecordBatch | None]
"""Fetches a batch that is not in memory; None if it was dropped."""


class ResultBuffer:
    """Batches between the thread of a run and its reader. Safe to share between threads.

    Args:
        max_bytes: most bytes of batches in memory; one batch always has room.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch | Stored] = deque()
        self._size_bytes = 0
        self._head: tuple[tuple[Column, ...], pa.Schema] | None = None
        self._has_ended = False
        self._error: QueryError | None = None

    @property
    def is_open(self) -> bool:
        """True if `head` returns at once."""
        return self._head is not None or self._has_ended

    @property
    def is_ready(self) -> bool:
        """True if `take` returns at once."""
        with self._changed:
            return bool(self._batches) or self._has_ended

    @property
    def size_bytes(self) -> int:
        """Bytes of the batches in memory."""
        return self._size_bytes

    def open(self, columns: tuple[Column, ...], schema: pa.Schema) -> None:
        """Set the columns, before the first batch."""
        with self._changed:
            self._head = (columns, schema)
        self._notify()

    def put(self, batch: pa.RecordBatch, wait_s: float) -> bool:
        """Add a batch; return False if there was no room for it in so many seconds.

        Raises:
            QueryError: the error given to `abort`.
        """
        size_bytes = batch.nbytes
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._has_room(size_bytes), wait_s)
            self._check()
            if not self._has_room(size_bytes):
                return False
            self._batches.append(batch)
            self._size_bytes += size_bytes
        self._notify()
        return True

    def end(self) -> None:
        """Note that no batch follows."""
        with self._changed:
            self._has_ended = True
        self._notify()

    def abort(self, error: QueryError) -> None:
        """Drop all batches; `put` and `take` raise this error from now on. The first error counts."""
        with self._changed:
            self._error = self._error or error
            self._has_ended = True
            self._batches.clear()
            self._size_bytes = 0
        self._notify()

    def wait(self, happens: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something is true of the buffer; return whether it is."""
        with self._changed:
            return self._changed.wait_for(happens, timeout_s)

    def head(self) -> tuple[tuple[Column, ...], pa.Schema]:
        """Return the columns and their Arrow schema, once the buffer is open.

        Raises:
            QueryError: the error given to `abort`.
        """
        if self._error is not None:
            raise self._error
        assert self._head is not None
        return self._head

    def take(self) -> pa.RecordBatch | None:
        """Return the next batch, once the buffer is ready; None after the last one.

        Raises:
            QueryError: the error given to `abort`.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            if not self._batches:
                return None
            batch = self._batches.popleft()
            if isinstance(batch, pa.RecordBatch):
                self._size_bytes -= batch.nbytes
                self._changed.notify_all()
                return batch
        # Fetched without the lock: the thread of the run goes on meanwhile.
        fetched = batch()
        with self._changed:
            self._changed.notify_all()
            if self._error is not None:
                raise self._error
        return fetched

    def _check(self) -> None:
        if self._error is not None:
            # A copy: the reader raises the error, too, and its traceback would keep the engine's frames alive.
            raise copy.copy(self._error)

    def _has_room(self, size_bytes: int) -> bool:
        return not self._size_bytes or self._size_bytes + size_bytes <= self._max_bytes

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


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


_KEY = "key"
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between)
_MOST_EXAMPLES = 2
_COMPUTED = "Overflow in "


def with_key_hint(error: QueryError, plan: Plan) -> QueryError:
    """Add to an error of a statement that compares keys what they look like, and where the comparison is.

    An error that has a hint already keeps it. One of computing with numbers is not about keys.
    """
    if (
        error.hint is not None
        or error.message.startswith(_COMPUTED)
        or not isinstance(error, InvalidQueryError)
        or not _compares_keys(plan.query)
    ):
        return error
    tables = {table.table.name: table.table for table in plan.tables if _KEY in table.table.schema.names}
    examples = {name: example_of(table) for name, table in tables.items()}
    shown = [f"keys of {name!r} look like {text}" for name, text in examples.items() if text is not None]
    if shown:
        error.hint = "; ".join(shown[:_MOST_EXAMPLES])
        error.position = error.position or plan.position_of(_KEY)
    return error


def example_of(table: Table) -> str | None:
    """Return a key of a table as a constant of SQL; None if the table has none, or cannot be read."""
    try:
        scan = table.scan([_KEY])
        for split in scan.splits:
            for batch in scan.read(split):
                keys = batch.column(_KEY).drop_null()
                if len(keys):
                    return _constant(keys.slice(0, 1))
    except (CatalogError, ReaderError):
        return None
    return None


def _constant(key: pa.Array) -> str:
    if pa.types.is_integer(key.type) or pa.types.is_floating(key.type) or pa.types.is_boolean(key.type):
        return str(key[0])
    text = key[0].as_py() if pa.types.is_string(key.type) else json_text(key)[0].as_py()
    is_quoted = not pa.types.is_string(key.type) and text.startswith('"')
    return exp.Literal.string(text.strip('"') if is_quoted else text).sql()


def _compares_keys(query: exp.Query) -> bool:
    """Return whether a statement compares a column `key` with something."""
    return any(
        isinstance(side, exp.Column) and side.name.casefold() == _KEY
        for comparison in query.find_all(*_COMPARISONS)
        for side in (comparison.this, comparison.args.get("expression"))
    )


CHECK_EVERY_S = 0.1
# So long a short statement may keep the thread that starts it.
_AT_ONCE_S = 0.02
_STALLED_AFTER_S = 0.5
_GONE_CODES = frozenset({"MISSING_FILE", "NOT_A_SAVEPOINT", "SAVEPOINT_GONE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What is about to run.

    Attributes:
        plan: what the statement means.
        size_bytes: about how many bytes it reads.
        origins: the savepoints that it reads.
        explanation: what it reads, for EXPLAIN.
        engine: the engine to run it on.
        engine_reason: why this engine.
        fallback: the engine that takes over if that one refuses or is gone; None if the request names its engine.
        started: when the statement came, by the monotonic clock.
        timeout_s: seconds after which it ends with QueryTimeoutError, those before it runs included.
    """

    plan: Plan
    size_bytes: int
    origins: tuple[Origin, ...]
    explanation: tuple[ScanExplanation, ...] | None
    engine: Engine
    engine_reason: str
    fallback: Engine | None
    started: float
    timeout_s: float


class Run:
    """A statement that runs. Use it in `with`: leaving ends it.

    Args:
        request: what is asked.
        prepared: what runs.
        results: keeps the answer.

    Attributes:
        plan, origins, explanation: see `Prepared`.
        engine: the name of the engine that runs, or ran.
        engine_reason: why this engine.
        lifecycle: its state, deadline and end.
        results: its answer.
        row_count: rows so far.
        truncated: True if there are more than `max_rows`.
    """

    def __init__(self, request: QueryRequest, prepared: Prepared, results: ResultBuffer) -> None:
        self.id = request.query_id or secrets.token_hex(16)
        self.request = request
        self.plan = prepared.plan
        self.origins = prepared.origins
        self.explanation = prepared.explanation
        self.engine = prepared.engine.name
        self.engine_reason = prepared.engine_reason
        self.lifecycle = Lifecycle(prepared.started, prepared.timeout_s)
        self.row_count = 0
        self.truncated = False
        self.results = results
        self._engine = prepared.engine
        self._fallback = prepared.fallback
        self._progress = Progress()
        self._execution: Execution | None = None
        self._has_begun = False
        self._raised: Exception | None = None
        # Once it has begun to run, and until its thread has nothing more to do for it.
        self._has_run: threading.Event | None = None
        self._thread: int | None = None

    def start(self) -> None:
        """Run: in this thread if that takes no time to speak of, otherwise in one of its own."""
        self.lifecycle.grant(self._enter)
        self._go()

    @property
    def state(self) -> QueryState:
        """The state of its life."""
        return self.lifecycle.state

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds from its start to its end, or until now."""
        return self.lifecycle.elapsed_ms

    @property
    def progress(self) -> Progress:
        """Progress of its reading."""
        execution = self._execution
        return self._progress if execution is None else execution.progress

    @property
    def incomplete(self) -> tuple[UnreadFile, ...]:
        """The files of which the answer has no rows, or not all; more may follow until it has ended."""
        return tuple(dict.fromkeys((*self.plan.incomplete, *self.progress.incomplete)))

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
        self._await(lambda: self.results.is_open)
        return self.results.head()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `max_rows`, each once; after them, `truncated` is True if there are more.

        Raises:
            QueryError: it failed or was cancelled.
        """
        while (batch := self.take()) is not None:
            yield batch

    def take(self) -> pa.RecordBatch | None:
        """Return the next rows; None after the last ones.

        Raises:
            QueryError: it failed or was cancelled.
        """
        self._await(lambda: self.results.is_ready)
        return self.results.take()

    def cancel(self, error: QueryError | None = None) -> QueryState | None:
        """End it, from any thread. Who reads it gets the error.

        Args:
            error: QueryCancelledError if None.

        Returns:
            The state before; None if it had ended.
        """
        before = self.lifecycle.cancel(error or QueryCancelledError("the query was cancelled"))
        failure = self.lifecycle.failure
        if before is not None and failure is not None:
            # The thread may wait for room in the results: this wakes it up.
            self.results.abort(failure)
            self._cancel_execution(failure)
        return before

    def close(self) -> None:
        """End it and release everything."""
        if not self.state.has_ended:
            self.cancel()
        # A thread cannot wait for itself.
        if self._has_run is not None and self._thread != threading.get_ident():
            while not self._has_run.wait(CHECK_EVERY_S):
                Run.check(self, time.monotonic())
        self.results.abort(self.lifecycle.error or QueryCancelledError("the query was cancelled"))

    def check(self, now: float) -> None:
        """End it if it is late; called every now and then."""
        failure = self.lifecycle.failure
        if failure is not None:
            # Once more: an engine may miss a cancel while it starts.
            self._cancel_execution(failure)
            return
        timeout = self.lifecycle.timeout(now)
        if timeout is not None:
            timeout.hint = self._engine.notice or timeout.hint
            self.cancel(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _await(self, happens: Callable[[], bool]) -> None:
        # A wait without an end hides Ctrl-C where a library has system calls go on after a signal: polars does.
        while not self.results.wait(happens, CHECK_EVERY_S):
            self.check(time.monotonic())

    def _enter(self) -> None:
        self._has_run = threading.Event()

    def _go(self) -> None:
        """Run a short statement in this thread if its answer comes at once: to wake another one takes longer than most lookups."""
        if self.plan.short is not None and self._begin():
            self._run()
        else:
            self._spawn()

    def _spawn(self) -> None:
        threading.Thread(target=self._run, name=f"query-{self.id}", daemon=True).start()

    def _begin(self) -> bool:
        """Begin in this thread, and wait a little; return True if `_run` does not wait any more."""
        self._has_begun = True
        try:
            return self._new_execution(self._engine).begin(_AT_ONCE_S)
        except Exception as raised:  # `_run` raises it: there the reader gets the error
            self._raised = raised
            return True

    def _run(self) -> None:
        assert self._has_run is not None
        self._thread = threading.get_ident()
        try:
            error = self._ended(self._failure())
            if error is None:
                self.results.end()
            else:
                self.results.abort(error)
        finally:
            self._has_run.set()

    def _ended(self, error: QueryError | None) -> QueryError | None:
        """Note the end; return the error that the reader gets."""
        self.lifecycle.end(error)
        return error

    def _failure(self) -> QueryError | None:
        """Run to the end; return the error that ended it, None if it finished."""
        error: QueryError | None = None
        try:
            self._execute()
        except Exception as raised:  # the end of the thread: the reader gets the error
            error = self.lifecycle.failure
            if error is None:
                error = _gone_or(query_error_of(raised), self.plan.databases)
                error = with_key_hint(error, self.plan)
                error.__cause__ = error.__cause__ or (None if error is raised else raised)
            _clear_frames(raised)
        if self._execution is not None:
            self._execution.close()
            self._progress = self._execution.progress
        self._execution = None
        return error

    def _cancel_execution(self, failure: QueryError) -> None:
        execution = self._execution
        if execution is not None:
            # A copy: the reader raises the error, too, and its traceback would keep the engine's frames alive.
            execution.cancel(copy.copy(failure))

    def _execute(self) -> None:
        execution, reader = self._opened()
        self.results.open(execution.columns, reader.schema)
        for batch in reader:
            self._put(self._explained(batch))
            if self.truncated:
                return

    def _opened(self) -> tuple[Execution, pa.RecordBatchReader]:
        """Open the plan on the engine, or on the fallback."""
        try:
            return self._opened_by(self._engine)
        except (EngineUnavailableError, EngineRefusesError) as error:
            # A cancel looks like an engine that is gone.
            if self._fallback is None or self.lifecycle.failure is not None or self._execution is None:
                raise
            self._execution.close()
            self.engine = self._fallback.name
            self.engine_reason = f"{self.engine_reason}; but {error.message}"
        return self._opened_by(self._fallback)

    def _opened_by(self, engine: Engine) -> tuple[Execution, pa.RecordBatchReader]:
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        has_begun, self._has_begun = self._has_begun, False
        execution = self._execution if has_begun else None
        if execution is None:
            execution = self._new_execution(engine)
        self.lifecycle.check_not_cancelled()
        reader = execution.open()
        if execution.remark:
            self.engine_reason = f"{self.engine_reason}; {execution.remark}"
        return execution, reader

    def _new_execution(self, engine: Engine) -> Execution:
        self._execution = engine.execution(self.plan, self.request.max_rows)
        return self._execution

    def _explained(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Put the engine and what it reads before the engine's plan; other rows stay as they are."""
        if not self.plan.prefix.startswith("EXPLAIN"):
            return batch
        *names, texts = batch.columns
        head = f"engine: {self.engine}\nreason: {self.engine_reason}\n"
        head += "".join(f"reads: {scan.text()}\n" for scan in self.explanation or ())
        explained = pa.array([f"{head}{text}" for text in texts.to_pylist()], texts.type)
        return pa.RecordBatch.from_arrays([*names, explained], schema=batch.schema)

    def _put(self, batch: pa.RecordBatch) -> None:
        """Hand on the rows that the reader may get."""
        max_rows = self.request.max_rows
        left = batch.num_rows if max_rows is None else max_rows - self.row_count
        self.truncated = batch.num_rows > left
        kept = batch.slice(0, max(left, 0))
        self.row_count += kept.num_rows
        if kept.num_rows and not self.results.put(kept, _STALLED_AFTER_S):
            self._put_later(kept)

    def _put_later(self, batch: pa.RecordBatch) -> None:
        """Hand on rows that have no room before somebody reads."""
        while not self.results.put(batch, CHECK_EVERY_S):
            self.check(time.monotonic())


def _gone_or(error: QueryError, databases: tuple[Database, ...]) -> QueryError:
    """Return SAVEPOINT_GONE if Flink has removed a savepoint since the query was planned, otherwise the error itself."""
    if error.code in _GONE_CODES:
        gone = [f'"{database.name}"' for database in databases if database.is_gone]
        if gone:
            return SavepointError(
                f"savepoint {', '.join(gone)} was removed while the query ran",
                hint="SHOW SCHEMAS lists those that are there",
                detail=error.detail,
                code="SAVEPOINT_GONE",
                status=410,
            )
    return error


def _clear_frames(error: BaseException) -> None:
    """Release what the frames of an error hold, such as the engine's rows: somebody may keep the error for long."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        cause = pending.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            traceback.clear_frames(cause.__traceback__)
            pending += [cause.__cause__, cause.__context__]
