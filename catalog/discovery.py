"""Finds savepoints and checkpoints under a root.

A root is a savepoint itself, or a folder that holds some at any depth: what has a `_metadata` file, and the
single files `savepoint-<random>` of Flink 1.2, which begin as `_metadata` does. The data folders of
checkpoints (`shared`, `taskowned`, `dstl`) are not looked into, nor is what is inside a savepoint.

Of the files of a folder at most `_MAX_PROBES` are opened, those with "savepoint" in their names first; far away
only these are, for each is a request.

Where listing a folder is a request, folders are listed side by side; and many savepoints beside each other at once, with all
their files, where no data folder is among them: a request a thousand files is less than one a savepoint.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from dataclasses import dataclass

from readers import (
    DEFAULT_OPTIONS,
    MAGIC,
    METADATA_FILE_NAME,
    FileSystem,
    Listing,
    Location,
    MissingFileError,
    NotASavepointError,
    ReadCounter,
    ReaderError,
    RemoteEntry,
    RemoteFileSystem,
    StorageOptions,
    file_system_of,
    given_location,
)

_DATA_FOLDERS = frozenset({"shared", "taskowned", "dstl"})
_MAX_DEPTH = 6
_MAX_PROBES = 64
_MAGIC = MAGIC.to_bytes(4, "big")
# So many savepoints beside each other are listed at once.
_MANY = 8
_NOTHING = "expected a savepoint or a folder of savepoints, found nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredSavepoint:
    """A directory with a `_metadata` file, or a file that is a savepoint.

    Attributes:
        path: as given, or below the root as given.
        relative: the folders from the root to it, and the name of a file; empty if it is the root.
        modified_ns: when `_metadata` was modified, since 1970; 0 where the file system does not tell.
    """

    path: str
    relative: tuple[str, ...]
    modified_ns: int


def find_savepoints(root: str, options: StorageOptions = DEFAULT_OPTIONS) -> Iterator[DiscoveredSavepoint]:
    """All savepoints under `root`, in the order of their paths.

    Raises:
        NotASavepointError: a root that is not there.
        AccessDeniedError: a remote folder that may not be listed; a savepoint need not be.
        StorageError: as the file system does.
    """
    location, query = given_location(root)
    system = file_system_of(location, query, options)
    bare = root.partition("?")[0] if query else root
    if isinstance(system, RemoteFileSystem):
        metadata = location if location.name == METADATA_FILE_NAME else location / METADATA_FILE_NAME
        if metadata == location or system.identity(metadata):
            yield DiscoveredSavepoint(path=root, relative=(), modified_ns=system.modified_ns(metadata))
            return
        found = dict(_below(system, location))
        if not found and not _is_folder(system, location):
            raise NotASavepointError(_NOTHING, path=str(location))
    else:
        bare = location.path if root.startswith("file:") else root
        if os.path.isfile(location.path):
            yield DiscoveredSavepoint(path=bare, relative=(), modified_ns=_modified_ns(location))
            return
        if not system.is_directory(location):
            raise NotASavepointError(_NOTHING, path=location.path)
        found = {names: _modified_ns(_folder(location, names)) for names in _walk(system, location, ())}
    for relative in sorted(found, key=lambda names: [_natural(name) for name in names]):
        path = "/".join((bare.rstrip("/"), *relative)) if relative else bare
        yield DiscoveredSavepoint(
            path=f"{path}?{query}" if query else path, relative=relative, modified_ns=found[relative]
        )


def _walk(system: FileSystem, folder: Location, relative: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    listing = system.folder(folder)
    if METADATA_FILE_NAME in listing.files:
        yield relative
        return
    yield from ((*relative, name) for name in _single_files(system, folder, listing))
    if len(relative) < _MAX_DEPTH:
        for name in listing.folders:
            if name not in _DATA_FOLDERS:
                yield from _walk(system, folder / name, (*relative, name))


def _below(system: RemoteFileSystem, root: Location) -> Iterator[tuple[tuple[str, ...], int]]:
    """Where savepoints are, and when they were modified. Level by level; the folders of a level at the same time."""
    level: list[tuple[str, ...]] = [()]
    for _ in range(_MAX_DEPTH + 1):
        listings = system.threads.map(lambda names: _look(system, _folder(root, names)), level)
        following: list[tuple[str, ...]] = []
        for relative, (folders, found) in zip(level, listings, strict=True):
            yield from ((relative + names, modified_ns) for names, modified_ns in found)
            following += ((*relative, name) for name in folders)
        level = following


def _single_files(system: FileSystem, folder: Location, listing: Listing) -> Iterator[str]:
    """The names of the files that are savepoints."""
    files = {name: "savepoint" in name.casefold() for name in sorted(listing.files)}
    named = [name for name, is_named in files.items() if is_named]
    others = [name for name, is_named in files.items() if not is_named] if system.is_local else []
    for name in (*named, *others)[:_MAX_PROBES]:
        if _begins_as_metadata(system, folder / name):
            yield name


def _begins_as_metadata(system: FileSystem, file: Location) -> bool:
    """Whether a file can be read and has the magic number; links, which may lead elsewhere, are not opened."""
    try:
        with system.open(file, 0, len(_MAGIC), ReadCounter()) as stream:
            return bytes(stream.view(0, len(_MAGIC)).data) == _MAGIC
    except ReaderError:
        return False


def _folder(root: Location, names: tuple[str, ...]) -> Location:
    return root / "/".join(names) if names else root


def _look(system: RemoteFileSystem, folder: Location) -> tuple[list[str], list[tuple[tuple[str, ...], int]]]:
    """The folders that remain to be looked into; and the savepoints found: the folder, or those below if it has many and nothing else."""
    try:
        entries = system.below(folder, recursive=False)
    except MissingFileError:
        return [], []
    own = _savepoints(entries)
    if own:
        return [], own
    folders = [entry.names[0] for entry in entries if entry.is_folder]
    files = {entry.names[0]: entry.modified_ns for entry in entries if not entry.is_folder}
    listing = Listing(folders=tuple(folders), files=tuple(files))
    single: list[tuple[tuple[str, ...], int]] = [
        ((name,), files[name]) for name in _single_files(system, folder, listing)
    ]
    if len(folders) >= _MANY and all(map(_is_savepoint_name, folders)):
        below = _savepoints(system.below(folder, recursive=True))
        if below:
            return [], single + below
    return [name for name in folders if name not in _DATA_FOLDERS], single


def _savepoints(entries: list[RemoteEntry]) -> list[tuple[tuple[str, ...], int]]:
    """Where `_metadata` files are, and when they were modified."""
    return [
        (entry.names[:-1], entry.modified_ns)
        for entry in entries
        if entry.names[-1] == METADATA_FILE_NAME and not entry.is_folder
    ]


def _modified_ns(place: Location) -> int:
    """When a savepoint was modified: itself if it is a file, else its `_metadata`."""
    metadata = place if os.path.isfile(place.path) else place / METADATA_FILE_NAME
    try:
        return os.stat(metadata.path).st_mtime_ns
    except OSError:
        return 0


def _is_folder(system: RemoteFileSystem, location: Location) -> bool:
    """A bucket may be empty; any other folder of an object store is there for what is in it."""
    return location.path == "/" or system.is_directory(location)


def _is_savepoint_name(name: str) -> bool:
    return fnmatch.fnmatchcase(name, "chk-*") or fnmatch.fnmatchcase(name, "savepoint-*")


def _natural(name: str) -> tuple[str, int]:
    """`chk-9` before `chk-10`."""
    if fnmatch.fnmatchcase(name, "chk-*") and name[4:].isdigit():
        return "chk-", int(name[4:])
    return name, 0
