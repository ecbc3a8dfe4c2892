"""Reports of one savepoint → what is not fine in them, the worst first; lines for the terminal, and a last one that says what to do.

A report is of one state backend. The backend of the new job is not in a savepoint, so a check looks at both, unless it is told
which one it is.

| exit code | when |
|---|---|
| 0 | it restores with the same values |
| 1 | it restores, and drops, ignores or changes some |
| 2 | it fails |
| 3 | undecided: the inputs do not contain the deciding fact |
| 4 | the savepoint, or what it is compared with, cannot be read; or the command line is wrong |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from doctor import CAUTIONS, CheckReport, OperatorVerdict, Outcome, Risk, Severity, Stage, StateVerdict
from service.query.encode import counted, printable, wrapped_lines

_INDENT = " " * 9
# A change of many states has one message; a person reads it once.
_NAMES_SHOWN = 20
_PLACES_SHOWN = 3
SAME_VALUES, OTHER_VALUES, FAILS, CANNOT_BE_TOLD, BAD_INPUT = range(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not fine: of a state, an operator or the whole savepoint.

    Attributes:
        severity: its weight.
        operator: the operator, as people know it; empty for the savepoint.
        state: the name of the state; empty for the operator.
        outcome: the outcome in a word or two.
        stage: the step of the restore that fails; None if none does.
        field_path: the field that decides; None for the whole state.
        message: what happens, with Flink's own words.
        remedy: what to do about it; empty if nothing is known.
        evidence: labelled restores and classes of Flink that show it.
        rule: the id of the rule; empty if none is named.
    """

    severity: Severity
    operator: str
    state: str
    outcome: str
    stage: Stage | None
    field_path: str | None
    message: str
    remedy: str
    evidence: tuple[str, ...]
    rule: str

    @property
    def rank(self) -> tuple[int, int]:
        """Its place among others: the worst first, and Flink's first failure before later ones."""
        return weight(self.severity), _order(self.stage)

    @property
    def place(self) -> str:
        """The state and its operator."""
        return " › ".join(filter(None, (self.operator, self.state))) or "the savepoint"

    def to_dict(self) -> dict[str, str]:
        """Return what a reader must know of it."""
        names = ("severity", "operator", "state", "outcome", "message", "remedy")
        return {name: str(getattr(self, name)) for name in names if getattr(self, name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script that mends what a check has found.

    Attributes:
        statements: in order; those about whole operators are the last.
        comments: what a person has to read: assumptions, what would be lost, what no statement mends.
        assumed: how many statements rest on an assumption.
    """

    statements: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    assumed: int = 0

    @property
    def text(self) -> str:
        """The script; empty if no statement mends anything."""
        if not self.statements:
            return ""
        return "".join(f"{line}\n" for line in (*(f"-- {one}" for one in self.comments), *self.statements))

    def line(self, path: str) -> str:
        """Return what a file has of it, for people."""
        if not self.statements:
            return "no script was written: there is nothing that a write can mend"
        statements = counted(len(self.statements), "statement")
        assumed = f", {self.assumed} assumed: read them first" if self.assumed else ""
        return f"{path}: {statements}{assumed}; run it with savepointdb write … --file {path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The reports of one savepoint.

    Attributes:
        reports: one for each backend, the worst first; at least one.
        left_out: the backend that cannot read the files, because they are another one's own; empty if there is none.
        script: the statements that mend what a write can mend.
    """

    reports: tuple[CheckReport, ...]
    left_out: str = ""
    script: Script = Script()

    @classmethod
    def of(cls, reports: Iterable[CheckReport], *, all_backends: bool = True) -> Findings:
        """Return the findings of reports in any order.

        Args:
            reports: of one savepoint.
            all_backends: False to leave out a backend that cannot read the files, because they are another one's own.
        """
        ordered = tuple(sorted(reports, key=lambda one: (weight(one.severity), _order(one.stage))))
        foreign = [report for report in ordered if is_foreign(report)]
        if all_backends or len(foreign) != 1 or len(ordered) == 1:
            return cls(reports=ordered)
        own = tuple(report for report in ordered if report is not foreign[0])
        return cls(reports=own, left_out=foreign[0].backend)

    @property
    def worst(self) -> CheckReport:
        """The report that decides."""
        return self.reports[0]

    @property
    def others(self) -> tuple[CheckReport, ...]:
        """The reports of other backends that find something else than the worst one."""
        return tuple(one for one in self.reports[1:] if not _is_alike(one, self.worst))

    def alike(self, report: CheckReport) -> tuple[str, ...]:
        """Return the other backends that find the same as a report."""
        return tuple(one.backend for one in self.reports if one is not report and _is_alike(one, report))

    @property
    def exit_code(self) -> int:
        """The exit code of the program."""
        worst = self.worst
        if worst.outcome is Outcome.FAILS:
            return FAILS
        if worst.outcome is Outcome.UNKNOWN or worst.severity is Severity.DOUBT:
            return CANNOT_BE_TOLD
        return OTHER_VALUES if worst.loses_data else SAME_VALUES

    def to_dict(self) -> dict[str, Any]:
        """See `Outcome`: the worst report, and all of them by their backends if there are several."""
        several = self.reports if len(self.reports) > 1 else ()
        backends = {report.backend: _told(report) for report in several}
        return _told(self.worst) | {"backends": backends, "fix": self.script.text}

    def brief(self) -> dict[str, Any]:
        """Return it as agents read it: what is not fine."""
        told = _told(self.worst)
        backends = {one.backend: one.outcome.value for one in self.reports} if len(self.reports) > 1 else {}
        return {
            "database": told["savepoint"],
            **{name: told[name] for name in _BRIEF},
            "findings": [finding.to_dict() for finding in findings_of(self.worst)],
            "fix": self.script.text,
            "backends": backends,
        }

    def lines(self, width: int | None = None) -> Iterator[str]:
        """See `Outcome`."""
        return text_lines(self, width)


def findings_of(report: CheckReport) -> list[Finding]:
    """Return what is not fine in a report, the worst first."""
    return sorted(_found(report), key=lambda finding: finding.rank)


def fine_parts(report: CheckReport) -> tuple[int, int]:
    """Return how many operators, and how many states, have no finding."""
    operators = states = 0
    for operator in report.operators:
        bad = {finding.state for finding in _of_operator(operator)}
        operators += not bad
        # An operator that fails takes its states with it.
        if "" not in bad:
            states += sum(state.state_name not in bad for state in operator.states)
    return operators, states


def weight(severity: Severity) -> int:
    """Return the place of a severity among others, the worst first."""
    return _SEVERITIES.index(severity)


def operator_severity(operator: OperatorVerdict) -> Severity:
    """Return the weight of an operator: the worst of its states and of what the job graph decides."""
    found = min(_of_operator(operator), key=lambda finding: finding.rank, default=None)
    return Severity.FINE if found is None else found.severity


def state_severity(operator: OperatorVerdict, state: StateVerdict) -> Severity:
    """Return the weight of a state: where the job graph decides about its operator, that of the operator."""
    if state.severity is Severity.FINE and operator.message:
        return _severity_of(operator.outcome, loses_data=operator.loses_data)
    return state.severity


def title_of(operator: OperatorVerdict) -> str:
    """Return an operator as people know it, with its id where it has no uid."""
    if operator.uid:
        return operator.uid
    return f"{operator.name} ({operator.operator_id})" if operator.name else operator.operator_id


def headline(report: CheckReport, *, names_risks: bool = True) -> str:
    """Return what a restore by one Flink and one backend will do, in one sentence."""
    where = f"Flink {report.flink} with {report.backend}"
    if report.severity is Severity.FAILS:
        step = f" at {report.stage.value}, {STAGES[report.stage]}" if report.stage else ""
        return f"{where} fails{step}"
    is_told = names_risks or report.severity is not Severity.RISK
    return f"{where} {_HEADLINES[report.severity if is_told else Severity.FINE]}"


def advice(report: CheckReport) -> str:
    """Return what to do, in one sentence."""
    found = findings_of(report)
    remedy = next((finding.remedy for finding in found if finding.remedy), "")
    first = f"; first: {remedy.rstrip('.')}" if remedy else ""
    worst = counted(sum(finding.severity is report.severity for finding in found), "finding")
    match report.severity:
        case Severity.FAILS:
            return f"do not stop the old job for this restore yet ({worst}){first}"
        case Severity.UNKNOWN:
            more = "" if report.against else "; compare it with the new job: its jar, or a savepoint of it"
            return f"do not rely on this restore: {worst} cannot be decided{first}{more}"
        case Severity.LOSES:
            return f"restore it only if these values may go ({worst}){first}"
        case Severity.DOUBT:
            return f"do not rely on this restore before the doubts are settled ({worst}){first}"
        case Severity.RISK:
            return f"look at the risks before you rely on it ({worst}){first}"
    if not report.against:
        return "the same job may be restored from it; compare a changed job with it: its jar, or a savepoint of it"
    noted = {risk.rule for risk in report.all_risks()}
    unseen = ", ".join(text for rule, text in CAUTIONS.items() if rule in noted)
    by_hand = f"; compare by hand what no savepoint shows: {unseen}" if unseen else ""
    return f"the new job may be restored from it{by_hand}"


def _told(report: CheckReport) -> dict[str, Any]:
    """Return a report as JSON has it, with what is said of it."""
    found = report.to_dict()
    for operator, told in zip(report.operators, found["operators"], strict=True):
        told["severity"] = operator_severity(operator).value
        for state, state_told in zip(operator.states, told["states"], strict=True):
            state_told["severity"] = state_severity(operator, state).value
    return {**found, "headline": headline(report), "advice": advice(report)}


def is_foreign(report: CheckReport) -> bool:
    """Return whether a backend other than the one of the report wrote files of the savepoint for itself."""
    return any(operator.rule == _FOREIGN_FILES for operator in report.operators)


def _is_alike(one: CheckReport, other: CheckReport) -> bool:
    # Words of caution about names of backends differ between the backends.
    one, other = (replace(report, risks=tuple(_named(report.risks))) for report in (one, other))
    return replace(one, backend=other.backend) == other


def _found(report: CheckReport) -> Iterator[Finding]:
    yield from _of_whole(report, "")
    for operator in report.operators:
        yield from _of_operator(operator)


def _of_operator(operator: OperatorVerdict) -> Iterator[Finding]:
    title = title_of(operator)
    yield from _of_whole(operator, title)
    for state in operator.states:
        # Where the job graph decides about the operator, its states have nothing to add.
        is_told = state.message or not operator.message
        if is_told and state.severity not in (Severity.FINE, Severity.RISK, Severity.DOUBT):
            yield _finding(state, title, state.state_name, state.severity, state.outcome.value)
        yield from (_of_risk(risk, title, state.state_name) for risk in _named(state.risks))


def _of_whole(verdict: CheckReport | OperatorVerdict, operator: str) -> Iterator[Finding]:
    """Yield the findings about a savepoint or an operator as a whole, not about single states."""
    severity = _severity_of(verdict.outcome, loses_data=verdict.loses_data)
    if verdict.message and severity is not Severity.FINE:
        yield _finding(verdict, operator, "", severity, verdict.outcome.value)
    yield from (_of_risk(risk, operator, "") for risk in _named(verdict.risks))


def _named(risks: Iterable[Risk]) -> Iterator[Risk]:
    """Yield the risks of this savepoint; words of caution about what no comparison sees are in the documentation."""
    return (risk for risk in risks if risk.severity is not Severity.FINE)


def _of_risk(risk: Risk, operator: str, state: str) -> Finding:
    return _finding(risk, operator, state, risk.severity, risk.severity.value)


def _finding(
    told: CheckReport | OperatorVerdict | StateVerdict | Risk,
    operator: str,
    state: str,
    severity: Severity,
    outcome: str,
) -> Finding:
    return Finding(
        severity=severity,
        operator=operator,
        state=state,
        outcome=outcome,
        stage=getattr(told, "stage", None),
        field_path=getattr(told, "field_path", None),
        message=told.message,
        remedy=told.remedy,
        evidence=told.evidence,
        rule=told.rule or "",
    )


def _severity_of(outcome: Outcome, *, loses_data: bool) -> Severity:
    if outcome is Outcome.FAILS:
        return Severity.FAILS
    if outcome is Outcome.UNKNOWN:
        return Severity.UNKNOWN
    return Severity.LOSES if loses_data else Severity.FINE


def _order(stage: Stage | None) -> int:
    return len(Stage) if stage is None else stage.order


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
    yield from (printable(f"mixed      {one.message}") for one in worst.risks if one.rule == _FORMATS_DIFFER)
    yield ""
    for report in (worst, *findings.others):
        yield printable(_headline(report, findings))
    groups: dict[tuple[object, ...], list[tuple[Finding, str]]] = {}
    for finding, backends in _merged(findings):
        groups.setdefault(_verdict(finding, backends), []).append((finding, backends))
    for group in groups.values():
        yield ""
        is_doubt = group[0][0].severity is Severity.DOUBT and len(group) > 1
        yield from _doubt_lines(group, width) if is_doubt else _group_lines(group, width)
    operators, states = fine_parts(worst)
    if states or operators:
        yield ""
        yield f"{WORDS[Severity.FINE]:<{len(_INDENT)}}{counted(operators, 'operator')}, {counted(states, 'state')}"
    if findings.script.statements:
        yield ""
        yield "A write mends this (--fix FILE keeps the script):"
        shown = findings.script.statements[:_NAMES_SHOWN]
        yield from (printable(f"{_INDENT}{statement}") for statement in shown)
        if len(findings.script.statements) > len(shown):
            yield f"{_INDENT}and {len(findings.script.statements) - len(shown)} more"
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
    yield from _reason_lines(first.message, first.remedy, width)


def _doubt_lines(group: Sequence[tuple[Finding, str]], width: int | None) -> Iterator[str]:
    """Yield the doubts of one rule: a count, the first places, and what their messages have in common."""
    first, backends = group[0]
    places = list(dict.fromkeys(finding.place for finding, _ in group))
    shown = ", ".join(places[:_PLACES_SHOWN])
    more = f" and {len(places) - _PLACES_SHOWN:,} more" if len(places) > _PLACES_SHOWN else ""
    told = f"  ({backends})" if backends else ""
    yield printable(
        f"{WORDS[first.severity]:<{len(_INDENT)}}{counted(len(group), 'doubt')}: {shown}{more}{told}"
    )
    yield from _reason_lines(_shared([finding.message for finding, _ in group]), first.remedy, width)


def _reason_lines(message: str, remedy: str, width: int | None) -> Iterator[str]:
    if message:
        yield from wrapped_lines(message, _INDENT, width)
    if remedy:
        yield from wrapped_lines(f"→ {remedy}", _INDENT, width)


def _shared(messages: Sequence[str]) -> str:
    """Return what all messages say behind the names of their cases; the first message if they share no such part."""
    ends = {message.partition(": ")[2] for message in messages}
    return messages[0] if len(set(messages)) == 1 or len(ends) > 1 else ends.pop() or messages[0]


def _verdict(finding: Finding, backends: str) -> tuple[object, ...]:
    """Return what findings have in common that are shown together; the doubts of one rule are one."""
    if finding.severity is Severity.DOUBT and finding.rule:
        return finding.severity, finding.rule, finding.remedy, backends
    return finding.severity, finding.stage, finding.message, finding.remedy


# In this order a person wants to know: what cannot be told may be worse than what is lost.
_SEVERITIES = (Severity.FAILS, Severity.UNKNOWN, Severity.LOSES, Severity.DOUBT, Severity.RISK, Severity.FINE)

# The rule of files that another backend wrote for itself.
_FOREIGN_FILES = "native-other-backend"
_FORMATS_DIFFER = "formats-differ"

STAGES = {
    Stage.GRAPH: "before any task starts",
    Stage.RESTORE: "when its tasks read the savepoint",
    Stage.REGISTER: "when an operator declares a state",
    Stage.ACCESS: "when a value is first read, which may be hours later",
    Stage.SNAPSHOT: "at the next checkpoint",
}
"""Stage → when it happens."""

_HEADLINES = {
    Severity.UNKNOWN: "may fail: the inputs do not contain the deciding fact",
    Severity.LOSES: "restores it, and loses, ignores or changes values",
    Severity.DOUBT: "restores it, unless a doubt comes true",
    Severity.RISK: "restores it with the same values, unless a risk comes true",
    Severity.FINE: "restores it with the same values",
}
_BRIEF = ("against", "flink", "backend", "outcome", "severity", "loses_data", "headline", "advice")
WORDS = {one: one.value if one is Severity.FINE else one.value.upper() for one in Severity}
"""Severity → the word that begins its lines."""
