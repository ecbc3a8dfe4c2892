"""`check`: a savepoint, and what is known of the new job → a `CheckReport`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from doctor.against.kind import Against
from doctor.against.savepoint import job_of
from doctor.graph import GraphFinding, metadata_finding, operator_finding, parallelism_finding
from doctor.job import Fact, Job, JobOperator
from doctor.report import CheckReport, OperatorVerdict, Outcome, Risk, StateOutcome, StateVerdict, worst
from doctor.rules.graph import METADATA_TOO_NEW
from doctor.versions import flink_version, known_backend
from readers import Savepoint


def check(
    savepoint: Savepoint | str | os.PathLike[str],
    *,
    against: Sequence[Against] = (),
    flink: str = "2.3.0",
    backend: str = "hashmap",
    allow_non_restored: bool = False,
) -> CheckReport:
    """Return what a restore of a savepoint will do. Only `_metadata` and headers of state files are read.

    Args:
        savepoint: the savepoint, or where it is.
        against: what is known of the new job; nothing, and only the upgrade itself is checked.
        flink: the version of Flink that restores it.
        backend: the state backend that restores it, `hashmap` or `rocksdb`.
        allow_non_restored: True for --allowNonRestoredState.

    Raises:
        UnknownVersionError: no known version of Flink.
        UnknownBackendError: neither `hashmap` nor `rocksdb`.
        ReaderError: there is no savepoint, or what it is compared with cannot be read.
    """
    version = flink_version(flink)
    known_backend(backend)
    opened = savepoint if isinstance(savepoint, Savepoint) else Savepoint(savepoint)
    old = job_of(opened)
    new = Job(knows=frozenset(), metadata_version=None, operators={})
    for source in sorted(against, key=lambda source: source.order):
        new = source.inform(new, old, version)

    too_new = metadata_finding(old, version)
    operators = tuple(
        _verdict(operator, new, allow_non_restored=allow_non_restored) for operator in old.operators.values()
    )
    outcome, stage = worst((operator.outcome, operator.stage) for operator in operators)
    if too_new:
        outcome, stage = Outcome.FAILS, METADATA_TOO_NEW.stage
    return CheckReport(
        savepoint=opened.path,
        against=tuple(source.description for source in against),
        flink=version.text,
        backend=backend,
        outcome=outcome,
        stage=stage,
        loses_data=outcome is Outcome.RESTORES and any(operator.loses_data for operator in operators),
        message=too_new.message if too_new else "",
        remedy=too_new.rule.remedy if too_new else "",
        evidence=too_new.rule.evidence if too_new else (),
        rule=too_new.rule.id if too_new else None,
        operators=operators,
    )


def _verdict(old: JobOperator, new: Job, *, allow_non_restored: bool) -> OperatorVerdict:
    finding = operator_finding(old, new, allow_non_restored=allow_non_restored)
    if finding is not None:
        gone = StateOutcome.DROPPED if allow_non_restored else StateOutcome.NOT_DECLARED
        return _graph_verdict(old, finding, gone)
    known = new.operators.get(old.operator_id)
    fit = parallelism_finding(old, known) if known and Fact.MAX_PARALLELISM in new.knows else None
    if isinstance(fit, GraphFinding):
        return _graph_verdict(old, fit, StateOutcome.UNKNOWN)
    risks = (fit,) if isinstance(fit, Risk) else ()
    # No rule has looked at its states yet.
    outcome = Outcome.UNKNOWN if old.states else Outcome.RESTORES
    states = _states(old, StateOutcome.UNKNOWN, changes_values=False)
    return OperatorVerdict(
        operator_id=old.operator_id, uid=old.uid, name=old.name, outcome=outcome, states=states, risks=risks
    )


def _graph_verdict(old: JobOperator, finding: GraphFinding, states: StateOutcome) -> OperatorVerdict:
    rule = finding.rule
    loses = rule.stage is None
    return OperatorVerdict(
        operator_id=old.operator_id,
        uid=old.uid,
        name=old.name,
        outcome=Outcome.RESTORES if loses else Outcome.FAILS,
        stage=rule.stage,
        loses_data=loses,
        message=finding.message,
        remedy=rule.remedy,
        evidence=rule.evidence,
        rule=rule.id,
        states=_states(old, states, changes_values=loses),
    )


def _states(old: JobOperator, outcome: StateOutcome, *, changes_values: bool) -> tuple[StateVerdict, ...]:
    return tuple(
        StateVerdict(
            state_name=state.name, kind=state.entry.kind.value, outcome=outcome, changes_values=changes_values
        )
        for state in old.states
    )
