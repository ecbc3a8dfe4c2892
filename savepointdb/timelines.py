"""`history` → `KeyHistory`: what each state of a job has of a key in each checkpoint."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from savepointdb.display import TitledList
from service.query.encode import printable, table_lines
from service.query.sql.types import Column, sql_type
from service.tasks.history.text import folded_rows, rows_of
from service.tasks.history.timeline import KeyTimelines, StateTimeline


class KeyHistory(TitledList):
    """What each state of a job has of a key in each checkpoint.

    Args:
        found: the timelines of all states that may have the key.
    """

    def __init__(self, found: KeyTimelines) -> None:
        self._found = found

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._found.job

    @property
    def states(self) -> tuple[StateTimeline, ...]:
        """The states that have the key in any checkpoint, each with its `points`, the oldest checkpoint first."""
        return tuple(state for state in self._found.states if state.has_rows)

    def to_arrow(self) -> pa.Table:
        """Return a row for each entry in each checkpoint, with `checkpoint_id`, `created_at` and `changed`."""
        return pa.Table.from_batches([rows_of(self._found)])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON."""
        return self._found.to_dict()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows of `to_arrow` by Arrow's C stream interface: DuckDB, polars and pyarrow take it as it is."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _lines(self) -> list[str]:
        rows = folded_rows(self._found)
        title = f"savepointdb: {printable(self._found.key)} in job {printable(self.job)}"
        if not rows.num_rows:
            return [f"{title}: no state has it"]
        columns = [Column(field.name, sql_type(field.type)) for field in rows.schema]
        return [title, *table_lines(columns, rows.schema, [rows])]
