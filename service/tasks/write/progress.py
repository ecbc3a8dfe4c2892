"""What a write has put on the disk so far: it is measured, so that whoever writes need not count."""

from __future__ import annotations

import fcntl
import os
import stat
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TargetSize:
    """The files of a target.

    Attributes:
        files: how many there are.
        bytes_written: their bytes; links to other files take no space, and are not counted.
    """

    files: int = 0
    bytes_written: int = 0

    @classmethod
    def of(cls, target: str) -> TargetSize:
        """Return the size of a directory; that of an empty one if it is not there."""
        files = bytes_written = 0
        for folder, _, names in os.walk(target):
            for name in names:
                try:
                    status = os.lstat(os.path.join(folder, name))
                except OSError:
                    continue  # it was renamed, or removed
                files += 1
                bytes_written += status.st_size if status.st_nlink == 1 else 0
        return cls(files, bytes_written)


def temporary_bytes(folder: str) -> int:
    """Return the bytes of the temporary files of this process: those in its folder, and those without a name."""
    return TargetSize.of(folder).bytes_written + _unnamed_bytes()


def _unnamed_bytes() -> int:
    """Return the bytes of open files that have no name and may be written; 0 on systems without `/proc`."""
    try:
        descriptors = os.listdir("/proc/self/fd")
    except OSError:
        return 0
    found: dict[tuple[int, int], int] = {}
    for name in descriptors:
        try:
            status = os.fstat(int(name))
            # A file of the source that was removed meanwhile is open for reading alone.
            may_be_written = fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
            if stat.S_ISREG(status.st_mode) and not status.st_nlink and may_be_written:
                found[status.st_dev, status.st_ino] = status.st_size
        except OSError:
            continue  # it was closed
    return sum(found.values())
