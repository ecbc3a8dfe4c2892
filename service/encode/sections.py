"""Tables as sections of a page for people: columns under titles, as many as fit on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from service.encode.sizes import size_text
from service.encode.table import fitting_columns, table_lines
from service.sql.types import Column, sql_type

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
        yield from _indented(table_lines(columns, shown.schema, batches))
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


def _shown(column: pa.ChunkedArray, title: str) -> pa.Array:
    array = column.combine_chunks()
    if title == "size":
        return pa.array(
            ["-" if value is None else size_text(value) for value in array.to_pylist()], pa.string()
        )
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    return pc.fill_null(array, "-") if pa.types.is_string(array.type) else array
