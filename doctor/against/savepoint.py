"""A savepoint of the new job, which was started once: it lists the operators and the states that are declared at the start.

`SourceAgainst`: the savepoint from which a script wrote the one that is checked, for the job that it had then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from doctor.job import Against, Fact, FlinkVersion, Job, JobOperator, JobState
from doctor.rules.rule import Finding, risk_of
from doctor.rules.upgrade import OTHER_FLINK
from readers import (
    BackendStateType,
    Operator,
    OperatorSource,
    ReaderError,
    Savepoint,
    Serializer,
    Source,
    StateKind,
    StateMetaInfo,
    StateName,
    StoredHeader,
    impossible_offsets,
    without_folders,
)
from readers.metadata import StateRole

_FIRST_OF_2 = 5
# Of a state in one subtask: the splits of one reader are a few kilobytes.
_MOST_OFFSET_BYTES = 1 << 20
_TOLD = frozenset({Fact.OPERATORS, Fact.MAX_PARALLELISM, Fact.STATES})
# Kinds whose bytes no serializer of the job describes: connectors and operators read them by themselves.
_UNDESCRIBED = frozenset(
    {StateKind.RAW_KEYED, StateKind.RAW_OPERATOR, StateKind.COORDINATOR, StateKind.CHANNEL, StateKind.MASTER}
)

_RAW = frozenset({StateKind.RAW_KEYED, StateKind.RAW_OPERATOR})


class SavepointAgainst(Against):
    """A savepoint of the new job.

    Args:
        savepoint: taken after the new job was started, with or without records.
    """

    def __init__(self, savepoint: Savepoint) -> None:
        self._savepoint = savepoint.without_jars

    @property
    def description(self) -> str:
        return self._savepoint.path

    def inform(self, new: Job, old: Job, flink: FlinkVersion) -> Job:
        known = job_of(self._savepoint)
        is_of_2 = self._savepoint.metadata.version >= _FIRST_OF_2
        other = Finding(rule=OTHER_FLINK, detail=f"{self.description}, and Flink {flink.text}")
        risks = () if is_of_2 == (flink.major >= 2) else (risk_of(other),)
        return replace(
            new,
            knows=new.knows | known.knows,
            metadata_version=known.metadata_version,
            operators=new.operators | known.operators,
            risks=new.risks + risks,
        )


def job_of(savepoint: Savepoint, *, is_restored: bool = False) -> Job:
    """Return what a savepoint tells about the job that wrote it; of its state files only the headers are read.

    Args:
        savepoint: the savepoint.
        is_restored: True to look whether all of its files are there, in their sizes, and whether sources can read on.
    """
    operators = (_operator(operator) for operator in savepoint.operators)
    if is_restored:
        operators = (_with_offsets(_with_missing(savepoint, operator)) for operator in operators)
    return Job(
        knows=_TOLD,
        metadata_version=savepoint.metadata.version,
        operators={operator.operator_id: operator for operator in operators},
    )


def _with_missing(savepoint: Savepoint, operator: JobOperator) -> JobOperator:
    """Return an operator with the files of it that are missing or too short among its problems."""
    if operator.opened is None:
        return operator
    streams = operator.opened.metadata.streams()
    missing = [
        error
        for error in savepoint.location.damaged(streams)
        if not any(problem.startswith(without_folders(error.message)) for problem in operator.problems)
    ]
    return replace(operator, problems=(*operator.problems, *(error.told for error in missing)))


def _with_offsets(operator: JobOperator) -> JobOperator:
    """Return an operator whose states say from which of their offsets no source can read on."""
    if operator.opened is None:
        return operator
    impossible = dict(impossible_offsets(operator.opened, _MOST_OFFSET_BYTES))
    if not impossible:
        return operator
    states = (replace(state, impossible_offset=impossible.get(state.name, "")) for state in operator.states)
    return replace(operator, states=tuple(states))


def _operator(operator: Operator) -> JobOperator:
    recorded = operator.metadata
    states: dict[tuple[bool, str, StateKind], JobState] = {}
    places: defaultdict[tuple[bool, str, StateKind], list[tuple[Source, StateName]]] = defaultdict(list)
    key: Serializer | None = None
    formats: set[str] = set()
    key_classes: frozenset[str] = frozenset()
    for source in operator.sources:
        registered = _registered(source)
        # Raw keyed state has key groups and no key serializer: the operator reads it by itself.
        keyed = source.key_serializer is not None
        if keyed:
            key = key or source.key_serializer
            key_classes |= _key_classes(source)
            formats |= source.layouts
        for name, entry in source.entries.items():
            if entry.kind not in _UNDESCRIBED:
                meta = registered.get((name.name, entry.kind is StateKind.TIMER))
                state = JobState(
                    name=name.name,
                    keyed=keyed,
                    entry=entry,
                    snapshot_classes=meta.snapshot_classes if meta else frozenset(),
                    is_v2=meta is not None and meta.kind is BackendStateType.KEY_VALUE_V2,
                )
                states.setdefault((keyed, name.name, entry.kind), state)
                places[keyed, name.name, entry.kind].append((source, name))
    roles = {role for subtask in recorded.subtasks for role, _ in subtask.recorded()}
    return JobOperator(
        operator_id=operator.operator_id,
        uid=recorded.uid,
        name=recorded.name,
        parallelism=recorded.parallelism,
        max_parallelism=recorded.max_parallelism,
        has_state=recorded.coordinator_state is not None or bool(roles),
        key=key,
        key_classes=key_classes,
        states=tuple(replace(state, places=tuple(places[own])) for own, state in states.items()),
        formats=frozenset(formats),
        lacks_timers=operator.lacks_timers,
        problems=tuple(handle.error.told for handle in operator.unread),
        in_flight=StateRole.CHANNEL in roles,
        raw=any(entry.kind in _RAW for source in operator.sources for entry in source.entries.values()),
        opened=operator,
    )


def _registered(source: Source) -> dict[tuple[str, bool], StateMetaInfo]:
    """Return the registration of each state, by its name and whether it is one of timers."""
    states: tuple[StateMetaInfo, ...] = ()
    if isinstance(source, OperatorSource):
        states = source.header.operator_states + source.header.broadcast_states
    elif (stored := _header(source)) is not None:
        states = stored.header.states
    return {(state.name, state.kind is BackendStateType.PRIORITY_QUEUE): state for state in states}


def _key_classes(source: Source) -> frozenset[str]:
    stored = _header(source)
    return frozenset() if stored is None else stored.header.key_classes


def _header(source: Source) -> StoredHeader | None:
    # A changelog whose base is in several parts has no header of its own.
    try:
        return source.stored_header()
    except ReaderError:
        return None


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
