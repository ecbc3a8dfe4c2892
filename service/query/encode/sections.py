"""Parts of a page for people: tables with as many columns as fit on the screen, and wrapped texts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from service.query.encode.sizes import size_text, state_size_text
from service.query.encode.table import fitting_columns, printable, table_lines
from service.query.sql.types import Column, sql_type

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
