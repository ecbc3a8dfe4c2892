"""A preview → the report of a write: values that are JSON, for HTTP and `write --json`, and lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from service.query.encode import counted
from service.query.engines.registry import title_of
from service.tasks.write.family import Sample
from service.tasks.write.writing import Preview

# A savepoint may have a source of many thousand splits; people look at the first ones.
_MOST_OFFSETS = 1000
_SHOWN_CHANGES = 20
# States hold values of many megabytes, and scripts have thousands of statements: a report is for people.
_MOST_SAMPLES = 1000
_LONGEST_TEXT = 1000


def report_of(preview: Preview) -> dict[str, Any]:
    """Return the report; long values of samples are cut.

    | member | content |
    |---|---|
    | `statements` | of each statement: `table`, `text`, `changed`, `added`, `removed` (rows), `key_groups`, `samples` |
    | `offsets` | the rows of `source_offsets` that change, the first thousand |
    | `rows` | how many rows all statements changed, added or removed |
    | `summary` | the new savepoint in numbers, and `warnings` |
    | `engine` | what made the state that changed; empty for the process that wrote |
    | `check` | what a restore does with the new savepoint: `verdict`, `headline`, `findings`, …; null for a dry run |
    """
    room = _MOST_SAMPLES
    statements = []
    for effect in preview.effects:
        samples = tuple(map(_cut, effect.samples[:room]))
        room -= len(samples)
        statements.append(asdict(replace(effect, samples=samples)))
    return {
        "statements": statements,
        "offsets": [asdict(change) for change in preview.offsets[:_MOST_OFFSETS]],
        "rows": sum(effect.rows for effect in preview.effects),
        "summary": asdict(preview.summary),
        "engine": preview.engine,
        "check": None if preview.check is None else preview.check.to_dict(),
    }


def _cut(sample: Sample) -> Sample:
    """Return a sample without the ends of long values."""
    return Sample(
        place=_shortened(sample.place),
        before=None if sample.before is None else _shortened(sample.before),
        after=None if sample.after is None else _shortened(sample.after),
    )


def _shortened(values: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}…"
        for name, value in values.items()
    }


def lines_of(preview: Preview) -> Iterator[str]:
    """Yield what happens: each statement with some of its rows, then the new savepoint in numbers."""
    for effect in preview.effects:
        yield effect.text
        yield from (f"  {_cut(sample).text()}" for sample in effect.samples[:_SHOWN_CHANGES])
        left = effect.rows - len(effect.samples[:_SHOWN_CHANGES])
        if effect.samples and left:
            yield f"  … and {left:,} more"
    for change in preview.offsets[:_SHOWN_CHANGES]:
        yield f"  {change.text()}"
    if len(preview.offsets) > _SHOWN_CHANGES:
        yield f"  … and {len(preview.offsets) - _SHOWN_CHANGES:,} more"
    if preview.engine:
        yield f"state made by {title_of(preview.engine)}"
    summary = preview.summary
    yield (
        f"{counted(summary.operators, 'operator')}, {counted(summary.files, 'file')} "
        f"with {counted(summary.file_bytes, 'byte')}"
    )
    yield from (f"warning: {warning}" for warning in summary.warnings)
