"""Keyed state whose bytes are made while the new savepoint is written: its handle is known only then.

An edit puts a `DeferredKeyedState` into the metadata. `SavepointWriter` lets it write its file into the target, or, for a preview,
into a file that only counts, so that a preview meets every error that a write would meet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from readers import ResolvedFile
from readers.metadata import (
    KeyedStateHandle,
    KeyGroupRange,
    OperatorState,
    SavepointMetadata,
    StreamStateHandle,
    SubtaskState,
)
from writers.target import Chunk, NewFile
from writers.warnings import RestoreWarning, merged_warnings

Create = Callable[[str], AbstractContextManager[NewFile]]
"""Begins a new file of the target, by its name: `Target.create`."""


class KeyedStateMaker(ABC):
    """Makes the keyed state of one subtask."""

    @abstractmethod
    def make(self, create: Create) -> KeyedStateHandle | None:
        """Write the files and return the handle of them; None if no state is left.

        Raises:
            WriterError: the state cannot be changed so, or the target fails.
            ReaderError: a file of the source is missing or damaged.
        """

    @property
    def warnings(self) -> tuple[RestoreWarning, ...]:
        """What was noticed while the state was made the last time."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeferredKeyedState(KeyedStateHandle):
    """The handle of keyed state that is still to be made.

    Attributes:
        maker: makes it.
    """

    key_group_range: KeyGroupRange
    maker: KeyedStateMaker

    @property
    def size_bytes(self) -> int:
        return 0

    def streams(self) -> Iterator[StreamStateHandle]:
        return iter(())


def with_made_state(metadata: SavepointMetadata, create: Create) -> SavepointMetadata:
    """Make all state that was deferred, and return the metadata with its handles.

    Raises:
        WriterError, ReaderError: see `KeyedStateMaker.make`.
    """
    return replace(metadata, operators=tuple(_made(operator, create) for operator in metadata.operators))


def warnings_of(metadata: SavepointMetadata) -> tuple[str, ...]:
    """Return what was noticed while deferred state was made, from the metadata before."""
    handles = (subtask.managed_keyed_state for one in metadata.operators for subtask in one.subtasks)
    return merged_warnings(
        warning
        for handle in handles
        if isinstance(handle, DeferredKeyedState)
        for warning in handle.maker.warnings
    )


def _made(operator: OperatorState, create: Create) -> OperatorState:
    return replace(operator, subtasks=tuple(_made_subtask(one, create) for one in operator.subtasks))


def _made_subtask(subtask: SubtaskState, create: Create) -> SubtaskState:
    handle = subtask.managed_keyed_state
    if not isinstance(handle, DeferredKeyedState):
        return subtask
    return replace(subtask, managed_keyed_state=handle.maker.make(create))


@dataclass(slots=True)
class FileCounter:
    """Counts the files that are made, and their bytes.

    Attributes:
        files, size_bytes: so far.
    """

    files: int = 0
    size_bytes: int = 0

    def counted(self, create: Create) -> Create:
        """Return what begins the same files, and counts them."""

        @contextmanager
        def begin(name: str) -> Iterator[NewFile]:
            with create(name) as file:
                self.files += 1
                yield _CountedFile(self, file)

        return begin

    @contextmanager
    def create(self, name: str) -> Iterator[NewFile]:
        """Begin a file that is nowhere."""
        self.files += 1
        yield _CountedFile(self)


@dataclass(slots=True)
class _CountedFile(NewFile):
    counter: FileCounter
    file: NewFile | None = field(default=None)

    def write(self, chunk: Chunk) -> None:
        if self.file is not None:
            self.file.write(chunk)
        self.counter.size_bytes += memoryview(chunk).nbytes

    def copy(self, file: ResolvedFile, start: int, size_bytes: int) -> bool:
        is_copied = self.file is None or self.file.copy(file, start, size_bytes)
        if is_copied:
            self.counter.size_bytes += size_bytes
        return is_copied
