"""The paths that a savepoint records: where their files are now, and which files are allowed.

A path in `_metadata` was right where Flink wrote the savepoint, but savepoints get moved. The file is looked for in this
order:

| place | for |
|---|---|
| the path itself, after `path_map` | savepoints that were not moved, or that the user maps |
| `<exclusive directory>/<file name>` | savepoints (up to 1.10 with absolute paths of such files) |
| `<job directory>/<tail>` | checkpoints: the tail begins at `shared/`, `taskowned/`, `chk-*/` or `dstl/` |
| `<beside the job directory>/dstl/…` | changelogs, which have a base directory of their own |

The exclusive directory is the directory of `_metadata`, the job directory is its parent. Only a directory named `chk-*`
has a job directory: for a savepoint only its own directory is allowed, unless the user names more roots. Of the job
directory only the folders in the table are allowed.

`_metadata` is untrusted input: paths with `..` or NUL, web addresses, and links that lead outside the roots are refused.
Flink: AbstractFsCheckpointStorageAccess, RelativeFileStateHandle, org.apache.flink.core.fs.Path.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from readers.errors import PathOutsideRootError
from readers.storage.filesystems import Location

_CHECKPOINT_DIRECTORY = "chk-*"
_CHANGELOG_DIRECTORY = "dstl"
# Folders in which other checkpoints keep files that this one may refer to.
_JOB_DIRECTORY_TAILS = ("shared", "taskowned", _CHANGELOG_DIRECTORY, _CHECKPOINT_DIRECTORY)
# `dstl/<job>/dstl/<file>` is the longest tail that Flink writes; a hostile path may have 30000 folders.
_MAX_TAIL_NAMES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRules:
    """The rules for the recorded paths of one savepoint. They read no file.

    Attributes:
        exclusive_directory: the directory of `_metadata`, canonical.
        path_map: recorded path prefix → the prefix to use instead.
        given_roots: directories that the user allows, canonical.
    """

    exclusive_directory: Location
    path_map: Mapping[Location, Location]
    given_roots: tuple[Location, ...]

    @property
    def _is_checkpoint(self) -> bool:
        return fnmatch.fnmatchcase(self.exclusive_directory.name, _CHECKPOINT_DIRECTORY)

    @property
    def _job_directory(self) -> Location:
        return self.exclusive_directory.parent

    def allows(self, location: Location) -> bool:
        """Return whether a canonical location is inside a root, or in a folder that Flink makes in a job directory."""
        roots = (self.exclusive_directory, *self.given_roots)
        if any(location.is_inside(root) for root in roots):
            return True
        if not self._is_checkpoint:
            return False
        # Links to this folder are not followed: a link named `dstl` would allow all files of its target.
        if location.is_inside(self._job_directory.parent / _CHANGELOG_DIRECTORY):
            return True
        if not location.is_inside(self._job_directory):
            return False
        return _begins_tail(posixpath.relpath(location.path, self._job_directory.path).partition("/")[0])

    def candidates(self, recorded: str, *, relative: bool) -> Iterator[Location]:
        """Yield the places of the module's table for a recorded path, best first; they are not checked yet."""
        if relative:
            yield self.exclusive_directory / recorded
            return
        original = self._mapped(Location.parse(recorded))
        yield original
        yield self.exclusive_directory / original.name
        if not self._is_checkpoint:
            return
        names = original.path.split("/")[1:]
        for index in range(len(names) - 2, max(len(names) - 1 - _MAX_TAIL_NAMES, -1), -1):
            if _begins_tail(names[index]):
                yield self._job_directory / "/".join(names[index:])
            if names[index] == _CHANGELOG_DIRECTORY:
                yield self._job_directory.parent / "/".join(names[index:])

    def _mapped(self, recorded: Location) -> Location:
        """Replace the longest prefix of `path_map` that fits."""
        fitting = [old for old in self.path_map if recorded.is_inside(old)]
        if not fitting:
            return recorded
        old = max(fitting, key=lambda location: len(location.path))
        return self.path_map[old] / posixpath.relpath(recorded.path, old.path)


def check_recorded(recorded: str) -> None:
    """Refuse paths that Flink never writes.

    Raises:
        PathOutsideRootError: the path has a parent folder or a NUL byte, is a web address, or names no file.
    """
    is_web_address = recorded.partition(":")[0].lower() in {"http", "https"}
    if is_web_address or "\0" in recorded or ".." in recorded.split("/") or not recorded.strip("/"):
        raise outside_roots(recorded)


def outside_roots(path: str) -> PathOutsideRootError:
    """Make the error for a path outside the roots; the caller raises it."""
    return PathOutsideRootError(
        "expected a file of this savepoint, found a path that leads outside the allowed roots", path=path
    )


def _begins_tail(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, tail) for tail in _JOB_DIRECTORY_TAILS)
