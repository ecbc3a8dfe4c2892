"""`check`: a savepoint, and what is known of the new job → a `CheckReport`.

`new_job`: what is known of a new job, from everything that a savepoint is compared with.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from doctor.against.kind import Against
from doctor.against.savepoint import job_of
from doctor.graph import metadata_finding
from doctor.job import Fact, Job
from doctor.operators import new_operators, operator_verdict
from doctor.report import CheckReport, Outcome, Risk, worst
from doctor.required import known_classes, required_classes
from doctor.rules.comparison import compare
from doctor.rules.context import Context
from doctor.rules.plans import STATES_UNSEEN
from doctor.rules.rule import caution_of, note_of
from doctor.rules.states import BACKEND_NAME_UNSEEN, CHANGELOG_UNSEEN, UNSEEN
from doctor.values import ValuesCheck, revised
from doctor.versions import NEWEST_FLINK, FlinkVersion, flink_version, known_backend
from readers import Savepoint

_LAST_WITH_KRYO_2 = 4
_FIRST_WITHOUT_OLD_NAMES = 2


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
    leave open: see `doctor.samples`.

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

    too_new = metadata_finding(old, version)
    context = Context(
        flink=version,
        backend=backend,
        keyed=True,
        old_kryo=2 if (old.metadata_version or 0) <= _LAST_WITH_KRYO_2 else 5,
        classes=known_classes(new),
        compare=compare,
    )
    operators = tuple(
        operator_verdict(operator, old, new, context, allow_non_restored=allow_non_restored)
        for operator in old.operators.values()
    ) + tuple(new_operators(old, new))
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
        risks=(*_cautions(old, context), *new.risks),
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
        stage=too_new.rule.heap.stage,
        loses_data=False,
        message=too_new.message,
        **too_new.rule.cited,
    )


def _cautions(old: Job, context: Context) -> Iterator[Risk]:
    """Yield words of caution about what no comparison sees, as far as they concern this restore."""
    yield caution_of(UNSEEN)
    is_of_2 = context.flink.major >= _FIRST_WITHOUT_OLD_NAMES
    # Each version lacks names of one backend.
    if is_of_2 == (context.backend == "hashmap"):
        yield caution_of(BACKEND_NAME_UNSEEN)
    if is_of_2 and any(operator.key is not None for operator in old.operators.values()):
        yield caution_of(CHANGELOG_UNSEEN)


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
