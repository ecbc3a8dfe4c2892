"""Partial aggregates, which DuckDB computes of the rows of a task before Spark reads them.

DuckDB aggregates `most_rows` or `_MOST_BYTES` of rows at a time, so it never holds more groups than these rows have, and Spark
gets each answer before the next rows are read. DuckDB has one thread, because Spark has given the task one core, and no access
to anything but the rows.

This module needs DuckDB, which executors of other programs need not have: only objects that the service pickles for its
executors refer to this module.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from service.spark.types import SavepointSourceError

_MOST_BYTES = 64 << 20
_BATCH_ROWS = 65_536
_ROWS = "rows"
_SETTINGS = {
    "threads": "1", "TimeZone": "'UTC'", "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false", "python_enable_replacements": "false",
    "enable_external_access": "false", "lock_configuration": "true",
}  # fmt: skip


class PartialError(Exception):
    """DuckDB has no answer for the rows. The message is DuckDB's, with the kind of the error first."""


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """A query that DuckDB runs over the rows of a task, some at a time.

    Attributes:
        sql: the query in DuckDB's SQL, over a table `rows`; the reader of the answers merges their groups.
        rows: schema of the rows.
        schema: schema of the answers.
        most_rows: rows at a time, up to one batch more.
    """

    sql: str
    rows: pa.Schema
    schema: pa.Schema
    most_rows: int = 1 << 20

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers for rows, some at a time; without rows, the answer for none.

        Raises:
            SavepointSourceError: carries a `PartialError`: a value for which the query has no answer, too little memory.
            Exception: an error of `batches`.
        """
        rows = iter(batches)
        first: pa.RecordBatch | None = next(rows, pa.RecordBatch.from_pylist([], self.rows))
        while first is not None:
            yield from self._answer(itertools.chain([first], rows))
            first = next(rows, None)

    def _answer(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        failures: list[Exception] = []
        connection = _connection()
        connection.register(_ROWS, pa.RecordBatchReader.from_batches(self.rows, self._some(rows, failures)))
        try:
            yield from connection.sql(self.sql).to_arrow_reader(_BATCH_ROWS)
        except Exception as error:
            _connection.cache_clear()  # an internal error of DuckDB breaks the connection
            if failures:  # DuckDB has turned the error of the rows into text
                raise failures[0] from None
            raise SavepointSourceError.of(PartialError(str(error))) from error
        connection.unregister(_ROWS)

    def _some(self, rows: Iterator[pa.RecordBatch], failures: list[Exception]) -> Iterator[pa.RecordBatch]:
        """Yield the next rows, up to the limits; append an error to `failures`."""
        count = size_bytes = 0
        while count < self.most_rows and size_bytes < _MOST_BYTES:
            try:
                batch = next(rows, None)
            except Exception as error:
                failures.append(error)
                raise
            if batch is None:
                return
            yield batch
            count += batch.num_rows
            size_bytes += batch.nbytes


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    """Return the connection of this process, which Spark uses for many tasks."""
    connection = duckdb.connect(":memory:")
    for name, value in _SETTINGS.items():
        connection.execute(f"SET GLOBAL {name}={value}")
    return connection
