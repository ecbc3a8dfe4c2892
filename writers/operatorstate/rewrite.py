"""The edits of operator state, in all subtasks of an operator.

RewriteOperatorState  the changed states of the operator
SetOffsets            positions of sources: numbers in elements; everything else keeps its bytes
AlterOperatorStates   states that go, become empty, or get other names
GatherOperatorState   all subtasks' states in fewer subtasks

The stream of a subtask is its header and then elements, each at an offset of the handle. Where states go or get other names the header
is written anew, the elements of the states that stay are copied as bytes, and their offsets move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from readers import (
    ConnectorSource,
    OffsetPlace,
    Operator,
    OperatorHeader,
    OperatorSource,
    SavepointLocation,
    Selection,
    State,
    StateKind,
    StatePart,
    operator_header_of,
)
from readers.metadata import (
    Mode,
    OperatorState,
    OperatorStreamStateHandle,
    SavepointMetadata,
    StateMetaInfo,
    SubtaskState,
)
from writers.changes import StateChanges
from writers.edits import Edit, find_operator, with_operator
from writers.errors import RefusedEditError, UnwritableError
from writers.headers import OPERATOR_VERSIONS, RegisteredState, registered_state, write_operator_header
from writers.operatorstate.connectors import READER_STATE, check_changeable, check_no_sink
from writers.operatorstate.elements import (
    Elements,
    changed_elements,
    check_alike,
    check_size,
    check_stream_size,
    framed,
    joined,
    new_handle,
    rewritten,
    stored_entries,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RewriteOperatorState(Edit):
    """Change rows of list, union and broadcast states of one operator.

    Rows are in the groups of their subtasks; those of a broadcast state in that of its first copy with entries, and every copy
    is written alike.

    Attributes:
        operator: of the source savepoint.
        changes: by the name of the state.
    """

    operator: Operator
    changes: Mapping[str, StateChanges]

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        operator = find_operator(metadata, self.operator.operator_id)
        states = {state.name: state for state in self.operator.states if state.kind in KINDS}
        for name, changes in self.changes.items():
            if name not in states:
                raise RefusedEditError(
                    f"rows of {name} cannot be changed: they are bytes of a coordinator, of a hook, of records in flight or of "
                    "raw state, which no statement writes"
                )
            check_changeable(states[name], changes)
            _check_places(states[name], changes)
        shared = self._shared(operator.subtasks, states, source)
        subtasks = tuple(self._subtask(one, states, shared, source) for one in operator.subtasks)
        return with_operator(metadata, operator, replace(operator, subtasks=subtasks))

    def _shared(
        self, subtasks: tuple[SubtaskState, ...], states: Mapping[str, State], source: SavepointLocation
    ) -> dict[str, Elements]:
        """Return the new entries of each broadcast state that changes: every copy has them.

        Raises:
            RefusedEditError: the copies differ.
        """
        found = {}
        for name, changes in self.changes.items():
            state = states[name]
            if state.kind is not StateKind.BROADCAST or not len(changes.groups):
                continue
            part = state.parts[0]
            copies = [
                _part(part, opened)
                for subtask in subtasks
                if (opened := _opened(subtask, source)) is not None and part.name in opened.entries
            ]
            first = check_alike(copies, part.source.subtask)
            found[name] = changed_elements(first, changes.of_group(part.source.subtask))
        return found

    def _subtask(
        self,
        subtask: SubtaskState,
        states: Mapping[str, State],
        shared: Mapping[str, Elements],
        source: SavepointLocation,
    ) -> SubtaskState:
        touched = [
            name
            for name, changes in self.changes.items()
            if states[name].kind is not StateKind.BROADCAST and subtask.index in changes.groups
        ]
        if not (touched or shared) or (opened := _opened(subtask, source)) is None:
            return subtask
        changed = {name: one for name, one in shared.items() if states[name].parts[0].name in opened.entries}
        for name in touched:
            part = next(part for part in states[name].parts if part.source.subtask == subtask.index)
            changed[name] = changed_elements(_part(part, opened), self.changes[name].of_group(subtask.index))
        if not changed:
            return subtask
        return replace(subtask, managed_operator_state=rewritten(opened, changed))


def _check_places(state: State, changes: StateChanges) -> None:
    """Check that each changed row is in a subtask that has the state.

    Raises:
        RefusedEditError: one is elsewhere.
    """
    have = {part.source.subtask for part in state.parts}
    if state.kind is StateKind.BROADCAST:
        have = {state.parts[0].source.subtask}
    for group in changes.groups.tolist():
        if group not in have:
            raise RefusedEditError(
                f"expected rows in subtasks that have the state {state.name} "
                f"({', '.join(map(str, sorted(have)))}), found subtask {group}"
            )


def _opened(subtask: SubtaskState, source: SavepointLocation) -> OperatorSource | None:
    handle = subtask.managed_operator_state
    if handle is None:
        return None
    return OperatorSource.open(subtask.index, handle, source.open_stream(handle.delegate))


def _part(part: StatePart, opened: OperatorSource) -> StatePart:
    """Return a state as it is in a stream, with what is known of its types."""
    if isinstance(part.source, ConnectorSource):
        return replace(part, source=part.source.over(opened))
    return replace(part, source=opened.refine(lambda name, entry: part.entry if name == part.name else entry))


KINDS = frozenset({StateKind.OPERATOR_LIST, StateKind.UNION_LIST, StateKind.BROADCAST})
"""The kinds of states whose rows it changes."""


_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class SetOffsets(Edit):
    """Replace numbers in the operator state of one operator.

    Attributes:
        operator_id: whose state.
        numbers: where a number is → the number there, and the new one.
    """

    operator_id: str
    numbers: Mapping[OffsetPlace, tuple[int, int]]

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        operator = find_operator(metadata, self.operator_id)
        touched = {place.subtask for place in self.numbers}
        subtasks = tuple(
            self._subtask(one, source) if one.index in touched else one for one in operator.subtasks
        )
        return with_operator(metadata, operator, replace(operator, subtasks=subtasks))

    def _subtask(self, subtask: SubtaskState, source: SavepointLocation) -> SubtaskState:
        opened = _opened(subtask, source)
        if opened is None:
            return subtask
        places = [place for place in self.numbers if place.subtask == subtask.index]
        changed = {name: self._elements(opened, name, places) for name in {place.state for place in places}}
        return replace(subtask, managed_operator_state=rewritten(opened, changed))

    def _elements(self, source: OperatorSource, state: str, places: list[OffsetPlace]) -> Elements:
        name = next((name for name in source.entries if name.name == state), None)
        found: list[bytes] = []
        if name is not None:
            check_size(source.cost_bytes(name), state)
            pages = [stored_entries(page) for page in source.pages(name, Selection())]
            found = joined(pa.chunked_array(pages, pa.large_binary())).to_pylist()
        for place in places:
            if place.state == state:
                before, after = self.numbers[place]
                element = found[place.element] if place.element < len(found) else b""
                found[place.element : place.element + 1] = [_patched(element, place, before, after)]
        return Elements(data=pa.array(found, pa.large_binary()), is_broadcast=False)


def _patched(element: bytes, place: OffsetPlace, before: int, after: int) -> bytes:
    """Return an element with another number.

    Raises:
        RefusedEditError: the number that was read is not there.
    """
    start = len(element) - place.from_end
    end = start + _NUMBER_BYTES
    found = int.from_bytes(element[max(start, 0) : max(end, 0)], "big", signed=True)
    if start < 0 or end > len(element) or found != before:
        raise RefusedEditError(
            f"expected the number {before} at byte {start} of element {place.element} of {place.state} in subtask "
            f"{place.subtask}, found {found}"
        )
    return element[:start] + after.to_bytes(_NUMBER_BYTES, "big", signed=True) + element[end:]


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
        header, data = _read(handle, source)
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
        output, infos = bytearray(head), []
        copied = _CopiedElements(handle, data, output)
        for info in handle.state_meta_infos:
            if info.name in self.dropped:
                continue
            offsets = []
            if info.name not in self.truncated:
                offsets = copied.of(info)
            elif info.distribution_mode is Mode.BROADCAST:
                offsets.append(len(output))
                output += framed(_NO_ENTRIES) if is_compressed else _NO_ENTRIES
            infos.append(_info(info, self.renamed.get(info.name, info.name), offsets))
        return new_handle(infos, bytes(output))


class _CopiedElements:
    """Copies elements of one stream behind others.

    Args:
        handle: says where they are.
        data: the stream.
        output: takes them.
    """

    def __init__(self, handle: OperatorStreamStateHandle, data: bytes, output: bytearray) -> None:
        self._data, self._output = data, output
        # An element ends where the next one begins, of whichever state.
        offsets = (info.offsets for info in handle.state_meta_infos)
        self._begins = np.unique(np.concatenate([*offsets, [len(data)]]))
        # Elements without bytes share their offset with the next one.
        self._placed: dict[int, int] = {}

    def of(self, info: StateMetaInfo) -> list[int]:
        """Copy the elements of a state; return their new offsets.

        Raises:
            UnwritableError: one is outside of the stream.
        """
        offsets, begins = [], self._begins
        for begin in info.offsets.tolist():
            if not 0 <= begin <= len(self._data):
                raise UnwritableError(
                    f"expected an element of {info.name} within {len(self._data)} bytes, found one at {begin}"
                )
            end = int(begins[min(np.searchsorted(begins, begin, side="right"), len(begins) - 1)])
            if begin not in self._placed:
                self._placed[begin] = len(self._output)
                self._output += self._data[begin:end]
            offsets.append(self._placed[begin])
        return offsets


def _info(info: StateMetaInfo, name: str, offsets: list[int]) -> StateMetaInfo:
    found = np.array(offsets, dtype=np.int64)
    found.flags.writeable = False
    return replace(info, name=name, offsets=found)


def _read(handle: OperatorStreamStateHandle, source: SavepointLocation) -> tuple[OperatorHeader, bytes]:
    """Return the header of a stream, and all of its bytes.

    Raises:
        UnwritableError: an older Flink wrote it.
        RefusedEditError: there is more than memory should hold.
        ReaderError: the stream contradicts its format.
    """
    with source.open_stream(handle.delegate) as stream:
        check_stream_size(stream.size_bytes)
        header = operator_header_of(stream, handle)
        data = bytes(stream.view(0, stream.size_bytes))
    if header.version not in OPERATOR_VERSIONS:
        raise UnwritableError(
            f"expected operator state of Flink 1.8 or later, found its header in version {header.version}: "
            "let a later Flink take a new savepoint"
        )
    return header, data


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherOperatorState(Edit):
    """Gather the operator state of all subtasks in the first ones: Flink deals it out anew when it restores.

    Lists and raw state get the elements of all subtasks; of a broadcast state, of which each subtask has a copy, one is left.

    Attributes:
        operator_id: whose state.
        parallelism: how many subtasks have it then.
    """

    operator_id: str
    parallelism: int

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        operator = find_operator(metadata, self.operator_id)
        left = [
            replace(one, managed_operator_state=None, raw_operator_state=None) for one in operator.subtasks
        ]
        subtasks = {one.index: one for one in left}
        for first in range(self.parallelism):
            members = [one for one in operator.subtasks if one.index % self.parallelism == first]
            managed = _streams(one.managed_operator_state for one in members)
            raw = _streams(one.raw_operator_state for one in members)
            if managed or raw:
                subtasks[first] = replace(
                    subtasks.get(first, SubtaskState(index=first)),
                    managed_operator_state=_gathered(managed, source),
                    raw_operator_state=_gathered_raw(raw, source),
                )
        gathered = tuple(subtasks[index] for index in sorted(subtasks))
        return with_operator(metadata, operator, replace(operator, subtasks=gathered))


def _streams(
    handles: Iterable[OperatorStreamStateHandle | None],
) -> list[OperatorStreamStateHandle]:
    """Return the handles that refer to a stream: file merging records others."""
    return [one for one in handles if one is not None and any(True for _ in one.streams())]


def _gathered(
    handles: Sequence[OperatorStreamStateHandle], source: SavepointLocation
) -> OperatorStreamStateHandle | None:
    """Return the handle of the states of several streams.

    Raises:
        RefusedEditError: they have different types, or there is more than memory should hold.
    """
    if len(handles) < 2:
        return handles[0] if handles else None
    streams = [_read(handle, source) for handle in handles]
    check_stream_size(sum(len(data) for _, data in streams))
    states: dict[str, RegisteredState] = {}
    broadcast: dict[str, RegisteredState] = {}
    first, first_data = streams[0]
    for header, data in streams:
        for known, found in ((states, header.operator_states), (broadcast, header.broadcast_states)):
            for state in found:
                own = registered_state(state, data)
                if known.setdefault(own.name, own) != own or header.compressed != first.compressed:
                    raise RefusedEditError(
                        f"expected the state {own.name} of all subtasks in the same types, found others: keep the parallelism"
                    )
    head = write_operator_header(
        list(states.values()), list(broadcast.values()), version=first.version, compressed=first.compressed
    )
    output = bytearray(head + first_data[first.end : first.data_start])
    infos: dict[str, StateMetaInfo] = {}
    for handle, (_, data) in zip(handles, streams, strict=True):
        copied = _CopiedElements(handle, data, output)
        for info in handle.state_meta_infos:
            if info.name not in infos or info.distribution_mode is not Mode.BROADCAST:
                _add(infos, info, copied.of(info))
    return new_handle(infos.values(), bytes(output))


def _gathered_raw(
    handles: Sequence[OperatorStreamStateHandle], source: SavepointLocation
) -> OperatorStreamStateHandle | None:
    """Return the handle of the raw state of several streams, which have no header."""
    if len(handles) < 2:
        return handles[0] if handles else None
    output = bytearray()
    infos: dict[str, StateMetaInfo] = {}
    for handle in handles:
        shift = len(output)
        with source.open_stream(handle.delegate) as stream:
            check_stream_size(stream.size_bytes + shift)
            output += stream.view(0, stream.size_bytes)
        for info in handle.state_meta_infos:
            _add(infos, info, (info.offsets + shift).tolist())
    return new_handle(infos.values(), bytes(output))


def _add(infos: dict[str, StateMetaInfo], info: StateMetaInfo, offsets: list[int]) -> None:
    """Add elements of a state behind those that are known."""
    known = infos[info.name].offsets.tolist() if info.name in infos else []
    infos[info.name] = _info(info, info.name, [*known, *offsets])
