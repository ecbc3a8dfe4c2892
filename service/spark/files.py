"""Rows → Parquet files, written by the executors' Python where they and the service see the same folder.

A task that Spark repeats writes another file, and what a dead one has begun stays: only those files count that a task has
named at its end.
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

from readers import ReaderError
from service.spark.errors import SavepointSourceError, carried
from service.spark.splits import BATCH_ROWS, rebatched, spare_the_collector, tasks_of

if TYPE_CHECKING:
    from service.spark.partial import Partial


class NotWrittenError(Exception):
    """An executor cannot write where it was told to."""


class FileWriter:
    """Writes the rows of a task. It is pickled to the executors.

    Args:
        folder: where, as executors see it.
    """

    schema = pa.schema([("file", pa.string())])
    """What it gives: a row for each file; their names are in the order of the tasks."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def savepoint(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a task's rows, for `mapInArrow`; the plans of Spark show its name.

        Raises:
            SavepointSourceError: of a `NotWrittenError`.
        """
        yield from self.written(rows)

    def written(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write these rows to one file, and give its row; no rows are no file.

        Raises:
            SavepointSourceError: of a `NotWrittenError`.
            Exception: that of `rows`.
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
        except ReaderError:  # one of a missing file is an OSError, too
            raise
        except OSError as error:
            raise SavepointSourceError.of(NotWrittenError(f"{path}: {error.strerror or error}")) from error
        yield pa.RecordBatch.from_arrays([pa.array([name])], schema=self.schema)


class ComputedFileWriter:
    """Reads splits, and writes what is computed of their rows. It is pickled to the executors.

    Args:
        writer: of the files.
        partial: what is computed.
    """

    def __init__(self, writer: FileWriter, partial: Partial) -> None:
        self._writer = writer
        self._partial = partial

    def savepoint(self, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files of rows of `splits.task_rows`, for `mapInArrow`; the plans of Spark show its name.

        Raises:
            SavepointSourceError: of an error of the readers, the catalog or DuckDB, or of a `NotWrittenError`.
        """
        for _, splits in tasks_of(tasks):
            with carried():
                yield from self._writer.written(
                    self._partial.of(batch for split in splits for batch in split.read())
                )
                spare_the_collector()


def _write(path: str, rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    # They are read once, whole: dictionaries and statistics would cost more than all the rest of writing.
    with pq.ParquetWriter(
        path, schema, compression="lz4", use_dictionary=False, write_statistics=False
    ) as writer:
        for batch in rows:
            writer.write_batch(batch)
