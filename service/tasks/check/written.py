"""The check that ends a write: what a restore does with the new savepoint."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from doctor import NEWEST_FLINK, Against, Severity
from readers import ReaderError, Savepoint
from service.base.errors import QueryError
from service.tasks.check.findings import CANNOT_BE_TOLD, Finding, Findings, advice, findings_of, headline
from service.tasks.check.running import CheckRequest, findings_on

_NEWEST_1 = "1.20.3"
_FIRST_METADATA_OF_2 = 5
# Of a state each: a report is for people.
_MOST_FINDINGS = 100
_SHOWN = 10
# What a person has to know before a restore; a risk is in a savepoint that Flink wrote as well.
_TOLD = frozenset({Severity.FAILS, Severity.UNKNOWN, Severity.LOSES, Severity.DOUBT})


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheck:
    """What a restore does with a new savepoint.

    Attributes:
        flink: the version that restores it.
        verdict: of the worst backend: `fine`, `risk`, `doubt`, `loses`, `unknown` or `fails`.
        exit_code: that of `savepointdb check`.
        headline: the verdict in a sentence.
        advice: what to do, in a sentence.
        findings: what is not fine, the worst first.
    """

    flink: str
    verdict: Severity
    exit_code: int
    headline: str
    advice: str
    findings: tuple[Finding, ...]

    @property
    def is_fine(self) -> bool:
        """True if nothing has to be known before a restore."""
        return self.verdict not in _TOLD

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON."""
        return {
            "flink": self.flink,
            "verdict": self.verdict.value,
            "exit_code": self.exit_code,
            "headline": self.headline,
            "advice": self.advice,
            "findings": [
                {
                    "severity": one.severity.value,
                    "operator": one.operator,
                    "state": one.state,
                    "rule": one.rule,
                    "message": one.message,
                    "remedy": one.remedy,
                }
                for one in self.findings[:_MOST_FINDINGS]
            ],
        }


def checked(savepoint: Savepoint, against: Sequence[Against], flink: str | None) -> WrittenCheck:
    """Check a new savepoint.

    Args:
        savepoint: the new one.
        against: what is known of its job.
        flink: the version that restores it; None for the newest that has the source's version of `_metadata`.
    """
    is_of_2 = savepoint.metadata.version >= _FIRST_METADATA_OF_2
    version = flink or (NEWEST_FLINK if is_of_2 else _NEWEST_1)
    try:
        found = findings_on(savepoint, against, CheckRequest(flink=version), {})
    except (QueryError, ReaderError) as error:
        # The savepoint was read back already: no check undoes the write.
        return WrittenCheck(
            flink=version,
            verdict=Severity.UNKNOWN,
            exit_code=CANNOT_BE_TOLD,
            headline=f"it was not checked for Flink {version}: {error}",
            advice="check it with savepointdb check",
            findings=(),
        )
    return _of(found, version)


def _of(found: Findings, version: str) -> WrittenCheck:
    worst = found.worst
    alike = found.alike(worst)
    same = f"; {' and '.join(alike)} alike" if alike else ""
    return WrittenCheck(
        flink=version,
        verdict=worst.severity,
        exit_code=found.exit_code,
        headline=headline(worst) + same,
        advice=advice(worst),
        findings=tuple(findings_of(worst)),
    )


def check_lines(check: WrittenCheck | None, target: str | None) -> Iterator[str]:
    """Yield what the check found, and how to restore the savepoint.

    Args:
        check: None if nothing was written.
        target: the new savepoint; None if nothing was written.
    """
    if check is None or target is None:
        return
    place = target if "://" in target else os.path.abspath(target)
    if check.is_fine:
        yield f"checked: {check.headline}"
        yield f"restore it: flink run -s {shlex.quote(place)} …"
        return
    told = [one for one in check.findings if one.severity in _TOLD]
    yield f"CHECK: {check.headline}"
    yield from (f"  {one.severity.value}: {one.place}: {one.message}" for one in told[:_SHOWN])
    if len(told) > _SHOWN:
        yield f"  … and {len(told) - _SHOWN:,} more"
    yield f"  {check.advice}"
    yield f"after that: flink run -s {shlex.quote(place)} …"
