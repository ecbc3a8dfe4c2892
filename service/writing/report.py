"""A preview → the report of a write: values that are JSON, for HTTP and `write --json`, and lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from service.encode import counted
from service.writing.writing import Preview

# A savepoint may have a source of many thousand splits; people look at the first ones.
_MOST_OFFSETS = 1000
_SHOWN_CHANGES = 20


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


def lines_of(preview: Preview) -> Iterator[str]:
    """Yield what happens: each statement with some of its rows, then the new savepoint in numbers."""
    for effect in preview.effects:
        yield effect.text
        yield from (f"  {sample.text()}" for sample in effect.samples[:_SHOWN_CHANGES])
        left = effect.rows - len(effect.samples[:_SHOWN_CHANGES])
        if effect.samples and left:
            yield f"  … and {left:,} more"
    for change in preview.offsets[:_SHOWN_CHANGES]:
        yield f"  {change.text()}"
    if len(preview.offsets) > _SHOWN_CHANGES:
        yield f"  … and {len(preview.offsets) - _SHOWN_CHANGES:,} more"
    summary = preview.summary
    yield (
        f"{counted(summary.operators, 'operator')}, {counted(summary.files, 'file')} "
        f"with {counted(summary.file_bytes, 'byte')}"
    )
    yield from (f"warning: {warning}" for warning in summary.warnings)
