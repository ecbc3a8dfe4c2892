"""Where the bytes of a savepoint are, and how they are opened.

    SavepointLocation   finds `_metadata` and every file its handles name; lets no path out of the allowed
    roots
    ResolvedFile        where a handle's bytes are: a file, and the part of it that is meant
    Stream              the bytes of a handle, from `readers.filesystems`

A path in `_metadata` was right where Flink wrote it, and savepoints get moved. It is looked for, in this
order:

| where | for |
|---|---|
| the path itself, after `path_map` | savepoints that were not moved |
| `<exclusive directory>/<file name>` | savepoints (up to 1.10 with absolute paths of such files) |
| `<job directory>/<tail>` | checkpoints: the tail begins at `shared/`, `taskowned/`, `chk-*/` or `dstl/` |
| `<beside the job directory>/dstl/…` | changelogs, which have a base directory of their own |

The exclusive directory is the one that holds `_metadata`, the job directory its parent. Only a directory
named `chk-*` has a job directory: around a savepoint nothing is allowed but the savepoint, unless the user
names more roots. Of the job directory the folders in the table are allowed, not all of it.

`_metadata` is untrusted input: paths with `..` or NUL, web addresses, and links that lead out of the roots
are refused. Flink: AbstractFsCheckpointStorageAccess, RelativeFileStateHandle, org.apache.flink.core.fs.Path.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from readers.errors import (
    CorruptDataError,
    MissingFileError,
    NotASavepointError,
    PathOutsideRootError,
    ReaderError,
    StorageError,
)
from readers.filesystems import (
    URL,
    BufferStream,
    FileIdentity,
    FileSystem,
    LocalFileSystem,
    Location,
    ReadCounter,
    RemoteFileSystem,
    Stream,
    storage_errors,
)

if TYPE_CHECKING:
    from pyarrow import fs

    from readers.metadata.model import StreamStateHandle

__all__ = [
    "BufferStream",
    "FileIdentity",
    "Location",
    "ReadCounter",
    "ResolvedFile",
    "SavepointLocation",
    "Stream",
]

METADATA_FILE_NAME = "_metadata"
CHECKPOINT_DIRECTORY = "chk-*"
CHANGELOG_DIRECTORY = "dstl"

_JOB_DIRECTORY_TAILS = ("shared", "taskowned", CHANGELOG_DIRECTORY, CHECKPOINT_DIRECTORY)
# `dstl/<job>/dstl/<file>` is the longest tail that Flink writes; a hostile path may have 30000 folders.
_MAX_TAIL_NAMES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFile:
    """Where a handle's bytes are: a file inside the roots, its identity, and the part of it that is meant."""

    location: Location
    identity: FileIdentity
    start: int
    size_bytes: int

    @property
    def path(self) -> str:
        return str(self.location)

    @property
    def is_whole_file(self) -> bool:
        return self.start == 0 and self.size_bytes == self.identity.size_bytes


class SavepointLocation:
    """One savepoint or checkpoint and the files it may refer to. Immutable, and pickles.

    Args:
        path: its directory, or the `_metadata` file in it; a path or a URL of this machine, or a remote URL
            (`s3 s3a s3p gs gcs abfs abfss hdfs`), with pyarrow's options behind a `?`.
        roots: more directories that its handles may lead into.
        path_map: recorded path prefixes and what stands there now; the new places are allowed roots.
        counter: counts the bytes read; its own if not given.
        filesystem: a pyarrow file system to use for a remote path, for credentials that a URL cannot carry.

    Raises:
        StorageError: the scheme is unknown, or the file system fails.
        NotASavepointError: there is no such directory, or no `_metadata` in it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        roots: Iterable[str | os.PathLike[str]] = (),
        path_map: Mapping[str, str] | None = None,
        counter: ReadCounter | None = None,
        filesystem: fs.FileSystem | None = None,
    ) -> None:
        given, options = _given_location(os.fspath(path))
        self.counter = counter or ReadCounter()
        self._file_system: FileSystem = LocalFileSystem()
        if filesystem is not None:
            self._file_system = RemoteFileSystem(filesystem, with_authority=given.scheme != "hdfs")
        elif given.scheme != "file":
            self._file_system = RemoteFileSystem.of(given, options)
        self.metadata = self._find_metadata(self._file_system.canonical(given))
        self.exclusive_directory = self.metadata.parent
        self._path_map = {
            Location.parse(old): _given_location(new)[0] for old, new in (path_map or {}).items()
        }
        given_roots = [_given_location(os.fspath(root))[0] for root in roots]
        self.roots = (
            *self._default_roots(),
            *(self._canonical(root) for root in (*given_roots, *self._path_map.values())),
        )

    def _find_metadata(self, given: Location) -> Location:
        if not self._file_system.is_directory(given):
            if self._file_system.identity(given) is None:
                raise NotASavepointError("expected a savepoint, found nothing", path=str(given))
            return given
        metadata = self._file_system.canonical(given / METADATA_FILE_NAME)
        if not metadata.is_inside(given):
            raise PathOutsideRootError(
                "expected _metadata, found a link that leads elsewhere", path=str(given)
            )
        if self._file_system.is_directory(metadata) or self._file_system.identity(metadata) is None:
            raise NotASavepointError(f"expected a directory with {METADATA_FILE_NAME} in it", path=str(given))
        return metadata

    @property
    def _is_checkpoint(self) -> bool:
        return fnmatch.fnmatchcase(self.exclusive_directory.name, CHECKPOINT_DIRECTORY)

    def _default_roots(self) -> Iterator[Location]:
        """Links are not followed here: a link called `dstl` would make a root of its target."""
        yield self.exclusive_directory
        if self._is_checkpoint:
            yield self.exclusive_directory.parent.parent / CHANGELOG_DIRECTORY

    def _is_allowed(self, location: Location) -> bool:
        """Inside a root, or in one of the folders that Flink makes in a job directory."""
        if any(location.is_inside(root) for root in self.roots):
            return True
        job_directory = self.exclusive_directory.parent
        if not self._is_checkpoint or not location.is_inside(job_directory):
            return False
        return _begins_tail(posixpath.relpath(location.path, job_directory.path).partition("/")[0])

    def _canonical(self, location: Location) -> Location:
        return self._file_system.canonical(location) if self._is_reachable(location) else location

    def _is_reachable(self, location: Location) -> bool:
        """Whether our one file system serves it: no host is contacted because `_metadata` names it."""
        here = self.metadata
        return location.scheme == here.scheme and location.authority == here.authority

    # --- streams ---

    def open_metadata(self) -> Stream:
        """The `_metadata` file."""
        identity = self.identity(self.metadata)
        return self._file_system.open(self.metadata, 0, identity.size_bytes, self.counter)

    def open_beside(self, name: str, max_bytes: int) -> Stream:
        """A file beside `_metadata`.

        Raises:
            MissingFileError: it is not there.
            PathOutsideRootError: it is a link that leads elsewhere.
            StorageError: it is larger than `max_bytes`, or no file.
        """
        location = self._canonical(self.exclusive_directory / name)
        identity = self.identity(location)
        if identity.size_bytes > max_bytes:
            raise StorageError(
                f"expected at most {max_bytes} bytes, found {identity.size_bytes}", path=str(location)
            )
        return self._file_system.open(location, 0, identity.size_bytes, self.counter)

    def open_stream(self, handle: StreamStateHandle) -> Stream:
        """The bytes of a stream handle.

        Raises:
            MissingFileError: neither where it is recorded nor where a moved savepoint has it.
            PathOutsideRootError: the path leads out of the allowed roots.
            CorruptDataError: the file is shorter than recorded.
            StorageError: a directory, permissions, the network.
        """
        inline = handle.inline_data
        if inline is not None:
            return BufferStream(handle.name, inline, self.counter)
        file = self.resolve(handle)
        return self._file_system.open(file.location, file.start, file.size_bytes, self.counter)

    def exists(self, handle: StreamStateHandle) -> bool:
        """Whether `open_stream` would find it: for listings, which name what is missing rather than fail."""
        if handle.path is None:
            return True
        try:
            self.resolve(handle)
        except ReaderError:
            return False
        return True

    def identity(self, location: Location | str) -> FileIdentity:
        """Size and time of change of a file inside the roots.

        Raises:
            MissingFileError: it is not there.
            PathOutsideRootError: it is outside.
        """
        if isinstance(location, str):
            location = Location.parse(location)
        location = self._canonical(location)
        if not self._is_allowed(location):
            raise _outside(str(location))
        identity = self._file_system.identity(location)
        if identity is None:
            raise MissingFileError("expected a file, found nothing", path=str(location))
        return identity

    def materialize(
        self, files: Iterable[tuple[str, StreamStateHandle]], directory: str | os.PathLike[str]
    ) -> None:
        """Rebuild a directory as RocksDB needs it: links to whole local files, copies of all others.

        Args:
            files: name in the directory, and handle.
            directory: exists, and has none of the names.

        Raises:
            CorruptDataError: a name is not that of a file in the directory.
        """
        for local_name, handle in files:
            if local_name in {"", ".", ".."} or "/" in local_name or "\0" in local_name:
                raise CorruptDataError(f"expected a file name, found {local_name!r}", path=handle.path)
            target = Path(directory, local_name)
            link = self._link_of(handle)
            with storage_errors(str(target)):
                if link is not None:
                    target.symlink_to(link)
                else:
                    with self.open_stream(handle) as stream, target.open("xb") as copy:
                        copy.write(stream.view(0, stream.size_bytes))

    def _link_of(self, handle: StreamStateHandle) -> str | None:
        if handle.path is None or not self._file_system.is_local:
            return None
        file = self.resolve(handle)
        return file.location.path if file.is_whole_file else None

    # --- paths ---

    def resolve(self, handle: StreamStateHandle) -> ResolvedFile:
        """The file of a handle; for errors see `open_stream`. Remote: a request for each place looked at."""
        location, identity = self._find(handle)
        start, size_bytes = handle.range_in_file(identity.size_bytes)
        if start + size_bytes > identity.size_bytes:
            raise CorruptDataError(
                f"expected {size_bytes} bytes from {start} on, found a file of {identity.size_bytes} bytes",
                path=str(location),
                position=start,
            )
        return ResolvedFile(location=location, identity=identity, start=start, size_bytes=size_bytes)

    def _find(self, handle: StreamStateHandle) -> tuple[Location, FileIdentity]:
        recorded = handle.path
        if recorded is None:
            raise MissingFileError("expected a handle of a file, found one without", path=handle.name)
        _check_recorded(recorded)
        escaped = False
        for candidate in self._candidates(recorded, relative=handle.is_relative):
            if not self._is_reachable(candidate):
                continue
            location = self._canonical(candidate)
            if not self._is_allowed(location):
                escaped = escaped or self._exists_locally(location)
                continue
            identity = self._file_system.identity(location)
            if identity is not None:
                return location, identity
        if escaped:
            raise _outside(recorded)
        raise MissingFileError(
            f"expected the file there, or moved along to {self.exclusive_directory}, found neither",
            path=recorded,
        )

    def _candidates(self, recorded: str, *, relative: bool) -> Iterator[Location]:
        """The places of the module's table, best first."""
        if relative:
            yield self.exclusive_directory / recorded
            return
        original = self._mapped(Location.parse(recorded))
        yield original
        yield self.exclusive_directory / original.name
        if not self._is_checkpoint:
            return
        job_directory = self.exclusive_directory.parent
        names = original.path.split("/")[1:]
        for index in range(len(names) - 2, max(len(names) - 1 - _MAX_TAIL_NAMES, -1), -1):
            if _begins_tail(names[index]):
                yield job_directory / "/".join(names[index:])
            if names[index] == CHANGELOG_DIRECTORY:
                yield job_directory.parent / "/".join(names[index:])

    def _mapped(self, recorded: Location) -> Location:
        """With the longest prefix of `path_map` that fits replaced."""
        fitting = [old for old in self._path_map if recorded.is_inside(old)]
        if not fitting:
            return recorded
        old = max(fitting, key=lambda location: len(location.path))
        return self._path_map[old] / posixpath.relpath(recorded.path, old.path)

    def _exists_locally(self, location: Location) -> bool:
        return self._file_system.is_local and os.path.lexists(location.path)


def _given_location(text: str) -> tuple[Location, str]:
    """A path from the user, relative to the working directory; remote ones may have options behind a `?`."""
    match = URL.fullmatch(text)
    if match is None:
        return Location("file", "", os.path.abspath(text)), ""
    location = Location.parse(text)
    if location.scheme == "file":
        if location.authority:
            raise StorageError(f"expected file:/path, found the host {location.authority!r}", path=text)
        return location, ""
    bare, _, options = text.partition("?")
    return Location.parse(bare), options


def _begins_tail(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, tail) for tail in _JOB_DIRECTORY_TAILS)


def _check_recorded(recorded: str) -> None:
    """Refuse what no Flink writes.

    Raises:
        PathOutsideRootError: a parent folder, a NUL byte, a web address, or no file at all.
    """
    is_web_address = recorded.partition(":")[0].lower() in {"http", "https"}
    if is_web_address or "\0" in recorded or ".." in recorded.split("/") or not recorded.strip("/"):
        raise _outside(recorded)


def _outside(path: str) -> PathOutsideRootError:
    return PathOutsideRootError(
        "expected a file of this savepoint, found a path that leads outside the allowed roots", path=path
    )
