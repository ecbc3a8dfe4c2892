"""`Table`: one table of a database. `Answer`: a statement, or a scan of a table, that runs when its rows are wanted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog import Database, KeyedState, NoSuchColumnError, NotAKeyError, key_of, keyed_states
from catalog.savepointtables import TIMERS_NAME
from catalog.table import Table as CatalogTable
from readers import sql_type
from savepointdb.errors import translated
from savepointdb.processes import OpenSavepoints, Stream
from savepointdb.values import ROWS_SHOWN, CallerTables, Shown, html_list, rows_of, to_pandas, to_polars
from service.base.errors import InvalidRequestError, QueryError
from service.query.encode import counted, printable, size_text
from service.query.encode.formats import Column
from service.query.engines.registry import AUTO
from service.query.running.request import QueryRequest
from service.query.sql.text import condition_of, quoted

if TYPE_CHECKING:
    import pandas
    import polars


Row = tuple[Any, ...]
_KEY = "key"


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


class Table:
    """A table of a database; made by `Connection.table`.

    Args:
        opened: runs its scans.
        database: the database.
        table: the table.
    """

    def __init__(self, opened: OpenSavepoints, database: Database, table: CatalogTable) -> None:
        self._opened = opened
        self._database = database
        self._table = table

    @property
    def name(self) -> str:
        """Its name, as listed."""
        return self._table.name

    @property
    def comment(self) -> str:
        """A sentence on what it holds."""
        return self._table.comment

    @property
    def schema(self) -> pa.Schema:
        """Its columns, with Arrow's types."""
        return self._table.schema

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.schema.names)

    def scan(
        self,
        *,
        key: Any = None,
        keys: Iterable[Any] | None = None,
        columns: Sequence[str] | str | None = None,
        where: str | None = None,
        engine: str = AUTO,
        timeout_s: float | None = None,
        allow_partial: bool = False,
    ) -> Answer:
        """Return the rows that meet the conditions; they are read when they are wanted.

        Args:
            key: a value of the type of the keys, such as `"key_662"`, `42`, `("a", 1)` or `{"id": 1}`, or the text that answers
                show for it; only what holds this key is read. None for all keys.
            keys: several of them.
            columns: their names, in any case, or one name; all if None.
            where: a condition in SQL, such as `value > 100 AND key LIKE 'a%'`; `key IN (FROM df SELECT key)` reads a data frame
                or a file, as in `Connection.sql`.
            engine: `auto`, `duckdb` or `spark`.
            timeout_s: seconds that each run may take; None for no limit.
            allow_partial: whether rows of files that cannot be read are left out; an `IncompleteWarning` names the files.

        Raises:
            InvalidRequestError: a value is no key of this table; the error shows one of its keys.
            ColumnNotFoundError: near names in the error.
        """
        with translated():
            given = [columns] if isinstance(columns, str) else columns
            names = self.columns if given is None else [self._column(name) for name in given]
            if not names:
                raise InvalidRequestError("expected at least one column, found none")
            conditions = [] if where is None else [where]
            wanted = [*([] if key is None else [key]), *(() if keys is None else keys)]
            if wanted or keys is not None:
                conditions.insert(0, self._key_condition(wanted))
        sql = f"SELECT {', '.join(map(quoted, names))} FROM {self._source}"
        if conditions:
            # On lines of their own: a condition may end with a comment.
            sql += " WHERE " + " AND ".join(f"(\n{condition}\n)" for condition in conditions)
        request = QueryRequest(
            sql=sql,
            engine=engine,
            timeout_s=timeout_s,
            allow_partial=allow_partial,
            source="savepointdb",
            system_tables=None if where is None else CallerTables.of(where, sys._getframe(1)),
        )
        return Answer(self._opened, request)

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table; see `scan`."""
        return self.scan().to_arrow()

    def to_pandas(self) -> pandas.DataFrame:
        """Return all rows as a data frame of pandas; see `scan`."""
        return self.scan().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return all rows as a data frame of polars; see `scan`."""
        return self.scan().to_polars()

    # The names that DuckDB's relations have.
    arrow = to_arrow
    df = to_pandas
    pl = to_polars

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return all rows by Arrow's C stream interface, batch by batch."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return "\n".join((self._title, *self._lines()))

    def _repr_html_(self) -> str:
        return html_list(self._title, self._lines())

    @property
    def _title(self) -> str:
        size = self._table.size_bytes
        about = f", about {size_text(size)} to read" if size else ""
        columns = counted(len(self.schema), "column")
        return f'"{printable(self._database.name)}"."{printable(self.name)}": {printable(self.comment)}; {columns}{about}'

    def _lines(self) -> list[str]:
        widest = max((len(printable(name)) for name in self.columns), default=0)
        return [f"  {printable(field.name):<{widest}}  {sql_type(field.type)}" for field in self.schema]

    @property
    def _source(self) -> str:
        return f"{quoted(self._database.name)}.{quoted(self.name)}"

    def _column(self, name: str) -> str:
        for known in self.columns:
            if known.casefold() == name.casefold():
                return known
        raise NoSuchColumnError(name, self.columns, self.name)

    def _key_condition(self, keys: Iterable[Any]) -> str:
        """Return the condition that is true for the rows of these keys."""
        column = quoted(self._column(_KEY))
        found = [condition_of(column, value) for key in keys for value in self._as_stored(key)]
        return " OR ".join(dict.fromkeys(found)) or "false"

    def _as_stored(self, key: Any) -> list[pa.Array]:
        """Return a key as the column has it; several values if the states that share the table have keys of several types."""
        found: list[pa.Array] = []
        failure: NotAKeyError | None = None
        for convert in self._conversions():
            try:
                found.append(convert(key))
            except NotAKeyError as error:
                failure = failure or error
        if failure is not None and not found:
            raise InvalidRequestError(str(failure), hint=self._example()) from failure
        return found

    def _conversions(self) -> list[Callable[[Any], pa.Array]]:
        """Return the functions that convert a key, one for each type of keys."""
        if self.name != TIMERS_NAME:
            kind, is_unquoted = self.schema.field(_KEY).type, _KEY in self._table.unquoted
            return [lambda key: key_of(key, kind, is_unquoted=is_unquoted).array]
        states = [state for state in keyed_states(self._database) if state.table is self._table]
        kinds = {(str(state.key_type), state.is_unquoted): state for state in states}
        return [partial(_in_column, state) for state in kinds.values()]

    def _example(self) -> str | None:
        """Return a sentence that shows a key as this table has it; None if there is none."""
        sql = f"SELECT {quoted(_KEY)} FROM {self._source} WHERE {quoted(_KEY)} IS NOT NULL LIMIT 1"
        try:
            row = Answer(self._opened, QueryRequest(sql=sql, source="savepointdb")).fetchone()
        except QueryError:
            # The wrong key is the news, not that a file cannot be read.
            return None
        return None if row is None else f"keys of {self.name} look like {row[0]!r}"


def _in_column(state: KeyedState, key: Any) -> pa.Array:
    return state.in_column(key_of(key, state.key_type, is_unquoted=state.is_unquoted))
