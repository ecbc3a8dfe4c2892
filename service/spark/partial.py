"""Partial aggregates, which DuckDB computes of a partition's rows before Spark takes them.

Of `most_rows` or `_MOST_BYTES` of rows at a time: no more groups than that are ever kept, whatever the groups are, and
what is found is given to Spark before the next rows are read. DuckDB has one thread, for Spark has given the task one
core; it reaches nothing but the rows.

This module needs DuckDB, which the executors of other programs' sessions need not have: only what is pickled by the service
for executors names it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from service.spark.errors import SavepointSourceError

_MOST_BYTES = 64 << 20
_BATCH_ROWS = 65_536
_ROWS = "rows"
_SETTINGS = {
    "threads": "1",
    "TimeZone": "'UTC'",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
}


class PartialError(Exception):
    """DuckDB has no answer for these rows. Its message, with its kind at the head."""


@dataclass(frozen=True, slots=True)
class Partial:
    """What is computed of the rows.

    Attributes:
        sql: in DuckDB's SQL, over a table `rows`; groups are to be merged by whoever takes them.
        rows: the schema of the rows.
        schema: of the answer.
        most_rows: of so many rows, or some more, at a time.
    """

    sql: str
    rows: pa.Schema
    schema: pa.Schema
    most_rows: int = 1 << 20

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answers, for some rows after the other; for no rows that for none.

        Raises:
            SavepointSourceError: of a `PartialError`: a value for which the SQL has no answer, too little memory.
            Exception: that of `batches`.
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
            _connection.cache_clear()
            if failures:  # DuckDB has made text of it
                raise failures[0] from None
            raise SavepointSourceError.of(PartialError(str(error))) from error
        connection.unregister(_ROWS)

    def _some(self, rows: Iterator[pa.RecordBatch], failures: list[Exception]) -> Iterator[pa.RecordBatch]:
        """The next rows, not too many; an error is kept, too."""
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
    connection = duckdb.connect(":memory:")
    for name, value in _SETTINGS.items():
        connection.execute(f"SET GLOBAL {name}={value}")
    return connection
