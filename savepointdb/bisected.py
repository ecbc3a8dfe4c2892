"""`bisect` → `BisectResult`: the first checkpoint for which a query returns a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from savepointdb.display import TitledList
from service.tasks.bisect.bisection import Bisection, Question
from service.tasks.bisect.report import outcome_of, question_line, report_of, text_lines


class BisectResult(TitledList):
    """What a bisection found.

    Args:
        found: the questions and their answers.
    """

    def __init__(self, found: Bisection) -> None:
        self._found = found

    @property
    def outcome(self) -> str:
        """`found`; `oldest` if all that were asked have a row, so that it may be older; `none` if the newest has none."""
        return outcome_of(self._found)

    @property
    def first(self) -> str | None:
        """The name of the first checkpoint with a row; None if there is none."""
        return None if self._found.first is None else self._found.first.database.name

    @property
    def last(self) -> str | None:
        """The name of the last checkpoint without a row before it, or of the newest if none has one; None if there is none."""
        return None if self._found.last is None else self._found.last.database.name

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The first rows of the first checkpoint that has some."""
        first = self._found.first
        return [] if first is None or first.rows is None else list(first.rows.batch.to_pylist())

    @property
    def questions(self) -> tuple[Question, ...]:
        """The checkpoints that were asked, in this order, each with its `reply`, `rows` and `error`."""
        return self._found.questions

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The names of checkpoints that are gone or broken, and were left out."""
        return tuple(one.database.name for one in self._found.unreadable)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the answer may mean nothing: the query has a row for every checkpoint."""
        return self._found.warnings

    def to_dict(self) -> Mapping[str, Any]:
        """Return everything as values that are JSON."""
        return report_of(self._found)

    def _lines(self) -> list[str]:
        title, *rest = text_lines(self._found)
        asked = (question_line(number, one) for number, one in enumerate(self._found.questions, start=1))
        return [f"savepointdb: {title}", *asked, *rest]
