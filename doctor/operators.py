"""The verdict about one operator: the job graph first, then its keys and states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from doctor.graph import GraphFinding, identity_risks, operator_finding, parallelism_finding
from doctor.job import Fact, Job, JobOperator, JobState
from doctor.report import OperatorVerdict, Outcome, Risk, Severity, StateOutcome, StateVerdict, worst
from doctor.rules import states as rules
from doctor.rules.context import Context
from doctor.rules.rule import Effect, Finding, caution_of, risk_of
from doctor.states import id_of, key_findings, new_verdict, state_verdict, undeclared_verdict
from readers import StateKind

_READABLE = {
    "hashmap": frozenset({"hashmap", "changelog"}),
    "rocksdb": frozenset({"rocksdb", "forst", "changelog"}),
    "forst": frozenset({"rocksdb", "forst", "changelog"}),
}


def operator_verdict(
    old: JobOperator, job: Job, new: Job, context: Context, *, allow_non_restored: bool
) -> OperatorVerdict:
    """Return the verdict about an operator of the savepoint.

    Args:
        old: the operator.
        job: the job of the savepoint.
        new: what is known of the new job.
        context: what is known beside the types.
        allow_non_restored: True for --allowNonRestoredState.
    """
    finding = operator_finding(old, new, allow_non_restored=allow_non_restored)
    if finding is not None:
        gone = StateOutcome.DROPPED if allow_non_restored else StateOutcome.NOT_DECLARED
        return _graph_verdict(
            old, _with_hint(finding, old, job, new), _all(old, gone, lost=allow_non_restored)
        )
    known = new.operators.get(old.operator_id)
    states = _states(old, known if Fact.STATES in new.knows else None, context)
    is_known = known is not None and not new.knows.isdisjoint({Fact.PARALLELISM, Fact.MAX_PARALLELISM})
    fit = parallelism_finding(old, known) if known and is_known else None
    if isinstance(fit, GraphFinding):
        return _graph_verdict(old, fit, states)
    verdict = _of_states(old, states)
    if isinstance(fit, Risk):
        verdict = replace(verdict, risks=(fit,))
    # No serializer of the savepoint describes these bytes.
    unread = (rule for rule, has in ((rules.IN_FLIGHT, old.in_flight), (rules.RAW_STATE, old.raw)) if has)
    risks = (risk_of(Finding(rule=rule, detail=old.title)) for rule in unread)
    verdict = replace(verdict, risks=(*verdict.risks, *risks))
    if Fact.OPERATORS not in new.knows:
        verdict = replace(verdict, risks=(*verdict.risks, *identity_risks(old, job)))
    return _with_keys(verdict, old, known if Fact.STATES in new.knows else None, context)


def new_operators(old: Job, new: Job) -> Iterator[OperatorVerdict]:
    """Yield the verdicts about the operators with states that only the new job has: they start empty."""
    for operator in new.operators.values():
        if operator.operator_id not in old.operators and operator.states:
            states = (state for state in operator.states if state.entry.kind is not StateKind.TIMER)
            yield operator.verdict(states=tuple(map(new_verdict, states)))


def _graph_verdict(
    old: JobOperator, finding: GraphFinding, states: tuple[StateVerdict, ...]
) -> OperatorVerdict:
    stage = finding.rule.heap.stage
    return old.verdict(
        outcome=Outcome.RESTORES if stage is None else Outcome.FAILS,
        stage=stage,
        loses_data=stage is None,
        message=finding.message,
        states=states,
        **finding.rule.cited,
    )


def _with_hint(finding: GraphFinding, old: JobOperator, job: Job, new: Job) -> GraphFinding:
    """Return the finding about a missing operator, with the new operator that has the same states, if there is one."""
    own = {(id_of(state), state.entry.kind) for state in old.states}
    alike = [
        operator
        for operator in new.operators.values()
        if own
        and operator.operator_id not in job.operators
        and {(id_of(state), state.entry.kind) for state in operator.states} == own
    ]
    if len(alike) != 1:
        return finding
    return replace(
        finding,
        message=f"{finding.message}; {alike[0].title} has the same states and may be the same operator under a new uid",
    )


def _all(old: JobOperator, outcome: StateOutcome, *, lost: bool) -> tuple[StateVerdict, ...]:
    severity = Severity.LOSES if lost else Severity.FAILS
    return tuple(state.verdict(outcome, changes_values=lost, severity=severity) for state in old.states)


def _states(old: JobOperator, new: JobOperator | None, context: Context) -> tuple[StateVerdict, ...]:
    declared = {id_of(state): state for state in new.states} if new is not None else {}
    verdicts = []
    for state in old.states:
        own = context if state.keyed else context.for_operator_state()
        same = declared.pop(id_of(state), None)
        if same is None and new is not None and new.problems:
            verdicts.append(_unknown(state, new))
        elif same is None and new is not None:
            verdicts.append(undeclared_verdict(state, own, opened=not state.keyed or new.key is not None))
        else:
            assumed = new is not None and new.assumed
            verdicts.append(state_verdict(state, same, own, assumed=assumed))
    # What the savepoint has of them may stand in the files that could not be read.
    if not old.problems:
        verdicts += [
            new_verdict(state) for state in declared.values() if state.entry.kind is not StateKind.TIMER
        ]
    return tuple(verdicts)


def _unknown(state: JobState, new: JobOperator) -> StateVerdict:
    """Return the verdict about a state whose declaration stands in files of the new job that cannot be read."""
    message = f"{rules.STATES_UNREAD.effect}: {'; '.join(new.problems)}"
    unknown = StateOutcome.UNKNOWN
    return state.verdict(unknown, message=message, severity=Severity.UNKNOWN, **rules.STATES_UNREAD.cited)


def _of_states(old: JobOperator, states: tuple[StateVerdict, ...]) -> OperatorVerdict:
    """Return the verdict that is the worst of the states."""
    outcome, stage = worst(state.restore for state in states)
    verdict = old.verdict(
        outcome=outcome, stage=stage, loses_data=any(state.changes_values for state in states), states=states
    )
    if not old.problems or outcome is Outcome.FAILS:
        return verdict
    return replace(
        verdict,
        outcome=Outcome.UNKNOWN,
        message=f"{rules.STATES_UNREAD.effect}: {'; '.join(old.problems)}",
        **rules.STATES_UNREAD.cited,
    )


def _with_keys(
    verdict: OperatorVerdict, old: JobOperator, new: JobOperator | None, context: Context
) -> OperatorVerdict:
    """Return the verdict with what the keys, and the layout of the files, do to all keyed states."""
    # Without keyed state in the new job its files are not opened.
    if new is not None and new.key is None and not new.problems:
        return verdict
    if new is not None and old.key is not None:
        verdict = replace(
            verdict, risks=(*verdict.risks, caution_of(rules.KEY_SELECTOR_UNSEEN, f"keys of {old.title}"))
        )
    findings = list(key_findings(old, new, context).findings)
    if not old.formats <= _READABLE[context.backend] | {"canonical"}:
        findings.append(
            Finding(rule=rules.NATIVE_FORMAT, detail=f"{', '.join(sorted(old.formats))} → {context.backend}")
        )
    if old.lacks_timers:
        findings.append(Finding(rule=rules.TIMERS_LEFT_OUT))
    effects = [(finding, finding.rule.effect_in(heap=context.backend == "hashmap")) for finding in findings]
    risks = tuple(
        risk_of(finding, effect)
        for finding, effect in effects
        if effect.severity in (Severity.DOUBT, Severity.RISK)
    )
    verdict = replace(verdict, risks=verdict.risks + risks)
    for finding, effect in sorted(effects, key=lambda pair: pair[1].severity is not Severity.FAILS):
        if _is_worse(effect, verdict):
            return _decided_by(verdict, finding, effect)
    return verdict


def _is_worse(effect: Effect, verdict: OperatorVerdict) -> bool:
    if effect.severity is Severity.FAILS:
        order = effect.stage.order if effect.stage else 0
        return verdict.outcome is not Outcome.FAILS or verdict.stage is None or order <= verdict.stage.order
    return effect.severity is Severity.LOSES and verdict.outcome is Outcome.RESTORES


def _decided_by(verdict: OperatorVerdict, finding: Finding, effect: Effect) -> OperatorVerdict:
    failed = effect.severity is Severity.FAILS
    return replace(
        verdict,
        outcome=Outcome.FAILS if failed else verdict.outcome,
        stage=effect.stage if failed else verdict.stage,
        loses_data=verdict.loses_data or not failed,
        message=finding.message,
        **finding.rule.cited,
    )
