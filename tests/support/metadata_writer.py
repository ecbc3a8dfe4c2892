"""Writes `_metadata`, versions 1 to 6: the counterpart of the reader, written from Flink's serializers.

The tag of a handle follows from its fields: one without the fields of a later tag gets the earlier tag.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import singledispatch

from readers.metadata import (
    ByteStreamStateHandle,
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    ChannelOffsets,
    ChannelStateHandle,
    CheckpointedStateScope,
    EmptySegmentFileStateHandle,
    FileMergingOperatorStreamStateHandle,
    FileStateHandle,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    InputChannelStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    MasterState,
    MergedInputChannelStateHandle,
    MergedResultSubpartitionStateHandle,
    OperatorState,
    OperatorStreamStateHandle,
    RelativeFileStateHandle,
    ResultSubpartitionStateHandle,
    SavepointKind,
    SavepointMetadata,
    SegmentFileStateHandle,
    StateMetaInfo,
    StateObject,
    SubtaskState,
)

MAGIC = bytes.fromhex("4960672d")
MASTER_STATE_MAGIC = bytes.fromhex("c96b1696")
CHANNEL_TAGS: dict[type[ChannelStateHandle], int] = {
    InputChannelStateHandle: 1,
    ResultSubpartitionStateHandle: 2,
    MergedInputChannelStateHandle: 3,
    MergedResultSubpartitionStateHandle: 4,
}


def i1(value: int) -> bytes:
    return struct.pack(">b", value)


def i4(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def i8(*values: int) -> bytes:
    return struct.pack(f">{len(values)}q", *values)


def utf(text: str) -> bytes:
    """`DataOutputStream#writeUTF`: each UTF-16 unit on its own, U+0000 in two bytes."""
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    encoded = b"".join(
        b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units
    )
    return struct.pack(">H", len(encoded)) + encoded


def optional_utf(text: str | None) -> bytes:
    return b"" if text is None else utf(text)


def optional_i8(value: int | None) -> bytes:
    return b"" if value is None else i8(value)


def blob(data: bytes) -> bytes:
    return i4(len(data)) + data


def counted(items: Iterable[bytes]) -> bytes:
    items = list(items)
    return i4(len(items)) + b"".join(items)


def key_group_range(groups: KeyGroupRange) -> bytes:
    return i4(groups.start, groups.end - groups.start + 1)


# --- handles ---


@singledispatch
def handle(state: object) -> bytes:
    """Tag and body."""
    raise TypeError(type(state).__name__)


def optional_handle(state: StateObject | None) -> bytes:
    return i1(0) if state is None else handle(state)


@handle.register
def _(state: ByteStreamStateHandle) -> bytes:
    return i1(1) + utf(state.handle_name) + blob(state.data)


@handle.register
def _(state: FileStateHandle) -> bytes:
    return i1(2) + i8(state.state_size) + utf(state.file_path)


@handle.register
def _(state: RelativeFileStateHandle) -> bytes:
    return i1(6) + utf(state.relative_path) + i8(state.state_size)


@handle.register
def _(state: SegmentFileStateHandle) -> bytes:
    scope = int(state.state_scope is CheckpointedStateScope.SHARED)
    return (
        i1(15) + i8(state.start_pos, state.state_size) + i4(scope) + utf(state.file_path)
        + utf(state.logical_file_id)
    )  # fmt: skip


@handle.register
def _(state: EmptySegmentFileStateHandle) -> bytes:
    return i1(16)


@handle.register
def _(state: KeyGroupsStateHandle) -> bytes:
    tag = 3 if state.state_handle_id is None else 12
    return key_groups(tag, state) + optional_utf(state.state_handle_id)


@handle.register
def _(state: KeyGroupsSavepointStateHandle) -> bytes:
    return key_groups(7, state)


def key_groups(tag: int, state: KeyGroupsStateHandle) -> bytes:
    return i1(tag) + key_group_range(state.key_group_range) + i8(*state.offsets) + handle(state.delegate)


@handle.register
def _(state: IncrementalRemoteKeyedStateHandle) -> bytes:
    return (
        i1(5 if state.state_handle_id is None else 11)
        + i8(state.checkpoint_id)
        + utf(state.backend_identifier)
        + key_group_range(state.key_group_range)
        + optional_i8(state.checkpointed_size)
        + handle(state.meta_state_handle)
        + counted(map(local_file, state.shared_state))
        + counted(map(local_file, state.private_state))
        + optional_utf(state.state_handle_id)
    )


def local_file(file: HandleAndLocalPath) -> bytes:
    return utf(file.local_path) + handle(file.handle)


@handle.register
def _(state: ChangelogStateBackendHandle) -> bytes:
    return (
        i1(8 if state.checkpoint_id is None else 14)
        + key_group_range(state.key_group_range)
        + optional_i8(state.checkpointed_size)
        + counted(map(handle, state.materialized))
        + counted(map(handle, state.non_materialized))
        + optional_i8(state.materialization_id)
        + optional_i8(state.checkpoint_id)
        + optional_utf(state.state_handle_id)
    )


@handle.register
def _(state: InMemoryChangelogStateHandle) -> bytes:
    return (
        i1(9)
        + key_group_range(state.key_group_range)
        + i8(state.from_sequence_number, state.to_sequence_number)
        + counted(i4(change.key_group) + blob(change.change) for change in state.changes)
        + optional_utf(state.state_handle_id)
    )


@handle.register
def _(state: ChangelogStateHandleStreamImpl) -> bytes:
    return (
        i1(10 if state.storage_identifier is None else 13)
        + key_group_range(state.key_group_range)
        + counted(i8(stream.offset) + handle(stream.handle) for stream in state.handles_and_offsets)
        + i8(state.state_size)
        + optional_i8(state.checkpointed_size)
        + optional_utf(state.state_handle_id)
        + optional_utf(state.storage_identifier)
    )


@handle.register
def _(state: OperatorStreamStateHandle) -> bytes:
    return i1(4) + counted(map(meta_info, state.state_meta_infos)) + handle(state.delegate)


@handle.register
def _(state: FileMergingOperatorStreamStateHandle) -> bytes:
    return (
        i1(17)
        + counted(map(meta_info, state.state_meta_infos))
        + utf(state.task_owned_directory)
        + utf(state.shared_directory)
        + i1(state.empty)
        + handle(state.delegate)
    )


def meta_info(info: StateMetaInfo) -> bytes:
    return utf(info.name) + i1(info.distribution_mode) + counted(i8(offset) for offset in info.offsets)


def channel(state: ChannelStateHandle, version: int) -> bytes:
    tag = i1(CHANNEL_TAGS[type(state)]) if version >= 6 else b""
    index = b"" if state.subtask_index is None else i4(state.subtask_index)
    size = i8(state.state_size)
    delegate = handle(state.delegate)
    if isinstance(state, MergedInputChannelStateHandle | MergedResultSubpartitionStateHandle):
        return tag + index + size + delegate + blob(counted(map(channel_offsets, state.channels)))
    (one,) = state.channels
    return tag + index + i4(one.first, one.second) + counted(map(i8, one.offsets)) + size + delegate


def channel_offsets(one: ChannelOffsets) -> bytes:
    return i4(one.first, one.second) + i8(one.state_size) + counted(map(i8, one.offsets))


# --- the tree ---


def write_metadata(metadata: SavepointMetadata) -> bytes:
    """A whole file."""
    header = MAGIC + i4(metadata.version) + i8(metadata.checkpoint_id)
    if metadata.version == 1:
        return header + counted(task_states(metadata.operators))
    return (
        header
        + counted(map(master_state, metadata.master_states))
        + counted(operator_state(operator, metadata.version) for operator in metadata.operators)
        + properties(metadata)
    )


def master_state(state: MasterState) -> bytes:
    return MASTER_STATE_MAGIC + blob(i4(state.version) + utf(state.name) + blob(state.data))


def operator_state(operator: OperatorState, version: int) -> bytes:
    return (
        (utf(operator.name or "") + utf(operator.uid or "") if version >= 5 else b"")
        + bytes.fromhex(operator.operator_id)
        + i4(operator.parallelism, operator.max_parallelism)
        + (i4(1) if version == 2 else b"")
        + (optional_handle(operator.coordinator_state) if version >= 3 else b"")
        + (
            i4(-1)
            if operator.fully_finished
            else counted(subtask_state(subtask, version) for subtask in operator.subtasks)
        )
    )


def subtask_state(subtask: SubtaskState, version: int) -> bytes:
    if subtask.finished:
        return i4(-(subtask.index + 1))
    legacy = i8(-1) + counted(map(handle, subtask.legacy_state)) if version == 2 else b""
    channels = b""
    if version >= 3:
        channels = counted(channel(state, version) for state in subtask.input_channels)
        channels += counted(channel(state, version) for state in subtask.result_subpartitions)
    return (
        i4(subtask.index)
        + legacy
        + flagged(subtask.managed_operator_state)
        + flagged(subtask.raw_operator_state)
        + optional_handle(subtask.managed_keyed_state)
        + optional_handle(subtask.raw_keyed_state)
        + channels
    )


def flagged(state: OperatorStreamStateHandle | None) -> bytes:
    return i4(0) if state is None else i4(1) + handle(state)


def task_states(operators: Iterable[OperatorState]) -> Iterable[bytes]:
    """Version 1: the ids of the operators of a chain begin with that of their vertex; the head is the last of them."""
    chains: dict[str, dict[int, OperatorState]] = {}
    for operator in operators:
        chains.setdefault(operator.operator_id.partition("-")[0], {})[operator.chain_index or 0] = operator
    for vertex_id, chain in chains.items():
        head = chain[max(chain)]
        yield (
            bytes.fromhex(vertex_id)
            + i4(head.parallelism, head.max_parallelism, max(chain) + 1)
            + counted(chained_subtask(subtask, chain) for subtask in head.subtasks)
        )


def chained_subtask(head: SubtaskState, chain: dict[int, OperatorState]) -> bytes:
    def by_position(state_of: Callable[[SubtaskState], StateObject | None]) -> bytes:
        states: list[StateObject | None] = [None] * (max(chain) + 1)
        for position, operator in chain.items():
            for subtask in operator.subtasks:
                if subtask.index == head.index:
                    states[position] = state_of(subtask)
        return counted(map(optional_handle, states))

    return (
        i4(head.index)
        + i8(-1)
        + by_position(lambda subtask: next(iter(subtask.legacy_state), None))
        + by_position(lambda subtask: subtask.managed_operator_state)
        + by_position(lambda subtask: subtask.raw_operator_state)
        + optional_handle(head.managed_keyed_state)
        + optional_handle(head.raw_keyed_state)
    )


def properties(metadata: SavepointMetadata) -> bytes:
    """The names that a Java stream of CheckpointProperties spells out, without the bytes between them."""
    if metadata.properties is None:
        return b""
    tail = bytes.fromhex("aced0005") + b"sr" + utf("org.apache.flink.runtime.checkpoint.CheckpointProperties")
    if metadata.properties.kind is SavepointKind.CHECKPOINT:
        return tail + b"sr" + utf("org.apache.flink.runtime.checkpoint.CheckpointType")
    format_name = b"" if metadata.properties.format is None else b"t" + utf(metadata.properties.format)
    return tail + b"sr" + utf("org.apache.flink.runtime.checkpoint.SavepointType") + format_name
