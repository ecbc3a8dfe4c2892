"""A `Comparison` → lines for people: what cannot be compared, what differs and by how much, and what is the same.

| word | means |
|---|---|
| UNKNOWN | the rows of the state cannot be compared; the reason follows |
| ADDED, REMOVED | only one savepoint has the state |
| CHANGED | rows differ, or the type of the values |
| same | nothing differs |

Of each state three rows stand below it: `+` was added, `-` was removed, `~` was changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from catalog import Database
from service.query.encode import age_text, counted, printable, size_text
from service.tasks.diff.comparison import SAME, Comparison, Sample, StateComparison

_INDENT: Final = " " * 9
_NAMES_SHOWN: Final = 20
_OFFSETS_SHOWN: Final = 40
_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}
_SEVERITIES: Final = {"removed": 1, "added": 2, "changed": 3}
_UNKNOWN: Final = "UNKNOWN"


def text_lines(comparison: Comparison, width: int | None = None, more: str = "") -> Iterator[str]:
    """Yield the lines.

    Args:
        comparison: of two savepoints.
        width: characters per line of the screen, at which samples are cut; None for lines of any length.
        more: what shows all rows of a table, whose name stands for `{}`; empty for nothing.
    """
    for line in _lines(comparison, more):
        text = printable(line)
        yield (
            text
            if width is None or len(text) <= width or not line.startswith(_INDENT)
            else f"{text[: width - 1]}…"
        )


def headline(comparison: Comparison) -> str:
    """Return what differs, in one sentence."""
    differing = [state for state in comparison.states if state.change != SAME]
    if comparison.is_equal:
        return f"the same: {counted(len(comparison.states), 'state')}, no row differs"
    counts = [
        f"{total:,} {word}"
        for word in ("changed", "added", "removed")
        if (total := sum(getattr(state, word) or 0 for state in comparison.states))
    ]
    parts = [f"{len(differing)} of {counted(len(comparison.states), 'state')} differ"]
    parts += [f"rows: {', '.join(counts)}"] if counts else []
    parts += [f"{counted(len(comparison.offsets), 'offset')} moved"] if comparison.offsets else []
    parts += [f"{len(comparison.errors)} cannot be compared"] if comparison.errors else []
    return "; ".join(parts)


def _lines(comparison: Comparison, more: str) -> Iterator[str]:
    yield f"{'before':<{len(_INDENT)}}{_facts(comparison.before, comparison.size_before)}"
    yield f"{'after':<{len(_INDENT)}}{_facts(comparison.after, comparison.size_after)}"
    yield ""
    yield headline(comparison)
    for state in sorted(comparison.states, key=_rank):
        if not state.is_equal:
            yield ""
            yield from _state_lines(state, more)
    alike = [state.place for state in comparison.states if state.is_equal]
    if alike and not comparison.is_equal:
        others = f" and {len(alike) - _NAMES_SHOWN} more" if len(alike) > _NAMES_SHOWN else ""
        yield ""
        yield f"{SAME:<{len(_INDENT)}}{', '.join(alike[:_NAMES_SHOWN])}{others}"
    if comparison.offsets or comparison.offsets_error:
        yield ""
        yield from _offset_lines(comparison)


def _facts(database: Database, size_bytes: int) -> str:
    made = database.created_at
    facts = [
        database.name,
        f"{(database.kind or 'checkpoint').lower()} {database.checkpoint_id}",
        "" if made is None else f"{age_text(made, datetime.now(UTC))} ({made:%Y-%m-%d %H:%M:%S} UTC)",
        size_text(size_bytes),
    ]
    return ", ".join(filter(None, facts))


def _rank(state: StateComparison) -> tuple[int, int]:
    """Return the place of a state: first what is not known, then what is gone, then by the number of rows."""
    return (0 if state.error else _SEVERITIES.get(state.change or "", 3)), -state.rows


def _state_lines(state: StateComparison, more: str) -> Iterator[str]:
    word = _UNKNOWN if state.error else (state.change or _UNKNOWN).upper()
    yield f"{word:<{len(_INDENT)}}{'  '.join(filter(None, [state.place, _counts(state), _sizes(state)]))}"
    if state.error:
        yield f"{_INDENT}{' '.join(state.error.split())}"
    if state.has_other_type:
        yield f"{_INDENT}type {state.type_before} → {state.type_after}"
    yield from (f"{_INDENT}{_sample(sample)}" for sample in state.samples)
    left = state.rows - len(state.samples)
    if state.samples and left > 0:
        shown = more.format(state.table_name)
        yield f"{_INDENT}and {counted(left, 'more row')}{f': {shown}' if shown else ''}"


def _counts(state: StateComparison) -> str:
    counts = ((_SIGNS[word], getattr(state, word)) for word in ("added", "removed", "changed"))
    return " ".join(f"{sign}{count:,}" for sign, count in counts if count)


def _sizes(state: StateComparison) -> str:
    sizes = [
        size_text(size)
        for size, is_there in (
            (state.size_before, state.change != "added"),
            (state.size_after, state.change != "removed"),
        )
        if is_there and size is not None
    ]
    return " → ".join(dict.fromkeys(sizes))


def _sample(sample: Sample) -> str:
    values = [value for value in (sample.before, sample.after) if value is not None]
    if sample.change == "changed":
        values = [sample.before or "NULL", sample.after or "NULL"]
    shown = " → ".join(values)
    parts: Sequence[str] = [part for part in (sample.identity, shown) if part]
    return f"{_SIGNS[sample.change]} {': '.join(parts)}"


def _offset_lines(comparison: Comparison) -> Iterator[str]:
    yield "offsets"
    for offset in comparison.offsets[:_OFFSETS_SHOWN]:
        place = " ".join(
            str(part) for part in (offset.operator, offset.topic, offset.partition) if part is not None
        )
        before = "none" if offset.before is None else offset.before
        after = "none" if offset.after is None else offset.after
        moved = ""
        if offset.before is not None and offset.after is not None:
            moved = f"  ({offset.after - offset.before:+,})"
        yield f"{_INDENT}{place}: {before} → {after}{moved}"
    if comparison.offsets_error:
        yield f"{_INDENT}not all are known: {' '.join(comparison.offsets_error.split())}"
    if len(comparison.offsets) > _OFFSETS_SHOWN:
        yield f"{_INDENT}and {len(comparison.offsets) - _OFFSETS_SHOWN} more"
