"""The `_metadata` file: what a savepoint or checkpoint consists of.

In:  the bytes of `_metadata`, versions 1 to 6 (Flink 1.2 and later).
Out: a `SavepointMetadata`: operators → subtasks → state handles. A handle says where bytes lie (inline, a
file,
     a segment of one) and how they are cut (key-group offsets, list offsets); it opens nothing.

Read in this order:

    model.py     the tree of values, with Flink's names
    reader.py    header, operators, subtasks; one function for each thing, version steps inside
    handles.py   the handles; a table of tags at the end

Adding a handle: a dataclass in model.py, a reader and a table line in handles.py.
"""

from readers.metadata.model import (
    ByteStreamStateHandle,
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    ChannelOffsets,
    ChannelStateHandle,
    CheckpointedStateScope,
    CheckpointProperties,
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
    MasterState,
    MergedInputChannelStateHandle,
    MergedResultSubpartitionStateHandle,
    Mode,
    OperatorState,
    OperatorStreamStateHandle,
    RelativeFileStateHandle,
    ResultSubpartitionStateHandle,
    SavepointFormatType,
    SavepointKind,
    SavepointMetadata,
    SegmentFileStateHandle,
    StateChange,
    StateMetaInfo,
    StateObject,
    StateRole,
    StreamAndOffset,
    StreamStateHandle,
    SubtaskChannels,
    SubtaskState,
)
from readers.metadata.reader import read_metadata

__all__ = [
    "ByteStreamStateHandle",
    "ChangelogStateBackendHandle",
    "ChangelogStateHandleStreamImpl",
    "ChannelOffsets",
    "ChannelStateHandle",
    "CheckpointProperties",
    "CheckpointedStateScope",
    "EmptySegmentFileStateHandle",
    "FileMergingOperatorStreamStateHandle",
    "FileStateHandle",
    "HandleAndLocalPath",
    "InMemoryChangelogStateHandle",
    "IncrementalRemoteKeyedStateHandle",
    "InputChannelStateHandle",
    "KeyGroupRange",
    "KeyGroupsSavepointStateHandle",
    "KeyGroupsStateHandle",
    "KeyedStateHandle",
    "MasterState",
    "MergedInputChannelStateHandle",
    "MergedResultSubpartitionStateHandle",
    "Mode",
    "OperatorState",
    "OperatorStreamStateHandle",
    "RelativeFileStateHandle",
    "ResultSubpartitionStateHandle",
    "SavepointFormatType",
    "SavepointKind",
    "SavepointMetadata",
    "SegmentFileStateHandle",
    "StateChange",
    "StateMetaInfo",
    "StateObject",
    "StateRole",
    "StreamAndOffset",
    "StreamStateHandle",
    "SubtaskChannels",
    "SubtaskState",
    "read_metadata",
]
