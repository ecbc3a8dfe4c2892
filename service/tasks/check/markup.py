"""Findings → HTML, one file without scripts that loads nothing or a part of a notebook; and XML as JUnit writes it, which CI systems show.

Names and messages come from savepoints, and anybody may have written those: all of them are escaped.

| here | in XML |
|---|---|
| report, so one backend | `testsuite` |
| state; operator or savepoint that has a verdict of its own | `testcase` |
| fails; loses, ignores or changes values | `failure` |
| cannot be told; only values can tell | `error` |
| risk | `system-out` of a test that passes |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from doctor import CheckReport, OperatorVerdict, Severity
from service.query.encode import counted, printable
from service.query.encode.markup import Case, Suite, junit_document
from service.tasks.check.findings import (
    STAGES,
    WORDS,
    Finding,
    Findings,
    advice,
    findings_of,
    headline,
    operator_severity,
    state_severity,
    title_of,
    weight,
)

_PAGE_STYLE = """
:root{color-scheme:light dark}
body{margin:0;background:Canvas;color:CanvasText;font:15px/1.5 system-ui,sans-serif}
main{max-width:70rem;margin:0 auto;padding:1rem}
"""
_STYLE = """
.savepointdb-check{--bad:#a3211a;--bad-ground:#fdf0ef;--warn:#7d4b00;--warn-ground:#fdf6e7;--good:#1b6b3d;--good-ground:#eaf6ef;
--note:#57606a;--line:#d0d7de;overflow-wrap:anywhere}
@media (prefers-color-scheme:dark){.savepointdb-check{--bad:#ff9289;--bad-ground:#33201f;--warn:#f0bd63;--warn-ground:#322a1b;
--good:#6fcf97;--good-ground:#1b2c22;--note:#9ba7b4;--line:#3a434e}}
.savepointdb-check dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:.5rem 0}
.savepointdb-check dt{color:var(--note)}
.savepointdb-check dd{margin:0}
.savepointdb-check ul{list-style:none;padding-left:1.2rem;margin:.3rem 0}
.savepointdb-check li{margin:.3rem 0}
.savepointdb-check p{margin:.15rem 0}
.savepointdb-check summary{cursor:pointer}
.savepointdb-check .note{color:var(--note);font-size:.9em}
.savepointdb-check .todo{border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem;margin:.6rem 0}
.savepointdb-check .badge{display:inline-block;min-width:4.4rem;text-align:center;border-radius:4px;
padding:0 .4rem;font-size:.8em;font-weight:600}
.savepointdb-check .badge.fails,.savepointdb-check .badge.loses{color:var(--bad);background:var(--bad-ground)}
.savepointdb-check .badge.unknown,.savepointdb-check .badge.doubt,
.savepointdb-check .badge.risk{color:var(--warn);background:var(--warn-ground)}
.savepointdb-check .badge.fine{color:var(--good);background:var(--good-ground)}
.savepointdb-check .finding{border-left:3px solid var(--warn);padding:.2rem .8rem;margin:.4rem 0}
.savepointdb-check .finding.fails,.savepointdb-check .finding.loses{border-color:var(--bad)}
.savepointdb-check .remedy{font-weight:600}
"""
_BAD = {
    Severity.FAILS: "failure",
    Severity.LOSES: "failure",
    Severity.UNKNOWN: "error",
    Severity.DOUBT: "error",
}


def html_page(findings: Findings) -> str:
    """Return a whole page."""
    title = f"{WORDS[findings.worst.severity]}: {findings.worst.savepoint}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # The file may be opened anywhere: nothing in it may run or load.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(title)}</title>\n<style>{_PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>Will it restore?</h1>\n{html_part(findings)}\n</main>\n</body>\n</html>\n"
    )


def html_part(findings: Findings) -> str:
    """Return the part of a page that shows findings, with its own style."""
    return "".join(_part(findings))


def _part(findings: Findings) -> Iterator[str]:
    worst = findings.worst
    yield f'<style>{_STYLE}</style><div class="savepointdb-check">'
    yield f"<dl><dt>savepoint</dt><dd><code>{_text(worst.savepoint)}</code></dd>"
    against = worst.against or ("nothing: only the version of Flink is checked",)
    yield f"<dt>against</dt><dd>{'<br>'.join(f'<code>{_text(one)}</code>' for one in against)}</dd></dl>"
    yield f'<p class="todo"><strong>What to do:</strong> {_text(advice(worst))}.</p>'
    for report in findings.reports:
        yield from _report(report, is_open=report is worst)
    yield "</div>"


def _report(report: CheckReport, *, is_open: bool) -> Iterator[str]:
    yield f"<details{' open' if is_open else ''}><summary>{_badge(report.severity)} {_text(headline(report))}</summary>"
    found = findings_of(report)
    own = [finding for finding in found if not finding.operator]
    yield "".join(map(_finding, own))
    ordered = sorted(report.operators, key=lambda one: weight(operator_severity(one)))
    yield f"<ul>{''.join(_operator(operator, found) for operator in ordered)}</ul></details>"


def _operator(operator: OperatorVerdict, found: list[Finding]) -> str:
    title = title_of(operator)
    severity = operator_severity(operator)
    own = [finding for finding in found if finding.operator == title]
    facts = [counted(len(operator.states), "state")]
    if operator.stage:
        facts.append(f"fails at {operator.stage.value}, {STAGES[operator.stage]}")
    graph = "".join(_finding(finding) for finding in own if not finding.state)
    states = "".join(
        f"<li>{_badge(state_severity(operator, state))} <strong>{_text(state.state_name)}</strong> "
        f'<span class="note">{_text(state.kind)} · {state.outcome.value}</span>'
        f"{''.join(_finding(one) for one in own if one.state == state.state_name)}</li>"
        for state in sorted(operator.states, key=lambda one: weight(state_severity(operator, one)))
    )
    is_open = " open" if severity is not Severity.FINE else ""
    return (
        f"<li><details{is_open}><summary>{_badge(severity)} <strong>{_text(title)}</strong> "
        f'<span class="note">{_text(" · ".join(facts))} · {_text(operator.operator_id)}</span></summary>'
        f"{graph}<ul>{states}</ul></details></li>"
    )


def _finding(finding: Finding) -> str:
    stage = f"at {finding.stage.value}, {STAGES[finding.stage]}" if finding.stage else ""
    head = " · ".join(filter(None, (finding.outcome, finding.field_path, stage)))
    remedy = f'<p class="remedy">→ {_text(finding.remedy)}</p>' if finding.remedy else ""
    evidence = ", ".join(filter(None, (finding.rule, *finding.evidence)))
    return (
        f'<div class="finding {finding.severity.value}"><p class="note">{_text(head)}</p><p>{_text(finding.message)}</p>'
        f"{remedy}{f'<p class=note>{_text(evidence)}</p>' if evidence else ''}</div>"
    )


def _badge(severity: Severity) -> str:
    return f'<span class="badge {severity.value}">{WORDS[severity]}</span>'


def _text(text: str) -> str:
    return escape(printable(text))


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
