"""Arrow → Python values, pandas and polars, without loss, and what a session shows; and data frames of the caller as tables: `FROM df`.

| value | Python | pandas | polars |
|---|---|---|---|
| integers, some of them NULL | int, None | `Int64` and its like, where NaN would make them floating point | as Arrow has them |
| HUGEINT: sums of integers | int | int64 if all fit, else int objects | Int64 if all fit, else decimals |
| times beyond Python's classes: nanoseconds, the year 10000 | ISO 8601 text | as Arrow has them, or text | as Arrow has them |
| structs | dict | dict | struct |
| maps | list of (key, value): keys of a map may be dicts | the same | list of structs |

| data frame | as a table |
|---|---|
| pandas | its columns, without the index |
| polars, also lazy | its columns; a lazy frame is computed once |
| Arrow: a table, a record batch, a dataset | its columns |
| anything with `__arrow_c_stream__`, such as an answer of this package or a relation of DuckDB | its rows, read once |

A table of the catalog hides a data frame of its name, as in DuckDB.

A session shows rows as a table of text, and as HTML in notebooks. Names and values come from states, and anybody may have written those:
control characters are shown by their codes, and HTML is escaped.
"""

from __future__ import annotations

import re
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from catalog import Database, Predicate, Scan, Split
from catalog import Table as CatalogTable
from catalog.scan import ANYTHING, ScanCounter
from readers import json_text, sql_type
from savepointdb.errors import MissingPackageError
from service.base.errors import InvalidQueryError
from service.query import encode
from service.query.encode.formats import Column, is_number, plain, plain_type
from service.tasks.write.localfiles import LocalTables, column_names

if TYPE_CHECKING:
    import pandas
    import polars


_HUGE = frozenset({"HUGEINT", "UHUGEINT"})
# A time or date beyond Python's classes; with pandas hidden, nanoseconds.
_UNFIT = (ValueError, OverflowError, pa.ArrowException)
_NAME = re.compile(r"[^\W\d]\w*")
_BATCH_ROWS = 1 << 16
# The library of a data frame → its classes; a library that is not loaded has made no frame.
_CLASSES = {
    "pandas": ("DataFrame",),
    "polars": ("DataFrame", "LazyFrame"),
    "pyarrow": ("Table", "RecordBatch"),
    "pyarrow.dataset": ("Dataset",),
}
ROWS_SHOWN = 40
_MOST_CHARACTERS = 200
_TABLES_SHOWN = 30


def rows_of(columns: Sequence[Column], batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a batch as Python values."""
    values = [values_of(array, column.type) for column, array in zip(columns, batch.columns, strict=True)]
    # Without columns there are no rows to yield: DuckDB answers no such statement.
    return zip(*values, strict=True)


def values_of(array: pa.Array, sql_type: str = "") -> list[Any]:
    """Return the values of a column.

    Args:
        array: the column.
        sql_type: distinguishes HUGEINT from decimals.
    """
    array = plain(array)
    if sql_type in _HUGE:
        return [None if value is None else int(value) for value in array.to_pylist()]
    try:
        # Nanoseconds would become pandas' timestamps where it is installed.
        return list(_in_microseconds(array).to_pylist())
    except _UNFIT:
        return [_value(array.slice(index, 1)) for index in range(len(array))]


def to_pandas(columns: Sequence[Column], table: pa.Table) -> pandas.DataFrame:
    """Return a data frame.

    Raises:
        MissingPackageError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise _missing("pandas") from error
    series = [_series(column.type, array) for column, array in zip(columns, table.columns, strict=True)]
    # Numbers as names first: two columns may have one name.
    frame = pandas.DataFrame(dict(enumerate(series)), index=pandas.RangeIndex(len(table)), copy=False)
    frame.columns = pandas.Index([column.name for column in columns])
    return frame


def to_polars(columns: Sequence[Column], table: pa.Table) -> polars.DataFrame:
    """Return a data frame.

    Raises:
        MissingPackageError: polars is not installed.
    """
    try:
        import polars
    except ImportError as error:
        raise _missing("polars") from error
    frame = polars.from_arrow(_known_to_polars(columns, table))
    assert isinstance(frame, polars.DataFrame)
    return frame


def _series(sql_type: str, column: pa.ChunkedArray) -> Any:
    import pandas

    if sql_type in _HUGE:
        column = _narrow(column)
    kinds = {} if not column.null_count else _nullable_types()
    try:
        return column.to_pandas(types_mapper=kinds.get)
    except _UNFIT:
        values = [value for chunk in column.chunks for value in values_of(chunk, sql_type)]
        return pandas.Series(values, dtype=object)


def _nullable_types() -> dict[pa.DataType, Any]:
    import pandas

    return {
        pa.int8(): pandas.Int8Dtype(),
        pa.int16(): pandas.Int16Dtype(),
        pa.int32(): pandas.Int32Dtype(),
        pa.int64(): pandas.Int64Dtype(),
        pa.uint8(): pandas.UInt8Dtype(),
        pa.uint16(): pandas.UInt16Dtype(),
        pa.uint32(): pandas.UInt32Dtype(),
        pa.uint64(): pandas.UInt64Dtype(),
    }


def _known_to_polars(columns: Sequence[Column], table: pa.Table) -> pa.Table:
    for index, column in enumerate(columns):
        array = table.column(index)
        if column.type in _HUGE:
            array = _narrow(array)
        elif pa.types.is_interval(array.type) or pa.types.is_union(array.type):
            array = pa.chunked_array([plain(chunk) for chunk in array.chunks], plain_type(array.type))
        table = table.set_column(index, table.field(index).name, array)
    return table


def _narrow(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return integers that came as decimals as 64-bit integers, if all of them fit."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def _in_microseconds(array: pa.Array) -> pa.Array:
    kind = _microseconds(array.type)
    return array if kind.equals(array.type) else array.cast(kind)


def _microseconds(kind: pa.DataType) -> pa.DataType:
    """Return a type with microseconds in place of nanoseconds; a cast to it fails where that loses digits."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time64(kind):
        return pa.time64("us")
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_microseconds(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_microseconds(kind.key_type), _microseconds(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_microseconds(kind.value_type)))
    return kind


def _value(array: pa.Array) -> Any:
    """Return the only value of an array; as answers show it in JSON if Python's classes cannot hold it."""
    try:
        return _in_microseconds(array).to_pylist()[0]
    except _UNFIT:
        return orjson.loads(json_text(array)[0].as_py())


def _missing(package: str) -> MissingPackageError:
    return MissingPackageError(
        f"expected the package {package}, found that it is not installed",
        hint=f"pip install {package}; to_arrow needs neither",
    )


class CallerTables(LocalTables):
    """The data frames that a statement may name, and the files.

    Args:
        frames: by name.
    """

    def __init__(self, frames: Mapping[str, object]) -> None:
        self._frames = frames
        self._tables: dict[str, FrameTable] = {}

    @classmethod
    def of(cls, statement: str, caller: FrameType) -> CallerTables:
        """Return the frames among the variables of a function whose names are in a statement."""
        names, code = set(_NAME.findall(statement)), caller.f_code
        # Before Python 3.13 a function whose `f_locals` were read keeps all that its variables had, until it returns; since then the
        # keys of these are a list.
        has_locals = names & {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        is_function = code.co_flags & CO_OPTIMIZED
        scopes = (caller.f_locals if has_locals or not is_function else {}, caller.f_globals)
        variables = {name: scope[name] for scope in reversed(scopes) for name in names.intersection(scope)}
        return cls({name: value for name, value in variables.items() if _is_frame(value)})

    def frame(self, name: str) -> CatalogTable | None:
        if name not in self._frames:
            return None
        if name not in self._tables:
            self._tables[name] = FrameTable(name, _rows_of(name, self._frames[name]))
        return self._tables[name]


class FrameTable(CatalogTable):
    """A data frame as a table.

    Args:
        name: of the variable.
        rows: of the frame.
    """

    def __init__(self, name: str, rows: pa.Table) -> None:
        self.name = name
        self.comment = f"the data frame {name}"
        self._rows = rows.rename_columns(column_names(rows.column_names)).replace_schema_metadata(None)

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    @property
    def size_bytes(self) -> int:
        return int(self._rows.nbytes)

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        return Scan(schema=self.schema, splits=(FrameSplit(self._rows),))


@dataclass(frozen=True, slots=True)
class FrameSplit(Split):
    """The rows of a frame. They are in memory: it reads no bytes."""

    rows: pa.Table
    size_bytes: int = 0

    def narrowed(self, columns: Sequence[str]) -> FrameSplit:
        return FrameSplit(self.rows.select(list(columns)))

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        yield from self.rows.to_batches(max_chunksize=_BATCH_ROWS)


def _is_frame(value: object) -> bool:
    return hasattr(type(value), "__arrow_c_stream__") or any(
        isinstance(value, getattr(sys.modules[library], name))
        for library, names in _CLASSES.items()
        if library in sys.modules
        for name in names
    )


def _rows_of(name: str, frame: Any) -> pa.Table:
    """Return the rows of a frame.

    Raises:
        InvalidQueryError: Arrow has no type for some of its values.
    """
    try:
        library = type(frame).__module__.partition(".")[0]
        if library == "polars":
            return frame.lazy().collect().to_arrow()
        if library == "pandas":
            return pa.Table.from_pandas(frame, preserve_index=False)
        is_dataset = library == "pyarrow" and hasattr(frame, "to_table")
        return frame.to_table() if is_dataset else pa.table(frame)
    except Exception as error:  # a lazy frame may run any code
        raise InvalidQueryError(f"the data frame {name!r} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The first rows of an answer.

    Attributes:
        columns: names and SQL types.
        schema: of the batches.
        batches: the rows.
        is_cut: True if there are more rows.
        is_text: True if the rows are lines of text, such as a plan.
    """

    columns: Sequence[Column]
    schema: pa.Schema
    batches: Sequence[pa.RecordBatch]
    is_cut: bool = False
    is_text: bool = False

    def text(self) -> str:
        """Return a table that fits the terminal, and below it what it does not show."""
        if self.is_text:
            return "\n".join(encode.plan_lines(self.columns, self.batches))
        width = shutil.get_terminal_size().columns
        numbers = encode.fitting_columns(self.columns, self.schema, self.batches, width)
        columns = [self.columns[number] for number in numbers]
        schema = pa.schema([self.schema.field(number) for number in numbers])
        shown = [
            pa.RecordBatch.from_arrays([batch.column(number) for number in numbers], schema=schema)
            for batch in self.batches
        ]
        lines = [*encode.table_lines(columns, schema, shown, width), self._row_count()]
        left_out = [column.name for number, column in enumerate(self.columns) if number not in numbers]
        if left_out:
            lines.append(
                f"{encode.counted(len(left_out), 'column')} left out: {encode.printable(', '.join(left_out))}"
            )
        return "\n".join(lines)

    def html(self) -> str:
        """Return a table in HTML; every name and value is escaped."""
        if self.is_text:
            return f"<pre>{escape(self.text())}</pre>"
        heads = [
            f'<th title="{escape(column.type)}">{escape(encode.printable(column.name))}</th>'
            for column in self.columns
        ]
        styles = [' style="text-align:right"' if is_number(field.type) else "" for field in self.schema]
        rows = (row for batch in self.batches for row in encode.text_rows(self.columns, batch))
        body = "".join(f"<tr>{''.join(_html_cells(row, styles))}</tr>" for row in rows)
        return (
            f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{escape(self._row_count())}</p>"
        )

    def _row_count(self) -> str:
        rows = encode.counted(sum(batch.num_rows for batch in self.batches), "row")
        return f"the first {rows}" if self.is_cut else rows


def html_list(title: str, lines: Iterable[str]) -> str:
    """Return a title and lines of text in HTML, escaped."""
    text = "\n".join(lines)
    return f"<div><strong>{escape(encode.printable(title))}</strong><pre>{escape(text)}</pre></div>"


class TitledList(ABC):
    """What a session shows as a title and lines below it."""

    def __repr__(self) -> str:
        title, *lines = self._lines()
        return "\n".join([title, *(f"  {line}".rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        title, *lines = self._lines()
        return html_list(title, lines)

    @abstractmethod
    def _lines(self) -> list[str]:
        """Return the title and the lines."""


def _html_cells(row: Sequence[str], styles: Sequence[str]) -> Iterator[str]:
    for cell, style in zip(row, styles, strict=True):
        text = cell if len(cell) <= _MOST_CHARACTERS else f"{cell[:_MOST_CHARACTERS]}…"
        yield f"<td{style}>{escape(text)}</td>"


def database_lines(database: Database) -> Iterator[str]:
    """Yield what a savepoint is, its states, and the names of its other tables."""
    yield f"savepointdb: {encode.printable(database.path)}"
    kind = (database.kind or "savepoint or checkpoint").lower()
    facts = [f"{kind} {database.checkpoint_id}"]
    made = database.created_at
    if made is not None:
        facts.append(encode.dated(made))
    if database.job.title:
        facts.append(f"job {encode.printable(database.job.title)}")
    facts.append(f"written by Flink {database.savepoint.metadata.flink_versions}")
    yield ", ".join(facts)
    states = database.table("StateMeta").scan().to_arrow()
    states = states.filter(states["table_name"].is_valid())
    if len(states):
        shown = _state_rows(states.slice(0, _TABLES_SHOWN))
        columns = [Column(field.name, sql_type(field.type)) for field in shown.schema]
        yield from (f"  {line}" for line in encode.table_lines(columns, shown.schema, shown.to_batches()))
    if len(states) > _TABLES_SHOWN:
        yield f"  and {encode.counted(len(states) - _TABLES_SHOWN, 'more state')}"
    known = {name.casefold() for name in states["table_name"].to_pylist()}
    others = [name for name in database.tables if name.casefold() not in known]
    yield f"  also: {encode.printable(', '.join(others[:_TABLES_SHOWN]))}{', …' if len(others) > _TABLES_SHOWN else ''}"


def _state_rows(states: pa.Table) -> pa.Table:
    sizes = encode.state_sizes(states)
    columns = {
        "table": states["table_name"],
        "kind": states["state_kind"],
        "key": states["key_type"].fill_null(""),
        "value": states["value_type"].fill_null(""),
        "size": sizes,
        "decoded": states["decode_status"],
    }
    return pa.table(columns).combine_chunks()
