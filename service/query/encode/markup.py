"""Rows as a table of Markdown (GitHub's) and of HTML: for issues, chats and reports.

Values of a state are text that somebody else wrote: none is an image, a tag, emphasis or a link with another text where the table is
shown. NULL is `NULL`, and control characters are shown by their codes, as in a table for the terminal. Rows stream; no cell is cut.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import pyarrow as pa

from service.query.encode.columns import is_number
from service.query.encode.table import printable, text_rows, text_width
from service.query.sql.types import Column

# An underscore or a bracket is a mark only where it closes something: key_group and [1, 2] stay as they are.
_MARKS = re.compile(r"([\\`*~|<&$]|_(?![A-Za-z0-9])|\](?=[(\[]))")
_ROWS_FOR_WIDTHS = 1000
_WIDEST = 60
_NARROWEST = 3


def markdown_lines(
    columns: Sequence[Column], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[str]:
    """Yield the lines of a table of Markdown: names, a rule with a colon where numbers stand to the right, the rows.

    Args:
        columns: names and SQL types.
        schema: schema of the batches.
        batches: the rows; the first ones say how wide the columns are, and a wider cell is whole, too.
    """
    names = [_without_marks(printable(column.name)) for column in columns]
    rows = ([_without_marks(cell) for cell in row] for batch in batches for row in text_rows(columns, batch))
    first = list(islice(rows, _ROWS_FOR_WIDTHS))
    widths = [
        max(_NARROWEST, *(min(text_width(cell), _WIDEST) for cell in cells))
        for cells in zip(names, *first, strict=True)
    ]
    right = [is_number(field.type) for field in schema]
    rule = [
        "-" * (width - 1) + (":" if to_right else "-") for width, to_right in zip(widths, right, strict=True)
    ]
    for row in chain((names, rule), first, rows):
        yield f"| {' | '.join(map(_padded, row, widths, right))} |"


def html_lines(
    columns: Sequence[Column], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[str]:
    """Yield the lines of a table of HTML, numbers to the right.

    Args:
        columns: names and SQL types.
        schema: schema of the batches.
        batches: the rows.
    """
    ends = [' align="right">' if is_number(field.type) else ">" for field in schema]
    names = [printable(column.name) for column in columns]
    yield "<table>"
    yield f"<thead>{_html_row('th', names, ends)}</thead>"
    yield "<tbody>"
    for batch in batches:
        for row in text_rows(columns, batch):
            yield _html_row("td", row, ends)
    yield "</tbody>"
    yield "</table>"


def _html_row(tag: str, cells: Iterable[str], ends: Sequence[str]) -> str:
    shown = (f"<{tag}{end}{html.escape(cell)}</{tag}>" for cell, end in zip(cells, ends, strict=True))
    return f"<tr>{''.join(shown)}</tr>"


def _without_marks(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return _MARKS.sub(r"\\\1", text)


def _padded(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - text_width(text))
    return blanks + text if right else text + blanks
