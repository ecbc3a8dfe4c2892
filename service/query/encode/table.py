"""Rows for people: as a table, as lines of one value each, as the lines of a plan.

A table has aligned columns, numbers to the right. The first rows determine the widths, so a table of any length streams. A cell that
is wider than its column is cut; in files and pipes it stays whole and moves the rest of its line. On a screen only texts are cut that
a reader can do without: a number, a time, or a text that looks like an id stands whole, or its column is left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat

import pyarrow as pa

from service.query.encode.columns import is_number, text_column
from service.query.sql.types import Column

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


def printable(text: str) -> str:
    """Return a text with the codes of its control characters: the terminal would obey those of a state."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


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
    return _GAP.join(map(_padded, cells, widths, right, repeat(whole))).rstrip()


def _padded(text: str, width: int, right: bool, whole: bool) -> str:
    if not whole and text_width(text) > width:
        text = text[: max(width - 1, 1)] + "…"
    blanks = " " * (width - text_width(text))
    return blanks + text if right else text + blanks
