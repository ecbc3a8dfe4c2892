"""The tables of a plan → DataFrames.

A table that executors read is planned here as tasks: groups of splits, each a row of a DataFrame that `mapInArrow` reads. A
table that lists facts, such as `StateMeta`, is sent with its rows.

Long answers in files that executors write and this service reads.

Both see one folder by the same path. If they do not, an executor cannot write, or its file is not found here: each is an
error, so an answer never misses rows.

The texts of Spark's errors → errors of the service.

An error on an executor or in its Python comes as the text of a Java exception with traces in it. So all errors are known by
their texts.

Work of the writers on executors: a task for each parcel.

The thread that asks waits, so that a signal or a cancel can end it at any time; another thread talks to Spark. When the wait ends early,
the tasks are cancelled, and it takes a while until none of them runs: what they write is removed afterwards.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import dataset

import catalog.errors
import readers
from catalog import Split
from catalog.references import SavepointReference
from catalog.table import FactsTable
from service.base.errors import (
    EngineError,
    EngineUnavailableError,
    InvalidQueryError,
    InvalidValueError,
    NotOnSparkError,
    QueryError,
    query_error_of,
    without_folders,
)
from service.query.engines.duckdb.errors import value_error_of
from service.query.engines.spark.partial import PartialQuery
from service.query.engines.spark.sessions import Sessions
from service.query.engines.spark.sql import partial_name
from service.query.sql.plan import TableReference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from service.spark.partial import TaskQuery


# A task of this size takes seconds: starting it costs little beside that, and progress and cancel stay fine enough.
_TASK_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table whose rows the service sends.

    Attributes:
        reference: the table.
        columns: the columns to send.
    """

    reference: TableReference
    columns: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of savepoints that executors read: none."""
        return 0

    @property
    def tasks(self) -> tuple[tuple[Split, ...], ...]:
        """Splits that executors read: none."""
        return ()

    def frame(self, session: SparkSession) -> DataFrame:
        """Return the rows as a DataFrame."""
        from service.spark.types import spark_schema, to_wire, wire_schema

        scan = self.reference.scan.narrowed(self.columns)
        wire = wire_schema(scan.schema, "bigint")
        rows = pa.Table.from_batches([to_wire(batch, wire) for batch in scan.to_reader()], wire)
        return session.createDataFrame(rows, spark_schema(scan.schema, "bigint")).coalesce(1)

    def answered(self, found: pa.Table | None) -> TableReference:
        """Return the table itself, for DuckDB to merge with the answers of others."""
        return self.reference


@dataclass(frozen=True, slots=True)
class ScannedTable:
    """A table that executors read.

    Attributes:
        reference: the table.
        schema: schema of the rows.
        tasks: the splits of each task; at least one task.
        size_bytes: estimate of the bytes that all tasks read.
        partial: the query whose answer replaces the rows of each task; None for the rows.
    """

    reference: TableReference
    schema: pa.Schema
    tasks: tuple[tuple[Split, ...], ...]
    size_bytes: int
    partial: PartialQuery | None

    @classmethod
    def of(
        cls, reference: TableReference, columns: Sequence[str], partial: PartialQuery | None, cores: int
    ) -> ScannedTable:
        """Plan the tasks: the same number for each of `cores`, each of about the same bytes.

        Splits are sorted by their keys, so each task reads about the same of every state: a byte of one state may take
        several times as long as a byte of another.

        Raises:
            ReaderError: the savepoint cannot be read.
        """
        from service.spark.splits import grouped

        assert reference.database is not None
        scan = reference.scan.narrowed(columns)
        size_bytes = sum(split.origin_bytes for split in scan.splits)
        splits = [split.elsewhere() for split in scan.splits]
        # As many tasks as cores, or a multiple: no core waits while others read on.
        tasks = grouped(
            sorted(splits, key=lambda split: split.order),
            cores * max(1, -(-size_bytes // (cores * _TASK_BYTES))),
        )
        return cls(reference, scan.schema, tuple(tasks) or ((),), size_bytes, partial)

    def frame(self, session: SparkSession) -> DataFrame:
        """Return the rows, or the answers of `partial`, as a DataFrame."""
        from service.spark.splits import SplitReader
        from service.spark.types import spark_schema

        schema = self.schema if self.partial is None else self.partial.schema
        reader = SplitReader("bigint", None if self.partial is None else self.computed())
        return self._task_rows(session).mapInArrow(reader.savepoint, spark_schema(schema, "bigint"))

    def written(self, session: SparkSession, sql: str, answer: pa.Schema, folder: str) -> DataFrame:
        """Return the names of the files in a folder to which executors write what DuckDB's SQL computes of the rows."""
        from service.spark.files import ComputedFileWriter, FileWriter
        from service.spark.partial import TaskQuery
        from service.spark.types import spark_schema

        writer = ComputedFileWriter(FileWriter(folder), TaskQuery(sql, self.schema, answer))
        return self._task_rows(session).mapInArrow(writer.savepoint, spark_schema(FileWriter.schema))

    def answered(self, found: pa.Table | None) -> TableReference:
        """Return the answers of `partial` as a table, for DuckDB to merge."""
        assert self.partial is not None
        batches = found.combine_chunks().to_batches() if found is not None else []
        rows = batches[0] if batches else pa.RecordBatch.from_pylist([], self.partial.schema)
        name = partial_name(self.reference.name)
        return TableReference(name=name, database=None, table=FactsTable(name, "", rows.schema, lambda: rows))

    def _task_rows(self, session: SparkSession) -> DataFrame:
        from service.spark.splits import task_rows

        return session.createDataFrame(task_rows((0, splits) for splits in self.tasks))

    def computed(self) -> TaskQuery:
        """Return the computation of `partial`, as executors run it."""
        from service.spark.partial import TaskQuery

        assert self.partial is not None
        return TaskQuery(self.partial.sql, self.schema, self.partial.schema)


SparkTable = KnownTable | ScannedTable


def is_scanned(reference: TableReference) -> bool:
    """Return whether executors read a table; otherwise the service sends its rows."""
    return reference.database is not None and not isinstance(reference.table, FactsTable)


def without_rows(reference: TableReference) -> TableReference:
    """Return a reference to an empty table of the same name, without a database: a worker would read that one's rows."""
    schema = reference.table.schema
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    return replace(
        reference, database=None, table=FactsTable(reference.table.name, "", schema, lambda: empty)
    )


def gathered(session: SparkSession, tables: Sequence[SparkTable]) -> DataFrame:
    """Return the answers of `partial` of all tables, in one job: `service.spark.splits.answers` reads them."""
    from service.spark.splits import AnswerReader, task_rows
    from service.spark.types import spark_schema

    be_parallel(session, tables)
    scanned = [(number, table) for number, table in enumerate(tables) if isinstance(table, ScannedTable)]
    reader = AnswerReader({number: table.computed() for number, table in scanned})
    rows = task_rows((number, splits) for number, table in scanned for splits in table.tasks)
    return session.createDataFrame(rows).mapInArrow(reader.savepoint, spark_schema(reader.schema))


def be_parallel(session: SparkSession, tables: Iterable[SparkTable]) -> None:
    """Have Spark start one task for each row of the DataFrames of tasks."""
    # Spark cuts a DataFrame of local rows into this many partitions.
    tasks = max(1, sum(len(table.tasks) for table in tables))
    session.conf.set("spark.sql.leafNodeDefaultParallelism", str(tasks))


SHARED = "spark_export_directory is to be a folder that executors write to and this service reads, by the same path"
_BATCH_ROWS = 65_536


def written(frame: DataFrame, folder: str) -> DataFrame:
    """Return a frame with the names of the files to which executors write the rows of another frame."""
    from service.spark.files import FileWriter
    from service.spark.types import spark_schema

    return frame.mapInArrow(FileWriter(folder).savepoint, spark_schema(FileWriter.schema))


def rows_of_files(folder: Path, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Return the rows of Parquet files, in the order of their names, which is that of the tasks.

    Raises:
        EngineError: a file is not found.
    """
    files = [folder / name for name in sorted(names)]
    missing = sum(not file.is_file() for file in files)
    if missing:
        raise EngineError(
            f"{missing} of {len(files)} files that executors wrote are not found here", hint=SHARED
        )
    return _rows(files)


def _rows(files: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield from dataset.dataset(str(file), format="parquet").to_batches(batch_size=_BATCH_ROWS)


# `service.spark.types` writes errors of ours in this form, Spark those of `raise_error` in that of `_RAISED`.
_CARRIED = re.compile(r"\[savepoint (?P<kind>\w+)\] (?P<text>[^\n]*)")
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (?P<text>.*?) is not answered by Spark as by DuckDB")
_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z_]+)(?:\.[A-Z_]+)?\] (?P<text>[^\n]*)")
# Spark's advice names its own functions and settings, which are of no use here.
_ADVICE = re.compile(r" (?:Use|If necessary|To return|SQLSTATE:).*", re.DOTALL)
# Texts of errors after which Spark has to be started, or its server asked, anew.
_GONE = (
    "Connection refused", "Py4JNetworkError", "Answer from Java side is empty",
    "Cannot call methods on a stopped SparkContext", "SparkContext was shut down",
    "'JavaPackage' object is not callable", "Master removed our application", "All masters are unresponsive",
    "StatusCode.UNAVAILABLE", "[INVALID_HANDLE.", "[RETRIES_EXCEEDED]",
)  # fmt: skip
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


def spark_error_of(text: str) -> QueryError:
    """Return the error that a text of Spark's means."""
    carried = _CARRIED.search(text)
    if carried is not None:
        return _carried_error(carried["kind"], carried["text"])
    missing = missing_module(text)
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
        return EngineUnavailableError("Spark is gone; the next query asks for it anew", detail=text)
    found = _CONDITION.search(text)
    name, message = (
        (found["name"], _ADVICE.sub("", found["text"])) if found else ("", text.partition("\n")[0])
    )
    kind = _ERRORS.get(name, EngineError)
    return kind(f"Spark: {without_folders(message)}", detail=text)


def failure_of(error: BaseException, sessions: Sessions) -> QueryError:
    """Return the error that one of Spark's means, which is its cause; sessions that are gone are forgotten."""
    failure = spark_error_of(str(error))
    failure.__cause__ = error
    if isinstance(failure, EngineUnavailableError):
        sessions.forget()
    return failure


def missing_module(text: str) -> str:
    """Return the name of the Python package that is missing; empty if the error is another."""
    found = _MISSING_MODULE.search(text)
    return found["name"] if found is not None else ""


def _carried_error(kind: str, text: str) -> QueryError:
    """Return an error of the readers or the catalog that came as text from another process."""
    found = getattr(readers, kind, None)
    if isinstance(found, type) and issubclass(found, readers.ReaderError):
        return query_error_of(found(text))
    if kind == "NotWrittenError":
        return EngineError(f"an executor cannot write {without_folders(text)}", hint=SHARED)
    if kind == "PartialError":
        return value_error_of(text)
    if hasattr(catalog.errors, kind):
        return query_error_of(catalog.errors.CatalogError(text))
    return EngineError(without_folders(text), detail=text)


_AGAIN_S = 0.2
# A Python that does not end by itself is killed by Spark after two seconds.
_PATIENCE_S = 15.0


class SparkWork:
    """The work of some parcels.

    Args:
        sessions: run it.
        parcels: the parcels.
        source: the savepoint that is changed.
    """

    def __init__(self, sessions: Sessions, parcels: Sequence[bytes], source: SavepointReference) -> None:
        self._sessions = sessions
        self._parcels = list(parcels)
        self._source = source
        self._tag = f"savepointdb-write-{secrets.token_hex(8)}"
        self._answers: Future[list[bytes]] = Future()

    def answers(self) -> list[bytes]:
        """Do the work, and return the answers in the order of the parcels.

        Raises:
            QueryError: Spark is not there, or gave up.
        """
        thread = threading.Thread(target=self._run, name=self._tag, daemon=True)
        thread.start()
        try:
            return self._answers.result()
        finally:
            self._settle(thread)

    def _settle(self, thread: threading.Thread) -> None:
        """Cancel what still runs, and wait until none of the tasks writes: also one that was started twice, and is not needed."""
        deadline = time.monotonic() + _PATIENCE_S
        while thread.is_alive() or self._sessions.running(self._tag):
            if time.monotonic() > deadline:
                return
            if thread.is_alive():
                # A cancel misses a job that starts after it.
                self._sessions.cancel(self._tag)
            time.sleep(_AGAIN_S)

    def _run(self) -> None:
        try:
            self._answers.set_result(self._asked())
        except QueryError as error:
            self._answers.set_exception(error)
        except BaseException as error:  # pyspark's, py4j's and Java's, of any kind
            self._answers.set_exception(failure_of(error, self._sessions))

    def _asked(self) -> list[bytes]:
        session = self._sessions.new()
        from service.spark.files import ParcelWorker, parcel_rows
        from service.spark.types import spark_schema

        with self._sessions.tagged(session, self._tag):
            # Spark cuts a DataFrame of local rows into this many partitions: a task for each parcel.
            session.conf.set("spark.sql.leafNodeDefaultParallelism", str(len(self._parcels)))
            worker = ParcelWorker(self._source)
            frame = session.createDataFrame(parcel_rows(self._parcels))
            found = frame.mapInArrow(worker.savepoint, spark_schema(worker.schema)).toArrow()
        answers: list[bytes] = found.sort_by("number").column("answer").to_pylist()
        return answers
