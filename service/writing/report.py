"""A preview → the report of a write: values that are JSON, for HTTP, for `write --json` and for Python."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from service.writing.writing import Preview

# A savepoint may have a source of many thousand splits; people look at the first ones.
_MOST_OFFSETS = 1000


def report_of(preview: Preview) -> dict[str, Any]:
    """Return the report.

    | member | content |
    |---|---|
    | `statements` | of each statement: `table`, `text`, `changed`, `added`, `removed` (rows), `key_groups`, `samples` |
    | `offsets` | the rows of `source_offsets` that change, the first thousand |
    | `rows` | how many rows all statements changed, added or removed |
    | `summary` | the new savepoint in numbers |
    """
    return {
        "statements": [asdict(effect) for effect in preview.effects],
        "offsets": [asdict(change) for change in preview.offsets[:_MOST_OFFSETS]],
        "rows": sum(effect.rows for effect in preview.effects),
        "summary": asdict(preview.summary),
    }
