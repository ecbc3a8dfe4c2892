"""Sizes and numbers for people: `12 kB`, `1 row`, `2 rows`.

Ages for people: `3 hours ago`.

Rows for people: as a table, as lines of one value each, as the lines of a plan.

A table has aligned columns, numbers to the right. The first rows determine the widths, so a table of any length streams. A cell that
is wider than its column is cut; in files and pipes it stays whole and moves the rest of its line. On a screen only texts are cut that
a reader can do without: a number, a time, or a text that looks like an id stands whole, or its column is left out.

Parts of a page for people: tables with as many columns as fit on the screen, and wrapped texts.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, repeat

import pyarrow as pa
import pyarrow.compute as pc

from readers import sql_type
from service.query.encode.formats import Column, is_number, printable, text_column

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP = 1000


def size_text(size_bytes: int) -> str:
    """Return a size with a decimal unit; below 10 it has one digit behind the point."""
    size, number = float(size_bytes), 0
    while size >= _STEP and number < len(_UNITS) - 1:
        size, number = size / _STEP, number + 1
    digits = 0 if size >= 10 or number == 0 else 1
    return f"{size:.{digits}f} {_UNITS[number]}"


def state_size_text(size_bytes: int | None, *, is_estimate: bool) -> str:
    """Return the size of a state; an estimate says so, and `-` is a size that is not known."""
    if size_bytes is None:
        return "-"
    return f"about {size_text(size_bytes)}" if is_estimate else size_text(size_bytes)


_SPANS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def age_text(then: datetime, now: datetime) -> str:
    """Return how long ago a time was, in the largest whole unit; a time to come is that of another clock."""
    seconds = int((now - then).total_seconds())
    for unit, length in _SPANS:
        count = seconds // length
        if count > 0:
            return f"{count:,} {unit}{'' if count == 1 else 's'} ago"
    return "just now" if seconds >= 0 else "in the future"


def dated(then: datetime | None) -> str:
    """Return how long ago a time was, and the time in UTC; None is a time that is not known."""
    if then is None:
        return "at an unknown time"
    return f"{age_text(then, datetime.now(UTC))} ({then:%Y-%m-%d %H:%M:%S} UTC)"


_NULL = "NULL"
_GAP = "  "
_MAX_CELL = 200
_ROWS_FOR_WIDTHS = 1000
_MIN_CELL = 16
# Users copy such texts: a cut id is worth nothing.
_ID = re.compile(r"[\w.:@+-]{1,64}")

_Row = tuple[str, ...]


def table_lines(
    columns: Sequence[Column],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    width: int | None = None,
    *,
    whole: bool = False,
) -> Iterator[str]:
    """Yield the lines of a table: names, a rule, the rows.

    Args:
        columns: names and SQL types.
        schema: schema of the batches.
        batches: the rows.
        width: characters per line of the screen; cells are cut to fit, as far as possible.
        whole: True to cut no cell, for files and pipes.
    """
    remaining = iter(batches)
    rows: list[_Row] = []
    for batch in remaining:
        rows += text_rows(columns, batch)
        if len(rows) >= _ROWS_FOR_WIDTHS:
            break
    names = [printable(column.name) for column in columns]
    widths = _widths(names, rows)
    if width is not None:
        widths = _cut(widths, _least(names, rows, schema), width)
    right = [is_number(field.type) for field in schema]
    yield _line(names, widths, right, whole=whole)
    yield _GAP.join("─" * width for width in widths)
    for row in chain(rows, chain.from_iterable(text_rows(columns, batch) for batch in remaining)):
        yield _line(row, widths, right, whole=whole)


def fitting_columns(
    columns: Sequence[Column], schema: pa.Schema, batches: Iterable[pa.RecordBatch], width: int
) -> list[int]:
    """Return the positions of the columns that a screen has room for; the first column is always among them.

    Room goes to columns from left to right, then to those that are NULL in every row, then to those that scans add (`_key_group`).
    """
    names = [printable(column.name) for column in columns]
    rows = [row for batch in batches for row in text_rows(columns, batch)]
    least = _least(names, rows, schema)
    everywhere = range(len(names))
    is_empty = [bool(rows) and all(row[number] == _NULL for row in rows) for number in everywhere]
    wanted = sorted(everywhere, key=lambda number: (names[number].startswith("_"), is_empty[number], number))
    wanted.remove(0)
    shown, room = [0], width - least[0]
    for number in wanted:
        if least[number] + len(_GAP) <= room:
            shown.append(number)
            room -= least[number] + len(_GAP)
    return sorted(shown)


def value_lines(columns: Sequence[Column], batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Yield a line for each value of each row, and an empty line between rows."""
    names = [printable(column.name) for column in columns]
    widest = max(map(text_width, names), default=0)
    titles = [" " * (widest - text_width(name)) + name for name in names]
    is_first = True
    for batch in batches:
        for row in text_rows(columns, batch):
            if not is_first:
                yield ""
            is_first = False
            for title, cell in zip(titles, row, strict=True):
                yield f"{title} = {cell}"


def plan_lines(columns: Sequence[Column], batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Yield the lines of the texts in the last column: the answer to EXPLAIN."""
    for batch in batches:
        for text in text_column(batch.columns[-1], columns[-1].type).to_pylist():
            yield from map(_cell, (text or "").splitlines())


def text_rows(columns: Sequence[Column], batch: pa.RecordBatch) -> list[_Row]:
    """Return the rows of a batch as texts without control characters."""
    texts = [_texts(array, column) for column, array in zip(columns, batch.columns, strict=True)]
    return [tuple(map(_cell, row)) for row in zip(*texts, strict=True)]


def _texts(array: pa.Array, column: Column) -> list[str | None]:
    # Without Arrow's functions, whose import takes longer than a short query.
    if pa.types.is_integer(array.type):
        return [None if value is None else str(value) for value in array.to_pylist()]
    texts: list[str | None] = text_column(array, column.type).to_pylist()
    return texts


def _cell(text: str | None) -> str:
    return _NULL if text is None else printable(text)


def text_width(text: str) -> int:
    """Number of characters that a text takes on the screen."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(bool(unicodedata.combining(char)) for char in text)


def _widths(names: Sequence[str], rows: Sequence[_Row]) -> list[int]:
    return [min(max(map(text_width, column)), _MAX_CELL) for column in zip(names, *rows, strict=True)]


def _least(names: Sequence[str], rows: Sequence[_Row], schema: pa.Schema) -> list[int]:
    """Return the width below which each column is not cut."""
    least = []
    cells = list(zip(*rows, strict=True)) or [()] * len(names)
    for name, column, whole, field in zip(names, cells, _widths(names, rows), schema, strict=True):
        may_be_cut = _is_text(field.type) and not all(map(_ID.fullmatch, column))
        least.append(min(whole, max(_MIN_CELL, text_width(name))) if may_be_cut else whole)
    return least


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind))


def _cut(widths: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Reduce the widest widths until all fit, but none below its least."""
    widths = list(widths)
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        widest = max(range(len(widths)), key=lambda number: (widths[number] > least[number], widths[number]))
        cut = min(excess, widths[widest] - least[widest])
        if cut <= 0:
            break
        widths[widest] -= cut
        excess -= cut
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], *, whole: bool) -> str:
    return _GAP.join(map(padded, cells, widths, right, repeat(whole))).rstrip()


def padded(text: str, width: int, right: bool, whole: bool = True) -> str:
    """Return a text with blanks, on its left if it stands to the right; a text that is not to be whole is cut."""
    if not whole and text_width(text) > width:
        text = text[: max(width - 1, 1)] + "…"
    blanks = " " * (width - text_width(text))
    return blanks + text if right else text + blanks


_INDENT = "  "


def section_lines(rows: pa.Table, titles: Mapping[str, str], width: int | None) -> Iterator[str]:
    """Yield the lines of a table, and of the names of columns for which the screen has no room.

    Args:
        rows: the rows.
        titles: column of the rows → its title, in order; a column with the title `size` has numbers of bytes.
        width: characters per line of the screen; None if there is none.
    """
    shown = pa.table({title: _shown(rows[name], title) for name, title in titles.items()})
    columns = [Column(field.name, sql_type(field.type)) for field in shown.schema]
    batches = shown.combine_chunks().to_batches()
    if width is None:
        yield from _indented(table_lines(columns, shown.schema, batches, whole=True))
        return
    width -= len(_INDENT)
    numbers = fitting_columns(columns, shown.schema, batches, width)
    left_out = [name for number, name in enumerate(shown.column_names) if number not in numbers]
    shown = shown.select(numbers)
    fitting = [columns[number] for number in numbers]
    yield from _indented(table_lines(fitting, shown.schema, shown.combine_chunks().to_batches(), width))
    if left_out:
        yield f"{_INDENT}left out, for lack of room: {', '.join(left_out)}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def state_sizes(states: pa.Table) -> pa.Array:
    """Return the sizes of rows of StateMeta as texts."""
    pairs = zip(states["size_bytes"].to_pylist(), states["size_is_estimate"].to_pylist(), strict=True)
    texts = [state_size_text(size, is_estimate=bool(is_estimate)) for size, is_estimate in pairs]
    return pa.array(texts, pa.string())


def _shown(column: pa.ChunkedArray, title: str) -> pa.Array:
    array = column.combine_chunks()
    if title == "size" and not pa.types.is_string(array.type):
        return pa.array(
            ["-" if value is None else size_text(value) for value in array.to_pylist()], pa.string()
        )
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    return pc.fill_null(array, "-") if pa.types.is_string(array.type) else array


def wrapped_lines(text: str, indent: str, width: int | None) -> Iterator[str]:
    """Yield the lines of a text, indented; words, such as names of classes, stay whole, because they are copied from the screen.

    Args:
        text: any text; whitespace in it does not count.
        indent: what begins each line.
        width: characters per line of the screen; None for one line.
    """
    text = printable(" ".join(text.split()))
    if width is None:
        yield indent + text
        return
    yield from textwrap.wrap(
        text,
        width=max(width, 40),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
