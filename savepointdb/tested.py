"""`test` → `TestResult`: which rules hold on savepoints, and what violates the others."""

from __future__ import annotations

from typing import Any, ClassVar

from savepointdb.display import TitledList
from service.tasks.test.markup import junit_text
from service.tasks.test.results import RuleResult, SavepointResult
from service.tasks.test.testing import RunReport
from service.tasks.test.text import savepoint_lines


class TestResult(TitledList):
    """The results of rules.

    Args:
        report: of a run.
    """

    # To pytest a class of this name would be a test.
    __test__: ClassVar[bool] = False

    def __init__(self, report: RunReport) -> None:
        self._report = report

    @property
    def passed(self) -> bool:
        """True if every rule could be tested, and none of the severity that fails is violated."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """The exit code of `savepointdb test`: 0 passed, 1 a violation, 2 an error of a rule, 3 something cannot be read."""
        return self._report.exit_code

    @property
    def savepoints(self) -> tuple[SavepointResult, ...]:
        """The results of each savepoint: its `results`, one for each rule or rule and state, or its `error`."""
        return self._report.savepoints

    @property
    def violations(self) -> tuple[RuleResult, ...]:
        """The violations of any severity: each with its `rule`, `table`, `message` and first `rows`."""
        return tuple(one for _, one in self._report.violations)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON."""
        return self._report.to_dict()

    def to_junit(self) -> str:
        """Return everything as XML as JUnit writes it."""
        return junit_text(self._report)

    def _lines(self) -> list[str]:
        lines = [f"savepointdb: {self._report.summary}"]
        for one in self._report.savepoints:
            lines += savepoint_lines(one, self._report.fail_on)
        return lines
