"""The files of a new savepoint: which of the source's it takes, how, and under which names.

A new savepoint holds all of its files, so it can be moved, and outlives its source (`LINK`, `COPY`). `REFERENCE` leaves the
files where they are: with claim mode CLAIM, Flink deletes them once it needs them no more, and the source is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from readers import METADATA_FILE_NAME, Location, ResolvedFile, SavepointLocation, Stream
from readers import metadata as model
from writers.edits import NewBytes
from writers.metadata.leaves import with_leaves
from writers.target import UNFINISHED, Target

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
        file: where these bytes are.
    """

    name: str
    source: model.StreamStateHandle
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
        file = self.location.resolve(handle)
        if self.mode is FilesMode.REFERENCE:
            self.folders.add(self.location.url_of(file.location.parent))
            return _referred(handle, file)
        key = (file.location, file.start, file.size_bytes)
        taken = self.files.get(key)
        if taken is None:
            taken = TakenFile(self._name(file), handle, file)
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
            with self.location.open_stream(taken.source) as stream:
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
