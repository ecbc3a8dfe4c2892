"""`Answer`: a statement that runs when its rows are wanted."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from savepointdb.display import ROWS_SHOWN, Shown
from savepointdb.errors import translated
from savepointdb.processes import OpenSavepoints
from savepointdb.stream import Stream
from savepointdb.values import rows_of, to_pandas, to_polars
from service.base.errors import QueryError
from service.query.running.request import QueryRequest
from service.query.sql.types import Column

if TYPE_CHECKING:
    import pandas
    import polars

Row = tuple[Any, ...]


class Answer:
    """The rows of a statement, read when they are wanted; made by `Connection.sql` and `Table.scan`.

    Each call that returns rows runs the statement anew: savepoints do not change. Rows come in batches, so that a loop over an
    answer, and whatever takes `__arrow_c_stream__` (DuckDB, polars, pyarrow), needs little memory however many they are.

    Args:
        opened: runs the statement.
        request: the statement and its limits.
    """

    def __init__(self, opened: OpenSavepoints, request: QueryRequest) -> None:
        self._opened = opened
        self._request = request
        self._lock = threading.Lock()
        self._columns: list[Column] | None = None
        self._cursor: Iterator[Row] | None = None

    @property
    def statement(self) -> str:
        """The statement that runs."""
        return self._request.sql

    @property
    def columns(self) -> list[str]:
        """The names of the columns; two may be the same.

        Raises:
            QueryError: the statement means nothing, or is not allowed.
        """
        return [column.name for column in self._known_columns()]

    @property
    def types(self) -> list[str]:
        """The SQL types of the columns.

        Raises:
            QueryError: the statement means nothing, or is not allowed.
        """
        return [column.type for column in self._known_columns()]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows; runs the statement as far as its first row.

        Raises:
            QueryError: the statement means nothing, is not allowed, or fails.
        """
        stream = self._stream()
        try:
            return stream.schema.remove_metadata()
        finally:
            stream.close()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows, in batches.

        Raises:
            QueryError: the statement means nothing, is not allowed, or fails; the reader raises it, too.
        """
        stream = self._stream()
        return pa.RecordBatchReader.from_batches(stream.schema, stream)

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table.

        Raises:
            QueryError: the statement means nothing, is not allowed, or fails.
        """
        return self._table()[1]

    def to_pandas(self) -> pandas.DataFrame:
        """Return all rows as a data frame of pandas.

        Raises:
            MissingPackageError: pandas is not installed.
            QueryError: the statement means nothing, is not allowed, or fails.
        """
        with translated():
            return to_pandas(*self._table())

    def to_polars(self) -> polars.DataFrame:
        """Return all rows as a data frame of polars.

        Raises:
            MissingPackageError: polars is not installed.
            QueryError: the statement means nothing, is not allowed, or fails.
        """
        with translated():
            return to_polars(*self._table())

    # The names that DuckDB's relations have.
    arrow = to_arrow
    df = to_pandas
    pl = to_polars

    def fetchall(self) -> list[Row]:
        """Return all rows; those that are left, if `fetchone` or `fetchmany` began to read.

        Raises:
            QueryError: the statement means nothing, is not allowed, or fails.
        """
        with self._lock:
            rows, self._cursor = self._cursor or iter(self), None
        return list(rows)

    def fetchone(self) -> Row | None:
        """Return the next row; None after the last one, and then the first one again.

        Raises:
            QueryError: the statement means nothing, is not allowed, or fails.
        """
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int = 1) -> list[Row]:
        """Return the next rows; none after the last one, and then the first ones again.

        Args:
            size: most rows.

        Raises:
            QueryError: the statement means nothing, is not allowed, or fails.
        """
        with self._lock:
            cursor = self._cursor = self._cursor or iter(self)
            try:
                rows = list(islice(cursor, size))
            except BaseException:
                self._cursor = None
                raise
            if len(rows) < size:
                self._cursor = None
            return rows

    def __iter__(self) -> Iterator[Row]:
        stream = self._stream()
        columns = stream.columns
        return chain.from_iterable(rows_of(columns, batch) for batch in stream)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows by Arrow's C stream interface, batch by batch."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def show(self, max_rows: int = ROWS_SHOWN) -> None:
        """Print the first rows as a table.

        Raises:
            QueryError: the statement means nothing, is not allowed, or fails.
        """
        print(self._shown(max_rows).text())

    def __repr__(self) -> str:
        # A session shows what it is given, an error of it included.
        try:
            return self._shown(ROWS_SHOWN).text()
        except QueryError as error:
            return f"{type(error).__name__}: {error}"

    def _repr_html_(self) -> str | None:
        try:
            return self._shown(ROWS_SHOWN).html()
        except QueryError:
            return None

    def _shown(self, max_rows: int) -> Shown:
        stream = self._stream(max_rows)
        columns, schema = stream.columns, stream.schema
        batches = list(stream)
        return Shown(
            columns=columns, schema=schema, batches=batches, is_cut=stream.truncated, is_text=stream.is_text
        )

    def _table(self) -> tuple[Sequence[Column], pa.Table]:
        stream = self._stream()
        columns, schema = stream.columns, stream.schema
        return columns, pa.Table.from_batches(stream, schema)

    def _known_columns(self) -> list[Column]:
        """Return the columns, without running a query; EXPLAIN and DESCRIBE run at once."""
        if self._columns is None:
            with translated():
                is_query = not self._opened.prefix_of(self._request)
            stream = self._stream(describe=is_query)
            if is_query:
                described = [row for batch in stream for row in rows_of(stream.columns, batch)]
                self._columns = [Column(name, kind) for name, kind, *_ in described]
            else:
                self._columns = list(stream.columns)
                stream.close()
        return self._columns

    def _stream(self, max_rows: int | None = None, *, describe: bool = False) -> Stream:
        with translated():
            return self._opened.start(replace(self._request, max_rows=max_rows, describe=describe))
