"""Findings → XML as JUnit writes it, which CI systems show as tests.

| here | there |
|---|---|
| report, so one backend | `testsuite` |
| state; operator or savepoint that has a verdict of its own | `testcase` |
| fails; loses, ignores or changes values | `failure` |
| cannot be told; only values can tell | `error` |
| risk | `system-out` of a test that passes |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctor import CheckReport, Severity
from service.query.encode.markup import Case, Suite, junit_document
from service.tasks.check.findings import Finding, Findings, advice, findings_of, headline, title_of

_BAD = {
    Severity.FAILS: "failure",
    Severity.LOSES: "failure",
    Severity.UNKNOWN: "error",
    Severity.DOUBT: "error",
}


def junit_text(findings: Findings) -> str:
    """Return the document."""
    return junit_document("savepointdb check", [_suite(report) for report in findings.reports])


def _suite(report: CheckReport) -> Suite:
    found = findings_of(report)
    return Suite(
        name=f"Flink {report.flink}, {report.backend}: {report.savepoint}",
        cases=[_case(report, *names, found) for names in _places(report, found)],
        output=f"{headline(report)}\nWhat to do: {advice(report)}.",
    )


def _places(report: CheckReport, found: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yield (operator, state) of each test; an empty state is the operator itself, an empty operator the savepoint."""
    yield "", ""
    own = {finding.operator for finding in found if not finding.state}
    for operator in report.operators:
        title = title_of(operator)
        if title in own or not operator.states:
            yield title, ""
        # A timer state may share its name with another state.
        yield from dict.fromkeys((title, state.state_name) for state in operator.states)


def _case(report: CheckReport, operator: str, state: str, found: Sequence[Finding]) -> Case:
    own = [finding for finding in found if (finding.operator, finding.state) == (operator, state)]
    bad = next((finding for finding in own if finding.severity in _BAD), None)
    rest = [_told(finding) for finding in own if finding is not bad]
    return Case(
        group=f"{report.backend}.{operator or 'savepoint'}",
        # With the operator: CI systems show the name alone.
        name=" › ".join(filter(None, (operator or "the savepoint", state))),
        outcome="" if bad is None else _BAD[bad.severity],
        message="" if bad is None else bad.message,
        kind="" if bad is None else bad.rule,
        text="" if bad is None else _told(bad),
        output="\n\n".join(rest),
    )


def _told(finding: Finding) -> str:
    stage = f" at {finding.stage.value}" if finding.stage else ""
    lines = [
        f"{finding.severity.value}: {finding.outcome}{stage}",
        finding.message,
        f"What to do: {finding.remedy}" if finding.remedy else "",
        f"Evidence: {', '.join(finding.evidence)}" if finding.evidence else "",
    ]
    return "\n".join(filter(None, lines))
