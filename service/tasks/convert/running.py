"""A savepoint, and what is known of the new job → the plan of a conversion, and the new savepoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import doctor
from doctor import Against, FlinkVersion, new_job
from readers import Savepoint
from service.tasks.check.written import WrittenCheck, checked
from service.tasks.convert.conversion import Conversion
from service.tasks.convert.plan import Plan, Progress, plan_of, with_failures
from writers import FilesMode, Summary

_BACKENDS = ("hashmap", "rocksdb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What a conversion did, or would do.

    Attributes:
        plan: the states that are written anew, and those that are left.
        summary: the new savepoint in numbers; None if there is nothing to convert.
        target: the new savepoint; None if nothing was written.
        check: what a restore does with the new savepoint; None if nothing was written.
    """

    plan: Plan
    summary: Summary | None
    target: str | None
    check: WrittenCheck | None = None


def convert(
    savepoint: Savepoint,
    against: Sequence[Against],
    flink: FlinkVersion,
    target: str | None,
    files: FilesMode = FilesMode.LINK,
    on_state: Progress = lambda name: None,
) -> Converted:
    """Write the states of a savepoint anew that the new job would not restore with equal values.

    Args:
        savepoint: the source; it is only read.
        against: what is known of the new job.
        flink: the version that will restore the new savepoint.
        target: its place; None to only say what would be written.
        files: how files of states that stay come along.
        on_state: hears of each state.

    Raises:
        QueryError: something is at the target, it cannot be written, or the source cannot be written again.
        ReaderError: the savepoint cannot be read.
    """
    plan = plan_of(savepoint, new_job(savepoint, against, flink), flink, on_state)
    reports = [
        doctor.check(savepoint, against=against, flink=flink.text, backend=backend) for backend in _BACKENDS
    ]
    plan = with_failures(plan, savepoint, reports)
    if not plan.converted:
        return Converted(plan=plan, summary=None, target=None)
    conversion = Conversion(savepoint, plan, files)
    if target is None:
        return Converted(plan=plan, summary=conversion.summary, target=None)
    checks: list[WrittenCheck] = []
    summary = conversion.write(target, lambda new: checks.append(checked(new, against, flink.text)))
    return Converted(plan=plan, summary=summary, target=target, check=checks[-1])
