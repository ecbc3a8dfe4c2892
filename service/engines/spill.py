"""Folders for what engines spill: each belongs to one process, and those of dead ones are removed.

A folder is locked (`flock`) by its owner for as long as that lives, whatever ends it; only then it gets the name by which others know
it. Who makes one removes those that are not locked any more: its own user's, no links, nothing outside.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "savepointdb-spill-"
_UNLOCKED_PREFIX = "savepointdb-new-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class SpillFolder:
    """A folder of this process, empty at first.

    Args:
        parent: where it is; the system's folder for temporary files where empty.

    Attributes:
        path: of it.

    Raises:
        OSError: none can be made there.
    """

    def __init__(self, parent: str) -> None:
        parent = os.path.abspath(parent or tempfile.gettempdir())
        remove_left_behind(parent)
        made = tempfile.mkdtemp(prefix=_UNLOCKED_PREFIX, dir=parent)
        self._descriptor = os.open(made, _FOLDER)
        with suppress(OSError):  # not every file system has locks; without one, nobody removes what is left
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = os.path.join(parent, _PREFIX + os.path.basename(made).removeprefix(_UNLOCKED_PREFIX))
        os.rename(made, self.path)

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def remove_left_behind(parent: str) -> list[Path]:
    """Remove the folders of this user whose owners died; which they were. What cannot be removed stays."""
    removed = []
    try:
        above = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        for name in os.listdir(above):
            if name.startswith(_PREFIX) and _is_removed(name, above):
                removed.append(Path(parent, name))
    finally:
        os.close(above)
    return removed


def _is_removed(name: str, above: int) -> bool:
    """Remove a folder if nobody has locked it; whether it was so."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=above)  # a link is not followed
    except OSError:
        return False
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            return False
        fcntl.flock(
            folder, fcntl.LOCK_EX | fcntl.LOCK_NB
        )  # held until it is gone: nobody else removes it, too
        shutil.rmtree(name, dir_fd=above)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True
