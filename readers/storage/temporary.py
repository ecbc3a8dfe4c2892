"""Files of this machine that may go: folders for temporary files, and a cache of fetched files.

A folder for temporary files belongs to one process, and a new one removes those of dead processes. A process
locks its folder (`flock`) before it gives it the name that others look for; the kernel releases the lock when the
process ends, however it ends. A process that makes a folder removes those without a lock: only folders of its own user, no
links, and nothing outside.

The folder of this machine's caches: object code in `kernels`, decoded states in `states`.

| variable | meaning |
|---|---|
| SAVEPOINTDB_CACHE_DIR | the folder |
| XDG_CACHE_HOME | without the first variable the folder is `savepointdb` in this one, else in ~/.cache |

The cache of fetched files is limited in bytes; the least recently used files are removed first. A cached file is named by the
SHA-256 of its identity: its location, length and version. It gets this name when it is complete, so every process that finds it
reads a whole file; any number of processes may share the folder. A process uses a file through a hard link in a folder of its own,
so the cache may remove the file at any time. The folder of a killed process goes when the next one makes its own; unfinished files
are removed when they are a day old.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from readers.errors import StorageError

PREFIX = "savepointdb-spill-"
_UNLOCKED_PREFIX = "savepointdb-new-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFolder(AbstractContextManager["TemporaryFolder"]):
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

    def __exit__(self, *_: object) -> None:
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


_LEFT_BEHIND_S = 24 * 3600.0
_PART = "part-"


class FileCache:
    """A cache of fetched files.

    Args:
        directory: its folder; empty for a folder of this user in the system's temporary folder.
        max_bytes: limit for all files together; a larger file is not kept, and 0 keeps no file.

    Raises:
        StorageError: the folder belongs to another user.
    """

    def __init__(self, directory: str, max_bytes: int) -> None:
        self._directory = Path(directory or os.path.join(tempfile.gettempdir(), f"savepointdb-{os.getuid()}"))
        self._max_bytes = max_bytes
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The temporary folder is shared: another user may have made a folder of this name, or a link, to feed us files.
        status = self._directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise StorageError(
                "expected a folder of this user for fetched files, found another's", path=str(self._directory)
            )

    def folder(self) -> TemporaryFolder:
        """Make a new folder for links to cached files; the caller closes it."""
        return TemporaryFolder(str(self._directory))

    def fetch(self, identity: str, size_bytes: int, write: Callable[[Path], None], target: Path) -> None:
        """Put a file at `target`, from the cache or newly written.

        Args:
            identity: text that no other file has.
            size_bytes: length of the file.
            write: writes the file to a path.
            target: a path in a folder that `folder` made; no file is there yet.
        """
        kept = self._directory / hashlib.sha256(identity.encode()).hexdigest()
        with suppress(FileNotFoundError):
            _link(kept, target)
            if target.stat().st_size == size_bytes:
                # The link shares its time with the cached file: this marks it as recently used.
                os.utime(target)
                return
            target.unlink()
        descriptor, name = tempfile.mkstemp(prefix=_PART, dir=self._directory)
        os.close(descriptor)
        part = Path(name)
        try:
            write(part)
            shutil.move(part, target)
        finally:
            part.unlink(missing_ok=True)
        if size_bytes <= self._max_bytes:
            self._keep(target, kept)

    def _keep(self, file: Path, kept: Path) -> None:
        with suppress(FileExistsError):
            _link(file, kept)
        self._drop()

    def _drop(self) -> None:
        """Remove the oldest files above the limit, and what killed processes left behind."""
        now = time.time()
        files = []
        for entry in os.scandir(self._directory):
            # Another process may remove the same file.
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    continue
                if not entry.name.startswith(_PART):
                    files.append((status.st_mtime_ns, status.st_size, entry.path))
                elif now - status.st_mtime > _LEFT_BEHIND_S:
                    _remove_file(entry.path)
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._max_bytes:
                break
            _remove_file(path)
            total -= size


def _link(file: Path, target: Path) -> None:
    """Give a file a second name, or copy it if the target is on another disk. The target appears complete."""
    try:
        os.link(file, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        part = target.with_name(f"{_PART}{uuid.uuid4().hex}")
        shutil.copyfile(file, part)
        part.rename(target)


def _remove_file(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
