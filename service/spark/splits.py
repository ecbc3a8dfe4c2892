"""Splits of a scan → the tasks of Spark, and in these their rows.

Spark's Python reads them in two ways, by the same `SplitReader`: through the data source, where the splits of a task are its
`InputPartition`; and, for the service's own queries, through `mapInArrow`, where they are a row of a DataFrame that the
service has planned: so nothing is planned again by a Python of Spark's, and each task is sent its own splits only.
"""

from __future__ import annotations

import functools
import gc
import pickle
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from catalog import Split
from service.spark.errors import carried
from service.spark.types import Nanoseconds, to_wire, wire_schema

if TYPE_CHECKING:
    from service.spark.partial import Partial

BATCH_ROWS = 65_536
_MOST_PARTITION_BYTES = 512 << 20
_LEAST_PARTITION_BYTES = 1 << 20
_MOST_SPLITS = 256


class SplitReader:
    """Reads splits as Spark takes rows. It is pickled to the executors.

    Args:
        nanoseconds: see `types.py`.
        partial: what is computed of the rows of a task and given in place of them; None for the rows.
    """

    def __init__(self, nanoseconds: Nanoseconds, partial: Partial | None = None) -> None:
        self._nanoseconds = nanoseconds
        self._partial = partial

    def rows(self, splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
        """The rows of a task, in batches of about `BATCH_ROWS`.

        Raises:
            SavepointSourceError: of an error of the readers or the catalog.
        """
        with carried():
            rows = (batch for split in splits for batch in split.read())
            partial = self._partial
            for batch in rebatched(rows, BATCH_ROWS) if partial is None else partial.of(rows):
                schema = batch.schema if partial is None else partial.schema
                yield to_wire(batch, wire_schema(schema, self._nanoseconds))
            _spare_the_collector()

    def savepoint(self, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same of rows of `task_rows`, for `mapInArrow`; the plans of Spark show its name."""
        for task in tasks:
            for splits in task.column(0):
                yield from self.rows(pickle.loads(splits.as_buffer()))  # of `task_rows`, by way of Spark


def task_rows(tasks: Iterable[tuple[Split, ...]]) -> pa.Table:
    """A table of one column, a row for each task."""
    pickled = [pickle.dumps(splits, protocol=pickle.HIGHEST_PROTOCOL) for splits in tasks]
    return pa.table({"splits": pa.array(pickled, pa.binary())})


def grouped(splits: Iterable[Split], partitions: int) -> Iterator[tuple[Split, ...]]:
    """Splits in groups of about equal bytes, neighbours together: they are of the same file.

    Args:
        splits: in the order of the scan.
        partitions: this many groups; fewer if they would be very small, a multiple if very large.
    """
    splits = tuple(splits)
    total = sum(split.size_bytes for split in splits)
    count = max(1, min(partitions, total // _LEAST_PARTITION_BYTES))
    count *= max(1, -(-total // (count * _MOST_PARTITION_BYTES)))
    before = 0
    group: list[Split] = []
    number = 0
    for split in splits:
        # A split belongs to the group in whose share of all bytes its middle lies.
        own = (2 * before + split.size_bytes) * count // max(1, 2 * total)
        if group and (own != number or len(group) == _MOST_SPLITS):
            yield tuple(group)
            group = []
        group.append(split)
        number = own
        before += split.size_bytes
    if group:
        yield tuple(group)


def rebatched(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of up to `rows`, small ones put together."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield from _combined(waiting, rows)
            waiting, count = [], 0
    yield from _combined(waiting, rows)


def _combined(batches: list[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    if not batches:
        return
    together = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    for start in range(0, together.num_rows, rows):
        yield together.slice(start, rows)


@functools.cache
def _spare_the_collector() -> None:
    """Let Python's garbage collector pass over what has been loaded by now, in Spark's Python workers.

    Spark collects garbage after every task. What numba loads is a million objects that stay: 0.1 s of CPU a task, as
    much as to read 100 MB of a savepoint.
    """
    if TaskContext.get() is not None:
        gc.collect()
        gc.freeze()
