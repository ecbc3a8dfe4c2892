"""`check`: a savepoint, and what is known of the new job → a `CheckReport`, operator by operator.

The stage `graph` comes first: which operators of the savepoint the new job has, with which parallelism; then their keys and states.

`new_job`: what is known of a new job, from everything that a savepoint is compared with.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from doctor.against.savepoint import job_of
from doctor.job import (
    NEWEST_FLINK,
    Against,
    Fact,
    FlinkVersion,
    Job,
    JobOperator,
    JobState,
    flink_version,
    known_backend,
)
from doctor.report import (
    DROPPED,
    Change,
    CheckReport,
    Mend,
    OperatorVerdict,
    Outcome,
    Risk,
    Severity,
    StateOutcome,
    StateVerdict,
    worst,
)
from doctor.rules import states as rules
from doctor.rules.rule import Context, Effect, Finding, KnownClasses, caution_of, note_of, risk_of
from doctor.rules.untold import STATES_UNSEEN
from doctor.states import (
    compare,
    id_of,
    key_findings,
    known_classes,
    mends_of,
    new_verdict,
    required_classes,
    state_verdict,
    undeclared_verdict,
)
from doctor.values import ValuesCheck, revised
from readers import Savepoint, StateKind

_FIRST_WITH_UIDS = 5
_FIRST_WITHOUT_VERSION_1 = (1, 11)
_ANONYMOUS = re.compile(r"\$\d+(\$|$)|\$\$Lambda")
_LAST_WITH_KRYO_2 = 4
_FIRST_WITHOUT_OLD_NAMES = 2
_LEAST_DERIVED, _MOST_DERIVED = 1 << 7, 1 << 15
_READABLE = {
    "hashmap": frozenset({"hashmap", "changelog"}),
    "rocksdb": frozenset({"rocksdb", "forst", "changelog"}),
    "forst": frozenset({"rocksdb", "forst", "changelog"}),
}


def _metadata_finding(old: Job, flink: FlinkVersion) -> Finding | None:
    """Return the finding about the version of `_metadata`; None if this Flink reads it."""
    version = old.metadata_version
    if version == 1 and (flink.major, flink.minor) >= _FIRST_WITHOUT_VERSION_1:
        return Finding(rule=rules.METADATA_TOO_OLD, text=rules.METADATA_TOO_OLD.flink)
    if version is None or version <= flink.newest_metadata:
        return None
    return Finding(
        rule=rules.METADATA_TOO_NEW,
        text=f"Unrecognized checkpoint version number: {version} (Flink {flink.text} reads up to {flink.newest_metadata})",
    )


def _operator_finding(old: JobOperator, new: Job, *, allow_non_restored: bool) -> Finding | None:
    """Return the finding about an operator of the savepoint that the new job does not have; None if it has it."""
    if Fact.OPERATORS not in new.knows or old.operator_id in new.operators or not old.has_state:
        return None
    if allow_non_restored:
        return Finding(
            rule=rules.OPERATOR_DROPPED,
            text=f"the new job has no operator {old.title}: its state is dropped",
            mend=DROPPED,
        )
    return Finding(
        rule=rules.OPERATOR_MISSING,
        text=f"Cannot map checkpoint/savepoint state for operator {old.title} to the new program",
        mend=DROPPED,
    )


def _parallelism_finding(old: JobOperator, new: JobOperator) -> Finding | Risk | None:
    """Return the finding about parallelism and max parallelism; None if they fit. Operators without state fit always."""
    saved, wanted = old.max_parallelism, new.max_parallelism
    if not old.has_state or saved is None or saved <= 0:
        return None
    if new.parallelism is not None and new.parallelism > saved:
        message = (
            f"Cannot map operator {old.title} with max parallelism {saved} to new program with parallelism"
        )
        return Finding(
            rule=rules.PARALLELISM_ABOVE_MAX,
            text=f"{message} {new.parallelism}",
            mend=_groups(derived_max_parallelism(new.parallelism)),
        )
    if wanted is None or wanted == saved:
        return None
    # A number that Flink derives is one that no job has set, most likely: then the saved one is taken. If the old job has set one,
    # the new one sets one too.
    is_derived = wanted == derived_max_parallelism(new.parallelism or 1)
    if is_derived and saved & (saved - 1) == 0 and saved >= _LEAST_DERIVED:
        detail = (
            f"operator {old.title} has max parallelism {saved} in the savepoint and {wanted} in the new job"
        )
        return risk_of(Finding(rule=rules.MAX_PARALLELISM_UNSET, detail=detail))
    return Finding(
        rule=rules.MAX_PARALLELISM_DIFFERS,
        text=(
            f"Max parallelism mismatch: cannot map operator {old.title} with max parallelism {saved} to new program with max "
            f"parallelism {wanted}{', unless it sets none' if is_derived else ''}"
        ),
        mend=_groups(wanted),
    )


def _identity_risks(old: JobOperator, job: Job) -> Iterator[Risk]:
    """Yield what a changed job would lose: operators and classes whose names hang on their places in the code."""
    # Older versions of `_metadata` do not record uids.
    if old.has_state and not old.uid and (job.metadata_version or 0) >= _FIRST_WITH_UIDS:
        yield risk_of(Finding(rule=rules.NO_UID, detail=f"operator {old.title} has no uid"))
    names = {required.class_name for required in required_classes(old, KnownClasses())}
    for name in sorted(names):
        if _ANONYMOUS.search(name):
            yield risk_of(Finding(rule=rules.ANONYMOUS_CLASS, detail=name))


def _groups(wanted: int) -> Mend:
    return Mend(change=Change.MAX_PARALLELISM, value=str(wanted))


def derived_max_parallelism(parallelism: int) -> int:
    """Return the max parallelism that Flink derives where none is set.

    Flink: KeyGroupRangeAssignment#computeDefaultMaxParallelism
    """
    wanted = parallelism + parallelism // 2
    return min(max(1 << max(wanted - 1, 0).bit_length(), _LEAST_DERIVED), _MOST_DERIVED)


def _operator_verdict(
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
    finding = _operator_finding(old, new, allow_non_restored=allow_non_restored)
    if finding is not None:
        gone = StateOutcome.DROPPED if allow_non_restored else StateOutcome.NOT_DECLARED
        return _graph_verdict(
            old, _with_hint(finding, old, job, new), _all(old, gone, lost=allow_non_restored)
        )
    known = new.operators.get(old.operator_id)
    states = _states(old, known if Fact.STATES in new.knows else None, context)
    is_known = known is not None and not new.knows.isdisjoint({Fact.PARALLELISM, Fact.MAX_PARALLELISM})
    fit = _parallelism_finding(old, known) if known and is_known else None
    if isinstance(fit, Finding):
        return _graph_verdict(old, fit, states)
    verdict = _of_states(old, states)
    if isinstance(fit, Risk):
        verdict = replace(verdict, risks=(fit,))
    # No serializer of the savepoint describes these bytes.
    unread = (rule for rule, has in ((rules.IN_FLIGHT, old.in_flight), (rules.RAW_STATE, old.raw)) if has)
    risks = (risk_of(Finding(rule=rule, detail=old.title)) for rule in unread)
    verdict = replace(verdict, risks=(*verdict.risks, *risks))
    if Fact.OPERATORS not in new.knows:
        verdict = replace(verdict, risks=(*verdict.risks, *_identity_risks(old, job)))
    return _with_keys(verdict, old, known if Fact.STATES in new.knows else None, context)


def _new_operators(old: Job, new: Job) -> Iterator[OperatorVerdict]:
    """Yield the verdicts about the operators with states that only the new job has: they start empty."""
    for operator in new.operators.values():
        if operator.operator_id not in old.operators and operator.states:
            states = (state for state in operator.states if state.entry.kind is not StateKind.TIMER)
            yield operator.verdict(states=tuple(map(new_verdict, states)))


def _graph_verdict(old: JobOperator, finding: Finding, states: tuple[StateVerdict, ...]) -> OperatorVerdict:
    stage = finding.rule.backends.heap.stage
    return old.verdict(
        outcome=Outcome.RESTORES if stage is None else Outcome.FAILS,
        stage=stage,
        loses_data=stage is None,
        message=finding.message,
        states=states,
        mends=mends_of((finding,)),
        **finding.rule.cited,
    )


def _with_hint(finding: Finding, old: JobOperator, job: Job, new: Job) -> Finding:
    """Return the finding about a missing operator, with the new operator that has the same states, if there is one."""
    own = {(id_of(state), state.entry.kind) for state in old.states}
    added = [one for one in new.operators.values() if one.operator_id not in job.operators and one.states]
    alike = [
        one for one in added if own and {(id_of(state), state.entry.kind) for state in one.states} == own
    ]
    if len(alike) != 1:
        # One of the new operators may be this one, with other states.
        return replace(finding, mend=replace(DROPPED, is_lossy=bool(added)))
    uid = alike[0].uid
    return replace(
        finding,
        text=f"{finding.message}; {alike[0].title} has the same states and may be the same operator under a new uid",
        mend=Mend(change=Change.RENAME, value=uid, is_assumed=True) if uid else None,
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
    return tuple(_renamed(verdicts, old, declared.values()))


def _renamed(
    verdicts: Sequence[StateVerdict], old: JobOperator, added: Iterable[JobState]
) -> Iterator[StateVerdict]:
    """Yield verdicts: if one state alone went and one of the same kind and types came, it may have another name now."""
    known = {state.name: state for state in old.states}
    gone = [one.state_name for one in verdicts if one.mends == (DROPPED,)]
    came = list(added)
    is_renamed = len(gone) == len(came) == 1 and _is_alike(known[gone[0]], came[0])
    for one in verdicts:
        if is_renamed and one.mends == (DROPPED,):
            yield replace(one, mends=(Mend(change=Change.RENAME, value=came[0].name, is_assumed=True),))
        else:
            yield one


def _is_alike(old: JobState, new: JobState) -> bool:
    one, other = old.entry, new.entry
    return old.keyed == new.keyed and (one.kind, *one.serializers()) == (other.kind, *other.serializers())


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
    if not _is_readable(old.formats, context.backend):
        rule = rules.NATIVE_FORMAT if context.is_restorable else rules.TWO_NATIVE_FORMATS
        findings.append(Finding(rule=rule, detail=f"{_listed(old.formats)} → {context.backend}"))
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


def _is_readable(formats: frozenset[str], backend: str) -> bool:
    return formats <= _READABLE[backend] | {"canonical"}


def _listed(formats: frozenset[str]) -> str:
    return ", ".join(sorted(formats))


def _short(operator: JobOperator) -> str:
    return operator.uid or operator.name or operator.operator_id


def _mixture(job: Job) -> Iterator[Risk]:
    """Yield the formats of a savepoint whose operators differ in them, and those of an older Flink."""
    titles: dict[str, list[str]] = {}
    for operator in job.operators.values():
        if operator.formats:
            titles.setdefault(_listed(operator.formats), []).append(_short(operator))
    # Flink has a name for each operator, and stores it since 2.0.
    if (job.metadata_version or 0) >= _FIRST_WITH_UIDS:
        older = [_short(one) for one in job.operators.values() if one.has_state and not one.name]
        if 0 < len(older) < len(job.operators):
            titles["of Flink 1"] = older
    if len(titles) > 1:
        detail = "; ".join(f"{format}: {', '.join(own)}" for format, own in sorted(titles.items()))
        yield note_of(rules.FORMATS_DIFFER, detail)


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


def check(
    savepoint: Savepoint | str | os.PathLike[str],
    *,
    against: Sequence[Against] = (),
    flink: str = NEWEST_FLINK,
    backend: str = "hashmap",
    allow_non_restored: bool = False,
    values: ValuesCheck | None = None,
) -> CheckReport:
    """Return what a restore of a savepoint will do.

    Without `values`, `_metadata` and the headers of state files are read, and at most 16 KiB of the first values of a state that they
    leave open: see `doctor.states`.

    Args:
        savepoint: the savepoint, or where it is.
        against: what is known of the new job; nothing, and only the upgrade itself is checked.
        flink: the version of Flink that restores it.
        backend: the state backend that restores it: `hashmap`, `rocksdb` or `forst`.
        allow_non_restored: True for --allowNonRestoredState.
        values: how many stored values are read; None for none.

    Raises:
        UnknownVersionError: no known version of Flink.
        UnknownBackendError: neither `hashmap`, `rocksdb` nor `forst`.
        ReaderError: there is no savepoint, or what it is compared with cannot be read.
    """
    version = flink_version(flink)
    known_backend(backend)
    opened = savepoint if isinstance(savepoint, Savepoint) else Savepoint(savepoint)
    # What Flink restores is what it wrote: no jar adds to it.
    opened = opened.without_jars
    old = job_of(opened, is_restored=True)
    new = _informed(old, against, version)
    if against and Fact.STATES not in new.knows:
        new = replace(new, risks=(*new.risks, note_of(STATES_UNSEEN)))

    too_new = _metadata_finding(old, version)
    formats = frozenset[str]().union(*(operator.formats for operator in old.operators.values()))
    context = Context(
        flink=version,
        backend=backend,
        keyed=True,
        old_kryo=2 if (old.metadata_version or 0) <= _LAST_WITH_KRYO_2 else 5,
        classes=known_classes(new),
        compare=compare,
        is_restorable=any(_is_readable(formats, one) for one in _READABLE),
    )
    operators = tuple(
        _operator_verdict(operator, old, new, context, allow_non_restored=allow_non_restored)
        for operator in old.operators.values()
    ) + tuple(_new_operators(old, new))
    outcome, stage = worst((operator.outcome, operator.stage) for operator in operators)
    report = CheckReport(
        savepoint=opened.path,
        against=tuple(source.description for source in against),
        flink=version.text,
        backend=backend,
        outcome=outcome,
        stage=stage,
        loses_data=outcome is Outcome.RESTORES and any(operator.loses_data for operator in operators),
        operators=operators,
        risks=(*_cautions(old, context), *_mixture(old), *new.risks),
        required_classes=tuple(
            required
            for operator in old.operators.values()
            for required in required_classes(operator, context.classes)
        ),
    )
    if values is not None:
        report = revised(report, opened, values, is_upgrade=context.is_upgrade)
    if too_new is None:
        return report
    return replace(
        report,
        outcome=Outcome.FAILS,
        stage=too_new.rule.backends.heap.stage,
        loses_data=False,
        message=too_new.message,
        **too_new.rule.cited,
    )


def _cautions(old: Job, context: Context) -> Iterator[Risk]:
    """Yield words of caution about what no comparison sees, as far as they concern this restore."""
    yield caution_of(rules.UNSEEN)
    is_of_2 = context.flink.major >= _FIRST_WITHOUT_OLD_NAMES
    # Each version lacks names of one backend.
    if is_of_2 == (context.backend == "hashmap"):
        yield caution_of(rules.BACKEND_NAME_UNSEEN)
    if is_of_2 and any(operator.key is not None for operator in old.operators.values()):
        yield caution_of(rules.CHANGELOG_UNSEEN)


def new_job(savepoint: Savepoint, against: Sequence[Against], flink: FlinkVersion) -> Job:
    """Return what is known of the new job of a savepoint.

    Args:
        savepoint: of the old job.
        against: what tells about the new one; what lists operators and states informs before what describes classes.
        flink: the version that restores it.

    Raises:
        ReaderError: something of it cannot be read.
    """
    return _informed(job_of(savepoint), against, flink)


def _informed(old: Job, against: Sequence[Against], flink: FlinkVersion) -> Job:
    new = Job(knows=frozenset(), metadata_version=None, operators={})
    for source in sorted(against, key=lambda source: source.order):
        new = source.inform(new, old, flink)
    return new
