"""A directory of cache files: each appears whole or not at all, whoever writes at the same time and whoever is killed.

| file | is |
|---|---|
| `<key>.<digest>.parquet` | an entry; the digest is BLAKE2b of its bytes, its time of change when it was last used |
| `<key>.partial` | an entry that is being written, as long as somebody holds its lock; else what a killed writer left |
| `lock` | held while entries are put in or evicted |

An entry is written under its partial name, locked, and renamed: so there is one writer a key, in however many processes,
and a lock goes with its process. Readers lock nothing: an entry that is evicted stays readable to whoever has it open.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from catalog.errors import CorruptCacheError

_SUFFIX = ".parquet"
_PARTIAL = ".partial"
_LOCK = "lock"
_DIGEST_BYTES = 16
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CacheDirectory:
    """The files of a cache; made when the first of them is written.

    Attributes:
        path: of the directory; nothing else is kept there.
        max_bytes: of all entries together.
    """

    path: Path
    max_bytes: int

    def find(self, key: str) -> Path | None:
        """The entry of a key; None if there is none."""
        for name in self._names():
            if name.startswith(key + ".") and name.endswith(_SUFFIX):
                return self.path / name
        return None

    @property
    def size_bytes(self) -> int:
        """Of all entries."""
        return sum(size for _, size, _ in self._entries())

    def check(self, entry: Path) -> None:
        """Read an entry whole and compare it with its digest.

        Raises:
            CorruptCacheError: it is not what was written.
            OSError: it is gone.
        """
        with entry.open("rb") as file:
            found = _digest(file)
        if found != entry.name.split(".")[1]:
            raise CorruptCacheError(
                f"expected a cache file of digest {entry.name.split('.')[1]}, found {found}"
            )

    def touch(self, entry: Path) -> None:
        """It was used now."""
        with contextlib.suppress(OSError):
            os.utime(entry)

    def drop(self, entry: Path) -> None:
        """Remove an entry, if it is there."""
        with contextlib.suppress(OSError):
            entry.unlink()

    def write(self, key: str, fill: Callable[[BinaryIO], None]) -> Path | None:
        """Make the entry of a key; what it replaces and the least recently used ones go.

        Args:
            key: hex digits.
            fill: writes it; what it raises leaves no entry.

        Returns:
            None if somebody else is writing it, or it is larger than all entries may be.

        Raises:
            OSError: as the file system does.
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
        """Remove what killed writers left."""
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
        """Remove the entries of a key, and of all others the least recently used until so many bytes are left."""
        entries = sorted(self._entries(), key=lambda entry: (not entry[2].name.startswith(key), entry[0]))
        left = sum(size for _, size, _ in entries)
        for _, size, entry in entries:
            if left <= allowed_bytes and not entry.name.startswith(key):
                break
            self.drop(entry)
            left -= size

    def _entries(self) -> Iterator[tuple[int, int, Path]]:
        """(when it was last used, bytes, file) of the entries."""
        for name in self._names():
            if name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):
                    status = (self.path / name).stat()
                    yield status.st_mtime_ns, status.st_size, self.path / name

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except OSError:
            return []


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")


def _is_locked(file: BinaryIO, path: Path) -> bool:
    """Lock a file for this process; False if another has it, or has renamed or removed it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(file.fileno()).st_ino == path.stat().st_ino
    except OSError:
        return False


def _digest(file: BinaryIO) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    while piece := file.read(_PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()
