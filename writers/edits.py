"""What changes in a savepoint, the state that is made for it, and the files that stay.

An edit takes the metadata and returns other metadata. It writes no file: new bytes stand in the metadata, as `NewBytes`.

The bytes of keyed state are made while the new savepoint is written: its handle is known only then, and an edit puts a
`DeferredKeyedState` into the metadata. `SavepointWriter` lets it write its file into the target, or, for a preview,
into a file that only counts, so that a preview meets every error that a write would meet. Files of several subtasks are made at the
same time where the target takes them so, or by other processes: `writers.elsewhere`.

`Gathering` says which files of the source a new savepoint takes, how, and under which names. A new savepoint holds all of its files, so
it can be moved, and outlives its source (`LINK`, `COPY`). `REFERENCE` leaves the files where they are: with claim mode CLAIM, Flink
deletes them once it needs them no more, and the source is lost.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar

from readers import METADATA_FILE_NAME, Location, ResolvedFile, SavepointLocation, Stream, operator_id_of
from readers import metadata as model
from writers.errors import RefusedEditError, RestoreWarning, WriterError
from writers.metadata import NAMES_SINCE, PROPERTIES_SINCE, with_leaves
from writers.target import UNFINISHED, Chunk, JoinedTarget, NewFile, Target

# Since which release of Flink, newest first → the newest version of `_metadata` that it reads.
_NEWEST_VERSIONS = (((2, 1), 6), ((2, 0), 5), ((1, 16), 4), ((1, 11), 3))
# Since this release canonical key groups have a handle of their own, in the same version of `_metadata` as before.
FIRST_WITH_SAVEPOINT_HANDLES = (1, 13)


def newest_version(release: tuple[int, int]) -> int:
    """Return the newest version of `_metadata` that a release of Flink reads.

    Raises:
        RefusedEditError: none that is written here.
    """
    newest = next((version for since, version in _NEWEST_VERSIONS if release >= since), None)
    if newest is None:
        raise RefusedEditError(
            "expected Flink {}.{} or later, found {}.{}".format(*_NEWEST_VERSIONS[-1][0], *release)
        )
    return newest


class Edit(ABC):
    """One change of a savepoint's metadata."""

    @abstractmethod
    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        """Return the metadata after the change.

        Args:
            metadata: before the change.
            source: opens the files of the source savepoint.

        Raises:
            RefusedEditError: Flink would not restore the result, or lose state.
        """

    @property
    def warnings(self) -> tuple[RestoreWarning, ...]:
        """What is to be known of the result before it is made."""
        return ()


@dataclass(frozen=True, slots=True)
class DropOperator(Edit):
    """Leave out an operator: a job that has it starts it without state."""

    operator_id: str

    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        find_operator(metadata, self.operator_id)
        return replace(
            metadata,
            operators=tuple(one for one in metadata.operators if one.operator_id != self.operator_id),
        )


@dataclass(frozen=True, slots=True)
class RenameOperator(Edit):
    """Give an operator a uid: the job's operator with this uid gets its state. Flink: StreamGraphHasherV2."""

    operator_id: str
    uid: str

    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        operator = find_operator(metadata, self.operator_id)
        if not self.uid:
            raise RefusedEditError("expected a uid, found an empty text")
        operator_id = operator_id_of(self.uid)
        for other in metadata.operators:
            if other.operator_id == operator_id and other is not operator:
                raise RefusedEditError(
                    f"the savepoint has an operator with the uid {self.uid!r} already ({operator_id}): "
                    "Flink would give both states to one operator"
                )
        # Versions before 5 store the id of the uid, and not the uid.
        uid = self.uid if metadata.version >= NAMES_SINCE else None
        renamed = replace(operator, operator_id=operator_id, uid=uid)
        return with_operator(metadata, operator, renamed)


@dataclass(frozen=True, slots=True)
class ForFlink(Edit):
    """Write `_metadata` in a version that a release of Flink reads: the source's, or an older one without names and uids.

    Attributes:
        release: major and minor number.
    """

    release: tuple[int, int]

    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        newest = newest_version(self.release)
        if metadata.version <= newest:
            return metadata
        operators = metadata.operators
        if newest < NAMES_SINCE:
            operators = tuple(replace(one, name=None, uid=None) for one in operators)
        return replace(
            metadata,
            version=newest,
            operators=operators,
            properties=metadata.properties if newest >= PROPERTIES_SINCE else None,
        )


@dataclass(frozen=True, slots=True)
class WithNewerFlink(Edit):
    """Write `_metadata` in the newest version that a release of Flink reads, as a savepoint of its own: the source's is older.

    The version says which Kryo wrote the objects of a savepoint, so it must be that of the Flink whose Kryo they are written for.

    Attributes:
        release: major and minor number.
    """

    release: tuple[int, int]

    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        newest = next((version for since, version in _NEWEST_VERSIONS if self.release >= since), 0)
        if metadata.version >= newest:
            return metadata
        if metadata.version < PROPERTIES_SINCE:
            raise RefusedEditError(
                f"expected a savepoint of Flink 1.16 or later, found `_metadata` of version {metadata.version}, which has no "
                "properties: let a later Flink take a new savepoint"
            )
        return replace(metadata, version=newest)


def with_plain_key_groups(metadata: model.SavepointMetadata) -> model.SavepointMetadata:
    """Return the metadata with the handles of canonical key groups that Flink 1.11 and 1.12 read, and later Flinks with RocksDB."""

    def plain(handle: model.KeyedStateHandle | None) -> model.KeyedStateHandle | None:
        if not isinstance(handle, model.KeyGroupsSavepointStateHandle):
            return handle
        return model.KeyGroupsStateHandle(
            key_group_range=handle.key_group_range, offsets=handle.offsets, delegate=handle.delegate
        )

    return with_keyed_states(metadata, plain)


def with_keyed_states(
    metadata: model.SavepointMetadata,
    change: Callable[[model.KeyedStateHandle | None], model.KeyedStateHandle | None],
) -> model.SavepointMetadata:
    """Return the metadata with another handle of the managed keyed state of each subtask."""

    def changed(subtask: model.SubtaskState) -> model.SubtaskState:
        return replace(subtask, managed_keyed_state=change(subtask.managed_keyed_state))

    operators = (replace(one, subtasks=tuple(map(changed, one.subtasks))) for one in metadata.operators)
    return replace(metadata, operators=tuple(operators))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBytes(model.ByteStreamStateHandle):
    """Bytes that no file has yet: `writers.edits` decides whether they stay in `_metadata`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleElsewhere(model.StreamStateHandle):
    """Bytes of another savepoint, which finds their file by rules of its own."""

    handle: model.StreamStateHandle
    location: SavepointLocation


def check_no_records_in_flight(operators: Iterable[model.OperatorState]) -> None:
    """Refuse the records of an unaligned checkpoint: they may contradict what is changed.

    Raises:
        RefusedEditError: an operator has some.
    """
    for operator in operators:
        for subtask in operator.subtasks:
            if any(handle.channels for handle in (*subtask.input_channels, *subtask.result_subpartitions)):
                raise RefusedEditError(
                    f"the operator {operator.name or operator.uid or operator.operator_id} has records in flight, as an "
                    "unaligned checkpoint: take an aligned checkpoint or a savepoint"
                )


def with_operator(
    metadata: model.SavepointMetadata, old: model.OperatorState, new: model.OperatorState
) -> model.SavepointMetadata:
    """Return the metadata with another operator in the place of `old`."""
    return replace(metadata, operators=tuple(new if one is old else one for one in metadata.operators))


def find_operator(metadata: model.SavepointMetadata, operator_id: str) -> model.OperatorState:
    """Return the operator of an id.

    Raises:
        RefusedEditError: there is none.
    """
    for operator in metadata.operators:
        if operator.operator_id == operator_id:
            return operator
    raise RefusedEditError(f"expected an operator {operator_id}, found none: an earlier statement removed it")


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
    deferred = list(deferred_states(metadata))
    states = make([handle.maker for handle in deferred])
    made = {id(handle): state.handle for handle, state in zip(deferred, states, strict=True)}

    noticed = tuple(warning for state in states for warning in state.warnings)
    return with_keyed_states(metadata, lambda handle: made.get(id(handle), handle)), noticed


def deferred_states(metadata: model.SavepointMetadata) -> Iterator[DeferredKeyedState]:
    """Yield all state that was deferred."""
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


_CHUNK_BYTES = 8 << 20
# Flink's own limit for bytes in `_metadata`, which go to every task (`state.storage.fs.memory-threshold`).
_MOST_INLINE_BYTES = 20 << 10
# A hostile source may call its files so.
_OURS = frozenset({METADATA_FILE_NAME, UNFINISHED})


class FilesMode(StrEnum):
    """How a new savepoint gets the files that it takes over.

    LINK: hard links, and copies where the file system has none. COPY: copies. REFERENCE: none; it names the source's files.
    """

    LINK = "link"
    COPY = "copy"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A file of the target that has the bytes of a file of the source, or of a segment of it.

    Attributes:
        name: its name in the target.
        source: the handle whose bytes it has.
        location: opens it.
        file: where these bytes are.
    """

    name: str
    source: model.StreamStateHandle
    location: SavepointLocation
    file: ResolvedFile


@dataclass(slots=True)
class Gathering:
    """The files that a new savepoint needs.

    Args:
        location: opens the files of the source.
        mode: how they are taken.

    Attributes:
        files: by what they hold; two handles of one file share it.
        new_files: name → bytes of files that the source does not have.
        folders: the folders of files that stay where they are.
    """

    location: SavepointLocation
    mode: FilesMode
    files: dict[tuple[object, ...], TakenFile] = field(default_factory=dict)
    new_files: dict[str, bytes] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)

    def gathered(self, metadata: model.SavepointMetadata) -> model.SavepointMetadata:
        """Return the metadata with handles of the target's files.

        Raises:
            ReaderError: a file of the source is missing, too short, or outside the allowed roots.
        """
        return with_leaves(metadata, self._taken)

    def _taken(self, handle: model.StreamStateHandle) -> model.StreamStateHandle:
        if isinstance(handle, NewBytes):
            return self._new(handle)
        if isinstance(handle, model.ByteStreamStateHandle):
            return handle
        location = self.location
        if isinstance(handle, HandleElsewhere):
            location, handle = handle.location, handle.handle
        file = location.resolve(handle)
        if self.mode is FilesMode.REFERENCE:
            self.folders.add(location.url_of(file.location.parent))
            return _referred(handle, file)
        key = (file.location, file.start, file.size_bytes)
        taken = self.files.get(key)
        if taken is None:
            taken = TakenFile(self._name(file), handle, location, file)
            self.files[key] = taken
        return model.RelativeFileStateHandle(relative_path=taken.name, state_size=file.size_bytes)

    def _new(self, handle: NewBytes) -> model.StreamStateHandle:
        """Return a handle of new bytes; two handles of one name, or one file, would be one handle to Flink."""
        if len(handle.data) <= _MOST_INLINE_BYTES:
            return model.ByteStreamStateHandle(handle_name=handle.handle_name, data=handle.data)
        self._names.add(handle.handle_name)
        self.new_files[handle.handle_name] = handle.data
        return model.RelativeFileStateHandle(relative_path=handle.handle_name, state_size=len(handle.data))

    def _name(self, file: ResolvedFile) -> str:
        """Return the file's own name; a number behind it where the target has that name."""
        base = file.location.name if file.is_whole_file else f"{file.location.name}-{file.start}"
        name, number = base, 1
        while name in self._names or name in _OURS:
            number += 1
            name = f"{base}-{number}"
        self._names.add(name)
        return name

    def bring(self, target: Target) -> None:
        """Put all files into the target."""
        for taken in self.files.values():
            self._bring(taken, target)
        for name, data in self.new_files.items():
            with target.create(name) as file:
                file.write(data)

    def _bring(self, taken: TakenFile, target: Target) -> None:
        file = taken.file
        if file.is_whole_file and target.take(file, taken.name, shared=self.mode is FilesMode.LINK):
            return
        with target.create(taken.name) as new:
            if new.copy(file, file.start, file.size_bytes):
                return
            with taken.location.open_stream(taken.source) as stream:
                for chunk in _chunks(stream):
                    new.write(chunk)


def _referred(handle: model.StreamStateHandle, file: ResolvedFile) -> model.StreamStateHandle:
    """Return a handle with the absolute path of the file as it is now; as Flink recorded it, if it still is there."""
    recorded = handle.path
    if recorded is not None and not handle.is_relative and Location.parse(recorded) == file.location:
        return handle
    path = f"file:{file.path}" if file.is_local else file.path
    if isinstance(handle, model.SegmentFileStateHandle):
        return replace(handle, file_path=path)
    return model.FileStateHandle(file_path=path, state_size=file.size_bytes)


def _chunks(stream: Stream) -> Iterator[memoryview]:
    for start in range(0, stream.size_bytes, _CHUNK_BYTES):
        yield memoryview(stream.view(start, min(_CHUNK_BYTES, stream.size_bytes - start)))
