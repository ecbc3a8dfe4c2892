"""The location of a savepoint: its `_metadata`, and the files that its handles name.

    SavepointLocation   finds `_metadata` and the file of every handle; allows no path outside the roots
    ResolvedFile        the file of a handle, and the range of its bytes there
    KnownFiles          files of a savepoint on this machine, and whether they are still what they were
    file_identity       the physical bytes behind a handle

`readers.storage.paths` decides which files the location may open.

To find the files of a state again follows every path that `_metadata` records, with all rules. A state of RocksDB has dozens of files,
and a query asks for them before it trusts what was decoded from them. What decided on the places of the files is remembered in
`KnownFiles`: if none of it has changed, they would be found where they were, and one look at each file tells whether it has changed.

Incremental checkpoints share files of state, and a savepoint that was copied with hard links shares all. Handles whose
`file_identity` is equal have the same bytes; the identities of equal copies differ.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from readers.errors import (
    CorruptDataError,
    MissingFileError,
    NotASavepointError,
    PathOutsideRootError,
    ReaderError,
    SavepointGoneError,
    StorageError,
)
from readers.storage.filesystems import (
    URL,
    BufferStream,
    FileIdentity,
    FileSystem,
    LocalFileSystem,
    Location,
    ReadCounter,
    Stream,
    storage_errors,
)
from readers.storage.paths import PathRules, check_recorded, outside_roots
from readers.storage.remote import Client, FetchedRanges, RemoteFileSystem, RemoteStream
from readers.storage.schemes import credential_variables
from readers.storage.temporary import FileCache

if TYPE_CHECKING:
    from pyarrow import fs

    from readers.metadata.model import StreamStateHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFiles:
    """Files as they were found, and what decided on their places.

    Attributes:
        folders: each folder by which a file was found, and where it led.
        absent: folders in which files were looked for first; nothing had that name.
        files: the canonical path of each file, and its size and time.
    """

    folders: tuple[tuple[str, str], ...]
    absent: tuple[str, ...]
    files: tuple[tuple[str, FileIdentity], ...]

    def are_unchanged(self) -> bool:
        """Return whether all files are where and what they were; a file that cannot be looked at is not."""
        try:
            return (
                all(os.path.realpath(folder) == real for folder, real in self.folders)
                and not any(map(os.path.lexists, self.absent))
                and all(_is_file(path, identity) for path, identity in self.files)
            )
        except OSError:
            return False


def _is_file(path: str, identity: FileIdentity) -> bool:
    """Return whether a path is that of a file, and of no link to one, with this size and time."""
    status = os.lstat(path)
    return (
        status.st_size == identity.size_bytes
        and status.st_mtime_ns == identity.mtime_ns
        and stat.S_ISREG(status.st_mode)
    )


METADATA_FILE_NAME = "_metadata"
_COPIED_BYTES = 8 << 20
# Fetched ranges stay in memory until their stream is opened: hostile metadata may name any number of files.
_MOST_EXPECTED = 1 << 15

Ranges = tuple[tuple[int, int], ...]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFile:
    """The file of a handle inside the roots, its identity, and the range of the handle's bytes in it."""

    location: Location
    identity: FileIdentity
    start: int
    size_bytes: int

    @property
    def path(self) -> str:
        return str(self.location)

    @property
    def is_local(self) -> bool:
        return self.location.scheme == "file"

    @property
    def is_whole_file(self) -> bool:
        return self.start == 0 and self.size_bytes == self.identity.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """Options for all savepoints of a process.

    Attributes:
        allow_http: True if `http://` and `https://` locations are allowed.
        cache_directory: folder for fetched RocksDB files; empty for a folder of this user in the system's temporary folder.
        cache_bytes: limit for these files; 0 keeps no file.
        variables: environment variables, in addition to those of the process, that `credentials` of a URL may name; never shown.
    """

    allow_http: bool = False
    cache_directory: str = ""
    cache_bytes: int = 0
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def elsewhere(self, urls: Iterable[str]) -> StorageOptions:
        """Return the options for another machine: with the credentials that these URLs name, and its own cache folder."""
        found = dict(self.variables)
        for url in urls:
            found |= credential_variables(url.partition("?")[2])
        return replace(self, cache_directory="", variables=tuple(sorted(found.items())))


DEFAULT_OPTIONS = StorageOptions()


class SavepointLocation:
    """One savepoint or checkpoint and the files that it may refer to. Immutable; can be pickled.

    Args:
        path: its directory, or the `_metadata` file in it; a path or URL of this machine, or a remote URL with options
            behind a `?`: see `readers.storage.schemes`.
        roots: more directories that its handles may lead into, on this machine or in other file systems.
        path_map: recorded path prefix → the prefix to use instead; the new prefixes are allowed roots.
        counter: counts bytes read; a new one if not given.
        filesystem: a pyarrow file system for a remote path, for credentials that a URL cannot carry.
        options: see `StorageOptions`.

    Raises:
        StorageError: the scheme is unknown, or the file system fails.
        NotASavepointError: the directory does not exist, or has no `_metadata`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        roots: Iterable[str | os.PathLike[str]] = (),
        path_map: Mapping[str, str] | None = None,
        counter: ReadCounter | None = None,
        filesystem: fs.FileSystem | None = None,
        options: StorageOptions = DEFAULT_OPTIONS,
    ) -> None:
        given, query = given_location(os.fspath(path))
        self.counter = counter or ReadCounter()
        self.options = options
        self._file_systems: dict[tuple[str, str], FileSystem] = {}
        self._queries: dict[tuple[str, str], str] = {}
        self._expected: dict[StreamStateHandle, Future[FetchedRanges]] = {}
        self._found_at = 0
        self._listings: dict[Location, Mapping[str, int]] = {}
        self._failed_at: float | None = None
        if filesystem is not None:
            self._file_systems[given[:2]] = RemoteFileSystem(Client(filesystem))
        self._connect(given, query)
        self.metadata = self._find_metadata(given)
        self.exclusive_directory = self.metadata.parent
        mapped = {Location.parse(old): self._given_root(new) for old, new in (path_map or {}).items()}
        given_roots = [self._given_root(os.fspath(root)) for root in roots]
        self._paths = PathRules(
            exclusive_directory=self.exclusive_directory,
            path_map=mapped,
            given_roots=tuple(self._canonical(root) for root in (*given_roots, *mapped.values())),
        )

    def _given_root(self, text: str) -> Location:
        location, query = given_location(text)
        self._connect(location, query)
        return location

    def _connect(self, location: Location, query: str) -> None:
        """Connect to a bucket or host that the user named, never to others; its first options apply."""
        authority = location[:2]
        if authority not in self._file_systems:
            self._file_systems[authority] = file_system_of(location, query, self.options)
            self._queries[authority] = query

    def _find_metadata(self, given: Location) -> Location:
        """Return the `_metadata` file in a folder, or the given file itself."""
        system = self._system(given)
        given = system.canonical(given)
        metadata = _inside(system, given, METADATA_FILE_NAME)
        if system.is_local:
            candidates = [metadata] if system.is_directory(given) else [given]
        else:
            # No listing: credentials for a bucket often permit reads, but not listings.
            candidates = [given, metadata] if given.name == METADATA_FILE_NAME else [metadata, given]
        for candidate in candidates:
            if candidate is metadata and not metadata.is_inside(given):
                raise PathOutsideRootError(
                    "expected _metadata, found a link that leads elsewhere", path=str(given)
                )
            is_folder = system.is_local and system.is_directory(candidate)
            if not is_folder and system.identity(candidate) is not None:
                return candidate
        if metadata in candidates and system.is_local:
            raise NotASavepointError(f"expected a directory with {METADATA_FILE_NAME} in it", path=str(given))
        raise NotASavepointError("expected a savepoint, found nothing", path=str(given))

    def _canonical(self, location: Location, folders: dict[str, str] | None = None) -> Location:
        return (
            self._system(location).canonical(location, folders) if self._is_reachable(location) else location
        )

    def _is_reachable(self, location: Location) -> bool:
        """Return whether the user named the bucket or host: hosts that only `_metadata` names are never contacted."""
        return location[:2] in self._file_systems

    def _system(self, location: Location) -> FileSystem:
        return self._file_systems[location[:2]]

    def query_of(self, location: Location) -> str | None:
        """Return the options of a bucket or host, as they stand behind the `?` of its URL; None if they are not known."""
        return self._queries.get(location[:2])

    @property
    def is_local(self) -> bool:
        """True if all files that it may open are on this machine."""
        return all(system.is_local for system in self._file_systems.values())

    def url_of(self, location: Location) -> str:
        """Return a location as text, with the options of its bucket or host."""
        query = self.query_of(location)
        return f"{location}?{query}" if query else str(location)

    # --- streams ---

    def open_metadata(self) -> Stream:
        """Open the `_metadata` file."""
        location = _inside(self._system(self.metadata), self.exclusive_directory, self.metadata.name)
        identity = self._identity(location)
        return self._system(location).open(location, 0, identity.size_bytes, self.counter)

    def look_beside(self, name: str) -> None:
        """Begin to request a remote file beside `_metadata` that will be opened soon."""
        system = self._system(self.metadata)
        if isinstance(system, RemoteFileSystem):
            system.look_ahead(self.exclusive_directory / name)

    def open_beside(self, name: str, max_bytes: int) -> Stream:
        """Open a file beside `_metadata`.

        Raises:
            MissingFileError: it does not exist.
            PathOutsideRootError: it is a link that leads outside the roots.
            StorageError: it is larger than `max_bytes`, or not a file.
        """
        location = _inside(self._system(self.metadata), self.exclusive_directory, name)
        identity = self._identity(location)
        if identity.size_bytes > max_bytes:
            raise StorageError(
                f"expected at most {max_bytes} bytes, found {identity.size_bytes}", path=str(location)
            )
        return self._system(location).open(location, 0, identity.size_bytes, self.counter)

    def open_stream(self, handle: StreamStateHandle) -> Stream:
        """Open the bytes of a stream handle.

        Raises:
            MissingFileError: the file is neither at its recorded path nor where a moved savepoint has it.
            PathOutsideRootError: the path leads outside the allowed roots.
            CorruptDataError: the file is shorter than recorded.
            StorageError: a directory, missing permissions, a network fault.
        """
        inline = handle.inline_data
        if inline is not None:
            return BufferStream(handle.name, inline, self.counter)
        expected = self._expected.get(handle)
        if expected is not None:
            # A failed prefetch is no error: opening the handle again raises the error where the caller expects it.
            with suppress(ReaderError):
                fetched = expected.result()
                stream = self._open(handle)
                if isinstance(stream, RemoteStream):
                    stream.know(fetched)
                return stream
        return self._open(handle)

    def _open(self, handle: StreamStateHandle) -> Stream:
        file = self.resolve(handle)
        return self._system(file.location).open(file.location, file.start, file.size_bytes, self.counter)

    def expect(self, wanted: Iterable[tuple[StreamStateHandle, Ranges]]) -> None:
        """Begin to fetch ranges of remote streams that will be opened, of all streams at the same time.

        Errors are raised when the streams are opened.
        """
        system = next(self._remote_systems(), None)
        if system is None:
            return
        for handle, ranges in wanted:
            is_known = handle in self._expected or len(self._expected) >= _MOST_EXPECTED
            if not is_known and handle.inline_data is None and handle.path is not None:
                self._expected[handle] = system.threads.submit(self._fetch, handle, ranges)

    def _fetch(self, handle: StreamStateHandle, ranges: Ranges) -> FetchedRanges:
        stream = self._open(handle)
        return tuple((start, stream.view(start, end - start)) for start, end in ranges)

    def __getstate__(self) -> dict[str, Any]:
        # Requests under way cannot be pickled; the copy sends its own.
        return self.__dict__ | {"_expected": {}, "_listings": {}}

    def exists(self, handle: StreamStateHandle) -> bool:
        """Return whether `open_stream` would find the file: listings name missing files instead of failing."""
        if handle.path is None:
            return True
        try:
            self.resolve(handle)
        except ReaderError:
            return False
        return True

    def note_failure(self, error: ReaderError) -> None:
        """Note an error that is kept in place of what it prevented: if it may pass, that must be tried again some time."""
        if error.may_pass:
            self._failed_at = time.monotonic()

    @property
    def failed_at(self) -> float | None:
        """When something failed last for a reason that may pass, by the monotonic clock; None if nothing did."""
        times = [self._failed_at, *(system.failed_at for system in self._remote_systems())]
        return max((at for at in times if at is not None), default=None)

    def damaged(self, handles: Iterable[StreamStateHandle]) -> list[ReaderError]:
        """Return the errors of those of these handles whose file is not there, or is too short; reads no file.

        Of remote files it lists each folder once: a request lists a thousand files. Only files that no listing shows are asked for.
        """
        unlisted = [handle for handle in handles if handle.path is not None and not self._is_listed(handle)]
        return [error for error in self.each(self._error_of, unlisted) if error is not None]

    def _error_of(self, handle: StreamStateHandle) -> ReaderError | None:
        try:
            self.resolve(handle)
        except ReaderError as error:
            return error
        return None

    def _is_listed(self, handle: StreamStateHandle) -> bool:
        """Return whether a listing shows the file of a remote handle, with the bytes of the handle in it."""
        with suppress(PathOutsideRootError):
            check_recorded(handle.path or "")
            for _, location in self._ordered(handle.path or "", relative=handle.is_relative):
                if self._is_reachable(location) and self._paths.allows(location):
                    size_bytes = self._listed_sizes(location.parent).get(location.name)
                    if size_bytes is not None:
                        return sum(handle.range_in_file(size_bytes)) <= size_bytes
        return False

    def _listed_sizes(self, folder: Location) -> Mapping[str, int]:
        """Return name → size of the files in a remote folder; empty where it cannot be listed."""
        system = self._system(folder)
        if folder not in self._listings:
            self._listings[folder] = {}
            if isinstance(system, RemoteFileSystem):
                with suppress(ReaderError):
                    self._listings[folder] = {
                        entry.names[0]: entry.size_bytes
                        for entry in system.below(folder, recursive=False)
                        if not entry.is_folder
                    }
        return self._listings[folder]

    def identity(self, location: Location | str) -> FileIdentity:
        """Return size and time of a file inside the roots.

        Raises:
            MissingFileError: it does not exist.
            PathOutsideRootError: it is outside the roots.
        """
        if isinstance(location, str):
            location = Location.parse(location)
        return self._identity(self._canonical(location))

    def _identity(self, location: Location) -> FileIdentity:
        """Return what `identity` does, of a canonical location."""
        if not self._is_reachable(location) or not self._paths.allows(location):
            raise outside_roots(str(location))
        identity = self._system(location).identity(location)
        if identity is None:
            raise MissingFileError("expected a file, found nothing", path=str(location))
        return identity

    def materialize(
        self, files: Iterable[tuple[str, StreamStateHandle]], directory: str | os.PathLike[str]
    ) -> None:
        """Rebuild a directory for RocksDB: links to whole local files, copies of all others.

        Args:
            files: name in the directory, and handle.
            directory: an existing directory without files of these names.

        Raises:
            CorruptDataError: a name would lead out of the directory.
        """
        for local_name, handle in files:
            if local_name in {"", ".", ".."} or "/" in local_name or "\0" in local_name:
                raise CorruptDataError(f"expected a file name, found {local_name!r}", path=handle.path)
            target = Path(directory, local_name)
            link = self.link_of(handle)
            with storage_errors(str(target)):
                if link is not None:
                    target.symlink_to(link)
                else:
                    self.bring(handle, target)

    def bring(self, handle: StreamStateHandle, target: Path) -> None:
        """Copy a handle's bytes to a new local file, or link the file to a cached copy."""
        with self.open_stream(handle) as stream:
            if not stream.is_remote or not self.options.cache_bytes:
                _copy(stream, target)
                return
            file = self.resolve(handle)
            identity = "\n".join(map(str, (file.location, *file.identity, file.start, file.size_bytes)))
            self.cache.fetch(identity, file.size_bytes, lambda path: _copy(stream, path), target)

    @cached_property
    def cache(self) -> FileCache:
        """Cache of fetched files."""
        with storage_errors(self.options.cache_directory):
            return FileCache(self.options.cache_directory, self.options.cache_bytes)

    def is_remote(self, handles: Iterable[StreamStateHandle]) -> bool:
        """Return whether files of these handles may have to be fetched.

        Raises:
            ReaderError: see `open_stream`.
        """
        if not self._system(self.metadata).is_local or next(self._remote_systems(), None) is None:
            return not self._system(self.metadata).is_local
        return any(handle.path is not None and not self.resolve(handle).is_local for handle in handles)

    def each(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        """Apply a function that reads remote files to many items at the same time; return the results in order.

        The function must not use the threads of the file system itself: `Stream.view` does not, `Stream.span` does.
        """
        system = next(self._remote_systems(), None)
        return list(map(function, items) if system is None else system.threads.map(function, items))

    def _remote_systems(self) -> Iterator[RemoteFileSystem]:
        return (system for system in self._file_systems.values() if isinstance(system, RemoteFileSystem))

    def link_of(self, handle: StreamStateHandle) -> str | None:
        """Return the path of a local file that holds exactly these bytes; None if there is none.

        Raises:
            ReaderError: see `open_stream`.
        """
        if handle.path is None:
            return None
        file = self.resolve(handle)
        return file.location.path if file.is_local and file.is_whole_file else None

    # --- paths ---

    def resolve(self, handle: StreamStateHandle) -> ResolvedFile:
        """Find the file of a handle; for errors see `open_stream`. Remote: one request per place that `readers.storage.paths` names."""
        return self._resolved(handle, None)

    def resolve_all(self, handles: Iterable[StreamStateHandle]) -> list[ResolvedFile]:
        """Find the files of handles as they are now; each local folder is looked at once, each file for itself."""
        folders: dict[str, str] = {}
        return self.each(lambda handle: self._resolved(handle, folders), handles)

    def known_files(
        self, metadata: FileIdentity, found: Iterable[tuple[StreamStateHandle, ResolvedFile]]
    ) -> KnownFiles | None:
        """Return what tells later whether files are unchanged since they were found.

        Args:
            metadata: the identity of `_metadata` when they were found.
            found: handles of files, and their files.

        Returns:
            None where only a new search tells: a file is remote, or a link, or was looked for in a folder that is there without it.
        """
        if not self.is_local:
            return None
        folders = {self.exclusive_directory.path: self.exclusive_directory.path}
        absent: set[str] = set()
        files = {self.metadata.path: metadata}
        for handle, file in found:
            for _, candidate in self._ordered(handle.path or "", relative=handle.is_relative):
                folder, name = os.path.split(candidate.path)
                if not self._is_reachable(candidate):
                    continue
                if folder not in folders and folder not in absent:
                    if os.path.lexists(folder):
                        folders[folder] = os.path.realpath(folder)
                    else:
                        absent.add(folder)
                if folder in folders:
                    if os.path.join(folders[folder], name) != file.location.path:
                        return None
                    break
            if files.setdefault(file.location.path, file.identity) != file.identity:
                return None
        return KnownFiles(folders=tuple(folders.items()), absent=tuple(absent), files=tuple(files.items()))

    def _resolved(self, handle: StreamStateHandle, folders: dict[str, str] | None) -> ResolvedFile:
        location, identity = self._find(handle, folders)
        start, size_bytes = handle.range_in_file(identity.size_bytes)
        if start + size_bytes > identity.size_bytes:
            raise CorruptDataError(
                f"expected {size_bytes} bytes from {start} on, found a file of {identity.size_bytes} bytes",
                path=str(location),
                position=start,
            )
        return ResolvedFile(location=location, identity=identity, start=start, size_bytes=size_bytes)

    def _find(
        self, handle: StreamStateHandle, folders: dict[str, str] | None
    ) -> tuple[Location, FileIdentity]:
        recorded = handle.path
        if recorded is None:
            raise MissingFileError("expected a handle of a file, found one without", path=handle.name)
        check_recorded(recorded)
        escaped = False
        for number, candidate in self._ordered(recorded, relative=handle.is_relative):
            if not self._is_reachable(candidate):
                continue
            location = self._canonical(candidate, folders)
            if not self._paths.allows(location):
                # The first place is usually outside: a moved savepoint names the path where it was written.
                escaped = escaped or self._exists_locally(location)
                continue
            identity = self._system(location).identity(location)
            if identity is not None:
                # A relative path has one candidate, so its number means nothing for absolute paths.
                self._found_at = self._found_at if handle.is_relative else number
                return location, identity
        if escaped:
            raise outside_roots(recorded)
        if not self._system(self.metadata).is_there(self.metadata):
            raise SavepointGoneError("expected the file, found the whole savepoint deleted", path=recorded)
        raise MissingFileError(
            f"a file is missing: expected it there, or moved along to {str(self.exclusive_directory)!r}, found neither",
            path=recorded,
        )

    def _ordered(self, recorded: str, *, relative: bool) -> Iterable[tuple[int, Location]]:
        """Return numbered candidates; in a remote savepoint the place of the last file found comes first.

        The files of a savepoint move together, and each candidate costs a request.
        """
        # Made as they are needed: a local file is mostly at the first.
        candidates = enumerate(self._paths.candidates(recorded, relative=relative))
        if self._system(self.metadata).is_local:
            return candidates
        return sorted(candidates, key=lambda candidate: candidate[0] != self._found_at)

    def _exists_locally(self, location: Location) -> bool:
        return self._is_reachable(location) and location.scheme == "file" and os.path.lexists(location.path)


def given_location(text: str) -> tuple[Location, str]:
    """Parse a location from the user: a path, relative to the working directory, or a URL with options behind a `?`.

    Raises:
        StorageError: it is no location.
    """
    match = URL.fullmatch(text)
    if match is None:
        return Location.parse(os.path.abspath(text)), ""
    location = Location.parse(text)
    if location.scheme == "file":
        if location.authority:
            raise StorageError(f"expected file:/path, found the host {location.authority!r}", path=text)
        return location, ""
    bare, _, options = text.partition("?")
    return Location.parse(bare), options


def file_system_of(location: Location, query: str, options: StorageOptions) -> FileSystem:
    """Return the file system of a location.

    Raises:
        StorageError: unknown scheme or options.
    """
    if location.scheme == "file":
        return LocalFileSystem()
    return RemoteFileSystem.of(location, query, options.allow_http, options.variables)


def _inside(system: FileSystem, folder: Location, name: str) -> Location:
    """Follow the links of a name in a canonical folder: the folders above are not looked at again."""
    return system.canonical(folder / name, {folder.path: folder.path})


def _copy(stream: Stream, target: Path) -> None:
    with storage_errors(str(target)), target.open("wb") as copy:
        for start in range(0, stream.size_bytes, _COPIED_BYTES):
            copy.write(stream.view(start, min(_COPIED_BYTES, stream.size_bytes - start)))


def file_identity(location: SavepointLocation, handle: StreamStateHandle) -> Hashable:
    """Return what identifies the bytes of a handle: bytes in `_metadata` are themselves; others have a file and a range of it.

    A local file is its inode, its size and its time, so links to it are the same file. A remote one is its bucket, its name, its size
    and its version: of the ETag and the time.

    Raises:
        ReaderError: the file is missing; see `SavepointLocation.open_stream`.
    """
    if handle.inline_data is not None:
        return handle.inline_data
    file = location.resolve(handle)
    if not file.is_local:
        return (location.url_of(file.location), file.identity, file.start, file.size_bytes)
    with storage_errors(file.path):
        status = os.stat(file.location.path)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, file.start, file.size_bytes)
