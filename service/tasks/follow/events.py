"""What a checkpoint changed → JSON lines, which every door sends.

    {"gap": [43, 45], "reason": "…"}                        checkpoints that the next rows span
    {"restarted": 5, "reason": "…"}                         the rows are of another run of the job
    {"reset": 5, "reason": "…"}                             forget all rows: those of checkpoint 5 follow, as added
    {"checkpoint_id": 46, "checkpoint_at": "…", "change": "changed", "key": "key_662", "value_before": 1, "value_after": 2}
    {"checkpoint": 46, "complete": true, "rows": 1, "token": "46"}

Rows count once the last line, which ends each checkpoint, is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

from catalog.history import CHECKPOINT_AT, CHECKPOINT_ID, DATABASE
from service.query.encode import FORMATS
from service.query.encode.formats import Column, slices
from service.query.running.request import sendable
from service.tasks.follow.following import CheckpointChanges

_NAMES = {CHECKPOINT_ID: "checkpoint_id", CHECKPOINT_AT: "checkpoint_at"}


def notes_of(found: CheckpointChanges) -> Iterator[dict[str, Any]]:
    """Yield what is to be known before the rows of a checkpoint."""
    step = found.step
    for gap in step.gaps:
        yield {"gap": [gap.first, gap.last], "reason": sendable(gap.reason)}
    for name, reason in (("restarted", step.restarted), ("reset", step.reset)):
        if reason:
            yield {name: found.checkpoint_id, "reason": sendable(reason)}


def end_of(found: CheckpointChanges) -> dict[str, Any]:
    """Return the line that ends a checkpoint."""
    return {
        "checkpoint": found.checkpoint_id,
        "complete": True,
        "rows": found.changes.row_count,
        "token": sendable(found.token),
    }


def lines_of(found: CheckpointChanges) -> Iterator[bytes]:
    """Yield the lines of a checkpoint, in pieces of any size that end with a line."""
    for note in notes_of(found):
        yield orjson.dumps(note) + b"\n"
    yield from rows_of(found)
    yield orjson.dumps(end_of(found)) + b"\n"


def rows_of(found: CheckpointChanges) -> Iterator[bytes]:
    """Yield the lines of the rows of a checkpoint."""
    shown = [name for name in found.schema.names if name != DATABASE]
    schema = pa.schema([found.schema.field(name).with_name(_NAMES.get(name, name)) for name in shown])
    columns = [Column("checkpoint_id", "BIGINT"), Column("checkpoint_at", "TIMESTAMP WITH TIME ZONE")]
    columns += [
        column for column in found.changes.columns if column.name not in _NAMES and column.name != DATABASE
    ]
    batches = (
        pa.RecordBatch.from_arrays([batch.column(name) for name in shown], schema=schema)
        for whole in found.batches()
        for batch in slices(whole)
    )
    return FORMATS["jsonl"].write(columns, schema, batches)
