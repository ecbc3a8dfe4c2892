"""The seam between queries and engines, and the simplest engine: the scan itself.

`Engine` runs plans, an `Execution` is one plan that runs. A query takes an `Execution` from its engine, opens it, reads it, and
closes it. `cancel` may come at any time, from any thread; then `open` or the reader raises the error that `cancel` was given.
`LaterEngine` is opened at its first use: to load its modules may take longer than all else that a command does.

`ScanEngine` answers short statements (`service.query.sql.short`), which need no other engine: it keeps the rows that meet the
conditions, by the functions of Arrow that DuckDB's filters would call. A `ScanWork` travels to the process that reads.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from catalog import CatalogError, Scan
from catalog.references import SavepointReference
from readers import ReaderError, TemporaryFolder, sql_type
from service.base.errors import (
    EngineRefusesError,
    EngineUnavailableError,
    QueryCancelledError,
    QueryError,
    query_error_of,
    translated,
)
from service.base.settings import Settings
from service.query.encode.formats import Column
from service.query.engines.parallel import SplitCount, read_splits
from service.query.sql.plan import Comparison, Plan, ShortStatement, UnreadFile, unread_files
from service.query.sql.short import identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of an execution, over all scans that it has started.

    Attributes:
        bytes_read: bytes of savepoints.
        bytes_total: estimate of the bytes of savepoints that it reads to its end.
        bytes_cached: bytes that came from the cache of decoded states.
        cache_hits: scans that found something in the cache.
        rows_read: rows that the scans returned; None if not known.
        splits_read: splits that were read to their end; None if not known.
        splits_total: splits of the scans; None if not known.
        incomplete: files whose reading ended in an error, if the plan allows that.
    """

    bytes_read: int = 0
    bytes_total: int = 0
    bytes_cached: int = 0
    cache_hits: int = 0
    rows_read: int | None = None
    splits_read: int | None = None
    splits_total: int | None = None
    incomplete: tuple[UnreadFile, ...] = ()

    @classmethod
    def of(
        cls, scans: Sequence[Scan], counts: Iterable[SplitCount], incomplete: Iterable[UnreadFile]
    ) -> Progress:
        """Return the progress of scans, of which some counts are known."""
        known = list(counts)
        return cls(
            bytes_read=sum(scan.bytes_read for scan in scans),
            bytes_total=sum(scan.bytes_total for scan in scans),
            bytes_cached=sum(scan.bytes_cached for scan in scans),
            cache_hits=sum(scan.is_cached for scan in scans),
            rows_read=sum(count.rows for count in known),
            splits_read=sum(count.splits for count in known),
            splits_total=sum(len(scan.splits) for scan in scans),
            incomplete=tuple(dict.fromkeys(incomplete)),
        )


class Execution(Protocol):
    """A plan that runs, once.

    Attributes:
        is_long: whether the query reads so much that it runs behind all others, if the engine has priorities; set
            before `open`.
        columns: the columns of the answer; known after `open`.
        remark: a note on how the plan runs, for the reason of the choice; known after `open`, empty for none.
    """

    is_long: bool = False
    columns: tuple[Column, ...] = ()
    remark: str = ""

    @property
    def progress(self) -> Progress:
        """Progress of the execution; any thread may ask, also after `close`."""

    def begin(self, timeout_s: float) -> bool:
        """Begin before `open`, and wait a little; return True if the whole answer is there, so that `open` does not wait.

        If it is not there, another thread may call `open`.

        Raises:
            QueryError: it failed; then `open` is not called.
        """
        return False

    def open(self) -> pa.RecordBatchReader:
        """Start; return when the first rows are there. The reader raises QueryError as `open` does.

        Raises:
            EngineRefusesError: the engine does not answer the statement; the local engine does.
            QueryError: the statement means nothing to the engine, or it failed.
        """

    def cancel(self, error: QueryError) -> None:
        """End the execution as soon as possible with this error. May be called again until it has ended."""

    def close(self) -> None:
        """Release everything; ends the execution if it has not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The machines on which an engine runs, if it does not run on this one.

    Attributes:
        address: for people; without credentials.
        threshold_bytes: a plan that reads more belongs there; None for the memory of this machine.
    """

    address: str
    threshold_bytes: int | None = None


class Engine(Protocol):
    """Runs plans, many at a time."""

    @property
    def name(self) -> str:
        """The name in requests and in `service.query.engines.registry`."""

    @property
    def cluster(self) -> Cluster | None:
        """The cluster on which the engine runs; None for this machine."""
        return None

    @property
    def notice(self) -> str:
        """A sentence on what all queries wait for at present; empty for nothing."""
        return ""

    def refusal(self, plan: Plan) -> QueryError | None:
        """Return why the engine does not answer a plan, as far as it knows without running it; None if it does."""
        return None

    def execution(self, plan: Plan, max_rows: int | None = None) -> Execution:
        """Return a new execution of this plan, not yet started.

        Args:
            plan: what runs.
            max_rows: rows of the answer that the query keeps, None for all. The query needs one more to know that the
                answer is cut off, and drops what comes after that, so an engine that fetches rows before they are read
                may stop there.
        """

    def reading(self, work: ScanWork) -> Execution | None:
        """Return the execution that reads the scan of a short statement, where this engine's queries run; None for this process."""
        return None

    def work(self, parcels: Sequence[bytes], source: SavepointReference) -> list[bytes]:
        """Do the work of parcels of the writers, and return their answers in the same order.

        Args:
            parcels: see `writers.done`.
            source: the savepoint that is changed, for other machines.

        Raises:
            QueryError: the engine has no machines for it, or they are gone.
        """
        raise EngineUnavailableError(f"the engine {self.name} writes no savepoints")

    def close(self) -> None:
        """Release everything; no execution may be open."""


def task_folder(parent: str) -> TemporaryFolder:
    """Return a folder for one task of a client.

    Raises:
        EngineUnavailableError: it cannot be made.
    """
    try:
        return TemporaryFolder(parent)
    except OSError as error:
        raise EngineUnavailableError(f"expected a folder for temporary files: {error.strerror}") from error


class LaterEngine(Engine):
    """An engine that nothing but a query of its own asks for: it has no cluster.

    Args:
        name: of the engine.
        opened: opens it.
    """

    def __init__(self, name: str, opened: Callable[[], Engine]) -> None:
        self._name = name
        self._open = opened
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    @property
    def name(self) -> str:
        """The name of the engine; see `Engine`."""
        return self._name

    def refusal(self, plan: Plan) -> QueryError | None:
        """Implement `Engine.refusal`."""
        return self._opened().refusal(plan)

    def execution(self, plan: Plan, max_rows: int | None = None) -> Execution:
        """Implement `Engine.execution`."""
        return self._opened().execution(plan, max_rows)

    def work(self, parcels: Sequence[bytes], source: SavepointReference) -> list[bytes]:
        """Implement `Engine.work`."""
        return self._opened().work(parcels, source)

    def close(self) -> None:
        """Implement `Engine.close`."""
        with self._lock:
            if self._engine is not None:
                self._engine.close()

    def _opened(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = self._open()
            return self._engine


# No slots: a cached property needs a dictionary.
@dataclass(frozen=True, kw_only=True)
class ScanWork:
    """A short statement over the scan of its table; pickles.

    Attributes:
        title: of the table, for errors.
        scan: of the columns that the statement reads.
        statement: the statement.
    """

    title: str
    scan: Scan
    statement: ShortStatement

    @classmethod
    def of(cls, plan: Plan) -> ScanWork:
        """Return the work of the plan of a short statement.

        Raises:
            ReaderError: a state file cannot be opened.
        """
        assert plan.short is not None
        (reference,) = plan.tables
        scan = reference.scan.narrowed(reference.columns)
        return cls(title=reference.title, scan=scan, statement=plan.short)

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the answer."""
        columns = map(self.scan.schema.field, self.statement.columns)
        fields = zip(self.statement.names, columns, strict=True)
        return pa.schema([(name, field.type) for name, field in fields])

    def content(self) -> bytes:
        """Return it as bytes."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)


class ScanExecution(Execution):
    """A short statement, in this process.

    Args:
        work: the statement and its scan.
    """

    def __init__(self, work: ScanWork) -> None:
        self._work = work
        self.columns = tuple(Column(field.name, sql_type(field.type, identifier)) for field in work.schema)
        self._count = SplitCount()
        self._failure: QueryError | None = None
        self._batches: Generator[pa.RecordBatch] | None = None

    @property
    def progress(self) -> Progress:
        """Progress of the scan; see `Execution`."""
        work = self._work
        unread = unread_files(work.title, work.scan.counter.failures)
        return Progress.of([work.scan], [self._count], unread)

    def open(self) -> pa.RecordBatchReader:
        """Implement `Execution.open`."""
        return pa.RecordBatchReader.from_batches(self._work.schema, self.rows())

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
        work, statement = self._work, self._work.statement
        left = statement.limit
        started = time.monotonic()
        work.scan.counter.on_check(self._check)
        try:
            for batch in read_splits(work.scan, 1, self._check, self._count):
                kept = _kept(batch, statement.conditions)
                if left is not None:
                    kept = kept.slice(0, left)
                    left -= kept.num_rows
                if kept.num_rows:
                    arrays = [kept.column(name) for name in statement.columns]
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


# Names, and not functions: Arrow's functions are loaded by the first statement that compares (`service.base.machine`).
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
        with translated(CatalogError, ReaderError):
            work = ScanWork.of(plan)
        return self._local.reading(work) or ScanExecution(work)

    def close(self) -> None:
        """Implement `Engine.close`; the local engine has its own owner."""
