"""A job plan: of Flink's REST API, which lists the heads of chains with their parallelism; or a compiled SQL plan, which lists uids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from doctor.against.kind import Against
from doctor.job import Fact, Job, JobOperator
from doctor.report import Risk
from doctor.rules.plans import OPERATOR_UNLISTED
from doctor.rules.rule import note_of
from doctor.versions import FlinkVersion
from readers import JobPlan, load_job_plan


class PlanAgainst(Against):
    """A plan of the new job.

    Args:
        path: a local file.

    Raises:
        MissingFileError: it does not exist.
        CorruptDataError: it is no job plan.
    """

    order = 5

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._plan = load_job_plan(path)

    @property
    def description(self) -> str:
        return self._path

    def inform(self, new: Job, old: Job, flink: FlinkVersion) -> Job:
        operators = dict(new.operators)
        for operator_id, planned in self._plan.items():
            known = operators.get(operator_id)
            if known is not None:
                # The savepoint of the new job may be of a test with fewer subtasks.
                operators[operator_id] = replace(known, parallelism=planned.parallelism or known.parallelism)
            elif Fact.OPERATORS not in new.knows and (planned.chain or operator_id in old.operators):
                operators[operator_id] = JobOperator(
                    operator_id=operator_id,
                    uid=planned.uid,
                    name=planned.name,
                    parallelism=planned.parallelism,
                )
        knows = new.knows | {Fact.PARALLELISM}
        if _is_whole(self._plan):
            return replace(new, knows=knows | {Fact.OPERATORS}, operators=operators)
        risks = () if Fact.OPERATORS in new.knows else tuple(unlisted(old, operators))
        return replace(new, knows=knows, operators=operators, risks=new.risks + risks)


def unlisted(old: Job, operators: dict[str, JobOperator]) -> Iterator[Risk]:
    """Yield a risk for each operator with state that is not among those of the new job that are known."""
    for operator in old.operators.values():
        if operator.has_state and operator.operator_id not in operators:
            yield note_of(OPERATOR_UNLISTED, operator.title)


def _is_whole(plan: JobPlan) -> bool:
    """Return whether every operator of the job is a head, so that the plan has all ids."""
    heads = [planned for planned in plan.values() if planned.chain]
    return bool(heads) and all(planned.chain == 1 for planned in heads)
