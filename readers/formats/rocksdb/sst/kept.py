"""Files of two instances that are read together: what both need is read once, and what was read is counted.

A comparison reads a part of a file twice or three times, shortly after each other: to find keys, then for each of the two
instances. `KeptRanges` holds what was read last, so that only the first read reaches the file.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from readers.formats.rocksdb.sst.files import Files, TableBytes

_KEPT_BYTES = 48 << 20

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


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


class KeptFiles(Files):
    """The files of an instance, through ranges that are kept.

    Args:
        files: the files.
        name: of the instance among those that share `ranges`.
        ranges: what was read of them, and of those of the other instance.
        shared: the names of files that are the same as some of the other instance, each with the name of that.
        other: the files of the other instance: files that are the same are read there.
    """

    def __init__(
        self,
        files: Files,
        name: str,
        ranges: KeptRanges,
        shared: Mapping[str, str] | None = None,
        other: KeptFiles | None = None,
    ) -> None:
        self._files = files
        self._name = name
        self._ranges = ranges
        self._shared = shared or {}
        self._other = other

    @property
    def is_local(self) -> bool:
        return self._files.is_local

    def read(self, name: str) -> bytes:
        return self._files.read(name)

    def open(self, name: str) -> TableBytes:
        if self._other is not None and name in self._shared:
            return self._other.open(self._shared[name])
        return KeptBytes(self._files.open(name), f"{self._name}/{name}", self._ranges)

    def identity(self, name: str) -> Hashable | None:
        return self._files.identity(name)

    @property
    def has_log(self) -> bool:
        return self._files.has_log

    def fetch(self, names: Iterable[str]) -> None:
        self._files.fetch(name for name in names if name not in self._shared)

    def announce(self, size_bytes: int) -> None:
        self._files.announce(size_bytes)

    def each(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        return self._files.each(function, items)

    def directory(self) -> Path:
        return self._files.directory()


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
