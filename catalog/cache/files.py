"""A directory of cache files. Each file appears whole or not at all, also when processes write at the same time or are killed.

| file | content |
|---|---|
| `<key>.<digest>.parquet` | an entry; the digest is BLAKE2b of its bytes, its time of access is that of the last use |
| `<key>.partial` | while it is locked, an entry that is being written; else the rest of a killed writer |
| `lock` | nothing; locked while entries are added or evicted |

A writer locks the partial file, writes it and renames it. So a key has one writer, in however many processes, and the lock of
a killed process is free at once. Readers lock nothing: a process that has an evicted entry open can still read it. Nothing changes an
entry, so one whose identity has changed since its digest was compared is damaged, or another one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from catalog.errors import CorruptCacheError

_SUFFIX = ".parquet"
_PARTIAL = ".partial"
_LOCK = "lock"
_DIGEST_BYTES = 16
_BLOCK_BYTES = 1 << 20
# Which entries were used last matters when one must go, which is seldom.
_SAME_USE_NS = 10_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryIdentity:
    """What changes when a file is replaced or written."""

    inode: int
    size_bytes: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> EntryIdentity:
        """Return the identity of a file with this status."""
        return cls(inode=status.st_ino, size_bytes=status.st_size, modified_ns=status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class CacheDirectory:
    """The files of a cache; the directory is made when the first of them is written.

    Attributes:
        path: of the directory, which holds no other files.
        max_bytes: of all entries together.
    """

    path: Path
    max_bytes: int

    def find(self, key: str) -> Path | None:
        """Return the entry of a key; None if there is none."""
        for name in self._names():
            if name.startswith(key + ".") and name.endswith(_SUFFIX):
                return self.path / name
        return None

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries."""
        return sum(size for _, size, _ in self._entries())

    def check(self, entry: Path) -> None:
        """Read a whole entry and compare it with its digest.

        Raises:
            CorruptCacheError: its bytes have changed.
            OSError: it was removed.
        """
        with entry.open("rb") as file:
            found = _digest(file)
        if found != entry.name.split(".")[1]:
            raise CorruptCacheError(
                f"expected a cache file of digest {entry.name.split('.')[1]}, found {found}"
            )

    def touch(self, entry: Path, status: os.stat_result) -> None:
        """Note that an entry with this status was used now; its time of change stays."""
        now = time.time_ns()
        if abs(now - status.st_atime_ns) > _SAME_USE_NS:
            with contextlib.suppress(OSError):
                os.utime(entry, ns=(now, status.st_mtime_ns))

    def drop(self, entry: Path) -> None:
        """Remove an entry, if it still exists."""
        with contextlib.suppress(OSError):
            entry.unlink()

    def write(self, key: str, fill: Callable[[BinaryIO], None]) -> Path | None:
        """Make the entry of a key; removes the entry that it replaces, and the least recently used ones for their room.

        Args:
            key: hex digits.
            fill: writes the entry; if it raises, there is no entry.

        Returns:
            None if another writer is at it, or it is larger than all entries together may be.

        Raises:
            OSError: the file system fails.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self.path / (key + _PARTIAL)
        with _opened(partial) as file:
            if not _is_locked(file, partial):
                return None
            try:
                file.truncate()
                fill(file)
                file.flush()
                os.fsync(file.fileno())
                file.seek(0)
                return self._publish(key, partial, _digest(file), os.fstat(file.fileno()).st_size)
            finally:
                self.drop(partial)

    def sweep(self) -> None:
        """Remove the files of killed writers."""
        for name in self._names():
            if name.endswith(_PARTIAL):
                partial = self.path / name
                with contextlib.suppress(OSError), partial.open("r+b") as file:
                    if _is_locked(file, partial):
                        partial.unlink()

    def _publish(self, key: str, partial: Path, digest: str, size_bytes: int) -> Path | None:
        if size_bytes > self.max_bytes:
            return None
        entry = self.path / f"{key}.{digest}{_SUFFIX}"
        with _opened(self.path / _LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._evict(key, self.max_bytes - size_bytes)
            partial.rename(entry)
        return entry

    def _evict(self, key: str, allowed_bytes: int) -> None:
        """Remove the entries of a key, then the least recently used others until `allowed_bytes` or less are left."""
        entries = sorted(self._entries(), key=lambda entry: (not entry[2].name.startswith(key), entry[0]))
        left = sum(size for _, size, _ in entries)
        for _, size, entry in entries:
            if left <= allowed_bytes and not entry.name.startswith(key):
                break
            self.drop(entry)
            left -= size

    def _entries(self) -> Iterator[tuple[int, int, Path]]:
        """Yield (time of the last use, bytes, file) of each entry."""
        for name in self._names():
            if name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):
                    status = (self.path / name).stat()
                    yield status.st_atime_ns, status.st_size, self.path / name

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except OSError:
            return []


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")


def _is_locked(file: BinaryIO, path: Path) -> bool:
    """Lock a file for this process; returns False if another process has the lock, or has renamed or removed the file."""
    try:
        # The lock is of the open file, not of its name: between the opening and the lock the name may have changed hands.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(file.fileno()).st_ino == path.stat().st_ino
    except OSError:
        return False


def _digest(file: BinaryIO) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest()
