"""`KnownFiles`: files of a savepoint on this machine, and whether they are still what they were.

To find the files of a state again follows every path that `_metadata` records, with all rules. A state of RocksDB has dozens of files,
and a query asks for them before it trusts what was decoded from them. What decided on the places of the files is remembered here: if
none of it has changed, they would be found where they were, and one look at each file tells whether it has changed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from readers.storage.filesystems import FileIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFiles:
    """Files as they were found, and what decided on their places.

    Attributes:
        folders: each folder by which a file was found, and where it led.
        absent: folders in which files were looked for first; nothing had that name.
        files: the canonical path of each file, and its size and time.
    """

    folders: tuple[tuple[str, str], ...]
    absent: tuple[str, ...]
    files: tuple[tuple[str, FileIdentity], ...]

    def are_unchanged(self) -> bool:
        """Return whether all files are where and what they were; a file that cannot be looked at is not."""
        try:
            return (
                all(os.path.realpath(folder) == real for folder, real in self.folders)
                and not any(map(os.path.lexists, self.absent))
                and all(_is_file(path, identity) for path, identity in self.files)
            )
        except OSError:
            return False


def _is_file(path: str, identity: FileIdentity) -> bool:
    """Return whether a path is that of a file, and of no link to one, with this size and time."""
    status = os.lstat(path)
    return (
        status.st_size == identity.size_bytes
        and status.st_mtime_ns == identity.mtime_ns
        and stat.S_ISREG(status.st_mode)
    )
