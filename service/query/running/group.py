"""Runs that one caller started for one purpose, and that end together.

The first rows of an answer, and how many there are: what a report about a savepoint shows of a question.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import orjson
import pyarrow as pa

from service.base.errors import QueryCancelledError
from service.query.encode import counted, json_rows, table_lines
from service.query.running.request import QueryRequest
from service.query.running.run import Run
from service.query.sql.types import Column

Started = TypeVar("Started", bound=Run)


class QueryGroup(Generic[Started]):
    """The runs of one call. Safe to share between threads: one starts them and waits, another may cancel them.

    Args:
        start: starts one.
        started: gets those that were started; None for a list of its own.
    """

    def __init__(
        self, start: Callable[[QueryRequest], Started], started: list[Started] | None = None
    ) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._started = [] if started is None else started
        self._is_cancelled = False

    def start(self, request: QueryRequest) -> Started:
        """Start a statement.

        Raises:
            QueryError: the statement means nothing, or the call is cancelled.
        """
        run = self._start(request)
        with self._lock:
            self._started.append(run)
            is_late = self._is_cancelled
        if is_late:
            run.close()
            raise QueryCancelledError("the call was cancelled")
        return run

    def cancel(self) -> None:
        """Cancel those that still run; no other starts."""
        with self._lock:
            self._is_cancelled = True
        for run in self._started:
            run.cancel()

    def bytes_read(self) -> tuple[int, int]:
        """Return how many bytes of savepoints were read, and about how many are read in all."""
        with self._lock:
            found = [run.progress for run in self._started]
        return sum(one.bytes_read for one in found), sum(one.bytes_total for one in found)


# A report is read by people: a value of megabytes says no more there than its beginning.
_MOST_CHARACTERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """The first rows of an answer.

    Attributes:
        columns: names and SQL types.
        batch: the rows that are kept.
        row_count: the rows that were counted.
        is_cut: True if there are more than were counted.
    """

    columns: tuple[Column, ...]
    batch: pa.RecordBatch
    row_count: int
    is_cut: bool

    @property
    def count_text(self) -> str:
        """The number of rows, for people."""
        if not self.row_count:
            return "no row"
        more = "more than " if self.is_cut else ""
        return f"{more}{counted(self.row_count, 'row')}"

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield the kept rows as lines of a table, and a line that counts the others.

        Args:
            width: characters per line of the screen; None for lines of any length.
        """
        yield from table_lines(self.columns, self.batch.schema, [self.batch], width, whole=width is None)
        others = self.row_count - self.batch.num_rows
        if others > 0:
            yield f"… and {'more than ' if self.is_cut else ''}{others:,} more"

    def to_dict(self) -> dict[str, Any]:
        """Return the columns, the kept rows and the count as values that are JSON; long texts are cut."""
        rows = [_shortened(orjson.loads(row)) for row in json_rows(self.columns, self.batch)]
        return {
            "columns": [{"name": column.name, "type": column.type} for column in self.columns],
            "rows": rows,
            "row_count": self.row_count,
            "is_cut": self.is_cut,
        }


def first_rows(
    start: Callable[[QueryRequest], Run], request: QueryRequest, *, kept: int, counted: int
) -> FirstRows:
    """Run a query and return its first rows; it ends when enough rows are counted.

    Args:
        start: starts it.
        request: the query; its `max_rows` is replaced.
        kept: most rows to keep.
        counted: most rows to count, at least as many.

    Raises:
        QueryError: the statement means nothing, is not allowed, or fails.
    """
    with start(replace(request, max_rows=counted)) as query:
        columns, schema = query.columns, query.schema
        pieces: list[pa.RecordBatch] = []
        missing, row_count = kept, 0
        for batch in query.batches():
            row_count += batch.num_rows
            if missing and batch.num_rows:
                piece = batch.slice(0, missing)
                # A slice would keep the whole batch in memory, however few of its rows are wanted.
                pieces.append(piece.take(pa.array(range(piece.num_rows), pa.int32())))
                missing -= piece.num_rows
        table = pa.Table.from_batches(pieces) if pieces else schema.empty_table()
        return FirstRows(
            columns=columns, batch=_one_batch(table), row_count=row_count, is_cut=query.truncated
        )


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _shortened(value: Any) -> Any:
    """Cut long texts in a value that is JSON."""
    if isinstance(value, str):
        return value if len(value) <= _MOST_CHARACTERS else f"{value[:_MOST_CHARACTERS]}…"
    if isinstance(value, list):
        return [_shortened(one) for one in value]
    if isinstance(value, dict):
        return {key: _shortened(one) for key, one in value.items()}
    return value
