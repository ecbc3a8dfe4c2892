"""The state handles of `_metadata`: a tag byte, then the body. `readers.metadata.handles` describes the bodies.

A handle is written with the oldest tag that holds all of its fields, as Flink's versions did: which fields are None says
which Flink wrote the handle. Flink: MetadataV2V3SerializerBase, MetadataV3Serializer, ChannelStateHandleSerializerV1 and V2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readers.metadata import (
    NULL_HANDLE,
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
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    MergedInputChannelStateHandle,
    MergedResultSubpartitionStateHandle,
    OperatorStreamStateHandle,
    RelativeFileStateHandle,
    ResultSubpartitionStateHandle,
    SegmentFileStateHandle,
    StateMetaInfo,
    StreamStateHandle,
)
from writers.errors import UnwritableError
from writers.output import DataOutput

_SCOPES = {CheckpointedStateScope.EXCLUSIVE: 0, CheckpointedStateScope.SHARED: 1}


def write_stream(output: DataOutput, handle: StreamStateHandle | None) -> None:
    """Write a stream handle, or tag 0 for None."""
    _write_tagged(output, handle, _STREAMS)


def write_keyed_state(output: DataOutput, handle: KeyedStateHandle | None) -> None:
    """Write a keyed state handle, or tag 0 for None."""
    _write_tagged(output, handle, _KEYED)


def write_operator_state(output: DataOutput, handle: OperatorStreamStateHandle) -> None:
    """Write an operator state handle."""
    _write_tagged(output, handle, _OPERATOR)


def write_channel(output: DataOutput, handle: ChannelStateHandle, *, tagged: bool) -> None:
    """Write the handle of one channel, or of all channels of a subtask.

    Args:
        output: where it goes.
        handle: the handle.
        tagged: True in version 6, the only one that can hold merged channels.

    Raises:
        UnwritableError: merged channels before version 6.
    """
    if tagged:
        _write_tagged(output, handle, _CHANNELS)
    elif isinstance(handle, MergedInputChannelStateHandle | MergedResultSubpartitionStateHandle):
        raise UnwritableError(
            "expected _metadata version 6 for merged channel state, found an older version: take an aligned savepoint"
        )
    else:
        _write_one_channel(output, handle)


def _write_tagged(output: DataOutput, handle: object, table: dict[type, _Layout]) -> None:
    if handle is None:
        output.u1(NULL_HANDLE)
        return
    layout = table.get(type(handle))
    if layout is None:
        raise UnwritableError(
            f"expected one of {', '.join(kind.__name__ for kind in table)}, found {type(handle).__name__}"
        )
    layout(output, handle)


# --- streams ---


def _write_byte_stream(output: DataOutput, handle: ByteStreamStateHandle) -> None:
    output.u1(1)
    output.utf(handle.handle_name)
    output.blob(handle.data)


def _write_file_stream(output: DataOutput, handle: FileStateHandle) -> None:
    output.u1(2)
    output.i8(handle.state_size)
    output.utf(handle.file_path)


def _write_relative_stream(output: DataOutput, handle: RelativeFileStateHandle) -> None:
    output.u1(6)
    output.utf(handle.relative_path)
    output.i8(handle.state_size)


def _write_segment(output: DataOutput, handle: SegmentFileStateHandle) -> None:
    output.u1(15)
    output.i8(handle.start_pos)
    output.i8(handle.state_size)
    output.i4(_SCOPES[handle.state_scope])
    output.utf(handle.file_path)
    output.utf(handle.logical_file_id)


def _write_empty_segment(output: DataOutput, handle: EmptySegmentFileStateHandle) -> None:
    output.u1(16)


# --- keyed state ---


def _write_range(output: DataOutput, key_groups: KeyGroupRange) -> None:
    output.i4(key_groups.start)
    output.i4(key_groups.number_of_key_groups)


def _write_key_groups(output: DataOutput, handle: KeyGroupsStateHandle) -> None:
    output.u1(3 if handle.state_handle_id is None else 12)
    _write_key_groups_body(output, handle)
    if handle.state_handle_id is not None:
        output.utf(handle.state_handle_id)


def _write_savepoint_key_groups(output: DataOutput, handle: KeyGroupsSavepointStateHandle) -> None:
    output.u1(7)
    _write_key_groups_body(output, handle)


def _write_key_groups_body(output: DataOutput, handle: KeyGroupsStateHandle) -> None:
    _write_range(output, handle.key_group_range)
    output.offsets(handle.offsets)
    write_stream(output, handle.delegate)


def _write_incremental(output: DataOutput, handle: IncrementalRemoteKeyedStateHandle) -> None:
    is_v2 = handle.state_handle_id is not None and handle.checkpointed_size is not None
    output.u1(11 if is_v2 else 5)
    output.i8(handle.checkpoint_id)
    output.utf(handle.backend_identifier)
    _write_range(output, handle.key_group_range)
    if handle.checkpointed_size is not None:
        output.i8(handle.checkpointed_size)
    write_stream(output, handle.meta_state_handle)
    _write_files(output, handle.shared_state)
    _write_files(output, handle.private_state)
    if handle.state_handle_id is not None:
        output.utf(handle.state_handle_id)


def _write_files(output: DataOutput, files: tuple[HandleAndLocalPath, ...]) -> None:
    output.i4(len(files))
    for file in files:
        output.utf(file.local_path)
        write_stream(output, file.handle)


# --- changelog ---


def _write_changelog(output: DataOutput, handle: ChangelogStateBackendHandle) -> None:
    output.u1(8 if handle.checkpoint_id is None else 14)
    _write_range(output, handle.key_group_range)
    _write_optional_i8(output, handle.checkpointed_size)
    for handles in (handle.materialized, handle.non_materialized):
        output.i4(len(handles))
        for keyed in handles:
            write_keyed_state(output, keyed)
    _write_optional_i8(output, handle.materialization_id)
    _write_optional_i8(output, handle.checkpoint_id)
    _write_optional_utf(output, handle.state_handle_id)


def _write_changelog_bytes(output: DataOutput, handle: InMemoryChangelogStateHandle) -> None:
    output.u1(9)
    _write_range(output, handle.key_group_range)
    output.i8(handle.from_sequence_number)
    output.i8(handle.to_sequence_number)
    output.i4(len(handle.changes))
    for change in handle.changes:
        output.i4(change.key_group)
        output.blob(change.change)
    _write_optional_utf(output, handle.state_handle_id)


def _write_changelog_files(output: DataOutput, handle: ChangelogStateHandleStreamImpl) -> None:
    output.u1(10 if handle.storage_identifier is None else 13)
    _write_range(output, handle.key_group_range)
    output.i4(len(handle.handles_and_offsets))
    for stream, offset in handle.handles_and_offsets:
        output.i8(offset)
        write_stream(output, stream)
    output.i8(handle.state_size)
    _write_optional_i8(output, handle.checkpointed_size)
    _write_optional_utf(output, handle.state_handle_id)
    _write_optional_utf(output, handle.storage_identifier)


def _write_optional_i8(output: DataOutput, value: int | None) -> None:
    if value is not None:
        output.i8(value)


def _write_optional_utf(output: DataOutput, text: str | None) -> None:
    if text is not None:
        output.utf(text)


# --- operator state ---


def _write_operator_stream(output: DataOutput, handle: OperatorStreamStateHandle) -> None:
    output.u1(4)
    _write_meta_infos(output, handle.state_meta_infos)
    write_stream(output, handle.delegate)


def _write_merged_operator_stream(output: DataOutput, handle: FileMergingOperatorStreamStateHandle) -> None:
    output.u1(17)
    _write_meta_infos(output, handle.state_meta_infos)
    output.utf(handle.task_owned_directory)
    output.utf(handle.shared_directory)
    output.boolean(handle.empty)
    write_stream(output, handle.delegate)


def _write_meta_infos(output: DataOutput, infos: tuple[StateMetaInfo, ...]) -> None:
    output.i4(len(infos))
    for info in infos:
        output.utf(info.name)
        output.u1(info.distribution_mode)
        output.i4(len(info.offsets))
        output.offsets(info.offsets)


# --- channel state ---


def _write_input_channel(output: DataOutput, handle: ChannelStateHandle) -> None:
    output.u1(1)
    _write_one_channel(output, handle)


def _write_result_subpartition(output: DataOutput, handle: ChannelStateHandle) -> None:
    output.u1(2)
    _write_one_channel(output, handle)


def _write_one_channel(output: DataOutput, handle: ChannelStateHandle) -> None:
    (channel,) = handle.channels
    if handle.subtask_index is not None:
        output.i4(handle.subtask_index)
    output.i4(channel.first)
    output.i4(channel.second)
    output.i4(len(channel.offsets))
    output.offsets(channel.offsets)
    output.i8(handle.state_size)
    write_stream(output, handle.delegate)


def _write_merged_inputs(output: DataOutput, handle: ChannelStateHandle) -> None:
    output.u1(3)
    _write_merged_channels(output, handle)


def _write_merged_results(output: DataOutput, handle: ChannelStateHandle) -> None:
    output.u1(4)
    _write_merged_channels(output, handle)


def _write_merged_channels(output: DataOutput, handle: ChannelStateHandle) -> None:
    assert handle.subtask_index is not None
    output.i4(handle.subtask_index)
    output.i8(handle.state_size)
    write_stream(output, handle.delegate)
    frame = DataOutput()
    frame.i4(len(handle.channels))
    for channel in handle.channels:
        _write_channel_offsets(frame, channel)
    output.blob(frame.data)


def _write_channel_offsets(frame: DataOutput, channel: ChannelOffsets) -> None:
    frame.i4(channel.first)
    frame.i4(channel.second)
    frame.i8(channel.state_size)
    frame.i4(len(channel.offsets))
    frame.offsets(channel.offsets)


_Layout = Callable[[DataOutput, Any], None]

_STREAMS: dict[type, _Layout] = {
    ByteStreamStateHandle: _write_byte_stream,
    FileStateHandle: _write_file_stream,
    RelativeFileStateHandle: _write_relative_stream,
    SegmentFileStateHandle: _write_segment,
    EmptySegmentFileStateHandle: _write_empty_segment,
}

_KEYED: dict[type, _Layout] = {
    KeyGroupsStateHandle: _write_key_groups,
    KeyGroupsSavepointStateHandle: _write_savepoint_key_groups,
    IncrementalRemoteKeyedStateHandle: _write_incremental,
    ChangelogStateBackendHandle: _write_changelog,
    InMemoryChangelogStateHandle: _write_changelog_bytes,
    ChangelogStateHandleStreamImpl: _write_changelog_files,
}

_OPERATOR: dict[type, _Layout] = {
    OperatorStreamStateHandle: _write_operator_stream,
    FileMergingOperatorStreamStateHandle: _write_merged_operator_stream,
}

_CHANNELS: dict[type, _Layout] = {
    InputChannelStateHandle: _write_input_channel,
    ResultSubpartitionStateHandle: _write_result_subpartition,
    MergedInputChannelStateHandle: _write_merged_inputs,
    MergedResultSubpartitionStateHandle: _write_merged_results,
}
