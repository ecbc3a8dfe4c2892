"""Runs a plan on an engine, in a thread of the query, and puts the rows into its `ResultBuffer`."""

from __future__ import annotations

import copy
import threading
import time
import traceback

import pyarrow as pa

from catalog import Database
from service.base.errors import (
    EngineRefusesError,
    EngineUnavailableError,
    QueryError,
    SavepointError,
    query_error_of,
)
from service.query.engines.engine import Engine, Execution, Progress
from service.query.serving.keyhints import with_key_hint
from service.query.serving.lifecycle import Lifecycle
from service.query.serving.results import ResultBuffer
from service.query.serving.slots import Slots, Ticket
from service.query.sql.explain import Explanation
from service.query.sql.plan import Plan

_STALLED_AFTER_S = 0.5
_CHECK_EVERY_S = 0.1
_GONE_CODES = frozenset({"MISSING_FILE", "NOT_A_SAVEPOINT", "SAVEPOINT_GONE"})


class Runner:
    """The running part of one query.

    Args:
        plan: the query to run.
        max_rows: most rows; None for all.
        engine: the engine to run it on.
        engine_reason: why this engine.
        fallback: the engine that takes over if that one refuses or is gone; None if the request names its engine.
        explanation: what the query reads, for EXPLAIN.
        results: takes the rows.
        slots: where the query has its slot.
        ticket: the query's ticket for the slots.
        lifecycle: of the query.

    Attributes:
        engine: the name of the engine that runs, or ran.
        engine_reason: why this engine.
        row_count: rows so far.
        truncated: True if there are more than `max_rows`.
        blocked_since: since when the thread waits for room in the results, by the monotonic clock; None if it does not.
    """

    def __init__(
        self,
        *,
        plan: Plan,
        max_rows: int | None,
        engine: Engine,
        engine_reason: str,
        fallback: Engine | None,
        explanation: Explanation | None,
        results: ResultBuffer,
        slots: Slots,
        ticket: Ticket,
        lifecycle: Lifecycle,
    ) -> None:
        self.engine = engine.name
        self.engine_reason = engine_reason
        self.row_count = 0
        self.truncated = False
        self.blocked_since: float | None = None
        self._plan = plan
        self._max_rows = max_rows
        self._engine = engine
        self._fallback = fallback
        self._explanation = explanation
        self._results = results
        self._slots = slots
        self._ticket = ticket
        self._lifecycle = lifecycle
        self._resumed = threading.Event()
        self._progress = Progress()
        self._execution: Execution | None = None
        self._has_begun = False
        self._raised: Exception | None = None

    @property
    def progress(self) -> Progress:
        """Progress of the reading."""
        execution = self._execution
        return self._progress if execution is None else execution.progress

    def begin(self, timeout_s: float) -> bool:
        """Begin in this thread, and wait a little; return True if `run` does not wait any more, so that it needs no other thread."""
        self._has_begun = True
        try:
            return self._new_execution(self._engine).begin(timeout_s)
        except Exception as raised:  # `run` raises it: there the client gets the error
            self._raised = raised
            return True

    def run(self) -> QueryError | None:
        """Run to the end; return the error that ended the query, None if it finished."""
        error: QueryError | None = None
        try:
            self._execute()
        except Exception as raised:  # the end of the thread: the client gets the error
            error = self._lifecycle.failure
            if error is None:
                error = _gone_or(query_error_of(raised), self._plan.databases)
                error = with_key_hint(error, self._plan)
                error.__cause__ = error.__cause__ or (None if error is raised else raised)
            _clear_frames(raised)
        if self._execution is not None:
            self._execution.close()
            self._progress = self._execution.progress
        self._execution = None
        self.blocked_since = None
        return error

    def cancel(self, failure: QueryError) -> None:
        """Cancel the execution, if there is one. Call it repeatedly: an engine may miss a cancel while it starts."""
        execution = self._execution
        if execution is not None:
            # A copy: the reader raises the error, too, and its traceback would keep the engine's frames alive.
            execution.cancel(copy.copy(failure))

    def resume(self) -> None:
        """Wake the thread up, because it has a slot again or the query is cancelled."""
        self._resumed.set()

    def _execute(self) -> None:
        execution, reader = self._opened()
        self._results.open(execution.columns, reader.schema)
        for batch in reader:
            self._put(self._explained(batch))
            if self.truncated:
                return

    def _opened(self) -> tuple[Execution, pa.RecordBatchReader]:
        """Open the query on the engine, or on the fallback."""
        try:
            return self._opened_by(self._engine)
        except (EngineUnavailableError, EngineRefusesError) as error:
            # A cancel looks like an engine that is gone.
            if self._fallback is None or self._lifecycle.failure is not None or self._execution is None:
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
        self._lifecycle.check_not_cancelled()
        reader = execution.open()
        if execution.remark:
            self.engine_reason = f"{self.engine_reason}; {execution.remark}"
        return execution, reader

    def _new_execution(self, engine: Engine) -> Execution:
        execution = self._execution = engine.execution(self._plan, self._max_rows)
        execution.is_long = self._ticket.counts_as_large(time.monotonic())
        return execution

    def _explained(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Put the engine and what it reads before the engine's plan; other rows stay as they are."""
        if not self._plan.prefix.startswith("EXPLAIN"):
            return batch
        *names, texts = batch.columns
        head = f"engine: {self.engine}\nreason: {self.engine_reason}\n"
        head += self._explanation.text() if self._explanation is not None else ""
        explained = pa.array([f"{head}{text}" for text in texts.to_pylist()], texts.type)
        return pa.RecordBatch.from_arrays([*names, explained], schema=batch.schema)

    def _put(self, batch: pa.RecordBatch) -> None:
        """Hand on the rows that the client may get; wait without a slot while nobody reads."""
        left = batch.num_rows if self._max_rows is None else self._max_rows - self.row_count
        self.truncated = batch.num_rows > left
        kept = batch.slice(0, max(left, 0))
        self.row_count += kept.num_rows
        if not kept.num_rows or self._results.put(kept, _STALLED_AFTER_S):
            return
        self._resumed.clear()
        self.blocked_since = time.monotonic()
        is_paused = self._slots.pause(self._ticket)
        while not self._results.put(kept, _CHECK_EVERY_S):
            self._lifecycle.check_not_cancelled()
            # Only so many may pause, and another one may have gone on.
            is_paused = is_paused or self._slots.pause(self._ticket)
        self.blocked_since = None
        if is_paused and not self.truncated:
            self._slots.enter_again(self._ticket)
            self._resumed.wait()
        self._lifecycle.check_not_cancelled()


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
    """Release what the frames of an error hold, such as the engine's rows: the history keeps the error for long."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        cause = pending.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            traceback.clear_frames(cause.__traceback__)
            pending += [cause.__cause__, cause.__context__]
