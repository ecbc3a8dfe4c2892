"""Headers of operator state with other states: states that go, become empty, or get other names.

The stream of a subtask is its header and then elements, each at an offset of the handle. The header is written anew, the
elements of the states that stay are copied as bytes, and their offsets move.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from readers import SavepointLocation, operator_header_of
from readers.metadata import Mode, OperatorState, OperatorStreamStateHandle, SavepointMetadata, StateMetaInfo
from writers.edits import Edit, NewBytes, find_operator, with_operator
from writers.errors import RefusedEditError, UnwritableError
from writers.headers import OPERATOR_VERSIONS, RegisteredState, registered_state, write_operator_header
from writers.operatorstate.connectors import READER_STATE, check_no_sink
from writers.operatorstate.stream import check_stream_size, framed

_NO_ENTRIES = b"\0\0\0\0"  # of a broadcast state: i4 number of its entries


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOperatorStates(Edit):
    """States of an operator's managed operator state go, become empty, or get other names.

    Attributes:
        operator_id: whose states.
        dropped: the names of those that go; a job that has them starts them empty.
        truncated: the names of those that lose all elements.
        renamed: name → new name.
    """

    operator_id: str
    dropped: frozenset[str] = frozenset()
    truncated: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        operator = find_operator(metadata, self.operator_id)
        self._check_source(operator)
        subtasks = tuple(
            one
            if one.managed_operator_state is None or not self._concerns(one.managed_operator_state)
            else replace(one, managed_operator_state=self._altered(one.managed_operator_state, source))
            for one in operator.subtasks
        )
        return with_operator(metadata, operator, replace(operator, subtasks=subtasks))

    @property
    def _touched(self) -> frozenset[str]:
        return self.dropped | self.truncated | self.renamed.keys()

    def _check_source(self, operator: OperatorState) -> None:
        """Refuse to take away one half of a source: Flink would lose positions without an error."""
        if operator.coordinator_state is not None and READER_STATE in self._touched:
            raise RefusedEditError(
                f"the state {READER_STATE} and the coordinator are two halves of one source: without one of them Flink reads "
                "no partition, or all of them from the start. DROP TABLE of the operator drops both"
            )

    def _concerns(self, handle: OperatorStreamStateHandle) -> bool:
        return any(info.name in self._touched for info in handle.state_meta_infos)

    def _altered(
        self, handle: OperatorStreamStateHandle, source: SavepointLocation
    ) -> OperatorStreamStateHandle | None:
        with source.open_stream(handle.delegate) as stream:
            check_stream_size(stream.size_bytes)
            header = operator_header_of(stream, handle)
            data = bytes(stream.view(0, stream.size_bytes))
        if header.version not in OPERATOR_VERSIONS:
            raise UnwritableError(
                f"expected operator state of Flink 1.8 or later, found its header in version {header.version}: "
                "let a later Flink take a new savepoint"
            )
        for state in header.operator_states:
            if state.name in self._touched:
                check_no_sink(state.name, state.serializers.values())
        states, broadcast = (
            [
                self._renamed(registered_state(state, data))
                for state in found
                if state.name not in self.dropped
            ]
            for found in (header.operator_states, header.broadcast_states)
        )
        if not states and not broadcast:
            return None
        written = write_operator_header(
            states, broadcast, version=header.version, compressed=header.compressed
        )
        # Behind the header of compressed state stands the identifier of its stream.
        head = written + data[header.end : header.data_start]
        return self._assembled(handle, head, data, is_compressed=header.compressed)

    def _renamed(self, state: RegisteredState) -> RegisteredState:
        return replace(state, name=self.renamed.get(state.name, state.name))

    def _assembled(
        self, handle: OperatorStreamStateHandle, head: bytes, data: bytes, *, is_compressed: bool
    ) -> OperatorStreamStateHandle:
        """Return a handle of the header and the elements that stay."""
        # An element ends where the next one begins, of whichever state.
        begins = np.unique(np.concatenate([*(info.offsets for info in handle.state_meta_infos), [len(data)]]))
        output, infos = bytearray(head), []
        # Elements without bytes share their offset with the next one.
        placed: dict[int, int] = {}
        for info in handle.state_meta_infos:
            if info.name in self.dropped:
                continue
            offsets = []
            if info.name not in self.truncated:
                for begin in info.offsets.tolist():
                    if not 0 <= begin <= len(data):
                        raise UnwritableError(
                            f"expected an element of {info.name} within {len(data)} bytes, found one at {begin}"
                        )
                    end = int(begins[min(np.searchsorted(begins, begin, side="right"), len(begins) - 1)])
                    if begin not in placed:
                        placed[begin] = len(output)
                        output += data[begin:end]
                    offsets.append(placed[begin])
            elif info.distribution_mode is Mode.BROADCAST:
                offsets.append(len(output))
                output += framed(_NO_ENTRIES) if is_compressed else _NO_ENTRIES
            infos.append(_info(info, self.renamed.get(info.name, info.name), offsets))
        return replace(
            handle,
            state_meta_infos=tuple(infos),
            delegate=NewBytes(handle_name=str(uuid.uuid4()), data=bytes(output)),
        )


def _info(info: StateMetaInfo, name: str, offsets: list[int]) -> StateMetaInfo:
    found = np.array(offsets, dtype=np.int64)
    found.flags.writeable = False
    return replace(info, name=name, offsets=found)
