"""Rows as a table for people: aligned columns, numbers to the right, long cells cut.

The first rows determine the widths, so a table of any length streams; a later cell that is wider is cut.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from service.encode.columns import is_number, text_column
from service.sql.types import Column

_NULL = "NULL"
_GAP = "  "
_MAX_CELL = 200
_ROWS_FOR_WIDTHS = 1000


def table_lines(
    columns: Sequence[Column], schema: pa.Schema, batches: Iterable[pa.RecordBatch], width: int | None = None
) -> Iterator[str]:
    """Yield the lines of a table: names, a rule, the rows.

    Args:
        columns: names and SQL types.
        schema: schema of the batches.
        batches: the rows.
        width: characters per line of the screen; cells are cut to fit, as far as possible.
    """
    remaining = iter(batches)
    rows: list[tuple[str, ...]] = []
    for batch in remaining:
        rows += _cells(columns, batch)
        if len(rows) >= _ROWS_FOR_WIDTHS:
            break
    names = [column.name for column in columns]
    widths = [max(map(_width, column)) for column in zip(names, *rows, strict=True)]
    widths = _fitting(widths, width)
    right = [is_number(field.type) for field in schema]
    yield _line(names, widths, right)
    yield _GAP.join("─" * width for width in widths)
    for row in chain(rows, chain.from_iterable(_cells(columns, batch) for batch in remaining)):
        yield _line(row, widths, right)


def _cells(columns: Sequence[Column], batch: pa.RecordBatch) -> list[tuple[str, ...]]:
    texts = [
        text_column(array, column.type).to_pylist()
        for column, array in zip(columns, batch.columns, strict=True)
    ]
    return [tuple(map(_cell, row)) for row in zip(*texts, strict=True)]


def _cell(text: str | None) -> str:
    if text is None:
        return _NULL
    if text.isprintable():
        return text
    # Control characters in a state must not reach the terminal, which would obey them.
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _width(text: str) -> int:
    """Number of characters that a text takes on the screen."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(bool(unicodedata.combining(char)) for char in text)


def _fitting(widths: list[int], width: int | None) -> list[int]:
    """Reduce the widest widths until all fit, but none below 16."""
    widths = [min(one, _MAX_CELL) for one in widths]
    if width is None:
        return widths
    room = width - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > 16:
        widest = widths.index(max(widths))
        widths[widest] = max(16, widths[widest] - (sum(widths) - room))
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    return _GAP.join(map(_padded, cells, widths, right)).rstrip()


def _padded(text: str, width: int, right: bool) -> str:
    if _width(text) > width:
        text = text[: max(width - 1, 1)] + "…"
    blanks = " " * (width - _width(text))
    return blanks + text if right else text + blanks
