"""The files of one RocksDB instance, by the names that they have in its folder.

`Files` opens them, and `TableBytes` reads ranges of one; both have hooks (`fetch`, `announce`, `keep`) for files that are not local.
`Directory` and `LocalBytes` are those of a local folder; `readers.formats.rocksdb.files` has those of a savepoint.

Files of two instances are read together: what both need is read once, and what was read is counted. A comparison reads a part of a
file twice or three times, shortly after each other: to find keys, then for each of the two instances. `KeptRanges` holds what was
read last, so that only the first read reaches the file.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
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


_KEPT_BYTES = 48 << 20


class KeptRanges:
    """The ranges of files that were read last, within a limit; threads share it.

    Args:
        account: called with the number of bytes that are read from a file.
    """

    def __init__(self, account: Callable[[int], None]) -> None:
        self.account = account
        self._lock = threading.Lock()
        # The ranges of a file do not overlap.
        self._ranges: OrderedDict[tuple[str, int], NDArray[np.uint8]] = OrderedDict()
        self._starts: dict[str, list[int]] = {}
        self._size_bytes = 0

    def read_into(self, file: str, opened: TableBytes, buffer: NDArray[np.uint8], offset: int) -> int:
        """Fill a buffer with the bytes of a file from `offset` on; return how many bytes there were."""
        done = 0
        while done < len(buffer):
            kept, missing = self._find(file, offset + done, len(buffer) - done)
            if kept is not None:
                buffer[done : done + len(kept)] = kept
                done += len(kept)
                continue
            part = buffer[done : done + missing]
            count = opened.read_into(part, offset + done)
            self.account(count)
            self._keep(file, offset + done, part[:count].copy())
            done += count
            if count < missing:
                break
        return done

    def _find(self, file: str, position: int, length: int) -> tuple[NDArray[np.uint8] | None, int]:
        """Return the kept bytes at a position; None if there are none, with the number of bytes until there are some."""
        with self._lock:
            starts = self._starts.setdefault(file, [])
            number = bisect_right(starts, position)
            if number:
                start = starts[number - 1]
                kept = self._ranges[file, start]
                if position < start + len(kept):
                    self._ranges.move_to_end((file, start))
                    return kept[position - start : position - start + length], 0
            if number < len(starts):
                length = min(length, starts[number] - position)
            return None, length

    def _keep(self, file: str, start: int, data: NDArray[np.uint8]) -> None:
        with self._lock:
            starts = self._starts[file]
            number = bisect_right(starts, start)
            # Another thread may have read the same bytes.
            follows = number == 0 or starts[number - 1] + len(self._ranges[file, starts[number - 1]]) <= start
            precedes = number == len(starts) or start + len(data) <= starts[number]
            if not (len(data) and follows and precedes):
                return
            insort(starts, start)
            self._ranges[file, start] = data
            self._size_bytes += len(data)
            while self._size_bytes > _KEPT_BYTES:
                (other, begin), dropped = self._ranges.popitem(last=False)
                self._starts[other].remove(begin)
                self._size_bytes -= len(dropped)


@dataclass(eq=False)
class KeptFiles(Files):
    """The files of an instance, through ranges that are kept.

    Attributes:
        files: the files.
        name: of the instance among those that share `ranges`.
        ranges: what was read of them, and of those of the other instance.
        shared: the names of files that are the same as some of the other instance, each with the name of that.
        other: the files of the other instance: files that are the same are read there.
    """

    files: Files
    name: str
    ranges: KeptRanges
    shared: Mapping[str, str] = field(default_factory=dict)
    other: KeptFiles | None = None

    @property
    def is_local(self) -> bool:
        return self.files.is_local

    def read(self, name: str) -> bytes:
        return self.files.read(name)

    def open(self, name: str) -> TableBytes:
        if self.other is not None and name in self.shared:
            return self.other.open(self.shared[name])
        return KeptBytes(self.files.open(name), f"{self.name}/{name}", self.ranges)

    def identity(self, name: str) -> Hashable | None:
        return self.files.identity(name)

    @property
    def has_log(self) -> bool:
        return self.files.has_log

    def fetch(self, names: Iterable[str]) -> None:
        self.files.fetch(name for name in names if name not in self.shared)

    def announce(self, size_bytes: int) -> None:
        self.files.announce(size_bytes)

    def each(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        return self.files.each(function, items)

    def directory(self) -> Path:
        return self.files.directory()


class KeptBytes(TableBytes):
    """A file, through ranges that are kept."""

    def __init__(self, opened: TableBytes, file: str, ranges: KeptRanges) -> None:
        self._opened = opened
        self._file = file
        self._ranges = ranges
        self.size_bytes = opened.size_bytes

    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> int:
        return self._ranges.read_into(self._file, self._opened, buffer, offset)

    def keep(self, offset: int, length: int) -> None:
        self._opened.keep(offset, length)

    def close(self) -> None:
        self._opened.close()
