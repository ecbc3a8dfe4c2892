"""`check` → `CheckResult`: what a restore of a savepoint will do."""

from __future__ import annotations

import shutil
from typing import Any

from doctor import CheckReport, OperatorVerdict
from service.query.encode import printable
from service.tasks.check.findings import Findings
from service.tasks.check.markup import html_part
from service.tasks.check.text import text_lines


class CheckResult:
    """What a restore will do.

    Args:
        findings: of each backend that was asked for.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    @property
    def outcome(self) -> str:
        """`restores`, `fails` or `unknown`."""
        return self.report.outcome.value

    @property
    def stage(self) -> str | None:
        """The step that fails: `graph`, `restore`, `register`, `access`, `snapshot`; None if none does."""
        return None if self.report.stage is None else self.report.stage.value

    @property
    def loses_data(self) -> bool:
        """True if it restores, and values are lost, changed or no longer read."""
        return self.report.loses_data

    @property
    def exit_code(self) -> int:
        """The exit code of `savepointdb check`: 0 same values, 1 other values, 2 fails, 3 undecided."""
        return self._findings.exit_code

    @property
    def operators(self) -> tuple[OperatorVerdict, ...]:
        """The verdicts of the operators, each with those of its `states`."""
        return self.report.operators

    @property
    def report(self) -> CheckReport:
        """The whole report; of several backends that of the worst."""
        return self._findings.worst

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON; of several backends the worst, and all of them in `backends`."""
        return self._findings.to_dict()

    def __repr__(self) -> str:
        title, *lines = text_lines(self._findings, shutil.get_terminal_size().columns - 2)
        return "\n".join([f"savepointdb: {printable(title)}", *(f"  {line}".rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        return html_part(self._findings)
