"""Rows → Parquet files, which the executors' Python writes to a folder that the service sees, too.

A task that Spark repeats writes another file, and the unfinished file of a dead task stays: only files count whose names a
task has returned at its end.

Parcels of the writers, as tasks of Spark: each makes the keyed state of one subtask, and writes its file into the target.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

from catalog.references import SavepointReference, open_savepoint
from readers import ReaderError
from service.spark.splits import BATCH_ROWS, rebatched, spare_the_collector, tasks_of
from service.spark.types import SavepointSourceError, carried
from writers import done

if TYPE_CHECKING:
    from service.spark.partial import TaskQuery


class NotWrittenError(Exception):
    """An executor cannot write to the folder."""


class FileWriter:
    """Writes the rows of a task. It is pickled to the executors.

    Args:
        folder: path of the folder on executors.
    """

    schema = pa.schema([("file", pa.string())])
    """Schema of the answer: a row for each file; the order of the names is that of the tasks."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def savepoint(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a task's rows, for `mapInArrow`; Spark's plans show the name of this method.

        Raises:
            SavepointSourceError: carries a `NotWrittenError`.
        """
        yield from self.written(rows)

    def written(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write rows to one file, and yield its row; without rows, write no file.

        Raises:
            SavepointSourceError: carries a `NotWrittenError`.
            Exception: an error of `rows`.
        """
        some = (batch for batch in rebatched(rows, BATCH_ROWS) if batch.num_rows)
        first = next(some, None)
        if first is None:
            return
        context = TaskContext.get()
        name = f"part-{context.partitionId() if context else 0:06}-{secrets.token_hex(8)}.parquet"
        path = os.path.join(self._folder, name)
        try:
            _write(path, itertools.chain([first], some), first.schema)
        except ReaderError:  # of a missing state file, which is an OSError, too
            raise
        except OSError as error:
            raise SavepointSourceError.of(NotWrittenError(f"{path}: {error.strerror or error}")) from error
        yield pa.RecordBatch.from_pylist([{"file": name}], schema=self.schema)


class ComputedFileWriter:
    """Reads splits, and writes what DuckDB computes of their rows. It is pickled to the executors.

    Args:
        writer: writes the files.
        partial: the computation.
    """

    def __init__(self, writer: FileWriter, partial: TaskQuery) -> None:
        self._writer = writer
        self._partial = partial

    def savepoint(self, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the files of tasks, rows of `splits.task_rows`, for `mapInArrow`; Spark's plans show the name of this method.

        Raises:
            SavepointSourceError: carries an error of the readers, the catalog or DuckDB, or a `NotWrittenError`.
        """
        for _, splits in tasks_of(tasks):
            with carried():
                yield from self._writer.written(
                    self._partial.of(batch for split in splits for batch in split.read())
                )
                spare_the_collector()


def _write(path: str, rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    # The files are read once, whole: dictionaries and statistics would take longer than all the rest of writing.
    with pq.ParquetWriter(
        path, schema, compression="lz4", use_dictionary=False, write_statistics=False
    ) as writer:
        for batch in rows:
            writer.write_batch(batch)


class ParcelWorker:
    """Does the work of parcels. It is pickled to the executors.

    Args:
        source: the savepoint that is changed.
    """

    schema = pa.schema([("number", pa.int32()), ("answer", pa.binary())])
    """Schema of the answers: a row for each parcel. An error of ours is an answer: Spark would try again what fails again."""

    def __init__(self, source: SavepointReference) -> None:
        self._source = source

    def savepoint(self, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers to parcels, rows of `parcel_rows`, for `mapInArrow`; Spark's plans show the name of this method."""
        for batch in tasks:
            for number, parcel in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                answer = done(parcel, lambda: open_savepoint(self._source))
                spare_the_collector()
                yield pa.RecordBatch.from_pylist([{"number": number, "answer": answer}], schema=self.schema)


def parcel_rows(parcels: list[bytes]) -> pa.Table:
    """Return a row for each parcel, with its number."""
    schema = pa.schema([("number", pa.int32()), ("parcel", pa.binary())])
    return pa.table({"number": list(range(len(parcels))), "parcel": parcels}, schema)
