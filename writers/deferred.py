"""Keyed state whose bytes are made while the new savepoint is written: its handle is known only then.

An edit puts a `DeferredKeyedState` into the metadata. `SavepointWriter` lets it write its file into the target, or, for a preview,
into a file that only counts, so that a preview meets every error that a write would meet. Files of several subtasks are made at the
same time where the target takes them so, or by other processes: `writers.elsewhere`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from readers import ResolvedFile
from readers import metadata as model
from writers.errors import WriterError
from writers.target import Chunk, JoinedTarget, NewFile
from writers.warnings import RestoreWarning

Create = Callable[[str], AbstractContextManager[NewFile]]
"""Begins a new file of the target, by its name: `Target.create`."""

# Each file that is being made takes some tens of MB, whatever its size.
MOST_THREADS = 4


class KeyedStateMaker(ABC):
    """Makes the keyed state of one subtask.

    Attributes:
        is_independent: True if it changes nothing that other makers use, so that several can work at the same time.
        groups: the key groups of the subtask.
    """

    is_independent: ClassVar[bool] = False
    groups: model.KeyGroupRange

    @abstractmethod
    def make(self, create: Create) -> model.KeyedStateHandle | None:
        """Write the files and return the handle of them; None if no state is left.

        Raises:
            WriterError: the state cannot be changed so, or the target fails.
            ReaderError: a file of the source is missing or damaged.
        """

    @property
    def warnings(self) -> tuple[RestoreWarning, ...]:
        """What was noticed while the state was made the last time."""
        return ()

    @property
    def size_bytes(self) -> int:
        """About how many bytes it reads."""
        return 0

    @property
    def preparations(self) -> Sequence[Work]:
        """The work that must be done before other processes make states; makers may share it."""
        return ()

    def prepared(self, results: Sequence[Any]) -> KeyedStateMaker:
        """Return what makes the same state, wherever it is.

        Args:
            results: of the preparations, in their order.
        """
        return self


class Work(ABC):
    """A piece of work for any process that joins the target."""

    @property
    def groups(self) -> model.KeyGroupRange | None:
        """The key groups whose rows and entries it needs; None if it needs none of those that the script has."""
        return None

    @abstractmethod
    def do(self, target: JoinedTarget) -> Any:
        """Do it, and return what can be pickled.

        Raises:
            WriterError, ReaderError: see `KeyedStateMaker.make`.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeferredKeyedState(model.KeyedStateHandle):
    """The handle of keyed state that is still to be made.

    Attributes:
        maker: makes it.
    """

    key_group_range: model.KeyGroupRange
    maker: KeyedStateMaker

    @property
    def size_bytes(self) -> int:
        return 0

    def streams(self) -> Iterator[model.StreamStateHandle]:
        return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeState:
    """The keyed state of one subtask that was made.

    Attributes:
        handle: names its file; None if no state is left.
        warnings: what was noticed while it was made.
    """

    handle: model.KeyedStateHandle | None
    warnings: tuple[RestoreWarning, ...] = ()


Make = Callable[[Sequence[KeyedStateMaker]], Sequence[MadeState]]
"""Makes the state of several subtasks; raises what `KeyedStateMaker.make` raises."""


def with_made_state(
    metadata: model.SavepointMetadata, make: Make
) -> tuple[model.SavepointMetadata, tuple[RestoreWarning, ...]]:
    """Make all state that was deferred; return the metadata with its handles, and what was noticed.

    Args:
        metadata: has the deferred handles.
        make: makes the states.

    Raises:
        WriterError, ReaderError: see `KeyedStateMaker.make`.
    """
    deferred = list(_deferred(metadata))
    states = make([handle.maker for handle in deferred])
    made = {id(handle): state.handle for handle, state in zip(deferred, states, strict=True)}

    def with_made(subtask: model.SubtaskState) -> model.SubtaskState:
        handle = subtask.managed_keyed_state
        if not isinstance(handle, DeferredKeyedState):
            return subtask
        return replace(subtask, managed_keyed_state=made[id(handle)])

    operators = (
        replace(operator, subtasks=tuple(map(with_made, operator.subtasks)))
        for operator in metadata.operators
    )
    noticed = tuple(warning for state in states for warning in state.warnings)
    return replace(metadata, operators=tuple(operators)), noticed


def deferred_makers(metadata: model.SavepointMetadata) -> list[KeyedStateMaker]:
    """Return what makes all state that was deferred."""
    return [handle.maker for handle in _deferred(metadata)]


def _deferred(metadata: model.SavepointMetadata) -> Iterator[DeferredKeyedState]:
    for operator in metadata.operators:
        for subtask in operator.subtasks:
            if isinstance(handle := subtask.managed_keyed_state, DeferredKeyedState):
                yield handle


def made_here(makers: Sequence[KeyedStateMaker], create: Create, threads: int) -> Sequence[MadeState]:
    """Make states in this process.

    Args:
        makers: make them.
        create: begins a new file.
        threads: how many threads may write a file each.

    Raises:
        WriterError, ReaderError: see `KeyedStateMaker.make`.
    """
    made = _made_together([maker for maker in makers if maker.is_independent], create, threads)
    for maker in makers:
        if id(maker) not in made:
            made[id(maker)] = maker.make(create)
    return [MadeState(handle=made[id(maker)], warnings=maker.warnings) for maker in makers]


def _made_together(
    makers: Sequence[KeyedStateMaker], create: Create, threads: int
) -> dict[int, model.KeyedStateHandle | None]:
    """Return the handle that each makes, by the id of the maker; the first error ends the others."""
    at_once = min(len(makers), MOST_THREADS, threads)
    if at_once < 2:
        return {}
    stop = threading.Event()

    @contextmanager
    def begin(name: str) -> Iterator[NewFile]:
        with create(name) as file:
            yield _StoppedFile(file, stop)

    def make(maker: KeyedStateMaker) -> model.KeyedStateHandle | None:
        try:
            return maker.make(begin)
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(at_once, thread_name_prefix="keyed-state") as pool:
        made = [pool.submit(make, maker) for maker in makers]
        try:
            errors = [error for one in made if (error := one.exception()) is not None]
        except BaseException:
            stop.set()
            raise
    # Those that were ended by the error of another say nothing of their own.
    if errors:
        raise min(errors, key=lambda error: isinstance(error, _StoppedError))
    return {id(maker): one.result() for maker, one in zip(makers, made, strict=True)}


class _StoppedError(WriterError):
    """The error of another subtask has ended this one."""


@dataclass(slots=True)
class _StoppedFile(NewFile):
    """A file that takes no more bytes once another subtask has failed."""

    file: NewFile
    stop: threading.Event

    def write(self, chunk: Chunk) -> None:
        self._check()
        self.file.write(chunk)

    def copy(self, file: ResolvedFile, start: int, size_bytes: int) -> bool:
        self._check()
        return self.file.copy(file, start, size_bytes)

    def _check(self) -> None:
        if self.stop.is_set():
            raise _StoppedError("expected all subtasks to be written, found an error in another one")


@dataclass(slots=True)
class FileCounter:
    """Counts the files that are made, and their bytes.

    Attributes:
        files, size_bytes: so far.
    """

    files: int = 0
    size_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, files: int, size_bytes: int) -> None:
        """Count files and bytes more."""
        with self._lock:
            self.files += files
            self.size_bytes += size_bytes

    def counted(self, create: Create | None = None) -> Create:
        """Return what begins the same files, and counts them; without `create` files that are nowhere."""

        @contextmanager
        def begin(name: str) -> Iterator[NewFile]:
            with create(name) if create is not None else nullcontext() as file:
                self.add(1, 0)
                yield _CountedFile(self, file)

        return begin


@dataclass(slots=True)
class _CountedFile(NewFile):
    counter: FileCounter
    file: NewFile | None

    def write(self, chunk: Chunk) -> None:
        if self.file is not None:
            self.file.write(chunk)
        self.counter.add(0, memoryview(chunk).nbytes)

    def copy(self, file: ResolvedFile, start: int, size_bytes: int) -> bool:
        is_copied = self.file is None or self.file.copy(file, start, size_bytes)
        if is_copied:
            self.counter.add(0, size_bytes)
        return is_copied
