"""Finds savepoints and checkpoints under a root.

A root is a savepoint itself, or a folder that holds some at any depth. A savepoint is a folder with a `_metadata` file, or a
single file `savepoint-<random>` of Flink 1.2, which begins as `_metadata` does. The search enters neither savepoints nor the
data folders of checkpoints (`shared`, `taskowned`, `dstl`).

In each folder the search opens at most `_MAX_PROBES` files, first those with "savepoint" in their names; of remote files only
these, for each is a request.

Remote folders of one depth are listed at the same time. A folder with many savepoints and no data folder is listed with all
files below it: a request lists a thousand files, which is fewer requests than one for each savepoint.
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
# From so many savepoints in a folder on, one listing of all files below it takes fewer requests than one for each.
_MANY = 8
_NOTHING = "expected a savepoint or a folder of savepoints, found nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredSavepoint:
    """A directory with a `_metadata` file, or a file that is a savepoint.

    Attributes:
        path: begins with the root as it was given.
        relative: the folders from the root to it, and the name of a file; empty if it is the root.
        modified_ns: when `_metadata` was modified, since 1970; 0 where the file system does not say.
    """

    path: str
    relative: tuple[str, ...]
    modified_ns: int


def find_savepoints(root: str, options: StorageOptions = DEFAULT_OPTIONS) -> Iterator[DiscoveredSavepoint]:
    """Yield all savepoints under `root`, in the order of their paths.

    Raises:
        NotASavepointError: the root does not exist.
        AccessDeniedError: a remote folder may not be listed; the folder of a savepoint is not listed.
        StorageError: the file system fails.
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
    # Listings come in any order, and names of databases must not depend on it.
    for relative in sorted(found, key=lambda names: [_natural(name) for name in names]):
        path = "/".join((bare.rstrip("/"), *relative)) if relative else bare
        yield DiscoveredSavepoint(
            path=f"{path}?{query}" if query else path, relative=relative, modified_ns=found[relative]
        )


def modified_at(path: str, options: StorageOptions = DEFAULT_OPTIONS) -> int:
    """Return when a savepoint was modified, since 1970; needs no request if it is open; 0 if that is not known."""
    location, query = given_location(path)
    system = file_system_of(location, query, options)
    if not isinstance(system, RemoteFileSystem):
        return _modified_ns(location)
    metadata = location if location.name == METADATA_FILE_NAME else location / METADATA_FILE_NAME
    return system.modified_ns(metadata)


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
    """Yield (folders to a savepoint, when it was modified), depth by depth; lists the folders of a depth at the same time."""
    level: list[tuple[str, ...]] = [()]
    for _ in range(_MAX_DEPTH + 1):
        listings = system.threads.map(lambda names: _look(system, _folder(root, names)), level)
        following: list[tuple[str, ...]] = []
        for relative, (folders, found) in zip(level, listings, strict=True):
            yield from ((relative + names, modified_ns) for names, modified_ns in found)
            following += ((*relative, name) for name in folders)
        level = following


def _single_files(system: FileSystem, folder: Location, listing: Listing) -> Iterator[str]:
    """Yield the names of the files that are savepoints."""
    files = {name: "savepoint" in name.casefold() for name in sorted(listing.files)}
    named = [name for name, is_named in files.items() if is_named]
    others = [name for name, is_named in files.items() if not is_named] if system.is_local else []
    # A root may be a folder of anything, with a million files: to open them all would take minutes.
    for name in (*named, *others)[:_MAX_PROBES]:
        if _begins_as_metadata(system, folder / name):
            yield name


def _begins_as_metadata(system: FileSystem, file: Location) -> bool:
    """Return whether a file can be read and has the magic number; does not open links, which may lead out of the root."""
    try:
        with system.open(file, 0, len(_MAGIC), ReadCounter()) as stream:
            return bytes(stream.view(0, len(_MAGIC)).data) == _MAGIC
    except ReaderError:
        return False


def _folder(root: Location, names: tuple[str, ...]) -> Location:
    return root / "/".join(names) if names else root


def _look(system: RemoteFileSystem, folder: Location) -> tuple[list[str], list[tuple[tuple[str, ...], int]]]:
    """Return the folders to enter, and (relative folders, time) of the savepoints that the listing of `folder` shows."""
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
    """Return (folders to it, when it was modified) of each `_metadata` file."""
    return [
        (entry.names[:-1], entry.modified_ns)
        for entry in entries
        if entry.names[-1] == METADATA_FILE_NAME and not entry.is_folder
    ]


def _modified_ns(savepoint: Location) -> int:
    """Return when a savepoint was modified: the file if it is one, else its `_metadata`."""
    metadata = savepoint if os.path.isfile(savepoint.path) else savepoint / METADATA_FILE_NAME
    try:
        return os.stat(metadata.path).st_mtime_ns
    except OSError:
        return 0


def _is_folder(system: RemoteFileSystem, location: Location) -> bool:
    """Return whether a folder exists."""
    # An object store knows a folder only by the files in it, but a bucket may be empty.
    return location.path == "/" or system.is_directory(location)


def _is_savepoint_name(name: str) -> bool:
    return fnmatch.fnmatchcase(name, "chk-*") or fnmatch.fnmatchcase(name, "savepoint-*")


def _natural(name: str) -> tuple[str, int]:
    """Return a key that sorts `chk-9` before `chk-10`."""
    if fnmatch.fnmatchcase(name, "chk-*") and name[4:].isdigit():
        return "chk-", int(name[4:])
    return name, 0
