"""The tables of a plan → DataFrames.

A table that executors read is planned here as tasks: groups of splits, each a row of a DataFrame that `mapInArrow` reads. A
table that lists facts, such as `StateMeta`, is sent with its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog import Split
from catalog.table import FactsTable
from service.query.engines.spark.partial import PartialQuery
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
