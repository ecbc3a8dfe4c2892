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

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from doctor import CheckReport, Severity
from service.checks.findings import Finding, Findings, advice, findings_of, headline, title_of

# XML 1.0 has no way to write these, and names of states may have them.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BAD = {
    Severity.FAILS: "failure",
    Severity.LOSES: "failure",
    Severity.UNKNOWN: "error",
    Severity.DOUBT: "error",
}


def junit_text(findings: Findings) -> str:
    """Return the document."""
    root = ElementTree.Element("testsuites", name="savepointdb check")
    for report in findings.reports:
        root.append(_suite(report))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(report: CheckReport) -> ElementTree.Element:
    found = findings_of(report)
    cases = [_case(report, *names, found) for names in _places(report, found)]
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(f"Flink {report.flink}, {report.backend}: {report.savepoint}"),
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped="0",
        time="0",
    )
    suite.extend(cases)
    ElementTree.SubElement(suite, "system-out").text = _clean(
        f"{headline(report)}\nWhat to do: {advice(report)}."
    )
    return suite


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


def _case(report: CheckReport, operator: str, state: str, found: Sequence[Finding]) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=_clean(f"{report.backend}.{operator or 'savepoint'}"),
        name=_clean(state or "(itself)"),
        time="0",
    )
    own = [finding for finding in found if (finding.operator, finding.state) == (operator, state)]
    bad = next((finding for finding in own if finding.severity in _BAD), None)
    if bad is not None:
        problem = ElementTree.SubElement(
            case, _BAD[bad.severity], message=_clean(bad.message), type=_clean(bad.rule)
        )
        problem.text = _clean(_told(bad))
    rest = [_told(finding) for finding in own if finding is not bad]
    if rest:
        ElementTree.SubElement(case, "system-out").text = _clean("\n\n".join(rest))
    return case


def _told(finding: Finding) -> str:
    stage = f" at {finding.stage.value}" if finding.stage else ""
    lines = [
        f"{finding.severity.value}: {finding.outcome}{stage}",
        finding.message,
        f"What to do: {finding.remedy}" if finding.remedy else "",
        f"Evidence: {', '.join(finding.evidence)}" if finding.evidence else "",
    ]
    return "\n".join(filter(None, lines))


def _clean(text: str) -> str:
    return _NO_XML.sub("�", text)
