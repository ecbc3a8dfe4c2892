"""Reads the splits of a scan by several threads.

Each thread takes the next split, and reads a batch if what waits to be taken, and what is being read, leaves room for one
as large as its last: so a slow consumer holds the readers back, and large values are read one after the other.

The threads belong to the scan and end with it: threads shared between scans would deadlock in a join, where one scan is not
read before another has ended. Small scans are read by the caller, in order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from catalog import Scan, Split

# Of batches that wait or are being read: two of most.
_BYTES_PER_THREAD = 8 << 20
# What a small batch counts as, and one that is not known: nobody may want many more of them.
_LEAST_BYTES = 4 << 20
_LOOK_UP_S = 0.05
_SMALL_SCAN_BYTES = 4 << 20


@dataclass(slots=True)
class SplitCount:
    """What was read of a scan: splits to their end, and rows."""

    splits: int = 0
    rows: int = 0


def read_splits(
    scan: Scan, threads: int, check: Callable[[], None], count: SplitCount | None = None
) -> Iterator[pa.RecordBatch]:
    """The batches of a scan, in any order. Close the iterator to stop early: no thread is left then.

    Args:
        scan: what to read.
        threads: how many threads at most.
        check: raises if reading is to stop; called at least 20 times a second while waiting.
        count: counts on while reading goes on.
    """
    count = count or SplitCount()
    splits = list(scan.splits())
    if threads > 1 and len(splits) > 1 and scan.bytes_total + scan.cached_bytes_total > _SMALL_SCAN_BYTES:
        return _ParallelRead(scan, splits, min(threads, len(splits)), check, count).batches()
    return _one_by_one(scan, splits, check, count)


def _one_by_one(
    scan: Scan, splits: list[Split], check: Callable[[], None], count: SplitCount
) -> Iterator[pa.RecordBatch]:
    for split in splits:
        for batch in scan.read(split):
            check()
            count.rows += batch.num_rows
            yield batch
            del batch  # not kept beside the next one
        count.splits += 1


class _SplitEnded:
    """A thread's word behind a split."""


class _Ended:
    """A thread's last word."""


_Found: TypeAlias = "pa.RecordBatch | BaseException | _SplitEnded | _Ended"


class _Waiting:
    """What was read and waits to be taken, in order, with room for some bytes.

    Args:
        room_bytes: how many; one batch is let in whatever its size.
    """

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes
        self._found: deque[tuple[_Found, int]] = deque()
        self._taken_bytes = 0
        self._changed = threading.Condition()
        self._stopped = False

    def reserve(self, size_bytes: int) -> bool:
        """Wait for room; False if nothing is to be read any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not self._taken_bytes or self._fits(size_bytes))
            self._taken_bytes += size_bytes
            return not self._stopped

    def put(self, found: _Found, size_bytes: int, reserved_bytes: int) -> None:
        """Something that was found, in place of what was reserved for it."""
        with self._changed:
            self._taken_bytes += size_bytes - reserved_bytes
            self._found.append((found, size_bytes))
            self._changed.notify_all()

    def take(self) -> _Found | None:
        """The next; None if there was none for a while."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._found, _LOOK_UP_S):
                return None
            found, size_bytes = self._found.popleft()
            self._taken_bytes -= size_bytes
            self._changed.notify_all()
            return found

    def stop(self) -> None:
        """Nothing will be taken any more."""
        with self._changed:
            self._stopped = True
            self._found.clear()
            self._changed.notify_all()

    def _fits(self, size_bytes: int) -> bool:
        return self._taken_bytes + size_bytes <= self._room_bytes


class _ParallelRead:
    def __init__(
        self, scan: Scan, splits: list[Split], threads: int, check: Callable[[], None], count: SplitCount
    ) -> None:
        self._scan = scan
        self._count = count
        self._waiting = iter(splits)
        self._next_split = threading.Lock()
        self._check = check
        self._queue = _Waiting(threads * _BYTES_PER_THREAD)
        self._threads = [
            threading.Thread(target=self._read, name=f"scan-{number}", daemon=True)
            for number in range(threads)
        ]

    def batches(self) -> Iterator[pa.RecordBatch]:
        for thread in self._threads:
            thread.start()
        try:
            yield from self._taken()
        finally:
            self._queue.stop()
            for thread in self._threads:
                thread.join()

    def _taken(self) -> Iterator[pa.RecordBatch]:
        running = len(self._threads)
        while running:
            self._check()
            found = self._queue.take()
            if found is None:
                continue
            if isinstance(found, BaseException):
                raise found
            if isinstance(found, _SplitEnded):
                self._count.splits += 1
            elif isinstance(found, _Ended):
                running -= 1
            else:
                self._count.rows += found.num_rows
                yield found
            del found  # not kept beside the next one

    def _read(self) -> None:
        try:
            expected = _LEAST_BYTES
            while (split := self._take()) is not None:
                batches = iter(self._scan.read(split))
                while self._queue.reserve(expected):
                    batch = next(batches, None)
                    if batch is None:
                        self._queue.put(_SplitEnded(), 0, expected)
                        break
                    reserved, expected = expected, max(batch.nbytes, _LEAST_BYTES)
                    self._queue.put(batch, expected, reserved)
                    del batch
                else:
                    return
            self._queue.put(_Ended(), 0, 0)
        except BaseException as error:  # it is raised where the batches are taken
            self._queue.put(error, 0, 0)

    def _take(self) -> Split | None:
        with self._next_split:
            return next(self._waiting, None)
