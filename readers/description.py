"""Writes the `stateInfo` file of a savepoint: types from the headers of its state files, names from a job plan."""

from __future__ import annotations

from dataclasses import replace

from readers.formats.entry import Entry
from readers.operators import Operator
from readers.savepoint import Savepoint
from readers.serializers.base import Serializer
from readers.serializers.operators import TtlSerializer
from readers.serializers.protobuf import Descriptors
from readers.serializers.structs import ROW_KIND
from readers.stateinfo.file import NO_OPERATOR, OperatorInfo, StateInfo, TypeInfo, state_info_text
from readers.stateinfo.plans import JobPlan, PlannedOperator
from readers.stateinfo.refinement import record_of
from readers.states import State

_NOT_PLANNED = PlannedOperator()


def write_state_info(
    savepoint: Savepoint, job_plan: JobPlan | None = None, descriptors: Descriptors | None = None
) -> str:
    """Return the `stateInfo` of a savepoint as text.

    Args:
        savepoint: the savepoint.
        job_plan: names of operators and columns.
        descriptors: of protobuf messages.

    The savepoint's own `stateInfo` fills in what plan and descriptors do not name.

    Raises:
        ReaderError: a header cannot be read at all; states that cannot be decoded are no error.
    """
    plan = job_plan or {}
    operators = {
        operator.operator_id: _operator(
            operator,
            savepoint.state_info.operators.get(operator.operator_id, NO_OPERATOR),
            plan.get(operator.operator_id, _NOT_PLANNED),
        )
        for operator in savepoint.operators
    }
    known = savepoint.state_info
    return state_info_text(replace(known, operators=operators, descriptors=descriptors or known.descriptors))


def _operator(operator: Operator, known: OperatorInfo, planned: PlannedOperator) -> OperatorInfo:
    metadata = operator.metadata
    described = [
        (state, state.entry, known.state(state.name, state.kind))
        for state in operator.states
        if state.entry is not None
    ]
    keys = [entry.key for _, entry, _ in described if entry.key is not None]
    return OperatorInfo(
        operator_id=metadata.operator_id,
        uid=metadata.uid or planned.uid,
        name=metadata.name or planned.name,
        parallelism=metadata.parallelism if metadata.parallelism > 0 else None,
        max_parallelism=metadata.max_parallelism if metadata.max_parallelism > 0 else None,
        # All states of an operator have the same keys.
        key=_type(keys[0], known.key, (planned.key,)) if keys else None,
        states=tuple(
            _state(state, entry, info, planned.rows.get(state.name, ())) for state, entry, info in described
        ),
    )


def _state(
    state: State, entry: Entry, known: StateInfo | None, rows: tuple[tuple[str, ...], ...]
) -> StateInfo:
    value = entry.value.value if isinstance(entry.value, TtlSerializer) else entry.value
    return StateInfo(
        name=state.name,
        kind=entry.kind,
        namespace=_type(entry.namespace, known.namespace if known else None, ()),
        map_key=_type(entry.map_key, known.map_key if known else None, rows),
        value=_type(value, known.value if known else None, rows),
        ttl=entry.ttl if value is not None else None,
    )


def _type(
    serializer: Serializer | None, known: TypeInfo | None, rows: tuple[tuple[str, ...], ...]
) -> TypeInfo | None:
    """Return a type with names for its fields: the first of the plan that fit, else those of the savepoint's `stateInfo`."""
    if serializer is None:
        return None
    fitting = [names for names in rows if names and record_of(serializer, len(names)) is not None]
    fields = fitting[0] if fitting and _are_distinct(fitting[0]) else None
    return TypeInfo(
        type=serializer.type_name,
        fields=fields or (known.fields if known else ()),
        message=known.message if known else None,
    )


def _are_distinct(names: tuple[str, ...]) -> bool:
    """Return whether each name can be the name of a column: a row also has the column of its kind."""
    return len({*names, ROW_KIND}) == len(names) + 1
