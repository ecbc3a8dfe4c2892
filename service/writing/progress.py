"""The size of a new savepoint while it is written: it is measured, so that whoever writes need not count."""

from __future__ import annotations

import os
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
