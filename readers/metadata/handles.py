"""The state handles of `_metadata`: a tag byte, then the body.

| tag | name (MetadataV2V3SerializerBase) | since | body |
|---|---|---|---|
| 0 | NULL_HANDLE | 1.2 | – |
| 1 | BYTE_STREAM_STATE_HANDLE | 1.2 | utf name; blob |
| 2 | FILE_STREAM_STATE_HANDLE | 1.2 | i8 size; utf absolute path |
| 3 | KEY_GROUPS_HANDLE | 1.2 | i4 start; i4 n; n × i8 offset; stream |
| 4 | PARTITIONABLE_OPERATOR_STATE_HANDLE | 1.2 | i4 n; n × (utf name; i1 mode; i4 m; m × i8 offset); stream |
| 5 | INCREMENTAL_KEY_GROUPS_HANDLE | 1.3 | `read_incremental` |
| 6 | RELATIVE_STREAM_STATE_HANDLE | 1.11 | utf path; i8 size: the order of tag 2 reversed |
| 7 | SAVEPOINT_KEY_GROUPS_HANDLE | 1.13 | as tag 3 |
| 8 | CHANGELOG_HANDLE | 1.14 | `read_changelog` |
| 9 | CHANGELOG_BYTE_INCREMENT_HANDLE | 1.14 | `read_changelog_bytes` |
| 10 | CHANGELOG_FILE_INCREMENT_HANDLE | 1.14 | `read_changelog_files` |
| 11 | INCREMENTAL_KEY_GROUPS_HANDLE_V2 | 1.15 | as tag 5, with two more fields |
| 12 | KEY_GROUPS_HANDLE_V2 | 1.15 | as tag 3; utf state handle id |
| 13 | CHANGELOG_FILE_INCREMENT_HANDLE_V2 | 1.16 | as tag 10; utf storage identifier |
| 14 | CHANGELOG_HANDLE_V2 | 1.16 | as tag 8, with a checkpoint id |
| 15 | SEGMENT_FILE_HANDLE | 1.20 | i8 start; i8 size; i4 scope; utf path; utf logical file id |
| 16 | EMPTY_SEGMENT_FILE_HANDLE | 1.20 | – |
| 17 | SEGMENT_PARTITIONABLE_OPERATOR_STATE_HANDLE | 1.20 | as tag 4; before the stream: utf utf boolean |

Two layouts changed under the same tag and metadata version; `Dialect` says which one to read.
Flink: MetadataV2V3SerializerBase, MetadataV3Serializer, ChannelStateHandleSerializerV1 and V2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from readers.cursor import Cursor
from readers.metadata import model

NULL_HANDLE = 0
MAX_KEY_GROUPS = 1 << 15
# Flink nests three handles: a changelog, its base, their delegate. The limit stops hostile input from recursing without end.
MAX_NESTING = 8
OFFSET_BYTES = 8

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Selects between layouts that share a tag.

    Attributes:
        changelog_sizes: changelog handles have sizes and ids (1.15 and later; not in the preview of 1.14).
        channel_subtask_index: channel handles begin with the subtask's index (1.12 and later; not in 1.11).
        channel_tags: channel handles begin with a tag, and may be merged (version 6).
    """

    changelog_sizes: bool = True
    channel_subtask_index: bool = True
    channel_tags: bool = False


class HandleCursor(Cursor):
    """A cursor that carries the dialect and the depth of nested handles."""

    __slots__ = ("dialect", "nesting")

    def __init__(
        self, data: bytes | memoryview, *, path: str | None, position: int, dialect: Dialect
    ) -> None:
        super().__init__(data, path=path, position=position)
        self.dialect = dialect
        self.nesting = 0

    def enter(self) -> None:
        """Enter a nested handle; the caller leaves it.

        Raises:
            CorruptDataError: handles are nested deeper than `MAX_NESTING`.
        """
        if self.nesting == MAX_NESTING:
            raise self.corrupt(f"expected handles nested at most {MAX_NESTING} deep")
        self.nesting += 1


def read_stream_state_handle(cursor: HandleCursor) -> model.StreamStateHandle | None:
    """Read a stream handle; None for tag 0."""
    return _read_tagged(cursor, STREAM_STATE_HANDLES, "a stream state handle")


def read_keyed_state_handle(cursor: HandleCursor) -> model.KeyedStateHandle | None:
    """Read a keyed state handle; None for tag 0."""
    return _read_tagged(cursor, KEYED_STATE_HANDLES, "a keyed state handle")


def read_operator_state_handle(cursor: HandleCursor) -> model.OperatorStreamStateHandle | None:
    """Read an operator state handle; None for tag 0."""
    return _read_tagged(cursor, OPERATOR_STATE_HANDLES, "an operator state handle")


def read_input_channel_handle(cursor: HandleCursor) -> model.ChannelStateHandle:
    """Read a handle of input channels; it has a tag only in version 6."""
    if not cursor.dialect.channel_tags:
        return read_channel(cursor, model.InputChannelStateHandle)
    return _required(_read_tagged(cursor, INPUT_CHANNEL_HANDLES, "an input channel state handle"), cursor)


def read_result_subpartition_handle(cursor: HandleCursor) -> model.ChannelStateHandle:
    """Read a handle of result subpartitions; it has a tag only in version 6."""
    if not cursor.dialect.channel_tags:
        return read_channel(cursor, model.ResultSubpartitionStateHandle)
    handle = _read_tagged(cursor, RESULT_SUBPARTITION_HANDLES, "a result subpartition state handle")
    return _required(handle, cursor)


def _read_tagged(
    cursor: HandleCursor, table: dict[int, Callable[[HandleCursor], T]], expected: str
) -> T | None:
    start = cursor.position
    tag = cursor.u1()
    if tag == NULL_HANDLE:
        return None
    read_body = table.get(tag)
    if read_body is None:
        raise cursor.corrupt(f"expected {expected} (tags {sorted(table)}), found tag {tag}", start)
    cursor.enter()
    body = read_body(cursor)
    cursor.nesting -= 1
    return body


def _required(handle: T | None, cursor: HandleCursor) -> T:
    if handle is None:
        raise cursor.corrupt("expected a state handle, found null", cursor.position - 1)
    return handle


def _required_stream(cursor: HandleCursor) -> model.StreamStateHandle:
    return _required(read_stream_state_handle(cursor), cursor)


# --- streams ---


def read_byte_stream(cursor: HandleCursor) -> model.ByteStreamStateHandle:
    return model.ByteStreamStateHandle(
        handle_name=cursor.utf("handle name"), data=cursor.blob("inline state")
    )


def read_file_stream(cursor: HandleCursor) -> model.FileStateHandle:
    return model.FileStateHandle(state_size=cursor.i8(), file_path=cursor.utf("file path"))


def read_relative_stream(cursor: HandleCursor) -> model.RelativeFileStateHandle:
    return model.RelativeFileStateHandle(relative_path=cursor.utf("relative path"), state_size=cursor.i8())


def read_segment(cursor: HandleCursor) -> model.SegmentFileStateHandle:
    """i8 start; i8 size; i4 scope; utf path; utf logical file id."""
    start = cursor.position
    # An unknown size is no error in other handles, but here only the size separates one state from the next.
    start_pos, state_size, scope = cursor.i8(), cursor.i8(), cursor.i4()
    if start_pos < 0 or state_size < 0:
        raise cursor.corrupt(f"expected a segment, found start {start_pos} and size {state_size}", start)
    if scope not in _SEGMENT_SCOPES:
        raise cursor.corrupt(f"expected scope 0 (exclusive) or 1 (shared), found {scope}", start + 16)
    return model.SegmentFileStateHandle(
        start_pos=start_pos,
        state_size=state_size,
        state_scope=_SEGMENT_SCOPES[scope],
        file_path=cursor.utf("file path"),
        logical_file_id=cursor.utf("logical file id"),
    )


# --- keyed state ---


def read_key_group_range(cursor: HandleCursor) -> model.KeyGroupRange:
    """i4 first key group, i4 number of key groups."""
    position = cursor.position
    start, count = cursor.i4(), cursor.i4()
    if start < 0 or count < 0 or start + count > MAX_KEY_GROUPS:
        raise cursor.corrupt(
            f"expected a range in {MAX_KEY_GROUPS} key groups, found {count} from {start} on", position
        )
    return model.KeyGroupRange(start, start + count - 1)


def read_offsets(cursor: Cursor, count: int) -> model.Offsets:
    """Read `count` i8 as a read-only int64 array."""
    # The cursor compares the length with the bytes that are left before NumPy allocates anything.
    offsets = np.frombuffer(cursor.read(count * OFFSET_BYTES, "offsets"), dtype=">i8").astype(np.int64)
    offsets.flags.writeable = False
    return offsets


def read_key_groups(
    cursor: HandleCursor, kind: type[model.KeyGroupsStateHandle] = model.KeyGroupsStateHandle
) -> model.KeyGroupsStateHandle:
    key_group_range = read_key_group_range(cursor)
    return kind(
        key_group_range=key_group_range,
        offsets=read_offsets(cursor, key_group_range.number_of_key_groups),
        delegate=_required_stream(cursor),
    )


def read_key_groups_v2(cursor: HandleCursor) -> model.KeyGroupsStateHandle:
    return replace(read_key_groups(cursor), state_handle_id=cursor.utf("state handle id"))


def read_incremental(cursor: HandleCursor, *, v2: bool = False) -> model.IncrementalRemoteKeyedStateHandle:
    """i8 checkpoint id; utf backend id; range; [V2: i8 size]; meta stream; shared; private; [V2: utf id]."""
    return model.IncrementalRemoteKeyedStateHandle(
        checkpoint_id=cursor.i8(),
        backend_identifier=cursor.utf("backend identifier"),
        key_group_range=read_key_group_range(cursor),
        checkpointed_size=cursor.i8() if v2 else None,
        meta_state_handle=_required_stream(cursor),
        shared_state=_read_handles_and_local_paths(cursor),
        private_state=_read_handles_and_local_paths(cursor),
        state_handle_id=cursor.utf("state handle id") if v2 else None,
    )


def _read_handles_and_local_paths(cursor: HandleCursor) -> tuple[model.HandleAndLocalPath, ...]:
    """i4 n; n × (utf file name in the RocksDB directory; stream)."""
    # A name takes two bytes at least, a handle one: this bounds the count before anything is allocated.
    count = cursor.count("files", minimum_bytes=3)
    return tuple(
        model.HandleAndLocalPath(cursor.utf("local path"), _required_stream(cursor)) for _ in range(count)
    )


# --- changelog ---


def read_changelog(cursor: HandleCursor, *, v2: bool = False) -> model.ChangelogStateBackendHandle:
    """range; [i8 size]; base; changes; [i8 materialization id; V2: i8 checkpoint id; utf state handle id].

    1.14 did not write the fields in brackets.
    """
    sizes = cursor.dialect.changelog_sizes
    return model.ChangelogStateBackendHandle(
        key_group_range=read_key_group_range(cursor),
        checkpointed_size=cursor.i8() if sizes else None,
        materialized=_read_keyed_state_handles(cursor),
        non_materialized=_read_keyed_state_handles(cursor),
        materialization_id=cursor.i8() if sizes else None,
        checkpoint_id=cursor.i8() if v2 else None,
        state_handle_id=cursor.utf("state handle id") if sizes else None,
    )


def _read_keyed_state_handles(cursor: HandleCursor) -> tuple[model.KeyedStateHandle, ...]:
    count = cursor.count("keyed state handles")
    return tuple(_required(read_keyed_state_handle(cursor), cursor) for _ in range(count))


def read_changelog_bytes(cursor: HandleCursor) -> model.InMemoryChangelogStateHandle:
    """range; i8 from; i8 to; i4 n; n × (i4 key group; blob); [utf state handle id, not in 1.14]."""
    return model.InMemoryChangelogStateHandle(
        key_group_range=read_key_group_range(cursor),
        from_sequence_number=cursor.i8(),
        to_sequence_number=cursor.i8(),
        changes=tuple(
            model.StateChange(cursor.i4(), cursor.blob("change"))
            for _ in range(cursor.count("changes", minimum_bytes=8))
        ),
        state_handle_id=cursor.utf("state handle id") if cursor.dialect.changelog_sizes else None,
    )


def read_changelog_files(cursor: HandleCursor) -> model.ChangelogStateHandleStreamImpl:
    """range; i4 n; n × (i8 offset; stream); i8 size; [i8 checkpointed size; utf id: not in 1.14]."""
    sizes = cursor.dialect.changelog_sizes
    return model.ChangelogStateHandleStreamImpl(
        key_group_range=read_key_group_range(cursor),
        handles_and_offsets=tuple(
            _read_stream_and_offset(cursor) for _ in range(cursor.count("streams", minimum_bytes=9))
        ),
        state_size=cursor.i8(),
        checkpointed_size=cursor.i8() if sizes else None,
        state_handle_id=cursor.utf("state handle id") if sizes else None,
    )


def read_changelog_files_v2(cursor: HandleCursor) -> model.ChangelogStateHandleStreamImpl:
    return replace(read_changelog_files(cursor), storage_identifier=cursor.utf("storage identifier"))


def _read_stream_and_offset(cursor: HandleCursor) -> model.StreamAndOffset:
    offset = cursor.i8()
    return model.StreamAndOffset(_required_stream(cursor), offset)


# --- operator state ---


def read_operator_state(cursor: HandleCursor) -> model.OperatorStreamStateHandle:
    return model.OperatorStreamStateHandle(
        state_meta_infos=_read_state_meta_infos(cursor), delegate=_required_stream(cursor)
    )


def read_segment_operator_state(cursor: HandleCursor) -> model.FileMergingOperatorStreamStateHandle:
    return model.FileMergingOperatorStreamStateHandle(
        state_meta_infos=_read_state_meta_infos(cursor),
        task_owned_directory=cursor.utf("task-owned directory"),
        shared_directory=cursor.utf("shared directory"),
        empty=cursor.boolean(),
        delegate=_required_stream(cursor),
    )


def _read_state_meta_infos(cursor: HandleCursor) -> tuple[model.StateMetaInfo, ...]:
    return tuple(_read_state_meta_info(cursor) for _ in range(cursor.count("states", minimum_bytes=7)))


def _read_state_meta_info(cursor: HandleCursor) -> model.StateMetaInfo:
    name = cursor.utf("state name")
    mode = cursor.u1()
    if mode > max(model.Mode):
        raise cursor.corrupt(
            f"expected a distribution mode 0–{max(model.Mode):d}, found {mode}", cursor.position - 1
        )
    offsets = read_offsets(cursor, cursor.count("offsets", minimum_bytes=OFFSET_BYTES))
    return model.StateMetaInfo(name=name, distribution_mode=model.Mode(mode), offsets=offsets)


# --- channel state ---


def read_channel(cursor: HandleCursor, kind: type[model.ChannelStateHandle]) -> model.ChannelStateHandle:
    """[i4 subtask index, not in 1.11]; i4 first; i4 second; i4 n; n × i8 offset; i8 size; stream."""
    subtask_index = cursor.i4() if cursor.dialect.channel_subtask_index else None
    first, second = cursor.i4(), cursor.i4()
    offsets = read_offsets(cursor, cursor.count("offsets", minimum_bytes=OFFSET_BYTES))
    state_size = cursor.i8()
    return kind(
        subtask_index=subtask_index,
        channels=(model.ChannelOffsets(first=first, second=second, state_size=state_size, offsets=offsets),),
        state_size=state_size,
        delegate=_required_stream(cursor),
    )


def read_merged_channels(
    cursor: HandleCursor, kind: type[model.ChannelStateHandle]
) -> model.ChannelStateHandle:
    """i4 subtask index; i8 size; stream; i4 length; so many bytes of channel offsets (`_read_channel_offsets`)."""
    subtask_index, state_size = cursor.i4(), cursor.i8()
    delegate = _required_stream(cursor)
    frame = cursor.sub(cursor.i4(), "channel offsets")
    channels = tuple(_read_channel_offsets(frame) for _ in range(frame.count("channels", minimum_bytes=20)))
    if frame.remaining:
        raise frame.corrupt(f"expected the end of the channel offsets, found {frame.remaining} bytes left")
    return kind(subtask_index=subtask_index, channels=channels, state_size=state_size, delegate=delegate)


def _read_channel_offsets(frame: Cursor) -> model.ChannelOffsets:
    """i4 first; i4 second; i8 size; i4 n; n × i8 offset."""
    first, second, state_size = frame.i4(), frame.i4(), frame.i8()
    offsets = read_offsets(frame, frame.count("offsets", minimum_bytes=OFFSET_BYTES))
    return model.ChannelOffsets(first=first, second=second, state_size=state_size, offsets=offsets)


# Ordinals of Flink's CheckpointedStateScope.
_SEGMENT_SCOPES = {0: model.CheckpointedStateScope.EXCLUSIVE, 1: model.CheckpointedStateScope.SHARED}

STREAM_STATE_HANDLES: dict[int, Callable[[HandleCursor], model.StreamStateHandle]] = {
    1: read_byte_stream,
    2: read_file_stream,
    # Its bytes are the bytes of its delegate. Flink accepts it, because its KeyGroupsStateHandle is a StreamStateHandle too.
    3: lambda cursor: read_key_groups(cursor).delegate,
    6: read_relative_stream,
    15: read_segment,
    16: lambda _: model.EmptySegmentFileStateHandle(),
}

KEYED_STATE_HANDLES: dict[int, Callable[[HandleCursor], model.KeyedStateHandle]] = {
    3: read_key_groups,
    5: read_incremental,
    7: partial(read_key_groups, kind=model.KeyGroupsSavepointStateHandle),
    8: read_changelog,
    9: read_changelog_bytes,
    10: read_changelog_files,
    11: partial(read_incremental, v2=True),
    12: read_key_groups_v2,
    13: read_changelog_files_v2,
    14: partial(read_changelog, v2=True),
}

OPERATOR_STATE_HANDLES: dict[int, Callable[[HandleCursor], model.OperatorStreamStateHandle]] = {
    4: read_operator_state,
    17: read_segment_operator_state,
}

INPUT_CHANNEL_HANDLES: dict[int, Callable[[HandleCursor], model.ChannelStateHandle]] = {
    1: partial(read_channel, kind=model.InputChannelStateHandle),
    3: partial(read_merged_channels, kind=model.MergedInputChannelStateHandle),
}

RESULT_SUBPARTITION_HANDLES: dict[int, Callable[[HandleCursor], model.ChannelStateHandle]] = {
    2: partial(read_channel, kind=model.ResultSubpartitionStateHandle),
    4: partial(read_merged_channels, kind=model.MergedResultSubpartitionStateHandle),
}
