"""The content of `_metadata`: operators, subtasks and the handles of their state.

    SavepointMetadata
      MasterState *
      OperatorState *                       coordinator state: a StreamStateHandle
        SubtaskState *
          managed, raw operator state       OperatorStreamStateHandle
          managed, raw keyed state          KeyedStateHandle
          input channels, result subpartitions   ChannelStateHandle

A `StreamStateHandle` is a leaf: it names one range of bytes, inline, in a file, or in a segment of a file. All other handles divide
such a range into key groups, lists, changes or channels. Names are Flink's; the classes are in org.apache.flink.runtime.state and
.checkpoint. Offsets are read-only int64 arrays of shape (n,): a handle of 32768 key groups costs 256 KiB, less than a list of
Python integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum, StrEnum, auto
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """Key groups `start` to `end`, both inclusive; `end == start - 1` when empty."""

    start: int
    end: int

    @property
    def number_of_key_groups(self) -> int:
        return self.end - self.start + 1

    def __contains__(self, key_group: int) -> bool:
        return self.start <= key_group <= self.end


class CheckpointedStateScope(StrEnum):
    """The scope of a file: which other checkpoints may refer to it. Flink's two scopes, and others that it does not name."""

    EXCLUSIVE = "EXCLUSIVE"
    SHARED = "SHARED"
    TASK_OWNED = "TASK_OWNED"
    CHANGELOG = "CHANGELOG"
    INLINE = "INLINE"


class StateObject:
    """An object that refers to state bytes."""

    __slots__ = ()

    def parts(self) -> Iterable[StateObject]:
        """Return the objects that it consists of, in file order."""
        return ()

    @property
    def size_bytes(self) -> int:
        """Bytes of state that it refers to (`StateObject#getStateSize`); 0 if Flink recorded no size."""
        return sum(part.size_bytes for part in self.parts())

    def streams(self) -> Iterator[StreamStateHandle]:
        """Yield every leaf handle that has bytes, in file order."""
        for part in self.parts():
            yield from part.streams()

    @property
    def key_groups(self) -> KeyGroupRange | None:
        """Key groups of keyed state; None for other state."""
        return None


class StreamStateHandle(StateObject):
    """A range of bytes: inline, a file, or a segment of a file."""

    __slots__ = ()

    @property
    def path(self) -> str | None:
        """The recorded path; None if there is no file."""
        return None

    @property
    def scope(self) -> CheckpointedStateScope:
        """The scope of the file."""
        return CheckpointedStateScope.EXCLUSIVE

    @property
    def name(self) -> str:
        """Name for messages."""
        return self.path or ""

    @property
    def inline_data(self) -> bytes | None:
        """The bytes themselves; None if they are in a file."""
        return None

    @property
    def is_relative(self) -> bool:
        """True if `path` is relative to the directory of `_metadata`."""
        return False

    def range_in_file(self, file_size_bytes: int) -> tuple[int, int]:
        """Return start and length of its bytes in a file of that size; they exceed a file that is too short."""
        # Not the recorded size: where that is unknown, or the file has grown, all bytes count.
        return 0, max(self.size_bytes, file_size_bytes)

    def streams(self) -> Iterator[StreamStateHandle]:
        yield self


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteStreamStateHandle(StreamStateHandle):
    """Small state that is stored in `_metadata` itself (tag 1)."""

    handle_name: str
    data: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    @property
    def name(self) -> str:
        return self.handle_name

    @property
    def inline_data(self) -> bytes:
        return self.data

    @property
    def scope(self) -> CheckpointedStateScope:
        return CheckpointedStateScope.INLINE


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStateHandle(StreamStateHandle):
    """A whole file, with the absolute path that it had when it was written (tag 2).

    `state_size` is negative in rare old files; the size is then unknown.
    """

    file_path: str
    state_size: int

    @property
    def path(self) -> str:
        return self.file_path

    @property
    def size_bytes(self) -> int:
        return max(self.state_size, 0)

    @property
    def scope(self) -> CheckpointedStateScope:
        """The scope that the folder implies: `shared/<file>` or, with file merging, `shared/<subtask's folder>/<file>`."""
        for folder in reversed(self.file_path.split("/")[-3:-1]):
            if folder in _SCOPE_OF_FOLDER:
                return _SCOPE_OF_FOLDER[folder]
        return CheckpointedStateScope.EXCLUSIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class RelativeFileStateHandle(StreamStateHandle):
    """A whole file beside `_metadata` (tag 6; since 1.11). Flink: RelativeFileStateHandle."""

    relative_path: str
    state_size: int

    @property
    def path(self) -> str:
        return self.relative_path

    @property
    def is_relative(self) -> bool:
        return True

    @property
    def size_bytes(self) -> int:
        return max(self.state_size, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFileStateHandle(StreamStateHandle):
    """Bytes `[start_pos, start_pos + state_size)` of a file that many states share (tag 15).

    Written by file merging, since 1.20. Offsets of the handles around it count from `start_pos`. An EXCLUSIVE segment is
    in a folder `taskowned/`.
    """

    file_path: str
    start_pos: int
    state_size: int
    state_scope: CheckpointedStateScope
    logical_file_id: str

    @property
    def path(self) -> str:
        return self.file_path

    @property
    def size_bytes(self) -> int:
        return self.state_size

    @property
    def scope(self) -> CheckpointedStateScope:
        return self.state_scope

    def range_in_file(self, file_size_bytes: int) -> tuple[int, int]:
        return self.start_pos, self.state_size


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptySegmentFileStateHandle(StreamStateHandle):
    """A placeholder without bytes (tag 16); `streams()` yields nothing."""

    @property
    def inline_data(self) -> bytes:
        return b""

    @property
    def size_bytes(self) -> int:
        return 0

    def streams(self) -> Iterator[StreamStateHandle]:
        return iter(())


# Flink records no scope for plain files: the names of its folders imply it.
_SCOPE_OF_FOLDER = {
    "shared": CheckpointedStateScope.SHARED,
    "taskowned": CheckpointedStateScope.TASK_OWNED,
    "dstl": CheckpointedStateScope.CHANGELOG,
}


Offsets = npt.NDArray[np.int64]


class Mode(IntEnum):
    """`OperatorStateHandle.Mode`. Ordinal 1 was called BROADCAST up to 1.4, but already meant union."""

    SPLIT_DISTRIBUTE = 0
    UNION = 1
    BROADCAST = 2


class StateRole(Enum):
    """The field of OperatorSubtaskState, OperatorState or CheckpointMetadata that a handle is recorded in."""

    MANAGED_OPERATOR = auto()
    RAW_OPERATOR = auto()
    MANAGED_KEYED = auto()
    RAW_KEYED = auto()
    CHANNEL = auto()
    COORDINATOR = auto()
    MASTER = auto()


class _ValueEquality:
    """Equality for dataclasses with arrays: `==` of two arrays is an array, not a bool."""

    __slots__ = ()

    def _values(self) -> tuple[object, ...]:
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]  # a mixin
        return tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in values)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _ValueEquality)
            and type(other) is type(self)
            and other._values() == self._values()
        )

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))


# --- keyed state ---


class KeyedStateHandle(StateObject):
    """Keyed state of one subtask: the key groups of `key_group_range`.

    Attributes:
        managed_type: the name of such a handle of managed keyed state in listings of files.
    """

    __slots__ = ()
    managed_type: ClassVar[str] = "MANAGED_KEYED"
    key_group_range: KeyGroupRange

    @property
    def key_groups(self) -> KeyGroupRange:
        return self.key_group_range


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyGroupsStateHandle(_ValueEquality, KeyedStateHandle):
    """A stream, and the position in it of each key group (tags 3 and 12; 12 has a `state_handle_id`).

    `offsets[i]` is the position of key group `key_group_range.start + i` in the delegate. In raw keyed state -1 marks a key
    group without data; heap snapshots have a real offset for each key group.
    """

    key_group_range: KeyGroupRange
    offsets: Offsets
    delegate: StreamStateHandle
    state_handle_id: str | None = None

    def parts(self) -> tuple[StateObject, ...]:
        return (self.delegate,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyGroupsSavepointStateHandle(KeyGroupsStateHandle):
    """Key groups of a canonical savepoint (tag 7; since 1.13). Offset 0 marks a key group without data.

    Its layout is certainly that of `FullSnapshotAsyncWriter`.
    """


class HandleAndLocalPath(NamedTuple):
    """`IncrementalKeyedStateHandle.HandleAndLocalPath`: a file of a RocksDB directory, and its name there."""

    local_path: str
    handle: StreamStateHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalRemoteKeyedStateHandle(KeyedStateHandle):
    """The files of a RocksDB or ForSt directory (tags 5 and 11).

    `checkpoint_id` is the id of the checkpoint that created the handle. `meta_state_handle` contains only a
    KeyedBackendSerializationProxy. `checkpointed_size` and `state_handle_id` are None in tag 5.
    """

    managed_type: ClassVar[str] = "MANAGED_KEYED_INCREMENTAL"

    checkpoint_id: int
    backend_identifier: str
    key_group_range: KeyGroupRange
    meta_state_handle: StreamStateHandle
    shared_state: tuple[HandleAndLocalPath, ...]
    private_state: tuple[HandleAndLocalPath, ...]
    checkpointed_size: int | None = None
    state_handle_id: str | None = None

    def files(self) -> Iterator[HandleAndLocalPath]:
        """Yield all files of the directory: shared files (*.sst), then private files (CURRENT, MANIFEST, OPTIONS)."""
        yield from (*self.shared_state, *self.private_state)

    def parts(self) -> tuple[StateObject, ...]:
        return (self.meta_state_handle, *(file.handle for file in self.files()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogStateBackendHandle(KeyedStateHandle):
    """Keyed state as a materialized base, and the changes since, which are replayed in order (tags 8 and 14).

    1.14 wrote neither `checkpointed_size`, `materialization_id` nor `state_handle_id`; only tag 14 has a `checkpoint_id`.
    """

    managed_type: ClassVar[str] = "MANAGED_KEYED_CHANGELOG"

    key_group_range: KeyGroupRange
    materialized: tuple[KeyedStateHandle, ...]
    non_materialized: tuple[KeyedStateHandle, ...]
    checkpointed_size: int | None = None
    materialization_id: int | None = None
    checkpoint_id: int | None = None
    state_handle_id: str | None = None

    def parts(self) -> tuple[StateObject, ...]:
        return (*self.materialized, *self.non_materialized)


class StateChange(NamedTuple):
    """One change; `key_group` is -1 for a change that defines a state."""

    key_group: int
    change: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class InMemoryChangelogStateHandle(KeyedStateHandle):
    """Changes that are stored in `_metadata` itself (tag 9); it refers to no stream."""

    key_group_range: KeyGroupRange
    from_sequence_number: int
    to_sequence_number: int
    changes: tuple[StateChange, ...]
    state_handle_id: str | None = None

    @property
    def size_bytes(self) -> int:
        return sum(len(change.change) for change in self.changes)


class StreamAndOffset(NamedTuple):
    """A changelog stream, and the offset of a change set in it, in uncompressed bytes behind the flag byte."""

    handle: StreamStateHandle
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogStateHandleStreamImpl(KeyedStateHandle):
    """Changes in files (tags 10 and 13). `storage_identifier` is None in tag 10."""

    key_group_range: KeyGroupRange
    handles_and_offsets: tuple[StreamAndOffset, ...]
    state_size: int
    checkpointed_size: int | None = None
    state_handle_id: str | None = None
    storage_identifier: str | None = None

    @property
    def size_bytes(self) -> int:
        return max(self.state_size, 0)

    def parts(self) -> tuple[StateObject, ...]:
        return tuple(handle for handle, _ in self.handles_and_offsets)


# --- operator state ---


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateMetaInfo(_ValueEquality):
    """`OperatorStateHandle.StateMetaInfo`: the positions of one state's elements in the delegate."""

    name: str
    distribution_mode: Mode
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStreamStateHandle(StateObject):
    """Operator state of one subtask (tag 4)."""

    state_meta_infos: tuple[StateMetaInfo, ...]
    delegate: StreamStateHandle

    def parts(self) -> tuple[StateObject, ...]:
        return (self.delegate,)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMergingOperatorStreamStateHandle(OperatorStreamStateHandle):
    """Operator state in a segment (tag 17; since 1.20). Operators without state have a handle too, with `empty` set."""

    task_owned_directory: str
    shared_directory: str
    empty: bool


# --- channel state of unaligned checkpoints ---


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChannelOffsets(_ValueEquality):
    """The positions of one channel's buffers.

    `(first, second)` is (gateIdx, inputChannelIdx) for inputs, (partitionIdx, subPartitionIdx) for results.
    """

    first: int
    second: int
    state_size: int
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateHandle(StateObject):
    """In-flight buffers of one subtask: one channel, or all channels in the merged kinds.

    `subtask_index` is None in files of 1.11.

    Attributes:
        is_input: True for the channels of an input gate, False for those of a result partition.
    """

    is_input: ClassVar[bool] = False

    subtask_index: int | None
    channels: tuple[ChannelOffsets, ...]
    state_size: int
    delegate: StreamStateHandle

    @property
    def size_bytes(self) -> int:
        return max(self.state_size, 0)

    def parts(self) -> tuple[StateObject, ...]:
        return (self.delegate,)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChannelStateHandle(ChannelStateHandle):
    """One input channel (tag 1 in version 6)."""

    is_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSubpartitionStateHandle(ChannelStateHandle):
    """One result subpartition (tag 2 in version 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedInputChannelStateHandle(ChannelStateHandle):
    """All input channels of a subtask (tag 3; since version 6)."""

    is_input: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedResultSubpartitionStateHandle(ChannelStateHandle):
    """All result subpartitions of a subtask (tag 4; since version 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskChannels(StateObject):
    """All channels of one subtask: those of its inputs, then those of its results."""

    handles: tuple[ChannelStateHandle, ...]

    def parts(self) -> tuple[StateObject, ...]:
        return self.handles


# --- the tree ---


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskState(StateObject):
    """State of one subtask of an operator. Flink: OperatorSubtaskState.

    A `finished` subtask had no state left to write. `legacy_state` is the state of the `Checkpointed` interface (1.2, 1.3).
    """

    index: int
    finished: bool = False
    managed_operator_state: OperatorStreamStateHandle | None = None
    raw_operator_state: OperatorStreamStateHandle | None = None
    managed_keyed_state: KeyedStateHandle | None = None
    raw_keyed_state: KeyedStateHandle | None = None
    input_channels: tuple[ChannelStateHandle, ...] = ()
    result_subpartitions: tuple[ChannelStateHandle, ...] = ()
    legacy_state: tuple[StreamStateHandle, ...] = ()

    def recorded(self) -> Iterator[tuple[StateRole, StateObject]]:
        """Yield each role in which the subtask has state, with its handle."""
        operator = (
            (StateRole.MANAGED_OPERATOR, self.managed_operator_state),
            (StateRole.RAW_OPERATOR, self.raw_operator_state),
        )
        for role, handle in operator:
            # File merging records a handle for an operator without state too: it refers to no stream.
            if handle is not None and any(True for _ in handle.streams()):
                yield role, handle
        if self.managed_keyed_state is not None:
            yield StateRole.MANAGED_KEYED, self.managed_keyed_state
        if self.raw_keyed_state is not None:
            yield StateRole.RAW_KEYED, self.raw_keyed_state
        channels = (*self.input_channels, *self.result_subpartitions)
        if any(handle.channels for handle in channels):
            yield StateRole.CHANNEL, SubtaskChannels(handles=channels)

    def parts(self) -> Iterator[StateObject]:
        """Yield all handles of the subtask."""
        single = (
            self.managed_operator_state,
            self.raw_operator_state,
            self.managed_keyed_state,
            self.raw_keyed_state,
        )
        yield from (handle for handle in single if handle is not None)
        yield from self.input_channels
        yield from self.result_subpartitions
        yield from self.legacy_state


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorState(StateObject):
    """State of one operator.

    Attributes:
        operator_id: 32 hex digits, as Flink prints them. Version 1 only records the id of the job vertex, which is the id
            of the chain's head; for other operators their `chain_index` is appended: `…-0`.
        uid: since version 5.
        name: since version 5.
        parallelism: parallelism of the job when the savepoint was taken.
        max_parallelism: number of key groups; may be -1 in old files for operators without keyed state.
        subtasks: recorded subtasks, in file order; a subtask without state may be absent.
        coordinator_state: since version 3.
        fully_finished: True if all subtasks had finished; `subtasks` is then empty.
        chain_index: position in the chain, the head is last (version 1 only).
    """

    operator_id: str
    uid: str | None = None
    name: str | None = None
    parallelism: int
    max_parallelism: int
    subtasks: tuple[SubtaskState, ...] = ()
    coordinator_state: StreamStateHandle | None = None
    fully_finished: bool = False
    chain_index: int | None = None

    def parts(self) -> tuple[StateObject, ...]:
        coordinator = () if self.coordinator_state is None else (self.coordinator_state,)
        return (*coordinator, *self.subtasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterState:
    """State of a `MasterTriggerRestoreHook` on the job manager."""

    version: int
    name: str
    data: bytes


class SavepointKind(StrEnum):
    """`SnapshotType`: a savepoint is taken on request, a checkpoint by the job itself."""

    SAVEPOINT = "SAVEPOINT"
    CHECKPOINT = "CHECKPOINT"


class SavepointFormatType(StrEnum):
    """`SavepointFormatType` of a savepoint."""

    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProperties:
    """The end of `_metadata` (since version 4). `format` is None for checkpoints.

    Attributes:
        stream: the Java stream itself, which is never deserialized; a new savepoint repeats it.
    """

    kind: SavepointKind
    format: SavepointFormatType | None = None
    stream: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointMetadata(StateObject):
    """A whole `_metadata`; `properties` is None before version 4 (Flink 1.16)."""

    version: int
    checkpoint_id: int
    master_states: tuple[MasterState, ...] = ()
    operators: tuple[OperatorState, ...] = ()
    properties: CheckpointProperties | None = None

    @property
    def flink_versions(self) -> str:
        """The versions of Flink that write this version of the file: no file names its own."""
        return _FLINK_VERSIONS[self.version]

    def parts(self) -> tuple[StateObject, ...]:
        return self.operators


def first_flink(version: int) -> str:
    """Return the first version of Flink that wrote a version of `_metadata`."""
    return _FLINK_VERSIONS[version].split()[0]


_FLINK_VERSIONS = {1: "1.2", 2: "1.3 – 1.10", 3: "1.11 – 1.15", 4: "1.16 – 1.20", 5: "2.0", 6: "2.1 or newer"}
