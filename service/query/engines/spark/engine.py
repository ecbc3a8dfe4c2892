"""The engine Spark, for queries that outgrow this machine.

DuckDB defines what a statement means: it binds the statement over tables without rows, which gives names and types of the
answer, and the error of a statement that means nothing. `sql.py` translates the statement for Spark, or refuses it; a
translation whose types are not DuckDB's is refused, too. Each table becomes a view: a DataFrame with a row for each task, and
`mapInArrow`, which reads the splits of the task.

A query has a session and a thread of its own, and a tag to cancel its jobs; a cancel does not wait for Spark. A short answer
comes to the driver as a whole. Executors write a long answer as Parquet files in their Python, and this process reads these;
if each row of the answer is made of one row, DuckDB computes it in the same Python.

DuckDB in the executors' Python aggregates what `partial.py` splits, so Spark reads groups in place of rows; without DuckDB
there, Spark reads the rows. If a statement consists of aggregates without groups, or by key group, Spark only transports
the results of the tasks, and DuckDB merges them in this process.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from catalog.references import SavepointReference
from readers import TemporaryFolder
from service.base.errors import (
    EngineError,
    InvalidQueryError,
    NotOnSparkError,
    QueryCancelledError,
    QueryError,
    without_folders,
)
from service.base.settings import Settings
from service.query.encode.formats import Column
from service.query.engines.duckdb.guard import is_meant
from service.query.engines.engine import Cluster, Engine, Execution, Progress
from service.query.engines.spark import executors
from service.query.engines.spark.connect import ConnectSessions
from service.query.engines.spark.expressions.aggregates import AVERAGE
from service.query.engines.spark.jvm import JvmSessions
from service.query.engines.spark.sessions import Sessions, SparkSettings, spark_settings
from service.query.engines.spark.sql import SparkQuery, spark_query, view_name
from service.query.sql.plan import Plan, ReadStatement, TableReference
from service.query.sql.text import generated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH_ROWS = 65_536
_INTERRUPT_AGAIN_S = 0.5
# Beyond that, rows go through files: Spark holds a collected answer whole in the driver's memory.
_MOST_COLLECTED_ROWS = 1_000_000


class SparkEngine(Engine):
    """Spark with these settings. It starts with the first query.

    Args:
        settings: where Spark runs.
        duckdb: the engine that binds statements and merges aggregates.
        directory: folder for our files, made when it is needed; a temporary one if None.
    """

    name = "spark"

    def __init__(self, settings: SparkSettings, duckdb: Engine, parent: str = "") -> None:
        self.settings = settings
        self._duckdb = duckdb
        self._folder = TemporaryFolder(parent)
        self._directory = Path(self._folder.path)
        kind: type[Sessions] = ConnectSessions if settings.remote else JvmSessions
        self._sessions = kind(settings, self._directory)

    @classmethod
    def of(cls, settings: Settings, duckdb: Engine) -> SparkEngine:
        """Return an engine with the service's settings; the registry opens it so.

        Raises:
            InvalidSettingError: the settings of Spark contradict each other.
        """
        return cls(spark_settings(settings), duckdb, settings.storage.temp_directory)

    def execution(self, plan: Plan, max_rows: int | None = None) -> Execution:
        """Implement `Engine.execution`; DuckDB answers DESCRIBE, which reads nothing."""
        if plan.prefix == "DESCRIBE":
            return self._duckdb.execution(plan)
        return SparkExecution(plan, max_rows, self._duckdb, self._sessions, self._exports())

    @property
    def cluster(self) -> Cluster | None:
        """The cluster of the settings; None if Spark runs on this machine."""
        if self.settings.is_local:
            return None
        return Cluster(address=self.settings.address, threshold_bytes=self.settings.threshold_bytes)

    def refusal(self, plan: Plan) -> QueryError | None:
        """Implement `Engine.refusal`: translate the plan, without Spark."""
        try:
            translation(plan)
        except QueryError as error:
            return error
        return None

    def work(self, parcels: Sequence[bytes], source: SavepointReference) -> list[bytes]:
        """Implement `Engine.work`: a task of Spark for each parcel."""
        return executors.SparkWork(self._sessions, parcels, source).answers()

    def close(self) -> None:
        """Implement `Engine.close`."""
        self._sessions.close()
        self._folder.close()

    def _exports(self) -> Path | None:
        if self.settings.export_directory:
            return Path(self.settings.export_directory)
        # Executors of a cluster do not see the temporary folders of this machine.
        return self._directory / "exports" if self.settings.is_local else None


def translation(plan: Plan, *, in_part: bool = True) -> SparkQuery:
    """Translate a plan for Spark.

    Args:
        plan: the plan.
        in_part: executors have DuckDB to aggregate rows.

    Raises:
        NotOnSparkError: Spark cannot answer it as DuckDB does.
    """
    query = spark_query(
        plan.query,
        {reference.name: reference.table.schema for reference in plan.tables},
        [reference.name for reference in plan.tables if executors.is_scanned(reference)],
        in_part=in_part,
    )
    # Spark's text is made from sqlglot's tree, DuckDB runs the user's own.
    if not is_meant(plan):
        raise NotOnSparkError("a part of the statement that DuckDB reads in a way of its own")
    return query


class SparkExecution(Execution):
    """One plan on Spark."""

    def __init__(
        self, plan: Plan, max_rows: int | None, duckdb: Engine, sessions: Sessions, exports: Path | None
    ) -> None:
        self._plan = plan
        self._max_rows = max_rows
        self._duckdb = duckdb
        self._sessions = sessions
        self._tag = f"savepointdb-{secrets.token_hex(8)}"
        self._export = exports / self._tag if exports is not None else None
        self._done = threading.Event()
        self._reader: pa.RecordBatchReader | None = None
        self._failure: QueryError | None = None
        self._schema = pa.schema([])
        self._bytes_total = 0
        self._merging: Execution | None = None
        self._thread: threading.Thread | None = None

    @property
    def progress(self) -> Progress:
        """Progress of the tasks; splits are Spark's tasks, those of joins and sorts included; see `Execution`."""
        done, total = self._sessions.tasks(self._tag)
        if self._reader is not None:
            total = done  # Spark skips tasks that turn out not to be needed
            bytes_read = self._bytes_total
        else:
            bytes_read = self._bytes_total * done // total if total else 0
        return Progress(
            bytes_read=bytes_read, bytes_total=self._bytes_total, splits_read=done, splits_total=total
        )

    def open(self) -> pa.RecordBatchReader:
        """Implement `Execution.open`."""
        query = self._bound()
        self._check_not_cancelled()
        self._thread = threading.Thread(target=self._run, args=(query,), name=self._tag, daemon=True)
        self._thread.start()
        self._done.wait()
        if self._failure is not None:
            raise self._failure from self._failure.__cause__
        assert self._reader is not None
        return self._reader

    def cancel(self, error: QueryError) -> None:
        """Implement `Execution.cancel`; a thread interrupts Spark, which may take seconds to answer."""
        if self._reader is None:
            self._failure = self._failure or error
            self._done.set()
        if self._merging is not None:
            self._merging.cancel(error)
        if self._thread is not None:
            threading.Thread(
                target=self._interrupt, args=(self._thread,), name=f"cancel {self._tag}", daemon=True
            ).start()

    def close(self) -> None:
        """Implement `Execution.close`."""
        if not self._done.is_set():
            self.cancel(QueryCancelledError("the query was closed"))
        if self._merging is not None:
            self._merging.close()
        if self._export is not None:
            shutil.rmtree(self._export, ignore_errors=True)

    def _interrupt(self, running: threading.Thread) -> None:
        """Cancel the jobs again and again until the query has ended: a cancel misses a job that starts after it."""
        while running.is_alive():
            self._sessions.cancel(self._tag)
            running.join(_INTERRUPT_AGAIN_S)

    def _check_not_cancelled(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _bound(self) -> SparkQuery:
        """Translate the statement, and bind it on DuckDB.

        Raises:
            QueryError: the statement means nothing, or Spark cannot answer it.
        """
        # Bound on DuckDB, it would be read there already.
        if self._plan.prefix == "SUMMARIZE":
            raise NotOnSparkError("SUMMARIZE")
        try:
            query = self._translation()
        except NotOnSparkError:
            raise
        except InvalidQueryError:
            self._bind()  # DuckDB's error is the better one, if it has one
            raise
        self._bind()
        if self._plan.prefix == "EXPLAIN ANALYZE":
            raise NotOnSparkError("EXPLAIN ANALYZE")
        if self._plan.prefix:
            return query
        # Another type would give other digits or other texts than DuckDB's.
        expected = tuple(column.type for column in self._schema)
        for name, found, wanted in zip(self._schema.names, query.types, expected, strict=True):
            if not _is_same(found, wanted):
                raise NotOnSparkError(f"column {name!r} of type {wanted} (not {found})")
        return query

    def _translation(self) -> SparkQuery:
        query = translation(self._plan)
        if query.partials and not self._sessions.has_duckdb:
            self.remark = "the executors have no DuckDB to aggregate with, so Spark takes every row"
            return translation(self._plan, in_part=False)
        return query

    def _bind(self) -> None:
        """Bind the statement on DuckDB over tables without rows: names and types of the answer."""
        tables = tuple(map(executors.without_rows, self._plan.tables))
        execution = self._duckdb.execution(replace(self._plan, tables=tables))
        with contextlib.closing(execution):
            self._schema = execution.open().schema
            self.columns = execution.columns

    def _run(self, query: SparkQuery) -> None:
        """Run the query: the target of its thread."""
        try:
            reader = self._read(query)
        except QueryError as error:
            self._failure = self._failure or error
        except Exception as error:  # pyspark's, py4j's and Java's, of any kind
            self._failure = self._failure or executors.failure_of(error, self._sessions)
        else:
            self._reader = reader
        self._done.set()

    def _read(self, query: SparkQuery) -> pa.RecordBatchReader:
        session = self._sessions.new()
        try:
            with self._sessions.tagged(session, self._tag):
                tables = [self._table(reference, query) for reference in self._plan.tables]
                self._bytes_total = sum(table.size_bytes for table in tables)
                self._check_not_cancelled()
                if query.merged is not None:
                    return self._merged(session, tables, query.merged)
                if query.computed and self._is_written:
                    return self._computed(session, tables, query.computed)
                return self._answer(self._frame(session, tables, query))
        except Exception as error:
            # The first query finds out whether the executors' Python has DuckDB; it is repeated without.
            if not (query.partials or query.computed) or executors.missing_module(str(error)) != "duckdb":
                raise
        self._sessions.has_duckdb = False
        return self._read(self._translation())

    def _table(self, reference: TableReference, query: SparkQuery) -> executors.SparkTable:
        columns, partial = query.columns[reference.name], query.partials.get(reference.name)
        if executors.is_scanned(reference):
            return executors.ScannedTable.of(reference, columns, partial, self._sessions.parallelism)
        return executors.KnownTable(reference, columns)

    def _frame(
        self, session: SparkSession, tables: Sequence[executors.SparkTable], query: SparkQuery
    ) -> DataFrame:
        for number, table in enumerate(tables, start=1):
            table.frame(session).createOrReplaceTempView(view_name(number))
        executors.be_parallel(session, tables)
        if query.has_average:
            from service.spark.average import register

            register(session, AVERAGE)
        return session.sql(f"EXPLAIN FORMATTED {query.sql}" if self._plan.prefix else query.sql)

    def _merged(
        self, session: SparkSession, tables: Sequence[executors.SparkTable], merged: exp.Query
    ) -> pa.RecordBatchReader:
        """Return the answer that DuckDB merges from the results of the tasks, as it is read."""
        from service.spark.splits import answers

        frame = executors.gathered(session, tables)
        if self._plan.prefix:
            frame.createOrReplaceTempView("savepoint_answers")
            frame = session.sql("EXPLAIN FORMATTED TABLE savepoint_answers")
            return self._explained(frame, f"== Merged by DuckDB ==\n{merged.sql('duckdb', pretty=True)}\n")
        found = answers(frame.toArrow())
        references = tuple(table.answered(found.get(number)) for number, table in enumerate(tables))
        self._check_not_cancelled()
        reading = ReadStatement(merged, generated(merged))
        plan = replace(self._plan, reading=reading, tables=references)
        execution = self._duckdb.execution(plan)
        self._merging = execution
        return self._conformed(_rows_of(execution))

    @property
    def _is_written(self) -> bool:
        """True if executors write the whole answer as files."""
        return self._export is not None and self._max_rows is None and not self._plan.prefix

    def _computed(
        self, session: SparkSession, tables: Sequence[executors.SparkTable], sql: str
    ) -> pa.RecordBatchReader:
        """Return the answer that DuckDB computes on executors, row by row of the only table."""
        (table,) = tables
        assert isinstance(table, executors.ScannedTable)
        executors.be_parallel(session, tables)
        return self._written(lambda folder: table.written(session, sql, self._schema, folder))

    def _written(self, files: Callable[[str], DataFrame]) -> pa.RecordBatchReader:
        """Return the rows of the files that executors write to a folder; `files` returns their names.

        Raises:
            EngineError: a file is not found here.
        """
        assert self._export is not None
        self._export.mkdir(parents=True, exist_ok=True)
        found = files(str(self._export)).toArrow()
        return self._conformed(executors.rows_of_files(self._export, found.column("file").to_pylist()))

    def _answer(self, frame: DataFrame) -> pa.RecordBatchReader:
        if self._plan.prefix:
            return self._explained(frame)
        # Several columns may have the same name; the conversions go by position.
        frame = frame.toDF(*_numbered(self._schema))
        if self._max_rows is not None:
            frame = frame.limit(self._max_rows + 1)  # one more shows that there are more
        if self._max_rows is not None and self._max_rows <= _MOST_COLLECTED_ROWS:
            return self._conformed(frame.toArrow().to_batches(_BATCH_ROWS))
        if self._export is not None:
            return self._written(lambda folder: executors.written(frame, folder))
        # Without a shared folder all rows come through the driver's memory, so there is a limit.
        rows = frame.limit(_MOST_COLLECTED_ROWS + 1).toArrow()
        if rows.num_rows > _MOST_COLLECTED_ROWS:
            raise EngineError(
                f"an answer of more than {_MOST_COLLECTED_ROWS} rows needs a directory that the executors and this "
                "service share",
                hint="set spark_export_directory, or ask for max_rows",
            )
        return self._conformed(rows.to_batches(_BATCH_ROWS))

    def _explained(self, frame: DataFrame, more: str = "") -> pa.RecordBatchReader:
        """Return Spark's plan in the columns of DuckDB's EXPLAIN: a row with a name and a text."""
        text = without_folders(str(frame.collect()[0][0])) + more
        rows = pa.RecordBatch.from_arrays(
            [pa.array(["spark_plan"]), pa.array([text])], ["explain_key", "explain_value"]
        )
        self.columns = (Column("explain_key", "VARCHAR"), Column("explain_value", "VARCHAR"))
        return pa.RecordBatchReader.from_batches(rows.schema, [rows])

    def _conformed(self, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
        """Return rows of Spark's with DuckDB's types."""

        def made() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if batch.num_rows:
                    arrays = [
                        _from_spark(column, wanted.type)
                        for column, wanted in zip(batch.columns, self._schema, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

        return pa.RecordBatchReader.from_batches(self._schema, made())


def _is_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether two types are the same, but for names of list elements and for nullability."""
    if found == pa.null() or wanted == pa.null():
        return True
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        # Spark counts microseconds, and returns other units in them.
        return (found.unit == "ns") == (wanted.unit == "ns") and (found.tz is None) == (wanted.tz is None)
    if pa.types.is_nested(found) and found.id == wanted.id:
        if pa.types.is_struct(found) and [part.name for part in found] != [part.name for part in wanted]:
            return False
        parts = ((found.field(place), wanted.field(place)) for place in range(found.num_fields))
        return all(_is_same(own.type, other.type) for own, other in parts)
    if pa.types.is_time(found) and pa.types.is_time(wanted):
        return True
    return bool(found.equals(wanted))


def _from_spark(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column of Spark's in DuckDB's type; the values were computed for it, so no digit is lost."""
    if array.type.equals(wanted):
        return array
    if pa.types.is_null(wanted):
        return pa.nulls(len(array))
    return array.cast(_nanoseconds_of(array.type, wanted)).cast(wanted)


def _nanoseconds_of(have: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the type to cast to first: a BIGINT that stands for a time becomes a time[ns]."""
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


def _rows_of(execution: Execution) -> Iterator[pa.RecordBatch]:
    yield from execution.open()


def _numbered(schema: pa.Schema) -> list[str]:
    return [f"c{number}" for number in range(len(schema))]
