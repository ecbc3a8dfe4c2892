"""`Session`: plans statements over a catalog, chooses their engines, and runs them, for one caller.

    with closing(Session(catalog, engines, settings)) as session, session.start(QueryRequest(sql="SELECT …")) as run:
        for batch in run.batches():
            …

The choice of an engine for a query, or for the work of a write, whose request names none: the local engine answers what this
machine can read. It needs no start, it is many times as fast as a cluster engine on the same machine, and it spills what does not
fit into memory. So a cluster engine answers only if it has a cluster and the plan reads more, after pruning, than this machine
should: more than the engine's threshold, or more than the memory of the machine. The local engine keeps what the cluster engine
refuses, whatever its size. What a scan answers itself needs neither.

A `QueryGroup` has the runs that one caller started for one purpose, and that end together; `FirstRows` are what a report about a
savepoint shows of a question.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import orjson
import pyarrow as pa

from catalog import Catalog, CatalogError, Database
from readers import ReaderError
from service.base import machine
from service.base.errors import (
    InvalidRequestError,
    QueryCancelledError,
    SavepointError,
    ScanLimitExceededError,
    TableNotFoundError,
    query_error_of,
)
from service.base.settings import Settings
from service.query.encode import counted, json_rows, table_lines
from service.query.encode.formats import Column
from service.query.encode.table import size_text
from service.query.engines.engine import Cluster, Engine
from service.query.engines.registry import (
    AUTO,
    Role,
    engines_of,
    local_engine,
    title_of,
    titles_of,
    work_choices,
)
from service.query.running.request import Origin, QueryRequest
from service.query.running.run import Prepared, ResultBuffer, Run
from service.query.sql.plan import Plan, explanation_of


@dataclass(frozen=True, slots=True)
class Choice:
    """The name of an engine, and the reason for the choice, for people."""

    engine: str
    reason: str


def choose(plan: Plan, size_bytes: int, engines: Mapping[str, Engine], memory_bytes: int) -> Choice:
    """Choose the engine for a plan.

    Args:
        plan: what is to run.
        size_bytes: bytes that it reads, after pruning.
        engines: the open engines, by name.
        memory_bytes: memory of this machine.
    """
    reason = f"it runs on this machine and needs no start, and no {titles_of(Role.CLUSTER)} cluster is set"
    for engine, cluster in _clusters(engines):
        is_more, reason = _compared(size_bytes, cluster, memory_bytes)
        if not is_more:
            continue
        # Asked last: to translate a statement takes longer than to compare sizes.
        refusal = engine.refusal(plan)
        if refusal is None:
            return Choice(engine.name, f"{reason}: {title_of(engine.name)} at {cluster.address}")
        reason = f"{reason}, but {refusal.message}"
    if plan.short is not None:
        for registered in engines_of(Role.SCAN):
            if registered.name in engines:
                return Choice(registered.name, "it looks up keys of one table, so it needs no engine")
    return Choice(local_engine().name, reason)


def choose_for_work(size_bytes: int, engines: Mapping[str, Engine], memory_bytes: int) -> Engine | None:
    """Choose the engine for the work of a write; return None for this process.

    Args:
        size_bytes: bytes that are read to make the state that changes.
        engines: the open engines, by name.
        memory_bytes: memory of this machine.
    """
    for engine, cluster in _clusters(engines):
        is_more, _ = _compared(size_bytes, cluster, memory_bytes)
        if is_more:
            return engine
    return None


def _clusters(engines: Mapping[str, Engine]) -> Iterator[tuple[Engine, Cluster]]:
    """Yield the open engines that have a cluster, with it."""
    for registered in engines_of(Role.CLUSTER):
        engine = engines.get(registered.name)
        if engine is not None and engine.cluster is not None:
            yield engine, engine.cluster


def _compared(size_bytes: int, cluster: Cluster, memory_bytes: int) -> tuple[bool, str]:
    """Return whether a size is more than this machine should read, and a text that says so."""
    limit_bytes = memory_bytes if cluster.threshold_bytes is None else cluster.threshold_bytes
    limit = "the memory of this machine" if cluster.threshold_bytes is None else "the threshold"
    is_more = size_bytes > limit_bytes
    than = "more than" if is_more else "not more than"
    return is_more, f"{size_text(size_bytes)} to read, {than} {limit}, {size_text(limit_bytes)}"


class Session:
    """Statements over a catalog. Safe to share between threads.

    Args:
        catalog: the databases that they read.
        engines: by name; the local one among them. They are closed with the session.
        settings: their limits.

    Attributes:
        catalog: the databases that they read.
    """

    def __init__(self, catalog: Catalog, engines: Mapping[str, Engine], settings: Settings) -> None:
        self.catalog = catalog
        self._engines = engines
        self._settings = settings
        # Who reads by scans alone, or writes, may have none.
        self._local = engines.get(local_engine().name)
        self._scan = next((engines.get(engine.name) for engine in engines_of(Role.SCAN)), None)
        self._memory_bytes = machine.memory_bytes()
        self._lock = threading.Lock()
        self._runs: weakref.WeakSet[Run] = weakref.WeakSet()
        # The garbage collector may close what is being closed by the same thread.
        self._closing = threading.RLock()
        self._is_closed = False
        # An engine that is still open when the interpreter ends complains on standard error.
        atexit.register(self.close)

    def start(self, request: QueryRequest) -> Run:
        """Plan a statement and run it.

        Raises:
            QueryError: the statement means nothing or is not allowed.
        """
        prepared = self._prepared(request, self._timeout_s(request))
        run = Run(request, prepared, ResultBuffer(self._settings.queries.result_buffer_bytes))
        with self._lock:
            self._runs.add(run)
        run.start()
        return run

    def worker(self, name: str, size_bytes: int) -> Engine | None:
        """Return the engine that does the work of a write; None for this process.

        Args:
            name: what the request names: one of `work_choices`.
            size_bytes: bytes that are read to make the state that changes.

        Raises:
            InvalidRequestError: there is no such engine.
        """
        if name not in work_choices():
            raise InvalidRequestError(
                f"expected an engine, found {name!r:.100}", hint=f"engines are {', '.join(work_choices())}"
            )
        if name == AUTO:
            return choose_for_work(size_bytes, self._engines, self._memory_bytes)
        return self._engines.get(name)

    def close(self) -> None:
        """End all that runs and close the engines; where another thread does, wait for it.

        The interpreter must not end while a thread closes an engine: it would abort the process.
        """
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            self._end()
            for engine in self._engines.values():
                engine.close()
        atexit.unregister(self.close)

    def _end(self) -> None:
        with self._lock:
            left: list[Run] = list(self._runs)
        # All are cancelled before the first is waited for.
        for run in left:
            run.cancel()
        for run in left:
            run.close()

    def _timeout_s(self, request: QueryRequest) -> float:
        """Return how long a statement may take.

        Raises:
            InvalidRequestError: the request has limits or an engine that there are not.
        """
        if request.max_rows is not None and request.max_rows < 0:
            raise InvalidRequestError(f"expected max_rows of 0 or more, found {request.max_rows}")
        timeout_s = self._settings.queries.timeout_s if request.timeout_s is None else request.timeout_s
        if not timeout_s > 0:
            raise InvalidRequestError(f"expected timeout_s above 0, found {timeout_s}")
        if request.engine not in (AUTO, *self._engines):
            raise InvalidRequestError(
                f"expected an engine, found {request.engine!r}",
                hint=f"engines are {', '.join([AUTO, *self._engines])}",
            )
        return min(timeout_s, self._settings.queries.max_timeout_s)

    def _prepared(self, request: QueryRequest, timeout_s: float) -> Prepared:
        """Plan a statement, and choose its engine.

        Raises:
            QueryError: the statement means nothing or is not allowed.
        """
        # Before planning: the headers of a large savepoint take their time, too.
        started = time.monotonic()
        try:
            visible = request.principal.part_of(self.catalog, request.catalog)
            limits = self._settings.queries
            plan = request.plan(
                visible, limits.max_sql_bytes, limits.compat, may_be_short=self._scan is not None
            )
            if (request.explain or request.describe) and not plan.prefix:
                plan = replace(plan, prefix="EXPLAIN" if request.explain else "DESCRIBE")
            size_bytes = plan.size_bytes
            origins = tuple(map(Origin.of, plan.databases))
            explanation = explanation_of(plan) if plan.prefix.startswith("EXPLAIN") else None
        except (CatalogError, ReaderError) as error:
            raise query_error_of(error) from error
        self._check_scan(size_bytes, request)
        if request.engine == AUTO:
            choice = choose(plan, size_bytes, self._engines, self._memory_bytes)
            engine, reason = self._engines[choice.engine], choice.reason
        else:
            engine, reason = self._engines[request.engine], "the request names it"
        is_replaceable = request.engine == AUTO and engine not in (self._local, self._scan)
        return Prepared(
            plan=plan if engine is self._scan else plan.in_full(),
            size_bytes=size_bytes,
            origins=origins,
            explanation=explanation,
            engine=engine,
            engine_reason=reason,
            fallback=self._local if is_replaceable else None,
            started=started,
            timeout_s=timeout_s,
        )

    def _check_scan(self, size_bytes: int, request: QueryRequest) -> None:
        limits = (self._settings.queries.max_scan_bytes or None, request.max_bytes)
        limit = min((limit for limit in limits if limit is not None), default=None)
        if limit is not None and size_bytes > limit:
            raise ScanLimitExceededError(
                f"expected a query that reads at most {limit} bytes, found one of {size_bytes}",
                hint="ask for single keys, or for fewer tables",
            )


Started = TypeVar("Started", bound=Run)


class QueryGroup(Generic[Started]):
    """The runs of one call. Safe to share between threads: one starts them and waits, another may cancel them.

    Args:
        start: starts one.

    Attributes:
        started: those that were started.
    """

    def __init__(self, start: Callable[[QueryRequest], Started]) -> None:
        self.started: list[Started] = []
        self._start = start
        self._lock = threading.Lock()
        self._is_cancelled = False

    def start(self, request: QueryRequest) -> Started:
        """Start a statement.

        Raises:
            QueryError: the statement means nothing, or the call is cancelled.
        """
        run = self._start(request)
        with self._lock:
            self.started.append(run)
            is_late = self._is_cancelled
        if is_late:
            run.close()
            raise QueryCancelledError("the call was cancelled")
        return run

    def cancel(self) -> None:
        """Cancel those that still run; no other starts."""
        with self._lock:
            self._is_cancelled = True
        for run in self.started:
            run.cancel()

    def bytes_read(self) -> tuple[int, int]:
        """Return how many bytes of savepoints were read, and about how many are read in all."""
        with self._lock:
            found = [run.progress for run in self.started]
        return sum(one.bytes_read for one in found), sum(one.bytes_total for one in found)


# A report is read by people: a value of megabytes says no more there than its beginning.
_MOST_CHARACTERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """The first rows of an answer.

    Attributes:
        columns: names and SQL types.
        batch: the rows that are kept.
        row_count: the rows that were counted.
        is_cut: True if there are more than were counted.
    """

    columns: tuple[Column, ...]
    batch: pa.RecordBatch
    row_count: int
    is_cut: bool

    @property
    def count_text(self) -> str:
        """The number of rows, for people."""
        if not self.row_count:
            return "no row"
        more = "more than " if self.is_cut else ""
        return f"{more}{counted(self.row_count, 'row')}"

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield the kept rows as lines of a table, and a line that counts the others.

        Args:
            width: characters per line of the screen; None for lines of any length.
        """
        yield from table_lines(self.columns, self.batch.schema, [self.batch], width, whole=width is None)
        others = self.row_count - self.batch.num_rows
        if others > 0:
            yield f"… and {'more than ' if self.is_cut else ''}{others:,} more"

    def to_dict(self) -> dict[str, Any]:
        """Return the columns, the kept rows and the count as values that are JSON; long texts are cut."""
        rows = [_shortened(orjson.loads(row)) for row in json_rows(self.columns, self.batch)]
        return {
            "columns": [{"name": column.name, "type": column.type} for column in self.columns],
            "rows": rows,
            "row_count": self.row_count,
            "is_cut": self.is_cut,
        }


def describe_in_any(
    start: Callable[[QueryRequest], Run], request: QueryRequest, databases: Iterable[Database]
) -> None:
    """Describe a statement in the first database that has its tables; of those that are alike only one is asked.

    Args:
        start: starts it.
        request: the statement; its schema is replaced.
        databases: where it is looked for, in this order; at least one.

    Raises:
        QueryError: the statement means nothing, is not allowed, or no database has its tables: the error of the first one.
        ReaderError: none can be read.
    """
    unreadable: list[ReaderError | SavepointError] = []
    lacking: list[TableNotFoundError] = []
    asked: set[Hashable] = set()
    for database in databases:
        try:
            likeness = database.likeness()
            if likeness not in asked:
                asked.add(likeness)
                start(replace(request, schema=database.name, describe=True)).close()
                return
        except TableNotFoundError as error:
            lacking.append(error)
        except (ReaderError, SavepointError) as error:
            unreadable.append(error)
    raise (lacking or unreadable)[0]


def first_rows(
    start: Callable[[QueryRequest], Run], request: QueryRequest, *, kept: int, counted: int
) -> FirstRows:
    """Run a query and return its first rows; it ends when enough rows are counted.

    Args:
        start: starts it.
        request: the query; its `max_rows` is replaced.
        kept: most rows to keep.
        counted: most rows to count, at least as many.

    Raises:
        QueryError: the statement means nothing, is not allowed, or fails.
    """
    with start(replace(request, max_rows=counted)) as query:
        columns, schema = query.columns, query.schema
        pieces: list[pa.RecordBatch] = []
        missing, row_count = kept, 0
        for batch in query.batches():
            row_count += batch.num_rows
            if missing and batch.num_rows:
                piece = batch.slice(0, missing)
                # A slice would keep the whole batch in memory, however few of its rows are wanted.
                pieces.append(piece.take(pa.array(range(piece.num_rows), pa.int32())))
                missing -= piece.num_rows
        table = pa.Table.from_batches(pieces) if pieces else schema.empty_table()
        return FirstRows(
            columns=columns, batch=_one_batch(table), row_count=row_count, is_cut=query.truncated
        )


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _shortened(value: Any) -> Any:
    """Cut long texts in a value that is JSON."""
    if isinstance(value, str):
        return value if len(value) <= _MOST_CHARACTERS else f"{value[:_MOST_CHARACTERS]}…"
    if isinstance(value, list):
        return [_shortened(one) for one in value]
    if isinstance(value, dict):
        return {key: _shortened(one) for key, one in value.items()}
    return value
