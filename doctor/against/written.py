"""The job that a new savepoint is for: that of its source, with what a script has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from doctor.against.kind import Against
from doctor.against.savepoint import job_of
from doctor.job import Job, JobOperator
from doctor.versions import FlinkVersion
from readers import Savepoint


class SourceAgainst(Against):
    """The savepoint that another one was written from.

    What the script has made new, or given another type, is as the script says: its statements tell what the job must declare. All else is
    as the source has it.

    Args:
        source: the savepoint.
        operator_ids: the id of an operator in the source → its id now; None for one that is dropped.
        retyped: the id of an operator now, and the name of a state now: of those that have other types.
    """

    def __init__(
        self, source: Savepoint, operator_ids: Mapping[str, str | None], retyped: frozenset[tuple[str, str]]
    ) -> None:
        self._source = source.without_jars
        self._operator_ids = operator_ids
        self._retyped = retyped

    @property
    def description(self) -> str:
        return self._source.path

    def inform(self, new: Job, old: Job, flink: FlinkVersion) -> Job:
        known = job_of(self._source)
        before = {
            now: replace(operator, operator_id=now)
            for source_id, operator in known.operators.items()
            if (now := self._operator_ids.get(source_id, source_id)) is not None
        }
        operators = {
            **before,
            **{
                one.operator_id: self._declared(before.get(one.operator_id, one), one)
                for one in old.operators.values()
            },
        }
        return replace(
            new, knows=new.knows | known.knows, metadata_version=known.metadata_version, operators=operators
        )

    def _declared(self, before: JobOperator, written: JobOperator) -> JobOperator:
        """Return an operator as the job must declare it."""
        names = {(state.keyed, state.name) for state in before.states}
        new = {
            (state.keyed, state.name, state.entry.kind): state
            for state in written.states
            if (written.operator_id, state.name) in self._retyped or (state.keyed, state.name) not in names
        }
        kept = [state for state in before.states if (state.keyed, state.name, state.entry.kind) not in new]
        return replace(
            before,
            uid=written.uid,
            parallelism=written.parallelism,
            max_parallelism=written.max_parallelism,
            key=before.key or written.key,
            states=(*kept, *new.values()),
        )
