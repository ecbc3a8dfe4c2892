"""The tables of a plan → what Spark reads of each.

A table that executors read is planned here, as tasks: groups of splits, which are rows of a DataFrame until `mapInArrow`
reads them. Of one that the service knows, such as `StateMeta`, the rows themselves are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog import Split
from catalog.table import FactsTable
from service.engines.spark.partial import PartialQuery
from service.engines.spark.sql import part_name
from service.sql.plan import TableReference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from service.spark.partial import Partial

_TASK_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class KnownTable:
    """One whose rows the service sends.

    Attributes:
        reference: the table.
        columns: of it, those that are needed.
    """

    reference: TableReference
    columns: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """How much executors read."""
        return 0

    @property
    def tasks(self) -> tuple[tuple[Split, ...], ...]:
        """What executors read."""
        return ()

    def frame(self, session: SparkSession) -> DataFrame:
        """Its rows."""
        from service.spark.types import spark_schema, to_wire, wire_schema

        scan = self.reference.scan.narrowed(self.columns)
        wire = wire_schema(scan.schema, "bigint")
        rows = pa.Table.from_batches([to_wire(batch, wire) for batch in scan.to_reader()], wire)
        return session.createDataFrame(rows, spark_schema(scan.schema, "bigint")).coalesce(1)

    def answered(self, found: pa.Table | None) -> TableReference:
        """The same table for DuckDB, which merges what was found of the others."""
        return self.reference


@dataclass(frozen=True, slots=True)
class ScannedTable:
    """One that executors read.

    Attributes:
        reference: the table.
        schema: of the rows.
        tasks: the splits of each; never no task.
        size_bytes: about how much all read.
        partial: what is computed of each task's rows and given in place of them; None for the rows.
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
        """Plan the tasks: the same number for each of `cores`, for they read about as much each, of each state the same keys.

        A byte of one state takes several times as long as one of another.

        Raises:
            ReaderError: the savepoint cannot be read.
        """
        from service.spark.splits import grouped

        assert reference.database is not None
        scan = reference.scan.narrowed(columns)
        size_bytes = sum(split.origin_bytes for split in scan.parts)
        savepoint = reference.database.reference.elsewhere()
        splits = [split.of_savepoint(savepoint) for split in scan.parts]
        tasks = grouped(
            sorted(splits, key=lambda split: split.order),
            cores * max(1, -(-size_bytes // (cores * _TASK_BYTES))),
        )
        return cls(reference, scan.schema, tuple(tasks) or ((),), size_bytes, partial)

    def frame(self, session: SparkSession) -> DataFrame:
        """Its rows, or what is computed of them."""
        from service.spark.splits import SplitReader
        from service.spark.types import spark_schema

        schema = self.schema if self.partial is None else self.partial.schema
        reader = SplitReader("bigint", None if self.partial is None else self.computed())
        return self._task_rows(session).mapInArrow(reader.savepoint, spark_schema(schema, "bigint"))

    def written(self, session: SparkSession, sql: str, answer: pa.Schema, folder: str) -> DataFrame:
        """What DuckDB's SQL computes of each of its rows, as files in a folder: see `service.spark.files`."""
        from service.spark.files import ComputedFileWriter, FileWriter
        from service.spark.partial import Partial
        from service.spark.types import spark_schema

        writer = ComputedFileWriter(FileWriter(folder), Partial(sql, self.schema, answer))
        return self._task_rows(session).mapInArrow(writer.savepoint, spark_schema(FileWriter.schema))

    def answered(self, found: pa.Table | None) -> TableReference:
        """What executors found of it, as a table for DuckDB, which merges it."""
        assert self.partial is not None
        batches = found.combine_chunks().to_batches() if found is not None else []
        rows = batches[0] if batches else pa.RecordBatch.from_pylist([], self.partial.schema)
        name = part_name(self.reference.name)
        return TableReference(name=name, database=None, table=FactsTable(name, "", rows.schema, lambda: rows))

    def _task_rows(self, session: SparkSession) -> DataFrame:
        from service.spark.splits import task_rows

        return session.createDataFrame(task_rows((0, splits) for splits in self.tasks))

    def computed(self) -> Partial:
        """What is computed of its rows."""
        from service.spark.partial import Partial

        assert self.partial is not None
        return Partial(self.partial.sql, self.schema, self.partial.schema)


SparkTable = KnownTable | ScannedTable


def is_scanned(reference: TableReference) -> bool:
    """Whether executors read a table, and not the service."""
    return reference.database is not None and not isinstance(reference.table, FactsTable)


def without_rows(reference: TableReference) -> TableReference:
    """The same name for a table without rows, and of no database: of one, a worker would read the rows there."""
    schema = reference.table.schema
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    return replace(
        reference,
        database=None,
        table=FactsTable(reference.table.name, "", schema, lambda: empty),
    )


def gathered(session: SparkSession, tables: Sequence[SparkTable]) -> DataFrame:
    """What is computed of all tables' rows, in one job: for `service.spark.splits.answers`."""
    from service.spark.splits import AnswerReader, task_rows
    from service.spark.types import spark_schema

    be_parallel(session, tables)
    scanned = [(number, table) for number, table in enumerate(tables) if isinstance(table, ScannedTable)]
    reader = AnswerReader({number: table.computed() for number, table in scanned})
    rows = task_rows((number, splits) for number, table in scanned for splits in table.tasks)
    return session.createDataFrame(rows).mapInArrow(reader.savepoint, spark_schema(reader.schema))


def be_parallel(session: SparkSession, tables: Iterable[SparkTable]) -> None:
    """Have Spark make a task of each row that says what one reads."""
    tasks = max(1, sum(len(table.tasks) for table in tables))
    session.conf.set("spark.sql.leafNodeDefaultParallelism", str(tasks))
