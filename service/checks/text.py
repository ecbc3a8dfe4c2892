"""Findings → lines for the terminal: the worst first, and a last line that says what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from doctor import CheckReport, Severity
from service.checks.findings import Finding, Findings, advice, findings_of, fine_parts, headline
from service.encode import counted, printable

_INDENT = " " * 9
# A change of many states has one message; a person reads it once.
_NAMES_SHOWN = 20


def text_lines(findings: Findings, width: int | None = None) -> Iterator[str]:
    """Yield the lines.

    Args:
        findings: of one check.
        width: characters per line of the screen; None for lines of any length.
    """
    worst = findings.worst
    yield printable(f"savepoint  {worst.savepoint}")
    for one in worst.against:
        yield printable(f"against    {one}")
    if not worst.against:
        yield "against    nothing: only the version of Flink is checked"
    yield ""
    yield printable(_title(worst, findings))
    yield from _report_lines(worst, width)
    for report in findings.others:
        yield ""
        yield printable(_headline(report))
        yield from _report_lines(report, width)
    yield ""
    yield from _wrapped(f"What to do: {advice(worst)}.", "", width)


def _title(report: CheckReport, findings: Findings) -> str:
    alike = [one.backend for one in findings.reports[1:] if one not in findings.others]
    same = f"; {' and '.join(alike)} alike" if alike else ""
    return _headline(report) + same


def _headline(report: CheckReport) -> str:
    return f"{WORDS[report.severity]:<{len(_INDENT)}}{headline(report)}"


def _report_lines(report: CheckReport, width: int | None) -> Iterator[str]:
    found = findings_of(report)
    for _, group in groupby(found, key=_verdict):
        yield ""
        yield from _group_lines(list(group), width)
    operators, states = fine_parts(report)
    if states or operators:
        yield ""
        yield f"{WORDS[Severity.FINE]:<{len(_INDENT)}}{counted(operators, 'operator')}, {counted(states, 'state')}"


def _group_lines(group: Sequence[Finding], width: int | None) -> Iterator[str]:
    for finding in group[:_NAMES_SHOWN]:
        facts = [finding.outcome] if finding.outcome not in (WORDS[finding.severity].lower(), "risk") else []
        if finding.stage:
            facts.append(f"at {finding.stage.value}")
        if finding.field_path:
            facts.append(finding.field_path)
        line = f"{WORDS[finding.severity]:<{len(_INDENT)}}{finding.place}"
        yield printable(f"{line}  ({', '.join(facts)})" if facts else line)
    if len(group) > _NAMES_SHOWN:
        yield f"{_INDENT}and {counted(len(group) - _NAMES_SHOWN, 'more like this').removesuffix('s')}"
    first = group[0]
    if first.message:
        yield from _wrapped(first.message, _INDENT, width)
    if first.remedy:
        yield from _wrapped(f"→ {first.remedy}", _INDENT, width)


def _verdict(finding: Finding) -> tuple[object, ...]:
    return finding.severity, finding.stage, finding.message, finding.remedy


def _wrapped(text: str, indent: str, width: int | None) -> Iterator[str]:
    text = printable(" ".join(text.split()))
    if width is None:
        yield indent + text
        return
    yield from textwrap.wrap(
        text,
        width=max(width, 40),
        initial_indent=indent,
        subsequent_indent=indent,
        # Names of classes are copied from the screen.
        break_long_words=False,
        break_on_hyphens=False,
    )


WORDS = {one: one.value if one is Severity.FINE else one.value.upper() for one in Severity}
"""Severity → the word that begins its lines."""
