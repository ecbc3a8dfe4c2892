"""The stage `graph`: which operators of the savepoint the new job has, with which parallelism."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from doctor.job import Fact, Job, JobOperator
from doctor.report import Risk
from doctor.required import required_classes
from doctor.rules import graph as rules
from doctor.rules.context import KnownClasses
from doctor.rules.rule import Finding, Rule, risk_of
from doctor.versions import FlinkVersion

_FIRST_WITH_UIDS = 5
_FIRST_WITHOUT_VERSION_1 = (1, 11)
_ANONYMOUS = re.compile(r"\$\d+(\$|$)|\$\$Lambda")
_LEAST_DERIVED, _MOST_DERIVED = 1 << 7, 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFinding:
    """A rule of the job graph that an operator, or the savepoint, meets.

    Attributes:
        rule: the rule.
        message: it, with the names and numbers of this case.
    """

    rule: Rule
    message: str


def metadata_finding(old: Job, flink: FlinkVersion) -> GraphFinding | None:
    """Return the finding about the version of `_metadata`; None if this Flink reads it."""
    version = old.metadata_version
    if version == 1 and (flink.major, flink.minor) >= _FIRST_WITHOUT_VERSION_1:
        return GraphFinding(rule=rules.METADATA_TOO_OLD, message=rules.METADATA_TOO_OLD.flink)
    if version is None or version <= flink.newest_metadata:
        return None
    return GraphFinding(
        rule=rules.METADATA_TOO_NEW,
        message=f"Unrecognized checkpoint version number: {version} (Flink {flink.text} reads up to {flink.newest_metadata})",
    )


def operator_finding(old: JobOperator, new: Job, *, allow_non_restored: bool) -> GraphFinding | None:
    """Return the finding about an operator of the savepoint that the new job does not have; None if it has it."""
    if Fact.OPERATORS not in new.knows or old.operator_id in new.operators or not old.has_state:
        return None
    if allow_non_restored:
        return GraphFinding(
            rule=rules.OPERATOR_DROPPED,
            message=f"the new job has no operator {old.title}: its state is dropped",
        )
    return GraphFinding(
        rule=rules.OPERATOR_MISSING,
        message=f"Cannot map checkpoint/savepoint state for operator {old.title} to the new program",
    )


def parallelism_finding(old: JobOperator, new: JobOperator) -> GraphFinding | Risk | None:
    """Return the finding about parallelism and max parallelism; None if they fit. Operators without state fit always."""
    saved, wanted = old.max_parallelism, new.max_parallelism
    if not old.has_state or saved is None or saved <= 0:
        return None
    if new.parallelism is not None and new.parallelism > saved:
        message = (
            f"Cannot map operator {old.title} with max parallelism {saved} to new program with parallelism"
        )
        return GraphFinding(rule=rules.PARALLELISM_ABOVE_MAX, message=f"{message} {new.parallelism}")
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
    return GraphFinding(
        rule=rules.MAX_PARALLELISM_DIFFERS,
        message=(
            f"Max parallelism mismatch: cannot map operator {old.title} with max parallelism {saved} to new program with max "
            f"parallelism {wanted}{', unless it sets none' if is_derived else ''}"
        ),
    )


def identity_risks(old: JobOperator, job: Job) -> Iterator[Risk]:
    """Yield what a changed job would lose: operators and classes whose names hang on their places in the code."""
    # Older versions of `_metadata` do not record uids.
    if old.has_state and not old.uid and (job.metadata_version or 0) >= _FIRST_WITH_UIDS:
        yield risk_of(Finding(rule=rules.NO_UID, detail=f"operator {old.title} has no uid"))
    names = {required.class_name for required in required_classes(old, KnownClasses())}
    for name in sorted(names):
        if _ANONYMOUS.search(name):
            yield risk_of(Finding(rule=rules.ANONYMOUS_CLASS, detail=name))


def derived_max_parallelism(parallelism: int) -> int:
    """Return the max parallelism that Flink derives where none is set.

    Flink: KeyGroupRangeAssignment#computeDefaultMaxParallelism
    """
    wanted = parallelism + parallelism // 2
    return min(max(1 << max(wanted - 1, 0).bit_length(), _LEAST_DERIVED), _MOST_DERIVED)
