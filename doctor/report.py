"""`CheckReport`: what a restore will do, per operator and state.

    CheckReport                 the worst of its operators
      OperatorVerdict *         the worst of its states, the states among them that the new job does not declare
        StateVerdict *

A verdict names the rule that decided it, with its evidence. A `Risk` is what no comparison can decide: the outcome stands,
unless the risk comes true.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """The outcome of a restore, or of the restore of one operator."""

    RESTORES = "restores"
    FAILS = "fails"
    UNKNOWN = "unknown"


class Stage(StrEnum):
    """The step of a restore that fails, in the order in which Flink takes them."""

    GRAPH = "graph"
    RESTORE = "restore"
    REGISTER = "register"
    ACCESS = "access"
    SNAPSHOT = "snapshot"

    @property
    def order(self) -> int:
        """The position among the stages: Flink fails at the first."""
        return list(Stage).index(self)


class StateOutcome(StrEnum):
    """The outcome of the restore of one state."""

    AS_IS = "as-is"
    MIGRATED = "migrated"
    RECONFIGURED = "reconfigured"
    INCOMPATIBLE = "incompatible"
    UNREADABLE = "unreadable"
    NOT_DECLARED = "not-declared"
    DROPPED = "dropped"
    NEW = "new"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """The weight of a verdict, worst first.

    `doubt`: Flink lets the restore through, and only the values can tell whether they are read right; `risk`: there is a change that
    the compared facts would not show.
    """

    FAILS = "fails"
    LOSES = "loses"
    UNKNOWN = "unknown"
    DOUBT = "doubt"
    RISK = "risk"
    FINE = "fine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """Something that the compared facts cannot decide.

    Attributes:
        rule: the id of the rule.
        severity: `doubt`, `risk`; or `fine` for a word of caution about what no comparison ever sees.
        message: what may happen.
        remedy: what shows whether it happens, or avoids it.
        evidence: labelled restores and classes of Flink that show it.
        field_path: the field concerned; None for the whole.
    """

    rule: str
    severity: Severity = Severity.RISK
    message: str
    remedy: str = ""
    evidence: tuple[str, ...] = ()
    field_path: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the risk as JSON has it."""
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": list(self.evidence),
            "field_path": self.field_path,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredClass:
    """A class that the savepoint names, so that the job's class path must have it.

    Attributes:
        class_name: its binary name.
        role: what it is to the state: `POJO`, `enum`, `Kryo class`, `serializer snapshot` and so on.
        operator_id, state_name: the state that names it.
        exists: whether the class path of the new job has it; None where that is not known.
    """

    class_name: str
    role: str
    operator_id: str
    state_name: str
    exists: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the class as JSON has it."""
        return {
            "class": self.class_name,
            "role": self.role,
            "operator_id": self.operator_id,
            "state_name": self.state_name,
            "exists": self.exists,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVerdict:
    """What becomes of one state.

    Attributes:
        state_name: the name; states of the old and of the new job have verdicts.
        kind: as `StateMeta.state_kind` shows it.
        outcome: the outcome.
        stage: the step that fails because of it; None if none does.
        changes_values: True if values are lost, changed or no longer read although the restore goes through.
        field_path: the field that decides, as `value.total`; None for the whole state.
        message: what happens, with Flink's own words.
        remedy: what to do about it.
        evidence: labelled restores and classes of Flink that show it.
        rule: the id of the rule that decides; None if nothing changes.
        severity: the weight of the verdict.
        risks: what the compared facts cannot decide.
    """

    state_name: str
    kind: str
    outcome: StateOutcome
    stage: Stage | None = None
    changes_values: bool = False
    field_path: str | None = None
    message: str = ""
    remedy: str = ""
    evidence: tuple[str, ...] = ()
    rule: str | None = None
    severity: Severity = Severity.FINE
    risks: tuple[Risk, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON has it."""
        return {
            "state_name": self.state_name,
            "kind": self.kind,
            "outcome": self.outcome.value,
            "stage": _value(self.stage),
            "changes_values": self.changes_values,
            "field_path": self.field_path,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": list(self.evidence),
            "rule": self.rule,
            "severity": self.severity.value,
            "risks": [risk.to_dict() for risk in self.risks],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVerdict:
    """What becomes of one operator: the worst of its states, or what the job graph decides before any state is read.

    Attributes:
        operator_id: 32 hex digits.
        uid: None where it is not known.
        name: None where it is not known.
        outcome, stage: of the operator.
        loses_data: True if values of a state are lost, changed or no longer read.
        message, remedy, evidence, rule: of the operator itself, where the job graph decides; else empty.
        states: the verdicts of its states.
        risks: of the operator itself.
    """

    operator_id: str
    uid: str | None = None
    name: str | None = None
    outcome: Outcome = Outcome.RESTORES
    stage: Stage | None = None
    loses_data: bool = False
    message: str = ""
    remedy: str = ""
    evidence: tuple[str, ...] = ()
    rule: str | None = None
    states: tuple[StateVerdict, ...] = ()
    risks: tuple[Risk, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON has it."""
        return {
            "operator_id": self.operator_id,
            "uid": self.uid,
            "name": self.name,
            "outcome": self.outcome.value,
            "stage": _value(self.stage),
            "loses_data": self.loses_data,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": list(self.evidence),
            "rule": self.rule,
            "states": [state.to_dict() for state in self.states],
            "risks": [risk.to_dict() for risk in self.risks],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a restore will do.

    Attributes:
        savepoint: the savepoint that is restored.
        against: what it was compared with.
        flink: the version of Flink that restores it.
        backend: the state backend that restores it, `hashmap` or `rocksdb`.
        outcome: the worst of its operators; `unknown` never hides a failure.
        stage: the first step that fails.
        loses_data: True if the restore goes through and values are lost, changed or no longer read.
        message, remedy, evidence, rule: what fails before any operator is looked at; else empty.
        operators: the verdicts of its operators.
        risks: of the savepoint itself.
        required_classes: the classes that the savepoint names.
    """

    savepoint: str
    against: tuple[str, ...]
    flink: str
    backend: str
    outcome: Outcome
    stage: Stage | None
    loses_data: bool
    message: str = ""
    remedy: str = ""
    evidence: tuple[str, ...] = ()
    rule: str | None = None
    operators: tuple[OperatorVerdict, ...] = ()
    risks: tuple[Risk, ...] = ()
    required_classes: tuple[RequiredClass, ...] = field(default=())

    @property
    def severity(self) -> Severity:
        """The weight of the whole; that of its risks where the outcome is fine."""
        if self.outcome is Outcome.FAILS:
            return Severity.FAILS
        if self.outcome is Outcome.UNKNOWN:
            return Severity.UNKNOWN
        if self.loses_data:
            return Severity.LOSES
        weights = {risk.severity for risk in self.all_risks()}
        return next((weight for weight in Severity if weight in weights), Severity.FINE)

    def all_risks(self) -> Iterable[Risk]:
        """Yield the risks of the savepoint, its operators and states."""
        yield from self.risks
        for operator in self.operators:
            yield from operator.risks
            for state in operator.states:
                yield from state.risks

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "savepoint": self.savepoint,
            "against": list(self.against),
            "flink": self.flink,
            "backend": self.backend,
            "outcome": self.outcome.value,
            "stage": _value(self.stage),
            "loses_data": self.loses_data,
            "severity": self.severity.value,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": list(self.evidence),
            "rule": self.rule,
            "operators": [operator.to_dict() for operator in self.operators],
            "risks": [risk.to_dict() for risk in self.risks],
            "required_classes": [required.to_dict() for required in self.required_classes],
        }


def worst(outcomes: Iterable[tuple[Outcome, Stage | None]]) -> tuple[Outcome, Stage | None]:
    """Return the worst of outcomes with their stages: a failure before anything unknown, the first stage first."""
    ranked = sorted(outcomes, key=lambda pair: (_RANK[pair[0]], pair[1].order if pair[1] else len(Stage)))
    return ranked[0] if ranked else (Outcome.RESTORES, None)


_RANK = {Outcome.FAILS: 0, Outcome.UNKNOWN: 1, Outcome.RESTORES: 2}


def _value(member: StrEnum | None) -> str | None:
    return None if member is None else member.value
