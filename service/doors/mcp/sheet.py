"""The rows of a query as values of JSON, as many as have room in the window of an agent.

A cell that is longer than a sheet allows is cut, and counted: one long value must not hide all other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa
from anyio import to_thread

from service.base.errors import LimitExceededError
from service.query.encode import json_rows
from service.query.serving.query import Query, wait_until_ended, wait_until_ready
from service.query.sql.types import Column

LONGEST_CELL, _SHORTEST_CELL = 1_000, 20
# JSON text may be many times as long as its batch, so only a slice is text at a time.
_SLICE_BYTES = 256 * 1024
# The end of a short answer follows its first rows within this time.
_END_BEHIND_ROWS_S = 0.02


class Sheet:
    """Rows within a limit of bytes.

    Args:
        max_bytes: most bytes of the rows, as JSON.
        longest_cell: most bytes of a value.

    Attributes:
        columns: of the rows.
        rows: values of JSON, a list for each row.
        size_bytes: of the rows.
        cut_cells: the values that were cut: number of the row, number of the column.
        is_full: True if a row had no room.
    """

    def __init__(self, max_bytes: int, longest_cell: int = LONGEST_CELL) -> None:
        self._max_bytes = max_bytes
        self._longest_cell = longest_cell
        self.columns: Sequence[Column] = ()
        self.rows: list[list[Any]] = []
        self.size_bytes = 0
        self.cut_cells: set[tuple[int, int]] = set()
        self.is_full = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of a batch, as many as have room.

        Raises:
            LimitExceededError: not even one row has room.
        """
        # The names of columns count: there may be thousands.
        names = sum(len(column.name) + len(column.type) for column in self.columns)
        longest = (self._max_bytes - names) // max(1, len(self.columns))
        if longest < _SHORTEST_CELL:
            raise LimitExceededError(
                f"expected columns of which a row has room in {self._max_bytes} bytes, found {len(self.columns)} columns",
                hint="name fewer columns, or give more max_bytes",
            )
        for text in _texts(self.columns, batch):
            row, size = self._cut(text, min(longest, self._longest_cell))
            if self.rows and names + self.size_bytes + size > self._max_bytes:
                self.is_full = True
                return
            self.rows.append(row)
            self.size_bytes += size

    def _cut(self, text: str, longest: int) -> tuple[list[Any], int]:
        """Return a row whose cells are not longer than so many bytes, and its length."""
        row: list[Any] = orjson.loads(text)
        size = len(text.encode())
        if size <= longest:
            return row, size
        for number, value in enumerate(row):
            content = orjson.dumps(value)
            if len(content) > longest:
                shown = value if isinstance(value, str) else content.decode()
                kept = shown.encode()[: longest - _SHORTEST_CELL // 2].decode(errors="ignore")
                row[number] = f"{kept}… ({len(shown)} characters)"
                self.cut_cells.add((len(self.rows), number))
        return row, len(orjson.dumps(row))


async def sheet_of(query: Query, max_bytes: int, longest_cell: int = LONGEST_CELL) -> Sheet:
    """Return the rows of a query that have room; the query ends with them.

    Raises:
        QueryError: the query fails.
    """
    sheet = Sheet(max_bytes, longest_cell)
    await wait_until_ready(query)
    await wait_until_ended(query, _END_BEHIND_ROWS_S)
    while not await to_thread.run_sync(_collect, query, sheet):
        await wait_until_ready(query)
    return sheet


def _collect(query: Query, sheet: Sheet) -> bool:
    """Collect the rows that are ready; return True if no more are wanted."""
    while query.is_ready:
        sheet.columns = query.columns
        batch = query.take()
        if batch is None:
            return True
        sheet.add(batch)
        if sheet.is_full:
            query.suffice(len(sheet.rows))
            return True
    return False


def _texts(columns: Sequence[Column], batch: pa.RecordBatch) -> Iterator[str]:
    """Yield each row as the text of a JSON array."""
    rows = max(1, _SLICE_BYTES * batch.num_rows // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield from json_rows(columns, batch.slice(start, rows))
