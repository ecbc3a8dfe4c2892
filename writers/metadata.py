"""The writer of `_metadata`: a `SavepointMetadata` → bytes, versions 3 to 6; `readers.metadata` describes the layout.

A state handle is a tag byte, then the body. It is written with the oldest tag that holds all of its fields, as Flink's versions did:
which fields are None says which Flink wrote the handle. Flink: MetadataV2V3SerializerBase, MetadataV3Serializer,
ChannelStateHandleSerializerV1 and V2.

Version 3 is the one version without a Java object; versions 4 and later end with the bytes of the source's
CheckpointProperties, which are copied as they are. A version without names and uids (3, 4) leaves them out: Flink finds
operators by their ids. Flink: MetadataV3Serializer to MetadataV6Serializer.

Files move, and nothing else changes, in a copy with other leaves: of a handle, or of a whole `_metadata`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from readers import SavepointLocation
from readers import metadata as model
from readers.metadata import (
    EmptySegmentFileStateHandle,
    FileMergingOperatorStreamStateHandle,
    OperatorStreamStateHandle,
    StateObject,
    StreamStateHandle,
)
from writers.errors import UnwritableError
from writers.headers import DataOutput

_SCOPES = {model.CheckpointedStateScope.EXCLUSIVE: 0, model.CheckpointedStateScope.SHARED: 1}


def _write_stream(output: DataOutput, handle: model.StreamStateHandle | None) -> None:
    """Write a stream handle, or tag 0 for None."""
    _write_tagged(output, handle, _STREAMS)


def _write_channel(output: DataOutput, handle: model.ChannelStateHandle, *, tagged: bool) -> None:
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
    elif isinstance(handle, model.MergedInputChannelStateHandle | model.MergedResultSubpartitionStateHandle):
        raise UnwritableError(
            "expected _metadata version 6 for merged channel state, found an older version: take an aligned savepoint"
        )
    else:
        _write_parts(output, handle, _ONE_CHANNEL)


def _write_tagged(output: DataOutput, handle: object, table: dict[type, _Layout]) -> None:
    if handle is None:
        output.u1(model.NULL_HANDLE)
        return
    layout = table.get(type(handle))
    if layout is None:
        raise UnwritableError(
            f"expected one of {', '.join(kind.__name__ for kind in table)}, found {type(handle).__name__}"
        )
    tag, parts = layout
    output.u1(tag(handle) if callable(tag) else tag)
    _write_parts(output, handle, parts)


def _write_parts(output: DataOutput, handle: object, parts: _Parts) -> None:
    """Write the fields of a handle in their order; one that is None belongs to a later tag."""
    for write, field in parts:
        value = getattr(handle, field)
        if value is not None or write in _WRITES_NONE:
            write(output, value)


def _write_scope(output: DataOutput, scope: model.CheckpointedStateScope) -> None:
    output.i4(_SCOPES[scope])


def _write_range(output: DataOutput, key_groups: model.KeyGroupRange) -> None:
    output.i4(key_groups.start)
    output.i4(key_groups.number_of_key_groups)


def _write_files(output: DataOutput, files: tuple[model.HandleAndLocalPath, ...]) -> None:
    output.i4(len(files))
    for file in files:
        output.utf(file.local_path)
        _write_stream(output, file.handle)


def _write_handles(output: DataOutput, handles: tuple[model.KeyedStateHandle, ...]) -> None:
    output.i4(len(handles))
    for keyed in handles:
        _write_tagged(output, keyed, _KEYED)


def _write_changes(output: DataOutput, changes: tuple[model.StateChange, ...]) -> None:
    output.i4(len(changes))
    for change in changes:
        output.i4(change.key_group)
        output.blob(change.change)


def _write_streams(output: DataOutput, streams: tuple[tuple[model.StreamStateHandle, int], ...]) -> None:
    output.i4(len(streams))
    for stream, offset in streams:
        output.i8(offset)
        _write_stream(output, stream)


def _write_counted(output: DataOutput, offsets: model.Offsets) -> None:
    output.i4(len(offsets))
    output.offsets(offsets)


def _write_meta_infos(output: DataOutput, infos: tuple[model.StateMetaInfo, ...]) -> None:
    output.i4(len(infos))
    for info in infos:
        output.utf(info.name)
        output.u1(info.distribution_mode)
        _write_counted(output, info.offsets)


def _write_only_channel(output: DataOutput, channels: tuple[model.ChannelOffsets, ...]) -> None:
    (channel,) = channels
    output.i4(channel.first)
    output.i4(channel.second)
    _write_counted(output, channel.offsets)


def _write_framed_channels(output: DataOutput, channels: tuple[model.ChannelOffsets, ...]) -> None:
    frame = DataOutput()
    frame.i4(len(channels))
    for channel in channels:
        frame.i4(channel.first)
        frame.i4(channel.second)
        frame.i8(channel.state_size)
        _write_counted(frame, channel.offsets)
    output.blob(frame.data)


def _incremental_tag(handle: model.IncrementalRemoteKeyedStateHandle) -> int:
    return 5 if handle.state_handle_id is None or handle.checkpointed_size is None else 11


_Parts = tuple[tuple[Callable[[DataOutput, Any], None], str], ...]
_Layout = tuple[int | Callable[[Any], int], _Parts]
"""The tag, and in their order the fields, each with what writes it."""

_I4, _I8, _UTF = DataOutput.i4, DataOutput.i8, DataOutput.utf
_WRITES_NONE = frozenset({_write_stream})
_RANGE = (_write_range, "key_group_range")
_ID = (_UTF, "state_handle_id")
_DELEGATE = (_write_stream, "delegate")
_META_INFOS = (_write_meta_infos, "state_meta_infos")
_KEY_GROUPS: _Parts = (_RANGE, (DataOutput.offsets, "offsets"), _DELEGATE)
_ONE_CHANNEL: _Parts = (
    (_I4, "subtask_index"), (_write_only_channel, "channels"), (_I8, "state_size"), _DELEGATE,
)  # fmt: skip
_MERGED_CHANNELS: _Parts = (
    (_I4, "subtask_index"), (_I8, "state_size"), _DELEGATE, (_write_framed_channels, "channels"),
)  # fmt: skip

_STREAMS: dict[type, _Layout] = {
    model.ByteStreamStateHandle: (1, ((_UTF, "handle_name"), (DataOutput.blob, "data"))),
    model.FileStateHandle: (2, ((_I8, "state_size"), (_UTF, "file_path"))),
    model.RelativeFileStateHandle: (6, ((_UTF, "relative_path"), (_I8, "state_size"))),
    model.SegmentFileStateHandle: (15, (
        (_I8, "start_pos"), (_I8, "state_size"), (_write_scope, "state_scope"), (_UTF, "file_path"),
        (_UTF, "logical_file_id"),
    )),
    model.EmptySegmentFileStateHandle: (16, ()),
}  # fmt: skip

_KEYED: dict[type, _Layout] = {
    model.KeyGroupsStateHandle: (
        lambda handle: 3 if handle.state_handle_id is None else 12, (*_KEY_GROUPS, _ID),
    ),
    model.KeyGroupsSavepointStateHandle: (7, _KEY_GROUPS),
    model.IncrementalRemoteKeyedStateHandle: (_incremental_tag, (
        (_I8, "checkpoint_id"), (_UTF, "backend_identifier"), _RANGE, (_I8, "checkpointed_size"),
        (_write_stream, "meta_state_handle"), (_write_files, "shared_state"), (_write_files, "private_state"), _ID,
    )),
    model.ChangelogStateBackendHandle: (lambda handle: 8 if handle.checkpoint_id is None else 14, (
        _RANGE, (_I8, "checkpointed_size"), (_write_handles, "materialized"),
        (_write_handles, "non_materialized"), (_I8, "materialization_id"), (_I8, "checkpoint_id"), _ID,
    )),
    model.InMemoryChangelogStateHandle: (9, (
        _RANGE, (_I8, "from_sequence_number"), (_I8, "to_sequence_number"), (_write_changes, "changes"), _ID,
    )),
    model.ChangelogStateHandleStreamImpl: (lambda handle: 10 if handle.storage_identifier is None else 13, (
        _RANGE, (_write_streams, "handles_and_offsets"), (_I8, "state_size"), (_I8, "checkpointed_size"),
        _ID, (_UTF, "storage_identifier"),
    )),
}  # fmt: skip

_OPERATOR: dict[type, _Layout] = {
    model.OperatorStreamStateHandle: (4, (_META_INFOS, _DELEGATE)),
    model.FileMergingOperatorStreamStateHandle: (17, (
        _META_INFOS, (_UTF, "task_owned_directory"), (_UTF, "shared_directory"), (DataOutput.boolean, "empty"),
        _DELEGATE,
    )),
}  # fmt: skip

_CHANNELS: dict[type, _Layout] = {
    model.InputChannelStateHandle: (1, _ONE_CHANNEL),
    model.ResultSubpartitionStateHandle: (2, _ONE_CHANNEL),
    model.MergedInputChannelStateHandle: (3, _MERGED_CHANNELS),
    model.MergedResultSubpartitionStateHandle: (4, _MERGED_CHANNELS),
}


OLDEST_VERSION = 3
NEWEST_VERSION = 6

NAMES_SINCE = 5
PROPERTIES_SINCE = 4
_CHANNEL_TAGS_SINCE = 6
_OPERATOR_ID_BYTES = 16


def write_metadata(metadata: model.SavepointMetadata) -> bytes:
    """Return the bytes of `_metadata`, in the version that it names.

    Raises:
        UnwritableError: the version is not one that is written here, or cannot hold what the metadata has.
    """
    version = metadata.version
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise UnwritableError(
            f"expected _metadata version {OLDEST_VERSION}–{NEWEST_VERSION}, found version {version}: "
            "let a Flink of 1.11 or later take a new savepoint"
        )
    output = DataOutput()
    output.raw(model.MAGIC.to_bytes(4, "big"))
    output.i4(version)
    output.i8(metadata.checkpoint_id)
    output.i4(len(metadata.master_states))
    for master in metadata.master_states:
        _write_master_state(output, master)
    output.i4(len(metadata.operators))
    for operator in metadata.operators:
        _write_operator(output, operator, version)
    if version >= PROPERTIES_SINCE:
        if metadata.properties is None:
            raise UnwritableError(f"expected CheckpointProperties for version {version}, found none")
        output.raw(metadata.properties.stream)
    return bytes(output.data)


def provable_metadata(source: SavepointLocation) -> model.SavepointMetadata:
    """Return the metadata of a savepoint, after the proof that the writer knows every byte of it.

    Raises:
        UnwritableError: written again, it would be other bytes.
    """
    with source.open_metadata() as stream:
        data = bytes(stream.view(0, stream.size_bytes).data)
    metadata = model.read_metadata(data, stream.path)
    written = write_metadata(metadata)
    if written != data:
        position = next(
            (at for at, (new, old) in enumerate(zip(written, data, strict=False)) if new != old),
            min(len(written), len(data)),
        )
        raise UnwritableError(
            f"{stream.path}: expected to write {len(data)} bytes again as they are, found a difference at byte {position}"
        )
    return metadata


def _write_master_state(output: DataOutput, master: model.MasterState) -> None:
    output.raw(model.MASTER_STATE_MAGIC.to_bytes(4, "big"))
    frame = DataOutput()
    frame.i4(master.version)
    frame.utf(master.name)
    frame.blob(master.data)
    output.blob(frame.data)


def _write_operator(output: DataOutput, operator: model.OperatorState, version: int) -> None:
    if version >= NAMES_SINCE:
        output.utf(operator.name or "")
        output.utf(operator.uid or "")
    output.raw(operator_id_bytes(operator.operator_id))
    output.i4(operator.parallelism)
    output.i4(operator.max_parallelism)
    _write_stream(output, operator.coordinator_state)
    if operator.fully_finished:
        output.i4(model.FULLY_FINISHED)
        return
    output.i4(len(operator.subtasks))
    for subtask in operator.subtasks:
        _write_subtask(output, subtask, version)


def operator_id_bytes(operator_id: str) -> bytes:
    """Return the 16 bytes of an operator's id.

    Raises:
        UnwritableError: it is not 32 hex digits.
    """
    try:
        found = bytes.fromhex(operator_id)
    except ValueError:
        found = b""
    if len(found) != _OPERATOR_ID_BYTES:
        raise UnwritableError(f"expected an operator id of 32 hex digits, found {operator_id!r}")
    return found


def _write_subtask(output: DataOutput, subtask: model.SubtaskState, version: int) -> None:
    if subtask.finished:
        output.i4(-(subtask.index + 1))
        return
    if subtask.legacy_state:
        raise UnwritableError("expected no state of the Checkpointed interface of Flink 1.2, found some")
    output.i4(subtask.index)
    _write_flagged(output, subtask.managed_operator_state)
    _write_flagged(output, subtask.raw_operator_state)
    _write_tagged(output, subtask.managed_keyed_state, _KEYED)
    _write_tagged(output, subtask.raw_keyed_state, _KEYED)
    for channels in (subtask.input_channels, subtask.result_subpartitions):
        output.i4(len(channels))
        for channel in channels:
            _write_channel(output, channel, tagged=version >= _CHANNEL_TAGS_SINCE)


def _write_flagged(output: DataOutput, handle: model.OperatorStreamStateHandle | None) -> None:
    output.i4(0 if handle is None else 1)
    if handle is not None:
        _write_tagged(output, handle, _OPERATOR)


_State = TypeVar("_State", bound=StateObject)
Moved = Callable[[StreamStateHandle], StreamStateHandle]


def with_leaves(state: _State, moved: Moved) -> _State:
    """Return the state object with every leaf replaced by `moved(leaf)`; a part whose leaves stay is the same object.

    Operator state in segments becomes ordinary operator state, and none if it is empty: a segment's handle records the
    folders of the job that owns it, and that job goes on writing to them.
    """
    found: _State = _replaced(state, moved)
    return found


def _replaced(value: Any, moved: Moved) -> Any:
    if isinstance(value, StreamStateHandle):
        # A segment without bytes refers to no file.
        return value if isinstance(value, EmptySegmentFileStateHandle) else moved(value)
    if isinstance(value, FileMergingOperatorStreamStateHandle):
        return _ordinary(value, moved)
    if isinstance(value, StateObject):
        return _replaced_fields(value, moved)
    if isinstance(value, tuple):
        items = [_replaced(item, moved) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def _replaced_fields(value: StateObject, moved: Moved) -> StateObject:
    changed = {}
    for field in dataclasses.fields(value):  # type: ignore[arg-type]  # every state object is a dataclass
        old = getattr(value, field.name)
        new = _replaced(old, moved)
        if new is not old:
            changed[field.name] = new
    return dataclasses.replace(value, **changed) if changed else value  # type: ignore[type-var]


def _ordinary(handle: FileMergingOperatorStreamStateHandle, moved: Moved) -> OperatorStreamStateHandle | None:
    if isinstance(handle.delegate, EmptySegmentFileStateHandle):
        return None
    return OperatorStreamStateHandle(
        state_meta_infos=handle.state_meta_infos, delegate=moved(handle.delegate)
    )
