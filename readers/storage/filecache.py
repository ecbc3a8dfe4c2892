"""A cache of fetched files on a local disk, limited in bytes; the least recently used files are removed first.

A cached file is named by the SHA-256 of its identity: its location, length and version. It gets this name when it is
complete, so every process that finds it reads a whole file; any number of processes may share the folder. A process
uses a file through a hard link in a folder of its own, so the cache may remove the file at any time. The folder of a killed
process goes when the next one makes its own; unfinished files are removed when they are a day old.
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
from readers.storage.temporary import TemporaryFolder

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
                    _remove(entry.path)
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._max_bytes:
                break
            _remove(path)
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


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
