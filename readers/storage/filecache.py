"""Fetched files, kept on a local disk up to a number of bytes; those that were not used for longest go first.

A kept file is named by the SHA-256 of what identifies it: where it is, its length, its version. It gets its name when it is
whole, so it is whole whoever finds it; any number of processes may share the folder. Who uses a file has a link to it in a
folder of his own beside them, so it may be dropped at any time. Folders and parts that a killed process left are removed
when they are a day old.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from readers.errors import StorageError

_LEFT_BEHIND_S = 24 * 3600.0
_IN_USE = "used-"
_PART = "part-"


class FileCache:
    """Kept files.

    Args:
        directory: where; empty for a folder of this user's in the system's temporary one.
        max_bytes: of all files together; a larger file is not kept, and none is where 0.

    Raises:
        StorageError: the folder belongs to somebody else.
    """

    def __init__(self, directory: str, max_bytes: int) -> None:
        self._directory = Path(directory or os.path.join(tempfile.gettempdir(), f"savepointdb-{os.getuid()}"))
        self._max_bytes = max_bytes
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise StorageError(
                "expected a folder of this user for fetched files, found another's", path=str(self._directory)
            )

    def folder(self) -> Path:
        """A new folder that links to kept files can be made in; who asks for it removes it."""
        return Path(tempfile.mkdtemp(prefix=_IN_USE, dir=self._directory))

    def fetch(self, identity: str, size_bytes: int, write: Callable[[Path], None], target: Path) -> None:
        """Put a file at `target`, in one of `folder`'s: the kept one, or a new one.

        Args:
            identity: what tells it from all others.
            size_bytes: its length.
            write: writes it to a path.
            target: nothing is there yet.
        """
        kept = self._directory / hashlib.sha256(identity.encode()).hexdigest()
        with suppress(FileNotFoundError):
            _link(kept, target)
            if target.stat().st_size == size_bytes:
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
        """What is more than may be kept, and what was left behind."""
        now = time.time()
        files = []
        for entry in os.scandir(self._directory):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if not entry.name.startswith((_IN_USE, _PART)):
                    files.append((status.st_mtime_ns, status.st_size, entry.path))
                elif now - status.st_mtime > _LEFT_BEHIND_S:
                    _remove(entry.path)
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._max_bytes:
                break
            _remove(path)
            total -= size


def _link(file: Path, target: Path) -> None:
    """A second name, or a copy where the target is on another disk: whole at once, too."""
    try:
        os.link(file, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        part = target.with_name(f"{_PART}{uuid.uuid4().hex}")
        shutil.copyfile(file, part)
        part.rename(target)


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(FileNotFoundError):
        os.unlink(path)
