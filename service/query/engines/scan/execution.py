"""Reads a scan, and keeps the rows that meet the conditions: with the functions of Arrow that DuckDB's filters would call.

`ScanEngine`: short statements, read where the local engine runs its queries, and without it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from catalog import CatalogError
from readers import ReaderError
from service.base.errors import EngineRefusesError, QueryCancelledError, QueryError, query_error_of
from service.base.settings import Settings
from service.query.engines.engine import Engine, Execution, Progress
from service.query.engines.parallel import SplitCount, read_splits
from service.query.engines.scan.work import ScanWork
from service.query.sql.plan import Comparison, Plan, unread_files


class ScanExecution(Execution):
    """A short statement, in this process.

    Args:
        work: the statement and its scan.
    """

    def __init__(self, work: ScanWork) -> None:
        self._work = work
        self.columns = work.answer_columns
        self._count = SplitCount()
        self._failure: QueryError | None = None
        self._batches: Generator[pa.RecordBatch] | None = None

    @property
    def progress(self) -> Progress:
        """Progress of the scan; see `Execution`."""
        scan = self._work.scan
        return Progress(
            bytes_read=scan.bytes_read,
            bytes_total=scan.bytes_total,
            bytes_cached=scan.bytes_cached,
            cache_hits=int(scan.is_cached),
            rows_read=self._count.rows,
            splits_read=self._count.splits,
            splits_total=len(scan.splits),
            incomplete=tuple(unread_files(self._work.title, scan.counter.failures)),
        )

    def open(self) -> pa.RecordBatchReader:
        """Implement `Execution.open`."""
        self._check()
        self._batches = self._rows()
        return pa.RecordBatchReader.from_batches(self._work.schema, self._batches)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as the reader of `open` does.

        Raises:
            QueryError: a file cannot be read, or the query was cancelled.
        """
        self._check()
        self._batches = self._rows()
        return self._batches

    def cancel(self, error: QueryError) -> None:
        """Implement `Execution.cancel`."""
        self._failure = self._failure or error

    def close(self) -> None:
        """Implement `Execution.close`."""
        self.cancel(QueryCancelledError("the query was closed"))
        if self._batches is not None:
            # The Arrow reader holds the generator, and the generator this execution.
            self._batches.close()

    def _rows(self) -> Generator[pa.RecordBatch]:
        work = self._work
        left = work.limit
        started = time.monotonic()
        work.scan.counter.on_check(self._check)
        try:
            for batch in read_splits(work.scan, 1, self._check, self._count):
                kept = _kept(batch, work.conditions)
                if left is not None:
                    kept = kept.slice(0, left)
                    left -= kept.num_rows
                if kept.num_rows:
                    arrays = [kept.column(name) for name in work.columns]
                    yield pa.RecordBatch.from_arrays(arrays, schema=work.schema)
                if left == 0:
                    return
            work.scan.completed(time.monotonic() - started)
        except QueryError:
            raise
        except Exception as error:
            raise query_error_of(error) from error

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def _kept(batch: pa.RecordBatch, conditions: tuple[Comparison, ...]) -> pa.RecordBatch:
    """Return the rows of a batch for which all conditions are true, not false and not NULL."""
    for condition in conditions:
        array = batch.column(condition.column)
        if condition.sign == "IN":
            mask = pc.is_in(array, pa.array(condition.values, array.type))
        else:
            compare = getattr(pc, _COMPARISONS[condition.sign])
            mask = compare(array, pa.scalar(condition.values[0], array.type))
        batch = batch.filter(mask)
    return batch


# Names, and not functions: Arrow's functions are loaded by the first statement that compares (`service.base.process.arrow`).
_COMPARISONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


class NotShortError(EngineRefusesError, code="NOT_A_LOOKUP"):
    """A statement that a scan does not answer: it is more than columns and conditions of some keys of one table."""


class ScanEngine(Engine):
    """Answers short statements from the scan itself.

    Args:
        settings: of the service.
        local: the local engine: in its processes the scans are read.
    """

    name = "scan"

    def __init__(self, settings: Settings, local: Engine) -> None:
        self._local = local

    @property
    def notice(self) -> str:
        """Implement `Engine.notice`."""
        return self._local.notice

    def refusal(self, plan: Plan) -> QueryError | None:
        """Implement `Engine.refusal`."""
        if plan.short is not None:
            return None
        return NotShortError(
            "expected columns and conditions of one table, with keys, found another statement",
            hint="leave the choice of the engine to the service",
        )

    def execution(self, plan: Plan, max_rows: int | None = None) -> Execution:
        """Implement `Engine.execution`."""
        refusal = self.refusal(plan)
        if refusal is not None:
            raise refusal
        try:
            work = ScanWork.of(plan)
        except (CatalogError, ReaderError) as error:
            raise query_error_of(error) from error
        return self._local.reading(work) or ScanExecution(work)

    def close(self) -> None:
        """Implement `Engine.close`; the local engine has its own owner."""
