"""The files of one RocksDB instance, by the names they have in its folder: where their bytes come from.

Files        names → bytes; what is needed of them can be announced
  Directory  a local folder
TableBytes   a file that is read by ranges
  LocalBytes a local one
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class TableBytes(ABC):
    """An open file.

    Attributes:
        size_bytes: length.
    """

    size_bytes: int

    @abstractmethod
    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> int:
        """Fill a buffer with the bytes from `offset` on; how many there were."""

    def keep(self, offset: int, length: int) -> None:  # noqa: B027  # a local file costs nothing to read again
        """These bytes will be read in a moment, perhaps piece by piece."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""


class LocalBytes(TableBytes):
    """A local file."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._descriptor).st_size

    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> int:
        done = 0
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
        """Whether RocksDB could open them without a copy."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """All bytes of a small file."""

    @abstractmethod
    def open(self, name: str) -> TableBytes:
        """A table."""

    @property
    def has_log(self) -> bool:
        """Whether there is a write-ahead log with entries in it."""
        return False

    def fetch(self, names: Iterable[str]) -> None:  # noqa: B027  # local files are there
        """All of these files will be read: bring them here."""

    def announce(self, size_bytes: int) -> None:  # noqa: B027  # a local file costs nothing to look into
        """Tables of so many bytes in all will be looked into, for a few entries of each."""

    def each(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        """The results of a function that reads; at the same time where reading means to wait."""
        return [function(item) for item in items]

    @abstractmethod
    def directory(self) -> Path:
        """A local folder with all files, for RocksDB."""

    def close(self) -> None:  # noqa: B027  # a folder is the business of who made it
        """Let go of what was brought here."""


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
