"""A report → XML as JUnit writes it.

| here | there |
|---|---|
| savepoint | `testsuite` |
| rule, or rule and state | `testcase` |
| violation of at least the severity that fails | `failure` |
| violation of less severity | `system-out` of a test that passes |
| error of a rule, file or savepoint that cannot be read | `error` |
| rule that cannot be tested on it | `skipped` |
"""

from __future__ import annotations

from service.query.encode.markup import Case, Suite, junit_document
from service.tasks.test.results import RuleResult, SavepointResult, Status
from service.tasks.test.rules import Severity
from service.tasks.test.testing import RunReport


def junit_text(report: RunReport) -> str:
    """Return the document."""
    suites = [_suite(savepoint, report.fail_on) for savepoint in report.savepoints]
    return junit_document("savepointdb test", suites)


def _suite(savepoint: SavepointResult, fail_on: Severity) -> Suite:
    cases = [_case(savepoint, one, fail_on) for one in savepoint.results]
    if savepoint.error:
        cases.append(
            Case(
                group=savepoint.name,
                name="(the savepoint)",
                outcome="error",
                message=savepoint.error,
                kind=Status.UNREADABLE.value,
            )
        )
    return Suite(name=f"{savepoint.name}: {savepoint.path}", cases=cases, output="\n".join(savepoint.notes))


def _case(savepoint: SavepointResult, one: RuleResult, fail_on: Severity) -> Case:
    outcome = _OUTCOMES.get(one.status, "")
    if one.status is Status.VIOLATED and one.fails(fail_on):
        outcome = "failure"
    more = savepoint.all_rows(one)
    text = "\n".join(
        filter(
            None,
            [
                f"severity: {one.rule.severity}",
                one.rule.description,
                one.message,
                *(one.rows.lines() if one.rows is not None else ()),
                f"all rows: {more}" if more else "",
            ],
        )
    )
    is_told = one.status is not Status.PASSED
    return Case(
        group=savepoint.name,
        name=one.title,
        outcome=outcome,
        message=one.message if outcome else "",
        kind=(one.rule.severity if outcome == "failure" else one.status).value,
        text=text if outcome in ("failure", "error") else "",
        output=text if is_told and not outcome else "",
        elapsed_s=one.elapsed_s,
    )


_OUTCOMES = {Status.ERROR: "error", Status.UNREADABLE: "error", Status.SKIPPED: "skipped"}
