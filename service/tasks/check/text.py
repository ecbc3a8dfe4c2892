"""Findings → lines for the terminal: the worst first, and a last line that says what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from doctor import CheckReport, Severity
from service.query.encode import counted, printable, wrapped_lines
from service.tasks.check.findings import Finding, Findings, advice, findings_of, fine_parts, headline

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
    if findings.left_out:
        yield f"backend    {worst.backend}, whose own files these are: {findings.left_out} does not read them"
    yield ""
    for report in (worst, *findings.others):
        yield printable(_headline(report, findings))
    for _, group in groupby(_merged(findings), key=lambda pair: _verdict(pair[0])):
        yield ""
        yield from _group_lines(list(group), width)
    operators, states = fine_parts(worst)
    if states or operators:
        yield ""
        yield f"{WORDS[Severity.FINE]:<{len(_INDENT)}}{counted(operators, 'operator')}, {counted(states, 'state')}"
    yield ""
    yield from wrapped_lines(f"What to do: {advice(worst)}.", "", width)


def _headline(report: CheckReport, findings: Findings) -> str:
    alike = findings.alike(report)
    same = f"; {' and '.join(alike)} alike" if alike else ""
    return f"{WORDS[report.severity]:<{len(_INDENT)}}{headline(report)}{same}"


def _merged(findings: Findings) -> list[tuple[Finding, str]]:
    """Return what is not fine with any backend, the worst first, each with the backend if it is not so with all."""
    found: dict[Finding, list[str]] = {}
    for report in findings.reports:
        for finding in findings_of(report):
            found.setdefault(finding, []).append(report.backend)
    pairs = [
        (finding, "" if len(backends) == len(findings.reports) else f"{' and '.join(backends)} only")
        for finding, backends in found.items()
    ]
    return sorted(pairs, key=lambda pair: pair[0].rank)


def _group_lines(group: Sequence[tuple[Finding, str]], width: int | None) -> Iterator[str]:
    for finding, backends in group[:_NAMES_SHOWN]:
        known = (WORDS[finding.severity].lower(), Severity.DOUBT.value, Severity.RISK.value)
        facts = [
            "" if finding.outcome in known else finding.outcome,
            f"at {finding.stage.value}" if finding.stage else "",
            finding.field_path or "",
            backends,
        ]
        told = ", ".join(filter(None, facts))
        line = f"{WORDS[finding.severity]:<{len(_INDENT)}}{finding.place}"
        yield printable(f"{line}  ({told})" if told else line)
    if len(group) > _NAMES_SHOWN:
        yield f"{_INDENT}and {len(group) - _NAMES_SHOWN} more like this"
    first = group[0][0]
    if first.message:
        yield from wrapped_lines(first.message, _INDENT, width)
    if first.remedy:
        yield from wrapped_lines(f"→ {first.remedy}", _INDENT, width)


def _verdict(finding: Finding) -> tuple[object, ...]:
    return finding.severity, finding.stage, finding.message, finding.remedy


WORDS = {one: one.value if one is Severity.FINE else one.value.upper() for one in Severity}
"""Severity → the word that begins its lines."""
