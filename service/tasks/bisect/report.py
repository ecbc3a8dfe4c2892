"""What a bisection found → lines for people, values that are JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from catalog import Database
from service.base.errors import QueryError
from service.query.encode import counted, dated, printable
from service.tasks.bisect.bisection import Bisection, Question

_INDENT = "  "


def question_line(number: int, question: Question) -> str:
    """Return the line of one question."""
    told = question.rows.count_text if question.rows is not None else question.reply.value
    reason = f": {_reason(question)}" if question.error is not None else ""
    return printable(
        f"{number:>3}  {question.database.name}  {dated(question.database.created_at)}  {told}{reason}"
    )


def text_lines(found: Bisection, width: int | None = None) -> Iterator[str]:
    """Yield the lines of the result; those of the questions come before.

    Args:
        found: the result.
        width: characters per line of the screen; None for lines of any length.
    """
    yield printable(_headline(found))
    yield from (printable(line) for line in _doubts(found))
    if found.first is not None:
        yield ""
        yield printable(f"first with a row     {_named(found.first.database)}")
        if found.first.rows is not None:
            yield from (f"{_INDENT}{line}" for line in found.first.rows.lines(width and width - len(_INDENT)))
        yield ""
        last = "none that was asked" if found.last is None else _named(found.last.database)
        yield printable(f"last without a row   {last}")


def report_of(found: Bisection) -> dict[str, Any]:
    """Return everything as values that are JSON."""
    return {
        "job": found.job.name,
        "sql": found.sql,
        "outcome": outcome_of(found),
        "checkpoints": len(found.databases),
        "asked_all": found.asked_all,
        "questions": [_question(one) for one in found.questions],
        "first": None if found.first is None else _question(found.first, rows=True),
        "last": None if found.last is None else _question(found.last),
        "unreadable": [one.database.name for one in found.unreadable],
        "maybe_first": [one.database.name for one in found.between],
        "came_back": [one.database.name for one in found.came_back],
        "warnings": list(found.warnings),
    }


def outcome_of(found: Bisection) -> str:
    """Return `found`; `oldest` if all that were asked have a row, so that it may be older; `none` if none has one."""
    if found.first is None:
        return "none"
    return "found" if found.last is not None else "oldest"


def _headline(found: Bisection) -> str:
    asked = f"{counted(len(found.questions), 'question')} to {counted(len(found.databases), 'checkpoint')} of {found.job.name}"
    match outcome_of(found):
        case "none":
            assert found.last is not None
            which = "none of them has a row" if found.asked_all else "the newest has no row"
            return f"{asked}: {which}"
        case "oldest":
            # What is before the checkpoints that were asked is gone, or was left out by the caller.
            is_oldest = found.databases[0] is found.job.databases[-1]
            older = "what is retained" if is_oldest else "what was asked"
            return f"{asked}: the oldest has a row already; it may be older than {older}"
        case _:
            assert found.first is not None
            return f"{asked}: it begins with {found.first.database.name}"


def _doubts(found: Bisection) -> Iterator[str]:
    """Yield what the answer leaves open."""
    yield from (f"warning: {warning}" for warning in found.warnings)
    between = {id(one) for one in found.between}
    for one in found.unreadable:
        may_be = "; it may be the first itself" if id(one) in between else ""
        yield f"left out: {one.database.name} cannot be read{may_be}: {_reason(one)}"
    back = found.came_back
    if back:
        names = ", ".join(one.database.name for one in back[:_NAMES_SHOWN])
        more = f" and {len(back) - _NAMES_SHOWN} more" if len(back) > _NAMES_SHOWN else ""
        yield f"it does not stay: later checkpoints have no row: {names}{more}"


def _named(database: Database) -> str:
    return f"{database.name}  {dated(database.created_at)}"


def _reason(question: Question) -> str:
    error = question.error
    return "" if error is None else _told(error)


def _told(error: QueryError) -> str:
    return " ".join(error.told.split())


def _question(question: Question, *, rows: bool = False) -> dict[str, Any]:
    made = question.database.created_at
    told: dict[str, Any] = {
        "database": question.database.name,
        "path": question.database.path,
        "checkpoint_id": question.checkpoint_id,
        "created_at": None if made is None else made.isoformat(),
        "reply": question.reply.value,
        "row_count": None if question.rows is None else question.rows.row_count,
        "error": None if question.error is None else _told(question.error),
    }
    if rows and question.rows is not None:
        told["rows"] = question.rows.to_dict()
    return told


_NAMES_SHOWN = 10
