"""The results of a savepoint → lines for people: what is wrong, the worst first, and how much is fine."""

from __future__ import annotations

from collections.abc import Iterator

from service.query.encode import dated, printable, wrapped_lines
from service.tasks.test.results import RuleResult, SavepointResult, Status
from service.tasks.test.rules import Severity

# The longest label is UNREADABLE.
_INDENT = " " * 12
_MOST_SKIPPED = 10


def savepoint_lines(savepoint: SavepointResult, fail_on: Severity, width: int | None = None) -> Iterator[str]:
    """Yield the lines of one savepoint.

    Args:
        savepoint: its results.
        fail_on: the least severity of a violation that fails.
        width: characters per line of the screen; None for lines of any length.
    """
    kind = (savepoint.kind or "savepoint").lower()
    number = "" if savepoint.checkpoint_id is None else f" {savepoint.checkpoint_id}"
    before = f", before it {savepoint.previous}" if savepoint.previous else ""
    yield printable(f"{savepoint.name}  {kind}{number}, {dated(savepoint.created_at)}{before}")
    for note in savepoint.notes:
        yield printable(f"{_INDENT}{note}")
    if savepoint.error:
        yield from _labelled("UNREADABLE", savepoint.error, width)
        return
    for one in sorted(savepoint.results, key=_rank):
        if one.status in (Status.PASSED, Status.SKIPPED):
            continue
        yield from _result_lines(one, fail_on, width)
        more = savepoint.all_rows(one)
        if more:
            # Neither wrapped nor indented where it has several lines: it is copied.
            yield from map(printable, f"{_INDENT}all rows: {more}".splitlines())
    skipped = [one for one in savepoint.results if one.status is Status.SKIPPED]
    for one in skipped[:_MOST_SKIPPED]:
        yield from _labelled("skipped", f"{one.title}: {one.message}", width)
    if len(skipped) > _MOST_SKIPPED:
        yield f"{_INDENT}and {len(skipped) - _MOST_SKIPPED} more are skipped"
    passed = savepoint.counts()[Status.PASSED]
    if passed:
        yield f"{'passed':<{len(_INDENT)}}{passed:,}"


def _result_lines(one: RuleResult, fail_on: Severity, width: int | None) -> Iterator[str]:
    match one.status:
        case Status.VIOLATED:
            label = "VIOLATED" if one.fails(fail_on) else one.rule.severity.value
            yield from _labelled(label, f"{one.title} ({one.rule.severity})", width)
            if one.rule.description:
                yield from wrapped_lines(one.rule.description, _INDENT, width)
            yield from wrapped_lines(one.message, _INDENT, width)
            if one.rows is not None:
                room = None if width is None else width - len(_INDENT)
                yield from (f"{_INDENT}{line}" for line in one.rows.lines(room))
        case Status.ERROR:
            yield from _labelled("ERROR", f"{one.title}: the rule itself fails", width)
            yield from wrapped_lines(one.message, _INDENT, width)
        case _:
            yield from _labelled("UNREADABLE", one.title, width)
            yield from wrapped_lines(one.message, _INDENT, width)


def _labelled(label: str, text: str, width: int | None) -> Iterator[str]:
    first, *rest = list(wrapped_lines(text, _INDENT, width)) or [_INDENT]
    yield f"{label:<{len(_INDENT)}}{first.strip()}"
    yield from rest


def _rank(one: RuleResult) -> tuple[int, int]:
    """Return the place of a result among others: the worst first."""
    return _ORDER[one.status], one.rule.severity.weight


_ORDER = {
    one: place
    for place, one in enumerate(
        (Status.ERROR, Status.UNREADABLE, Status.VIOLATED, Status.SKIPPED, Status.PASSED)
    )
}
