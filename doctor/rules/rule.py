"""`Rule`: what one kind of change does to a restore, and what shows it. `Finding`: a rule that something of a savepoint meets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from doctor.report import Risk, Severity, Stage, StateOutcome


class Verdict(IntEnum):
    """Flink's `TypeSerializerSchemaCompatibility`, from best to worst."""

    AS_IS = 0
    RECONFIGURED = 1
    MIGRATION = 2
    INCOMPATIBLE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a change does in one backend.

    Attributes:
        severity: the weight of it.
        stage: the step that fails; None if none does.
        outcome: of the state; None where that follows from Flink's verdict.
    """

    severity: Severity
    stage: Stage | None = None
    outcome: StateOutcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a table of rules.

    Attributes:
        id: the rule as reports name it.
        change: what is different between the savepoint and the new job.
        effect: what happens, in one sentence.
        verdict: Flink's own verdict; None where the change is no matter of serializers.
        heap: what happens with the backend hashmap, and in operator state with any backend.
        rocksdb: what happens with the backend rocksdb in keyed state.
        flink: the words of Flink's message; empty if it says nothing.
        remedy: what to do about it.
        evidence: names of labelled restores (`pojo-add-field`), and classes of Flink.
    """

    id: str
    change: str
    effect: str
    verdict: Verdict | None = None
    heap: Effect
    rocksdb: Effect
    flink: str = ""
    remedy: str = ""
    evidence: tuple[str, ...]

    def effect_in(self, backend: str, *, keyed: bool) -> Effect:
        """Return what happens in a backend. Operator state is on the heap always."""
        return self.rocksdb if backend != "hashmap" and keyed else self.heap


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that a state, or a field of it, meets.

    Attributes:
        rule: the rule.
        path: the names that lead to the field, outermost first.
        detail: it, with the names of this case; empty for the words of the rule.
    """

    rule: Rule
    path: tuple[str, ...] = ()
    detail: str = ""

    @property
    def message(self) -> str:
        """What happens, with the names of this case and Flink's words."""
        text = f"{self.detail}: {self.rule.effect}" if self.detail else self.rule.effect
        return f"{text} ({self.rule.flink})" if self.rule.flink else text


def risk_of(finding: Finding, effect: Effect) -> Risk:
    """Return a finding as a risk."""
    rule = finding.rule
    return Risk(
        rule=rule.id,
        severity=effect.severity,
        message=finding.message,
        remedy=rule.remedy,
        evidence=rule.evidence,
        field_path=".".join(finding.path) or None,
    )


def note_of(rule: Rule, message: str) -> Risk:
    """Return what a rule says of every backend as a risk, without a finding."""
    return Risk(
        rule=rule.id,
        severity=rule.heap.severity,
        message=message,
        remedy=rule.remedy,
        evidence=rule.evidence,
    )


def caution_of(rule: Rule, detail: str = "") -> Risk:
    """Return a word of caution: what no comparison sees."""
    about = f"{detail}, not compared" if detail else "not compared"
    return note_of(rule, f"{about}: {rule.change}; {rule.effect}")


def fails(stage: Stage, outcome: StateOutcome = StateOutcome.INCOMPATIBLE) -> Effect:
    """Return the effect of a change that fails at a stage."""
    return Effect(severity=Severity.FAILS, stage=stage, outcome=outcome)


FINE = Effect(severity=Severity.FINE)
LOSES = Effect(severity=Severity.LOSES)
RISK = Effect(severity=Severity.RISK)
DOUBT = Effect(severity=Severity.DOUBT)
UNKNOWN = Effect(severity=Severity.UNKNOWN, outcome=StateOutcome.UNKNOWN)
FAILS_GRAPH = fails(Stage.GRAPH, StateOutcome.NOT_DECLARED)
FAILS_RESTORE = fails(Stage.RESTORE)
FAILS_REGISTER = fails(Stage.REGISTER)
UNREADABLE_ACCESS = fails(Stage.ACCESS, StateOutcome.UNREADABLE)
UNREADABLE_SNAPSHOT = fails(Stage.SNAPSHOT, StateOutcome.UNREADABLE)
