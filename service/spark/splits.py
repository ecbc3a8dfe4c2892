"""Splits of a scan → tasks of Spark, and in the tasks their rows or answers.

Spark's Python reads splits in two ways. In the data source, the splits of a task are its `InputPartition`. In the service's own
queries, they are a row of a DataFrame (`task_rows`) that `mapInArrow` reads: so no Python of Spark's plans the scan again, and
each task gets its own splits only.
"""

from __future__ import annotations

import functools
import gc
import pickle
import signal
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from catalog import Split
from service.spark.types import Nanoseconds, carried, to_wire, wire_schema

if TYPE_CHECKING:
    from service.spark.partial import TaskQuery

BATCH_ROWS = 65_536
_MOST_PARTITION_BYTES = 512 << 20
_LEAST_PARTITION_BYTES = 1 << 20
# A partition is pickled whole: many small splits would make it large.
_MOST_SPLITS = 256
_CLOSED = frozenset({signal.SIGPIPE})


class SplitReader:
    """Reads splits, and yields their rows in Spark's types. It is pickled to the executors.

    Args:
        nanoseconds: see `types.py`.
        partial: the query whose answers replace the rows; None for the rows.
    """

    def __init__(self, nanoseconds: Nanoseconds, partial: TaskQuery | None = None) -> None:
        self._nanoseconds = nanoseconds
        self._partial = partial

    def rows(self, splits: Iterable[Split]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, in batches of up to `BATCH_ROWS`.

        Raises:
            SavepointSourceError: carries an error of the readers, the catalog or DuckDB.
        """
        with carried():
            outlive_connections()
            rows = (batch for split in splits for batch in split.read())
            partial = self._partial
            for batch in rebatched(rows, BATCH_ROWS) if partial is None else partial.of(rows):
                schema = batch.schema if partial is None else partial.schema
                end_with_the_socket()
                yield to_wire(batch, wire_schema(schema, self._nanoseconds))
                outlive_connections()
            spare_the_collector()

    def savepoint(self, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of tasks, rows of `task_rows`, for `mapInArrow`; Spark's plans show the name of this method."""
        for _, splits in tasks_of(tasks):
            yield from self.rows(splits)


class AnswerReader:
    """Reads splits of several tables, and yields the answers of queries over them. It is pickled to the executors.

    Args:
        partials: the query over each table, by the number of the table.
    """

    schema = pa.schema([("table", pa.int32()), ("answer", pa.binary())])
    """Schema of the answer: a row for each task with answers, which are an Arrow IPC stream."""

    def __init__(self, partials: Mapping[int, TaskQuery]) -> None:
        self._partials = partials

    def savepoint(self, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers of tasks, rows of `task_rows`, for `mapInArrow`; Spark's plans show the name of this method.

        Raises:
            SavepointSourceError: carries an error of the readers, the catalog or DuckDB.
        """
        for number, splits in tasks_of(tasks):
            with carried():
                found = list(self._partials[number].of(batch for split in splits for batch in split.read()))
                spare_the_collector()
            if found:
                row = {"table": number, "answer": _stream(found)}
                yield pa.RecordBatch.from_pylist([row], schema=self.schema)


def task_rows(tasks: Iterable[tuple[int, tuple[Split, ...]]]) -> pa.Table:
    """Return a row for each task: the number of its table, and its pickled splits."""
    numbers, splits = zip(*tasks, strict=True)
    pickled = [pickle.dumps(of_task, protocol=pickle.HIGHEST_PROTOCOL) for of_task in splits]
    return pa.table({"table": pa.array(numbers, pa.int32()), "splits": pa.array(pickled, pa.binary())})


def answers(found: pa.Table) -> dict[int, pa.Table]:
    """Return the answers of an `AnswerReader`, by the number of the table; a table without answers is missing."""
    tables: dict[int, list[pa.Table]] = {}
    for number, stream in zip(found.column(0).to_pylist(), found.column(1), strict=True):
        tables.setdefault(number, []).append(pa.ipc.open_stream(stream.as_buffer()).read_all())
    return {number: pa.concat_tables(of_tasks) for number, of_tasks in tables.items()}


def tasks_of(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, tuple[Split, ...]]]:
    """Yield (number of the table, splits) of rows that `task_rows` made."""
    for batch in rows:
        for number, splits in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            # Unpickled without a check: the service has pickled it, and Spark has carried it.
            yield number, pickle.loads(splits.as_buffer())


def _stream(batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def grouped(splits: Iterable[Split], partitions: int) -> Iterator[tuple[Split, ...]]:
    """Group splits by about equal bytes; neighbours, which are of the same file, stay together.

    Args:
        splits: splits in the order of the scan.
        partitions: number of groups; fewer if they would be very small, a multiple if they would be very large.
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
    """Yield the same rows in batches of up to `rows` rows; small batches are put together."""
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


def end_with_the_socket() -> None:
    """Let Spark's Python worker end in silence if Spark does not read the rows that it writes next.

    When a LIMIT has its rows, Spark closes the socket to the worker. The worker would print a traceback of the BrokenPipeError
    and end; users take that for a failed query. With the default action of SIGPIPE it ends at the write.
    """
    if TaskContext.get() is not None:
        # Ignoring the signal first removes one that waits because this thread has blocked it.
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _CLOSED)


def outlive_connections() -> None:
    """Turn a write to a closed connection, such as one to an object store, into an error; in threads that start now, for ever."""
    if TaskContext.get() is not None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _CLOSED)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


@functools.cache
def spare_the_collector() -> None:
    """Exclude all objects that exist now from garbage collection, in Spark's Python workers.

    Spark collects garbage after every task. numba loads a million objects that stay: that is 0.1 s of CPU for each task, as
    much as to read 100 MB of a savepoint.
    """
    if TaskContext.get() is not None:
        gc.collect()
        gc.freeze()
