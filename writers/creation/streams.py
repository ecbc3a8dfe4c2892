"""The stream of the operator state of a subtask: of new states alone, or of new states behind those that it has."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from readers import SavepointLocation, StateKind, operator_header_of
from readers.metadata import Mode, OperatorStreamStateHandle, StateMetaInfo
from writers.creation.elements import CollectedElements, joined
from writers.edits import NewBytes
from writers.errors import RefusedEditError
from writers.headers import OPERATOR_VERSIONS, RegisteredState, registered_state, write_operator_header
from writers.output import DataOutput

_MODES = {
    StateKind.OPERATOR_LIST: Mode.SPLIT_DISTRIBUTE,
    StateKind.UNION_LIST: Mode.UNION,
    StateKind.BROADCAST: Mode.BROADCAST,
}


def new_operator_state(states: Sequence[CollectedElements], subtask: int) -> OperatorStreamStateHandle:
    """Return the operator state of a subtask that had none."""
    output = DataOutput()
    output.raw(write_operator_header(*_registered(states)))
    return _handle(output, (), states, subtask)


def extended_operator_state(
    handle: OperatorStreamStateHandle,
    states: Sequence[CollectedElements],
    subtask: int,
    source: SavepointLocation,
) -> OperatorStreamStateHandle:
    """Return the operator state of a subtask with new states behind those that it has, whose elements keep their bytes.

    Raises:
        RefusedEditError: it is compressed or of an old Flink, or has a state of this name.
        ReaderError: its file cannot be read.
    """
    with source.open_stream(handle.delegate) as stream:
        header = operator_header_of(stream, handle)
        data = bytes(stream.view(0, stream.size_bytes))
    if header.compressed or header.version not in OPERATOR_VERSIONS:
        raise RefusedEditError(
            "expected operator state of Flink 1.8 or later without compression to add states to, found "
            + ("compressed state" if header.compressed else f"its header in version {header.version}")
        )
    known = {info.name for info in handle.state_meta_infos}
    twice = next((one.state.name for one in states if one.state.name in known), None)
    if twice is not None:
        raise RefusedEditError(f"expected a new state, found {twice}, which the operator has")
    lists, broadcasts = _registered(states)
    output = DataOutput()
    output.raw(
        write_operator_header(
            [*(registered_state(one, data) for one in header.operator_states), *lists],
            [*(registered_state(one, data) for one in header.broadcast_states), *broadcasts],
            version=header.version,
        )
    )
    shift = len(output.data) - header.end
    output.raw(memoryview(data)[header.end :])
    kept = tuple(replace(info, offsets=info.offsets + shift) for info in handle.state_meta_infos)
    return _handle(output, kept, states, subtask)


def _registered(states: Sequence[CollectedElements]) -> tuple[list[RegisteredState], list[RegisteredState]]:
    """Return the registrations of list states, and those of broadcast states."""
    return (
        [one.state.registered() for one in states if not one.is_broadcast],
        [one.state.registered() for one in states if one.is_broadcast],
    )


def _handle(
    output: DataOutput, infos: tuple[StateMetaInfo, ...], states: Sequence[CollectedElements], subtask: int
) -> OperatorStreamStateHandle:
    """Append the elements of new states, and return the handle of all."""
    added = []
    for one in states:
        elements = one.elements(subtask)
        lengths = np.asarray(pc.binary_length(elements), dtype=np.int64)
        offsets = len(output.data) + np.cumsum(lengths) - lengths
        for chunk in elements.chunks:
            output.raw(joined(chunk))
        mode = _MODES[one.state.kind]
        added.append(StateMetaInfo(name=one.state.name, distribution_mode=mode, offsets=offsets))
    # A name of its own: handles of one name are one handle to Flink.
    delegate = NewBytes(handle_name=str(uuid.uuid4()), data=bytes(output.data))
    return OperatorStreamStateHandle(state_meta_infos=(*infos, *added), delegate=delegate)
