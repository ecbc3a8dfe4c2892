"""The `_metadata` file: the operators, subtasks and state handles of a savepoint or checkpoint.

In:  the bytes of `_metadata`, versions 1 to 6 (Flink 1.2 and later).
Out: a `SavepointMetadata`: operators → subtasks → state handles. A handle records where bytes are (inline, in a file, or
     in a segment of a file) and how they are divided (key-group offsets, list offsets); it opens no file.

Read in this order:

    model.py     the tree of values, with Flink's names
    reader.py    header, operators, subtasks; one function for each object, version steps inside
    handles.py   the handles; a table of tags at the end

To add a handle, add a dataclass in model.py, and a reader and a table line in handles.py.
"""

from readers.metadata.handles import NULL_HANDLE
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
    Offsets,
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
from readers.metadata.reader import FULLY_FINISHED, MASTER_STATE_MAGIC, read_metadata
from readers.recognition import MAGIC
