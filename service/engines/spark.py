"""Spark: what outgrows this machine.

DuckDB says what a statement means: it binds it over tables without rows, which gives names and types of the answer, and the
errors of a statement that means nothing. `sparksql.py` writes the same for Spark, or refuses it; where its types are not
DuckDB's, it is refused, too. Each table becomes a view: rows that say what each task reads, and `mapInArrow`, which reads it.

A query has a session of its own and runs in a thread of its own, under a tag by which it is cancelled; whoever waits for
it is told at once. A short answer comes to the driver as a whole; one that may be long is written by the executors as
Parquet files, and read from these.

What `sparkpartial.py` splits is aggregated by DuckDB in the executors' Python, so that Spark takes groups in place of rows;
where these have no DuckDB, Spark takes the rows.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import dataset

import catalog.errors
import readers.errors
from catalog.tables import FactsTable
from service.engines.duckdb import duckdb_error_of
from service.engines.engine import Column, Engine, Execution, Progress
from service.engines.sparksession import SparkSessions, SparkSettings, spark_settings
from service.engines.sparksql import SparkQuery, spark_query
from service.errors import (
    EngineError,
    EngineUnavailableError,
    InvalidQueryError,
    InvalidValueError,
    NotOnSparkError,
    QueryCancelledError,
    QueryError,
    query_error_of,
    without_folders,
)
from service.settings import Settings
from service.sql import Plan, TableReference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITION_BYTES = 256 << 20
_BATCH_ROWS = 65_536
_MOST_COLLECTED_ROWS = 1_000_000
_CARRIED = re.compile(r"\[savepoint (?P<kind>\w+)\] (?P<text>[^\n]*)")
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (?P<text>.*?) is not answered by Spark as by DuckDB")
_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z_]+)(?:\.[A-Z_]+)?\] (?P<text>[^\n]*)")
_ADVICE = re.compile(r" (?:Use|If necessary|To return|SQLSTATE:).*", re.DOTALL)


class SparkEngine:
    """Spark, by these settings. It starts with the first query.

    Args:
        settings: where it runs.
        duckdb: the engine that says what statements mean.
        directory: for files of our own; a temporary one, made when first wanted, if None.
    """

    name = "spark"

    def __init__(self, settings: SparkSettings, duckdb: Engine, directory: Path | None = None) -> None:
        self.settings = settings
        self._duckdb = duckdb
        self._directory = directory or _temporary(None)
        self._sessions = SparkSessions(settings, self._directory)

    @classmethod
    def of(cls, settings: Settings, duckdb: Engine) -> SparkEngine:
        """By the service's settings.

        Raises:
            InvalidSettingError: they contradict each other.
        """
        return cls(spark_settings(settings), duckdb, _temporary(settings.temp_directory))

    def execution(self, plan: Plan, max_rows: int | None = None) -> Execution:
        """As `Engine.execution`."""
        if plan.prefix == "DESCRIBE":
            return self._duckdb.execution(plan)
        return SparkExecution(plan, max_rows, self._duckdb, self._sessions, self._exports())

    def translation(self, plan: Plan) -> SparkQuery:
        """The query of a plan for Spark.

        Raises:
            NotOnSparkError: Spark cannot answer it as DuckDB does.
        """
        return translation(plan)

    def close(self) -> None:
        """As `Engine.close`."""
        self._sessions.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _exports(self) -> Path | None:
        if self.settings.export_directory:
            return Path(self.settings.export_directory)
        return self._directory / "exports" if self.settings.is_local else None


def _temporary(parent: str | None) -> Path:
    """A path where nothing is yet."""
    return Path(parent or tempfile.gettempdir(), f"savepointdb-spark-{secrets.token_hex(8)}")


def translation(plan: Plan, *, in_part: bool = True) -> SparkQuery:
    """The query of a plan for Spark.

    Args:
        plan: what is to run.
        in_part: whether executors have DuckDB to aggregate rows with.

    Raises:
        NotOnSparkError: Spark cannot answer it as DuckDB does.
    """
    return spark_query(
        plan.query,
        {reference.name: reference.table.schema for reference in plan.tables},
        {
            reference.name: f"savepoint_table_{number}"
            for number, reference in enumerate(plan.tables, start=1)
        },
        [reference.name for reference in plan.tables if in_part and _is_scanned(reference)],
    )


def _is_scanned(reference: TableReference) -> bool:
    """Whether executors read the table, and not the service."""
    return reference.database is not None and not isinstance(reference.table, FactsTable)


@dataclass(slots=True)
class _Job:
    """What the thread of a query leaves."""

    done: threading.Event
    reader: pa.RecordBatchReader | None = None
    failure: QueryError | None = None


class SparkExecution(Execution):
    """One plan on Spark."""

    def __init__(
        self, plan: Plan, max_rows: int | None, duckdb: Engine, sessions: SparkSessions, exports: Path | None
    ) -> None:
        self._plan = plan
        self._max_rows = max_rows
        self._duckdb = duckdb
        self._sessions = sessions
        self._tag = f"savepointdb-{secrets.token_hex(8)}"
        self._export = exports / self._tag if exports is not None else None
        self._job = _Job(threading.Event())
        self._columns: tuple[Column, ...] = ()
        self._schema = pa.schema([])
        self._bytes_total = 0
        self._tasks = 0
        self._started = False
        self._remark = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """As `Execution.columns`."""
        return self._columns

    @property
    def bytes_read(self) -> int:
        """As `Execution.bytes_read`; by the tasks that are done."""
        if self._job.reader is not None:
            return self._bytes_total
        done, total = self._sessions.tasks(self._tag)
        return self._bytes_total * done // total if total else 0

    @property
    def bytes_total(self) -> int:
        """As `Execution.bytes_total`."""
        return self._bytes_total

    @property
    def progress(self) -> Progress:
        """As `Execution.progress`; its splits are Spark's tasks, those of joins and sorts among them."""
        done, total = self._sessions.tasks(self._tag)
        if self._job.reader is not None:
            total = done  # Spark passes over tasks that it finds it does not need
        return Progress(
            bytes_read=self.bytes_read, bytes_total=self._bytes_total, splits_read=done, splits_total=total
        )

    @property
    def remark(self) -> str:
        """As `Execution.remark`."""
        return self._remark

    def open(self) -> pa.RecordBatchReader:
        """As `Execution.open`."""
        query = self._bound()
        self._check_not_cancelled()
        self._started = True
        threading.Thread(target=self._run, args=(query,), name=self._tag, daemon=True).start()
        self._job.done.wait()
        if self._job.failure is not None:
            raise self._job.failure from self._job.failure.__cause__
        assert self._job.reader is not None
        return self._job.reader

    def cancel(self, error: QueryError) -> None:
        """As `Execution.cancel`."""
        if self._job.reader is None:
            self._job.failure = self._job.failure or error
            self._job.done.set()
        if self._started:
            self._sessions.cancel(self._tag)

    def close(self) -> None:
        """As `Execution.close`."""
        if not self._job.done.is_set():
            self.cancel(QueryCancelledError("the query was closed"))
        if self._export is not None:
            shutil.rmtree(self._export, ignore_errors=True)

    def _check_not_cancelled(self) -> None:
        if self._job.failure is not None:
            raise self._job.failure

    def _bound(self) -> SparkQuery:
        """The query for Spark; DuckDB has said what it means.

        Raises:
            QueryError: it means nothing, or something that Spark cannot answer.
        """
        try:
            query = self._translation()
        except NotOnSparkError:
            raise
        except InvalidQueryError:
            self._meaning()
            raise
        self._meaning()
        if self._plan.prefix == "EXPLAIN ANALYZE":
            raise NotOnSparkError("EXPLAIN ANALYZE")
        if self._plan.prefix:
            return query
        expected = tuple(column.type for column in self._schema)
        for name, found, wanted in zip(self._schema.names, query.types, expected, strict=True):
            if not _is_same(found, wanted):
                raise NotOnSparkError(f"column {name!r} of type {wanted} (not {found})")
        return query

    def _translation(self) -> SparkQuery:
        query = translation(self._plan)
        if query.partials and not self._sessions.has_duckdb:
            self._remark = "the executors have no DuckDB to aggregate with, so Spark takes every row"
            return translation(self._plan, in_part=False)
        return query

    def _meaning(self) -> None:
        """Names and types of the answer."""
        tables = tuple(map(_without_rows, self._plan.tables))
        execution = self._duckdb.execution(replace(self._plan, tables=tables))
        with contextlib.closing(execution):
            self._schema = execution.open().schema
            self._columns = execution.columns

    def _run(self, query: SparkQuery) -> None:
        """The thread of the query."""
        try:
            reader = self._read(query)
        except QueryError as error:
            self._job.failure = self._job.failure or error
        except Exception as error:  # pyspark's, py4j's and Java's, of any kind
            failure = self._translated(error)
            failure.__cause__ = error
            self._job.failure = self._job.failure or failure
        else:
            self._job.reader = reader
        self._job.done.set()

    def _read(self, query: SparkQuery) -> pa.RecordBatchReader:
        session = self._sessions.new()
        try:
            with self._sessions.tagged(session, self._tag):
                frame = self._frame(session, query)
                self._check_not_cancelled()
                return self._answer(frame)
        except Exception as error:
            if not query.partials or _missing_module(str(error)) != "duckdb":
                raise
        self._sessions.has_duckdb = False
        return self._read(self._translation())

    def _frame(self, session: SparkSession, query: SparkQuery) -> DataFrame:
        self._bytes_total = self._tasks = 0
        for number, reference in enumerate(self._plan.tables, start=1):
            self._check_not_cancelled()
            read = self._scanned if _is_scanned(reference) else _facts
            read(session, reference, query).createOrReplaceTempView(f"savepoint_table_{number}")
        if self._tasks:
            session.conf.set("spark.sql.leafNodeDefaultParallelism", str(self._tasks))
        return session.sql(f"EXPLAIN FORMATTED {query.sql}" if self._plan.prefix else query.sql)

    def _scanned(self, session: SparkSession, reference: TableReference, query: SparkQuery) -> DataFrame:
        """What executors read of a table, or compute of it."""
        from service.spark.partial import Partial
        from service.spark.splits import SplitReader, grouped, task_rows
        from service.spark.types import spark_schema

        assert reference.database is not None
        columns, partial = query.columns[reference.name], query.partials.get(reference.name)
        scan = reference.table.scan(columns, reference.predicate)
        size_bytes = sum(split.origin_bytes for split in scan.parts)
        self._bytes_total += size_bytes
        savepoint = reference.database.reference.elsewhere()
        splits = [split.through(savepoint) for split in scan.parts]
        tasks = tuple(grouped(splits, self._partitions(size_bytes))) or ((),)
        reader = SplitReader(
            "bigint", None if partial is None else Partial(partial.sql, scan.schema, partial.schema)
        )
        schema = spark_schema(scan.schema if partial is None else partial.schema, "bigint")
        self._tasks = max(self._tasks, len(tasks))  # Spark makes a task of each row, up to so many
        return session.createDataFrame(task_rows(tasks)).mapInArrow(reader.savepoint, schema)

    def _partitions(self, size_bytes: int) -> int:
        """How many tasks read so much: the same number for each core, for they are of the same size."""
        cores = self._sessions.parallelism
        return cores * max(1, -(-size_bytes // (cores * _PARTITION_BYTES)))

    def _answer(self, frame: DataFrame) -> pa.RecordBatchReader:
        if self._plan.prefix:
            return self._explained(frame)
        frame = frame.toDF(*_numbered(self._schema))
        if self._max_rows is not None:
            frame = frame.limit(self._max_rows + 1)
        if self._max_rows is not None and self._max_rows <= _MOST_COLLECTED_ROWS:
            return self._conformed(frame.toArrow().to_batches(_BATCH_ROWS))
        if self._export is not None:
            self._export.parent.mkdir(parents=True, exist_ok=True)
            frame.write.parquet(self._export.as_uri())
            return self._conformed(_written(self._export))
        rows = frame.limit(_MOST_COLLECTED_ROWS + 1).toArrow()
        if rows.num_rows > _MOST_COLLECTED_ROWS:
            raise EngineError(
                f"an answer of more than {_MOST_COLLECTED_ROWS} rows needs a directory that the executors and this "
                "service share",
                hint="set spark_export_directory, or ask for max_rows",
            )
        return self._conformed(rows.to_batches(_BATCH_ROWS))

    def _explained(self, frame: DataFrame) -> pa.RecordBatchReader:
        """The plan, as DuckDB shows its own: a row of a name and a text."""
        text = without_folders(str(frame.collect()[0][0]))
        rows = pa.RecordBatch.from_arrays(
            [pa.array(["spark_plan"]), pa.array([text])], ["explain_key", "explain_value"]
        )
        self._columns = (Column("explain_key", "VARCHAR"), Column("explain_value", "VARCHAR"))
        return pa.RecordBatchReader.from_batches(rows.schema, [rows])

    def _conformed(self, batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> pa.RecordBatchReader:
        """What Spark gave, as DuckDB would have given it."""

        def made() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if batch.num_rows:
                    arrays = [
                        _from_spark(column, wanted.type)
                        for column, wanted in zip(batch.columns, self._schema, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

        return pa.RecordBatchReader.from_batches(self._schema, made())

    def _translated(self, error: Exception) -> QueryError:
        failure = spark_error_of(str(error))
        if isinstance(failure, EngineUnavailableError):
            self._sessions.forget()
        return failure


def _facts(session: SparkSession, reference: TableReference, query: SparkQuery) -> DataFrame:
    """A table that the service reads itself."""
    from service.spark.types import spark_schema, to_wire, wire_schema

    scan = reference.table.scan(query.columns[reference.name], reference.predicate)
    wire = wire_schema(scan.schema, "bigint")
    rows = pa.Table.from_batches([to_wire(batch, wire) for batch in scan.to_reader()], wire)
    return session.createDataFrame(rows, spark_schema(scan.schema, "bigint")).coalesce(1)


def spark_error_of(text: str) -> QueryError:
    """What a user is told of an error of Spark's, by its text."""
    carried = _CARRIED.search(text)
    if carried is not None:
        return _carried_error(carried["kind"], carried["text"])
    missing = _missing_module(text)
    if missing:
        return EngineUnavailableError(
            f"the workers of Spark have no Python package {missing!r}",
            hint="install savepointdb on them, or send what it needs with spark.archives",
            detail=text,
        )
    raised = _RAISED.search(text)
    if raised is not None:
        return NotOnSparkError(raised["text"])
    if any(sign in text for sign in _GONE):
        return EngineUnavailableError("Spark is gone; it is started anew with the next query", detail=text)
    found = _CONDITION.search(text)
    name, message = (
        (found["name"], _ADVICE.sub("", found["text"])) if found else ("", text.partition("\n")[0])
    )
    kind = _ERRORS.get(name, EngineError)
    return kind(f"Spark: {without_folders(message)}", detail=text)


def _missing_module(text: str) -> str:
    """The Python package that an error misses; empty for none."""
    found = _MISSING_MODULE.search(text)
    return found["name"] if found is not None else ""


def _carried_error(kind: str, text: str) -> QueryError:
    """An error of the readers or the catalog, which came as text from another process."""
    found = getattr(readers.errors, kind, None)
    if isinstance(found, type) and issubclass(found, readers.errors.ReaderError):
        return query_error_of(found(text))
    if kind == "PartialError":
        return duckdb_error_of(text)
    if hasattr(catalog.errors, kind):
        return query_error_of(catalog.errors.CatalogError(text))
    return EngineError(without_folders(text), detail=text)


def _is_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types are the same but for the names of list elements and what may be null."""
    if found == pa.null() or wanted == pa.null():
        return True
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        # Spark counts microseconds: what it is given in others comes back in them.
        return (found.unit == "ns") == (wanted.unit == "ns") and (found.tz is None) == (wanted.tz is None)
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _is_same(found.value_type, wanted.value_type)
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        return _is_same(found.key_type, wanted.key_type) and _is_same(found.item_type, wanted.item_type)
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        return [part.name for part in found] == [part.name for part in wanted] and all(
            _is_same(own.type, other.type) for own, other in zip(found, wanted, strict=True)
        )
    if pa.types.is_time(found) and pa.types.is_time(wanted):
        return True
    return bool(found.equals(wanted))


def _from_spark(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column of Spark's as DuckDB's type; it was made of it, so no digit is lost."""
    if array.type.equals(wanted):
        return array
    if pa.types.is_null(wanted):
        return pa.nulls(len(array))
    return array.cast(_nanoseconds_of(array.type, wanted)).cast(wanted)


def _nanoseconds_of(have: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """The type on the way: a BIGINT that stands for a time is a time[ns] first."""
    if pa.types.is_time(wanted):
        return pa.time64("ns")
    if pa.types.is_list(wanted):
        return pa.list_(_nanoseconds_of(have.value_type, wanted.value_type))
    if pa.types.is_map(wanted):
        return pa.map_(
            _nanoseconds_of(have.key_type, wanted.key_type), _nanoseconds_of(have.item_type, wanted.item_type)
        )
    if pa.types.is_struct(wanted):
        return pa.struct(
            [(own.name, _nanoseconds_of(own.type, part.type)) for own, part in zip(have, wanted, strict=True)]
        )
    return have


def _without_rows(reference: TableReference) -> TableReference:
    """The same name for a table without rows, and of no database: of one, a worker would read the rows there."""
    schema = reference.table.schema
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    return TableReference(
        name=reference.name,
        database=None,
        table=FactsTable(reference.table.name, "", schema, lambda: empty),
    )


def _numbered(schema: pa.Schema) -> list[str]:
    return [f"c{number}" for number in range(len(schema))]


def _written(directory: Path) -> Iterator[pa.RecordBatch]:
    """The rows of Parquet files, in the order in which they were written."""
    for file in sorted(directory.glob("part-*.parquet")):
        yield from dataset.dataset(str(file), format="parquet").to_batches(batch_size=_BATCH_ROWS)


_GONE = (
    "Connection refused",
    "Py4JNetworkError",
    "Answer from Java side is empty",
    "Cannot call methods on a stopped SparkContext",
    "SparkContext was shut down",
    "'JavaPackage' object is not callable",
    "Master removed our application",
    "All masters are unresponsive",
    "StatusCode.UNAVAILABLE",
)
_ERRORS: Mapping[str, type[QueryError] | Callable[..., QueryError]] = {
    "ARITHMETIC_OVERFLOW": InvalidValueError,
    "BINARY_ARITHMETIC_OVERFLOW": InvalidValueError,
    "CAST_INVALID_INPUT": InvalidValueError,
    "CAST_OVERFLOW": InvalidValueError,
    "DATETIME_OVERFLOW": InvalidValueError,
    "DIVIDE_BY_ZERO": InvalidValueError,
    "NUMERIC_VALUE_OUT_OF_RANGE": InvalidValueError,
    "REMAINDER_BY_ZERO": InvalidValueError,
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": InvalidValueError,
    "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY": InvalidQueryError,
}
