"""The leaves of `_metadata`: handles that name one range of bytes, inline, in a file, or in a segment of a file.

Names are Flink's; the classes are in org.apache.flink.runtime.state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


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
