"""What a session shows: rows as a table of text, and as HTML in notebooks.

Names and values come from states, and anybody may have written those: control characters are shown by their codes, and HTML is escaped.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

import pyarrow as pa

from catalog import Database
from service.query.encode import (
    counted,
    dated,
    fitting_columns,
    plan_lines,
    printable,
    state_sizes,
    table_lines,
    text_rows,
)
from service.query.encode.formats import is_number
from service.query.sql.types import Column, sql_type

ROWS_SHOWN = 40
_MOST_CHARACTERS = 200
_TABLES_SHOWN = 30


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
            return "\n".join(plan_lines(self.columns, self.batches))
        width = shutil.get_terminal_size().columns
        numbers = fitting_columns(self.columns, self.schema, self.batches, width)
        columns = [self.columns[number] for number in numbers]
        schema = pa.schema([self.schema.field(number) for number in numbers])
        shown = [
            pa.RecordBatch.from_arrays([batch.column(number) for number in numbers], schema=schema)
            for batch in self.batches
        ]
        lines = [*table_lines(columns, schema, shown, width), self._row_count()]
        left_out = [column.name for number, column in enumerate(self.columns) if number not in numbers]
        if left_out:
            lines.append(f"{counted(len(left_out), 'column')} left out: {printable(', '.join(left_out))}")
        return "\n".join(lines)

    def html(self) -> str:
        """Return a table in HTML; every name and value is escaped."""
        if self.is_text:
            return f"<pre>{escape(self.text())}</pre>"
        heads = [
            f'<th title="{escape(column.type)}">{escape(printable(column.name))}</th>'
            for column in self.columns
        ]
        styles = [' style="text-align:right"' if is_number(field.type) else "" for field in self.schema]
        rows = (row for batch in self.batches for row in text_rows(self.columns, batch))
        body = "".join(f"<tr>{''.join(_html_cells(row, styles))}</tr>" for row in rows)
        return (
            f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{escape(self._row_count())}</p>"
        )

    def _row_count(self) -> str:
        rows = counted(sum(batch.num_rows for batch in self.batches), "row")
        return f"the first {rows}" if self.is_cut else rows


def html_list(title: str, lines: Iterable[str]) -> str:
    """Return a title and lines of text in HTML, escaped."""
    text = "\n".join(lines)
    return f"<div><strong>{escape(printable(title))}</strong><pre>{escape(text)}</pre></div>"


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
    yield f"savepointdb: {printable(database.path)}"
    kind = (database.kind or "savepoint or checkpoint").lower()
    facts = [f"{kind} {database.checkpoint_id}"]
    made = database.created_at
    if made is not None:
        facts.append(dated(made))
    if database.job.title:
        facts.append(f"job {printable(database.job.title)}")
    facts.append(f"written by Flink {database.savepoint.metadata.flink_versions}")
    yield ", ".join(facts)
    states = database.table("StateMeta").scan().to_arrow()
    states = states.filter(states["table_name"].is_valid())
    if len(states):
        shown = _state_rows(states.slice(0, _TABLES_SHOWN))
        columns = [Column(field.name, sql_type(field.type)) for field in shown.schema]
        yield from (f"  {line}" for line in table_lines(columns, shown.schema, shown.to_batches()))
    if len(states) > _TABLES_SHOWN:
        yield f"  and {counted(len(states) - _TABLES_SHOWN, 'more state')}"
    known = {name.casefold() for name in states["table_name"].to_pylist()}
    others = [name for name in database.tables if name.casefold() not in known]
    yield f"  also: {printable(', '.join(others[:_TABLES_SHOWN]))}{', …' if len(others) > _TABLES_SHOWN else ''}"


def _state_rows(states: pa.Table) -> pa.Table:
    sizes = state_sizes(states)
    columns = {
        "table": states["table_name"],
        "kind": states["state_kind"],
        "key": states["key_type"].fill_null(""),
        "value": states["value_type"].fill_null(""),
        "size": sizes,
        "decoded": states["decode_status"],
    }
    return pa.table(columns).combine_chunks()
