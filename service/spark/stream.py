"""The checkpoints of a job as a stream of Spark: what each of them changed, or all rows of the newest one.

| mode | columns | rows of a micro-batch |
|---|---|---|
| changes | those of `catalog.follow.changes` | what differs from each checkpoint to the next |
| snapshot | those of `catalog.history` | the table of the newest checkpoint |

The columns are those of the job's checkpoints when the query starts. A checkpoint with a type that they cannot hold, or with a column more,
ends the query; after a restart of it they are those of then.

An offset names the checkpoints of its micro-batch, so that one that is planned again has the same rows. It is JSON:

    {"token": "4", "checkpoints": [["job__chk-3", 1788264003000000000], ["job__chk-4", 1788264004000000000]]}

The token is that of any follower. Each checkpoint is its database, and when it was written, in nanoseconds: the last one is where the next
micro-batch begins. A checkpoint that is not there, or cannot be read, when a micro-batch is planned is spanned; one that an offset names
and that is gone, or was written anew, is an error, unless `on_gone` is `reset`. Then the micro-batch has one row whose `change` is `reset`,
and all rows of its last checkpoint as added: whoever obeys it forgets the rows of all checkpoints before. If that last checkpoint is gone
itself, the micro-batch has no rows, and the next one begins so. A snapshot needs no checkpoint before.

One process of the driver has a reader, of `SavepointDataSource.streamReader`, as long as the query runs. Spark calls

    initialOffset                  once, for a query without a checkpoint of its own
    prepareForTriggerAvailableNow  where the query ends at what is there: no later checkpoint counts
    latestOffset                   before each micro-batch: the newest checkpoint
    partitions                     for each micro-batch, and again for one that did not end, after a restart

Spark: org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from catalog import Database, NoSuchTableError, Split, Table
from catalog.differences.splits import CHANGE
from catalog.differences.table import diff_table
from catalog.follow.changes import ChangeSplit, is_readable
from catalog.follow.steps import EARLIEST, Steps
from catalog.history import (
    CHECKPOINT_AT,
    CHECKPOINT_ID,
    DATABASE,
    HistorySplit,
    Member,
    history_schema,
)
from catalog.scan import FactsSplit
from service.spark.options import RESET, SNAPSHOT, StreamOptions
from service.spark.splits import SplitReader, grouped
from service.spark.types import (
    CheckpointGoneError,
    InvalidOptionError,
    SchemaChangedError,
    carried,
    spark_schema,
)


@dataclass(frozen=True, slots=True)
class Offset:
    """Where a stream is.

    Attributes:
        token: of the last checkpoint; empty before the first one.
        checkpoints: that the stream has since the offset before: database, and when it was written, in nanoseconds.
    """

    token: str
    checkpoints: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, found: dict[str, Any]) -> Offset:
        """Return the offset of its JSON.

        Raises:
            InvalidOptionError: it is another source's.
        """
        try:
            return cls(str(found["token"]), tuple((str(name), int(at)) for name, at in found["checkpoints"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidOptionError(
                f"expected an offset of a savepoint stream in the query's checkpoint, found {found!r:.200}"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Return it as values that are JSON."""
        return {"token": self.token, "checkpoints": [list(one) for one in self.checkpoints]}


class SavepointStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver, and reads their partitions in executors, which get it pickled before it has planned any.

    Args:
        options: what is followed.
        schema: the columns of the stream.
    """

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._reader = SplitReader(options.source.nanoseconds)
        self._opened: FollowedJob | None = None
        self._has_end = False

    @property
    def _job(self) -> FollowedJob:
        if self._opened is None:
            self._opened = FollowedJob(self._options)
            self._opened.check(self._schema)
        return self._opened

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins. The method's name is Spark's, as that of those below."""
        with carried():
            return self._job.beginning().to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Look at the checkpoints for the last time."""
        with carried():
            self._job.catalog.refresh()
        self._has_end = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the offset of the newest checkpoint that can be read; `start` itself if nothing is new."""
        with carried():
            if not self._has_end:
                self._job.catalog.refresh()
            end = self._job.newest(Offset.of(start))
            return start if end is None else end.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions of a micro-batch: one or several splits of differences, or of a table, each."""
        with carried():
            splits = self._job.splits(Offset.of(start), Offset.of(end))
            return [InputPartition(one) for one in grouped(splits, self._options.source.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition as batches."""
        return self._reader.rows(partition.value or ())


class FollowedJob:
    """The job of a stream, in the process that plans it.

    Args:
        options: what is followed.

    Attributes:
        catalog: has the checkpoints; refreshed by its user.
        schema: the columns of the stream.

    Raises:
        CatalogError: there is no such job or table.
        InvalidOptionError: there are several jobs, and none is named.
        ReaderError: no checkpoint can be read.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self.catalog = options.source.catalog()
        self._name = options.job_of(self.catalog).name
        self.schema = self._columns()
        self._steps: Steps | None = None

    def check(self, schema: StructType) -> None:
        """Check that the stream has the columns that Spark expects.

        Raises:
            SchemaChangedError: it has others.
        """
        own = spark_schema(self.schema, self._options.source.nanoseconds)
        if own.simpleString() != schema.simpleString():
            raise SchemaChangedError(
                f"expected the columns {schema.simpleString()}, found {own.simpleString()}; give no schema, or restart the query"
            )

    def beginning(self) -> Offset:
        """Return where a new query begins.

        Raises:
            NoSuchCheckpointError: `since` names no checkpoint.
        """
        job, since = self.catalog.job(self._name), self._options.since
        position = Steps(self.catalog, job, since).position
        if position is None:
            return Offset("")
        at = () if position.database is None else (_stamp(position.database),)
        return Offset(position.token(self._name), at)

    def newest(self, start: Offset) -> Offset | None:
        """Return the offset of the newest checkpoint; None if it is that of `start`."""
        steps = self._steps
        # What it has seen tells a job that counts anew; another process begins with what is there.
        if steps is None or steps.token != start.token:
            job = self.catalog.job(self._name)
            steps = self._steps = Steps(self.catalog, job, start.token or self._options.since)
        found: list[Database] = []
        while (step := steps.next(self.catalog)) is not None:
            found.append(step.database)
            steps.took(step)
        return Offset(steps.token or "", tuple(map(_stamp, found))) if found else None

    def splits(self, start: Offset, end: Offset) -> Iterator[Split]:
        """Yield the splits of a micro-batch.

        Raises:
            CheckpointGoneError: one of its checkpoints is gone, unless that is to be a reset.
            SchemaChangedError: a checkpoint has other columns.
            ReaderError: a checkpoint cannot be opened.
        """
        if start == end or not end.checkpoints:
            return
        known = {_stamp(one): one for one in self.catalog.known()}
        is_snapshot = self._options.mode == SNAPSHOT
        needed = end.checkpoints[-1:] if is_snapshot else (*start.checkpoints[-1:], *end.checkpoints)
        gone = [one[0] for one in needed if one not in known]
        if not is_snapshot and start.token and not start.checkpoints:
            gone = [start.token]
        if gone and self._options.on_gone != RESET:
            raise CheckpointGoneError(
                f"expected checkpoint {gone[0]}, at which the stream is, found it removed, or written anew; set on_gone to reset, or begin "
                "another checkpointLocation with since=snapshot"
            )
        last = known.get(needed[-1])
        if last is None:
            return
        if is_snapshot:
            yield from self._splits_of(last, self._table(last), HistorySplit)
            return
        # Before the first checkpoint there is nothing.
        chain: list[Database | None] = [None, last]
        if gone:
            yield FactsSplit(self._reset(last))
        else:
            chain = [None] * (not start.token) + [known[one] for one in needed]
        for before, after in pairwise(chain):
            assert after is not None
            yield from self._splits_of(after, self._differences(before, after), ChangeSplit)

    def _splits_of(
        self, database: Database, table: Table | None, kind: type[HistorySplit]
    ) -> Iterator[Split]:
        if table is None:
            return
        if history_schema([self.schema, table.schema]) != self.schema:
            raise SchemaChangedError(
                f"{database.name}: expected the columns that the stream began with, {_shown(self.schema)}, found "
                f"{_shown(table.schema)}; restart the query, which takes the columns of then"
            )
        yield from kind.all_of(Member(database, table, database), table.plan().splits, self.schema)

    def _reset(self, database: Database) -> pa.RecordBatch:
        """Return the row that says: forget all rows."""
        row = {
            CHECKPOINT_ID: database.checkpoint_id,
            CHECKPOINT_AT: database.created_at,
            DATABASE: database.name,
            CHANGE: RESET,
        }
        return pa.RecordBatch.from_pylist([row], schema=self.schema)

    def _table(self, database: Database) -> Table | None:
        """Return the table in a checkpoint; None if it has none."""
        try:
            return database.table(self._options.source.table)
        except NoSuchTableError:
            return None

    def _differences(self, before: Database | None, after: Database) -> Table | None:
        """Return what differs from a checkpoint to the next; None if neither has the table."""
        try:
            return diff_table(before, after, self._options.source.table)
        except NoSuchTableError:
            return None

    def _columns(self) -> pa.Schema:
        """Return all columns of a stream that begins now."""
        history = self.catalog.history(self.catalog.job(self._name))
        table = history.table(self._options.source.table)
        if self._options.mode == SNAPSHOT:
            return table.schema
        readable = [database for database in history.databases if is_readable(database)]
        # The first rows may be all of the newest, or the oldest, checkpoint.
        pairs: list[tuple[Database, Database | None]] = [*pairwise(readable), (readable[0], None)]
        if self._options.since == EARLIEST:
            pairs.append((readable[-1], None))
        found = [self._differences(before, after) for after, before in pairs]
        return history_schema([one.schema for one in found if one is not None])


def _stamp(database: Database) -> tuple[str, int]:
    return database.name, database.modified_ns


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)
