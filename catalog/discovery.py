"""Finds savepoints and checkpoints under a root.

A root is a savepoint itself, or a folder that holds some at any depth: what has a `_metadata` file. The
data folders of checkpoints (`shared`, `taskowned`, `dstl`) are not looked into, nor is what is inside a
savepoint.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from readers.errors import NotASavepointError
from readers.storage import METADATA_FILE_NAME, Location

_DATA_FOLDERS = frozenset({"shared", "taskowned", "dstl"})
_MAX_DEPTH = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A directory with a `_metadata` file.

    Attributes:
        path: as given, or below the root as given.
        relative: the folders from the root to it; empty if it is the root.
    """

    path: str
    relative: tuple[str, ...]


def find_savepoints(root: str) -> Iterator[Found]:
    """All savepoints under `root`, in the order of their paths.

    Raises:
        NotASavepointError: a local root that is not there.
    """
    location = Location.parse(root) if "://" in root or root.startswith("file:") else None
    if location is not None and location.scheme != "file":
        yield from _find_remote(root)
        return
    path = location.path if location is not None else root
    if os.path.isfile(path) or not os.path.exists(path):
        if not os.path.isfile(path):
            raise NotASavepointError(
                "expected a savepoint or a folder of savepoints, found nothing", path=path
            )
        yield Found(path=path, relative=())
        return
    yield from _walk(path, ())


def _walk(path: str, relative: tuple[str, ...]) -> Iterator[Found]:
    if os.path.isfile(os.path.join(path, METADATA_FILE_NAME)):
        yield Found(path=path, relative=relative)
        return
    if len(relative) >= _MAX_DEPTH:
        return
    with os.scandir(path) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    for folder in sorted(folders, key=_natural):
        if folder not in _DATA_FOLDERS:
            yield from _walk(os.path.join(path, folder), (*relative, folder))


def _find_remote(root: str) -> Iterator[Found]:
    from pyarrow import fs  # heavy, and not needed for local savepoints

    bare, _, options = root.partition("?")
    location = Location.parse(bare)
    url = f"{location.scheme}://{location.authority}/"
    file_system, _ = fs.FileSystem.from_uri(f"{url}?{options}" if options else url)
    base = location.path if location.scheme == "hdfs" else location.authority + location.path
    selector = fs.FileSelector(base, recursive=True, allow_not_found=True)
    files = [PurePosixPath(info.path) for info in file_system.get_file_info(selector) if info.is_file]
    for file in sorted(files, key=lambda path: [_natural(part) for part in path.parts]):
        relative = file.relative_to(base).parts[:-1]
        if file.name == METADATA_FILE_NAME and not _DATA_FOLDERS & set(relative):
            path = "/".join((bare.rstrip("/"), *relative))
            yield Found(path=f"{path}?{options}" if options else path, relative=relative)


def _natural(name: str) -> tuple[str, int]:
    """`chk-9` before `chk-10`."""
    if fnmatch.fnmatchcase(name, "chk-*") and name[4:].isdigit():
        return "chk-", int(name[4:])
    return name, 0
