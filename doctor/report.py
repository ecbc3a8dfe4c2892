"""`CheckReport`: what a restore will do, per operator and state.

    CheckReport                 the worst of its operators
      OperatorVerdict *         the worst of its states, the states among them that the new job does not declare
        StateVerdict *

A verdict names the rule that decided it, with its evidence. A `Risk` is what no comparison can decide: the outcome stands,
unless the risk comes true.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
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
class Reported:
    """A part of a report."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it: its fields, in their order."""
        return {field.name: _json(getattr(self, field.name)) for field in fields(self)}


class Change(StrEnum):
    """What a write changes in a savepoint so that a restore goes through."""

    RETYPE = "retype"
    RENAME_FIELD = "rename-field"
    RENAME = "rename"
    DROP = "drop"
    MAX_PARALLELISM = "max-parallelism"
    TTL = "ttl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend(Reported):
    """A change of the savepoint that mends a finding.

    Attributes:
        change: what changes in the state or operator of the verdict.
        path: the field, such as `("value", "total")`; empty for the whole.
        value: the new type, name or number; `true` or `false` for TTL; empty where something goes.
        is_assumed: True if the compared facts only suggest it, as a field of the same type under another name.
        is_lossy: True if the job may need what goes.
    """

    change: Change
    path: tuple[str, ...] = ()
    value: str = ""
    is_assumed: bool = False
    is_lossy: bool = False


DROPPED = Mend(change=Change.DROP)
"""The job does not declare it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk(Reported):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredClass(Reported):
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
        told = Reported.to_dict(self)
        return {"class": told.pop("class_name"), **told}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVerdict(Reported):
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
        mends: changes of the savepoint after which the state restores with its values.
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
    mends: tuple[Mend, ...] = ()

    @property
    def restore(self) -> tuple[Outcome, Stage | None]:
        """What the state does to the restore of its operator, and at which step."""
        if self.severity is Severity.FAILS:
            return Outcome.FAILS, self.stage
        return (Outcome.UNKNOWN if self.severity is Severity.UNKNOWN else Outcome.RESTORES), None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVerdict(Reported):
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
        mends: changes of the operator itself, as those of a state.
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
    mends: tuple[Mend, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Reported):
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
    required_classes: tuple[RequiredClass, ...] = ()

    @property
    def severity(self) -> Severity:
        """The weight of the whole; that of its risks where the outcome is fine."""
        if self.outcome is Outcome.FAILS:
            return Severity.FAILS
        if self.outcome is Outcome.UNKNOWN:
            return Severity.UNKNOWN
        if self.loses_data:
            return Severity.LOSES
        return max_severity(self.all_risks())

    def all_risks(self) -> Iterable[Risk]:
        """Yield the risks of the savepoint, its operators and states."""
        yield from self.risks
        for operator in self.operators:
            yield from operator.risks
            for state in operator.states:
                yield from state.risks

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        told: dict[str, Any] = {}
        for name, value in Reported.to_dict(self).items():
            told[name] = value
            if name == "loses_data":
                told["severity"] = self.severity.value
        return told


def max_severity(risks: Iterable[Risk]) -> Severity:
    """Return the weight of the worst risk."""
    weights = {risk.severity for risk in risks}
    return next((weight for weight in Severity if weight in weights), Severity.FINE)


def worst(outcomes: Iterable[tuple[Outcome, Stage | None]]) -> tuple[Outcome, Stage | None]:
    """Return the worst of outcomes with their stages: a failure before anything unknown, the first stage first."""
    ranked = sorted(outcomes, key=lambda pair: (_RANK[pair[0]], pair[1].order if pair[1] else len(Stage)))
    return ranked[0] if ranked else (Outcome.RESTORES, None)


_RANK = {Outcome.FAILS: 0, Outcome.UNKNOWN: 1, Outcome.RESTORES: 2}


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(one) for one in value]
    if isinstance(value, Reported):
        return value.to_dict()
    return value.value if isinstance(value, StrEnum) else value
