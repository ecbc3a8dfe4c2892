"""A stateInfo file of the new job: its operators, and the names and types of their states.

Types stand there by their names. One that has the name of the old type is taken for unchanged, another one is compared where its name
alone tells its layout, as `Long` or `List<String>` do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from doctor.against.kind import Against
from doctor.against.plans import unlisted
from doctor.job import Fact, Job, JobOperator, JobState
from doctor.report import Risk
from doctor.rules.plans import TYPE_UNKNOWN, TYPES_BY_NAME
from doctor.rules.rule import note_of
from doctor.versions import FlinkVersion
from readers import (
    OperatorInfo,
    Serializer,
    StateInfo,
    TtlSerializer,
    TypeInfo,
    UnsupportedSerializerError,
    load_state_info,
    type_named,
)


class StateInfoAgainst(Against):
    """A stateInfo file of the new job.

    Args:
        path: a local file.

    Raises:
        MissingFileError: it does not exist.
        CorruptDataError: it is no stateInfo file.
        UnsupportedVersionError: it is of a later version.
    """

    order = 5

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._info = load_state_info(path)

    @property
    def description(self) -> str:
        return self._path

    def inform(self, new: Job, old: Job, flink: FlinkVersion) -> Job:
        # The savepoint of the new job tells all of it, and more.
        if Fact.STATES in new.knows:
            return new
        risks: list[Risk] = []
        operators = dict(new.operators)
        for operator in old.operators.values():
            info = self._info.operators.get(operator.operator_id)
            known = new.operators.get(operator.operator_id)
            if info is not None:
                operators[operator.operator_id] = _described(operator, info, known, risks)
        if Fact.OPERATORS not in new.knows:
            listed = {
                operator_id: JobOperator(operator_id=operator_id) for operator_id in self._info.operators
            }
            risks += unlisted(old, listed)
        return replace(
            new,
            knows=new.knows | {Fact.STATES, Fact.MAX_PARALLELISM},
            operators=operators,
            risks=new.risks + tuple(risks),
        )


def _described(
    old: JobOperator, info: OperatorInfo, known: JobOperator | None, risks: list[Risk]
) -> JobOperator:
    """Return an operator of the new job; what its description does not tell is added to the risks."""
    states = tuple(_states(old, info, risks))
    key = _type(old.key, info.key, old.title, risks)
    return JobOperator(
        operator_id=old.operator_id,
        uid=info.uid or old.uid,
        name=info.name or old.name,
        parallelism=(known and known.parallelism) or info.parallelism,
        max_parallelism=info.max_parallelism,
        has_state=bool(states),
        key=key,
        states=states,
    )


def _states(old: JobOperator, info: OperatorInfo, risks: list[Risk]) -> Iterator[JobState]:
    for state in old.states:
        # Timers and connectors' own bytes have no types of the job: the file need not have them.
        listed = info.state(state.name, state.entry.kind)
        if listed is None:
            if state.entry.value is None:
                yield state
            continue
        yield _state(state, listed, f"{state.name} of {old.title}", risks)


def _state(old: JobState, info: StateInfo, title: str, risks: list[Risk]) -> JobState:
    entry = old.entry
    inner = entry.value.value if isinstance(entry.value, TtlSerializer) else entry.value
    value = _type(inner, info.value, title, risks)
    has_ttl = entry.ttl if info.ttl is None else info.ttl
    if value is not None and has_ttl:
        value = (
            replace(entry.value, value=value)
            if isinstance(entry.value, TtlSerializer)
            else TtlSerializer(value=value)
        )
    changed = replace(
        entry,
        kind=info.kind,
        namespace=_type(entry.namespace, info.namespace, title, risks),
        map_key=_type(entry.map_key, info.map_key, title, risks),
        value=value,
    )
    return replace(old, entry=changed)


def _type(old: Serializer | None, info: TypeInfo | None, title: str, risks: list[Risk]) -> Serializer | None:
    """Return the type of the new job: the old one where it has its name, or where the name alone does not tell another."""
    if old is None or info is None or info.type is None:
        return old
    if info.type == old.type_name:
        # The name of a basic type, or of a collection of these, tells its layout.
        if _named(info.type) is None:
            risks.append(note_of(TYPES_BY_NAME, f"{old.type_name}, {title}"))
        return old
    named = _named(info.type)
    if named is None:
        risks.append(note_of(TYPE_UNKNOWN, f"{old.type_name} → {info.type}, {title}"))
    return named or old


def _named(text: str) -> Serializer | None:
    try:
        return type_named(text)
    except UnsupportedSerializerError:
        return None
