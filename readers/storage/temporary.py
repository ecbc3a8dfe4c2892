"""Folders for temporary files: each belongs to one process, and a new one removes those of dead processes.

A process locks its folder (`flock`) before it gives it the name that others look for; the kernel releases the lock when the
process ends, however it ends. A process that makes a folder removes those without a lock: only folders of its own user, no
links, and nothing outside.

The folder of this machine's caches: object code in `kernels`, decoded states in `states`.

| variable | meaning |
|---|---|
| SAVEPOINTDB_CACHE_DIR | the folder |
| XDG_CACHE_HOME | without the first variable the folder is `savepointdb` in this one, else in ~/.cache |
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = "savepointdb-spill-"
_UNLOCKED_PREFIX = "savepointdb-new-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFolder:
    """A folder of this process, empty at first. It goes when it is closed, or with this object.

    Args:
        parent: folder in which to make it; the system's folder for temporary files if empty.

    Attributes:
        path: path of the folder.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, parent: str = "") -> None:
        parent = os.path.abspath(parent or tempfile.gettempdir())
        remove_left_behind(parent)
        made = tempfile.mkdtemp(prefix=_UNLOCKED_PREFIX, dir=parent)
        descriptor = os.open(made, _FOLDER)
        # Not every file system has locks; there nobody removes the folder of a dead process.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = os.path.join(parent, PREFIX + os.path.basename(made).removeprefix(_UNLOCKED_PREFIX))
        os.rename(made, self.path)
        self._closing = weakref.finalize(self, _remove, self.path, descriptor, os.getpid())

    def close(self) -> None:
        """Remove the folder."""
        self._closing()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _remove(path: str, descriptor: int, owner: int) -> None:
    # A fork has the object, too, and not the folder.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
    os.close(descriptor)


def remove_left_behind(parent: str) -> list[Path]:
    """Remove the folders of this user whose processes died, as far as possible, and return their paths."""
    removed = []
    try:
        above = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        for name in os.listdir(above):
            if name.startswith(PREFIX) and _is_removed(name, above):
                removed.append(Path(parent, name))
    finally:
        os.close(above)
    return removed


def _is_removed(name: str, above: int) -> bool:
    """Remove a folder if no process has locked it; return whether it did."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=above)  # a link is not followed
    except OSError:
        return False
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            return False
        # Held while the folder is removed, so that no other process removes it at the same time.
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(name, dir_fd=above)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


CACHE_VARIABLE = "SAVEPOINTDB_CACHE_DIR"


def cache_directory() -> Path:
    """Return the folder, which need not exist. Reads the environment at each call."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "savepointdb"
