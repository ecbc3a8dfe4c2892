"""The files of one RocksDB instance, by the names that they have in its folder.

`Files` opens them, and `TableBytes` reads ranges of one; both have hooks (`fetch`, `announce`, `keep`) for files that are not local.
`Directory` and `LocalBytes` are those of a local folder; `readers.formats.rocksdb.files` has those of a savepoint.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class TableBytes(ABC):
    """A file that is read by ranges.

    Attributes:
        size_bytes: the length of the file.
    """

    size_bytes: int

    @abstractmethod
    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> int:
        """Fill a buffer with the bytes from `offset` on; return how many bytes there were."""

    def keep(self, offset: int, length: int) -> None:  # noqa: B027  # a local file costs nothing to read again
        """Prepare for reads within these bytes."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class LocalBytes(TableBytes):
    """A local file."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._descriptor).st_size

    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> int:
        done = 0
        # A read may return less than it was asked for: Linux reads 2 GiB at most at once.
        while done < len(buffer):
            count = os.preadv(self._descriptor, [buffer[done:].data], offset + done)
            if count == 0:
                break
            done += count
        return done

    def close(self) -> None:
        os.close(self._descriptor)


class Files(ABC):
    """The files of an instance."""

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """True if RocksDB can open the files without copying them."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Read a small file."""

    @abstractmethod
    def open(self, name: str) -> TableBytes:
        """Open a table."""

    def identity(self, name: str) -> Hashable | None:
        """Return what the file of a table is known by in all instances that share it; None if it is not known."""
        return None

    @property
    def has_log(self) -> bool:
        """True if there is a write-ahead log with entries; handles never have one."""
        return False

    def fetch(self, names: Iterable[str]) -> None:  # noqa: B027  # local files are there
        """Download files that will be read whole."""

    def announce(self, size_bytes: int) -> None:  # noqa: B027  # a local file costs nothing to look into
        """Prepare for a lookup of a few entries in tables of `size_bytes` in all."""

    def each(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        """Return the results of a function that reads; calls run at the same time where reading means waiting."""
        return [function(item) for item in items]

    @abstractmethod
    def directory(self) -> Path:
        """Return a local folder with all files, for RocksDB."""

    def close(self) -> None:  # noqa: B027  # a folder belongs to its owner
        """Remove downloaded files."""


class Directory(Files):
    """A local folder with CURRENT, MANIFEST and SST files."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def is_local(self) -> bool:
        return True

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def open(self, name: str) -> TableBytes:
        return LocalBytes(self._path / name)

    @property
    def has_log(self) -> bool:
        return any(log.stat().st_size for log in self._path.glob("*.log"))

    def directory(self) -> Path:
        return self._path
