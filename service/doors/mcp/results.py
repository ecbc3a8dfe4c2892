"""What a tool returns: structured content for programs, and a short text that says the same to an agent.

Rows are CSV in the text, which takes 40 % fewer characters than JSON, and which an agent pays for; there are as many as have room in its
window. A cell that is longer than a sheet allows is cut, and counted: one long value must not hide all other rows.

Names and values come from savepoints: a text shows the codes of their control characters, and of those that turn the direction of writing
or have no width, so that no value looks like a line of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
from anyio import to_thread

from service.base.errors import LimitExceededError, QueryError
from service.doors.http.errors import error_body
from service.query.encode import counted, json_rows, printable
from service.query.encode.formats import Column, slices
from service.query.running.request import sendable
from service.query.serving.query import Query, wait_until_ended, wait_until_ready

# Texts that need no quotes: no comma, quote, brace or space at an end, and nothing that is read as another value.
_BARE = re.compile(r"[^\s\",{}\[\]](?:[^\",{}\[\]\r\n\t]*[^\s\",{}\[\]])?")
_LONGEST_SENTENCE = 2_000
_WORDS = frozenset({"NULL", "null", "true", "false"})
LONGEST_CELL, _SHORTEST_CELL = 1_000, 20
# JSON text may be many times as long as its batch, so only a slice is text at a time.
# The end of a short answer follows its first rows within this time.
_END_BEHIND_ROWS_S = 0.02


def table_text(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV with a header; texts that need it are quoted as in JSON, and NULL is no text."""
    lines = [",".join(map(cell_text, names)), *(",".join(map(cell_text, row)) for row in rows)]
    return "\n".join(lines)


def cell_text(value: Any) -> str:
    """Return a value of JSON in one line."""
    if value is None:
        return "NULL"
    if isinstance(value, str) and value not in _WORDS and _BARE.fullmatch(value):
        return printable(value)
    return printable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def line_text(text: str) -> str:
    """Return a sentence in one line, without control characters."""
    return printable(" ".join(text.split()))


def error_text(error: QueryError) -> str:
    """Return an error as an agent reads it: its code, the message, where it is, and the advice."""
    place = f" (line {error.position.line}, column {error.position.column})" if error.position else ""
    lines = [f"{error.code}: {_shortened(line_text(error.message))}{place}"]
    lines += [f"hint: {_shortened(line_text(error.hint))}"] if error.hint else []
    return "\n".join(lines)


def fitting(rows: Sequence[Any], max_bytes: int) -> int:
    """Return how many of the first rows have room as JSON; one always has."""
    left = max_bytes
    for number, row in enumerate(rows):
        left -= len(json.dumps(row, ensure_ascii=False))
        if left < 0 and number:
            return number
    return len(rows)


def _shortened(text: str) -> str:
    # An engine repeats the statement, which may have any length.
    if len(text) <= _LONGEST_SENTENCE:
        return text
    return f"{text[:_LONGEST_SENTENCE]}… ({len(text)} characters)"


def cut_text(shown: int, total: int | None, noun: str, more: str) -> str:
    """Return the sentence that says that a result is not whole, and how to see more."""
    of = "" if total is None else f" of {total:,}"
    return f"cut: {counted(shown, noun)}{of} shown; {more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call.

    Attributes:
        content: an object of JSON.
        text: the same, short.
        is_error: True if the call failed; the agent may mend its arguments.
    """

    content: dict[str, Any]
    text: str
    is_error: bool = False


def result_of(content: dict[str, Any], *parts: str, notes: Sequence[str] = ()) -> ToolResult:
    """Return a result; its text is the parts and then the notes, a line each, which the content has as `notes`."""
    shown = [line_text(note) for note in notes]
    whole = content | ({"notes": list(notes)} if notes else {})
    return ToolResult(content=_encodable(whole), text="\n".join([*filter(None, parts), *shown]))


def failure_of(error: QueryError) -> ToolResult:
    """Return the result of a call that failed."""
    return ToolResult(
        content=_encodable({"error": error_body(error).model_dump(exclude_none=True)}),
        text=error_text(error),
        is_error=True,
    )


def _encodable(content: dict[str, Any]) -> dict[str, Any]:
    """Return content whose texts have a form in UTF-8: names of folders need not, and texts of clients need not."""
    try:
        orjson.dumps(content)
    except TypeError:
        changed: dict[str, Any] = _changed(content)
        return changed
    return content


def _changed(value: Any) -> Any:
    if isinstance(value, str):
        return sendable(value)
    if isinstance(value, dict):
        return {name: _changed(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(each) for each in value]
    return value


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
    for one in slices(batch):
        yield from json_rows(columns, one)
