"""Timelines → rows for programs, and folded rows for people: `chk-41 … chk-44` where nothing changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from service.query.encode import counted
from service.tasks.history.timeline import Entry, KeyTimelines, Point, StateTimeline

_MOMENT = pa.timestamp("us", "UTC")
_MOST_ENTRIES = 5
FOLDED = pa.schema(
    [
        ("operator", pa.string()),
        ("state", pa.string()),
        ("checkpoints", pa.string()),
        ("since", pa.string()),
        ("value", pa.string()),
    ]
)
ROWS = pa.schema(
    [
        ("operator", pa.string()),
        ("state", pa.string()),
        ("kind", pa.string()),
        ("database", pa.string()),
        ("checkpoint_id", pa.int64()),
        ("created_at", _MOMENT),
        ("changed", pa.bool_()),
        ("namespace", pa.string()),
        ("map_key", pa.string()),
        ("list_index", pa.int32()),
        ("value", pa.string()),
        ("error", pa.string()),
    ]
)


def rows_of(found: KeyTimelines) -> pa.RecordBatch:
    """Return a row for each entry in each checkpoint; a checkpoint without an entry, or that cannot be read, has one row."""
    nothing: Entry = dict.fromkeys(("namespace", "map_key", "list_index", "value"))
    rows = [
        {
            "operator": state.operator,
            "state": state.state,
            "kind": state.kind,
            "database": point.database,
            "checkpoint_id": point.checkpoint_id,
            "created_at": point.created_at,
            "changed": point.changed,
            **entry,
            "error": point.error,
        }
        for state in found.states
        if state.has_rows
        for point in state.points
        for entry in point.rows or (nothing,)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


def folded_rows(found: KeyTimelines) -> pa.RecordBatch:
    """Return a row for each run of checkpoints with the same entries, the oldest first."""
    rows = [row for state in found.states if state.has_rows for row in _folded(state)]
    return pa.RecordBatch.from_pylist(rows, schema=FOLDED)


def _folded(state: StateTimeline) -> Iterator[dict[str, Any]]:
    for run in _runs(state.points):
        first, last = run[0], run[-1]
        yield {
            "operator": state.operator,
            "state": state.state,
            "checkpoints": first.folder if first is last else f"{first.folder} … {last.folder}",
            "since": None if first.created_at is None else f"{first.created_at:%Y-%m-%d %H:%M:%S}",
            "value": f"cannot be read: {first.error}" if first.error else _value(first.rows),
        }


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Yield the checkpoints that follow each other and have the same entries, or cannot be read for the same reason."""
    run: list[Point] = []
    for point in points:
        if run and (point.changed or point.error != run[-1].error):
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def _value(rows: Sequence[Entry]) -> str:
    if not rows:
        return "no row"
    shown = ", ".join(map(_entry, rows[:_MOST_ENTRIES]))
    more = len(rows) - _MOST_ENTRIES
    return shown if more <= 0 else f"{shown} and {counted(more, 'more row')}"


def _entry(entry: Entry) -> str:
    index = entry["list_index"]
    places = (entry["namespace"], entry["map_key"], None if index is None else f"[{index}]")
    place = " ".join(text for text in places if text is not None)
    value = "NULL" if entry["value"] is None else str(entry["value"])
    return f"{place}: {value}" if place else value
