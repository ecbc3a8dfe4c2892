"""Reads the splits of a scan in several threads.

Each thread takes the next split. It reads a batch only if the batches that wait or are being read leave room for one as
large as its last. So a slow consumer holds the threads back, and large values are read one after the other.

The threads belong to the scan and end with it: threads shared between scans would deadlock in a join, where one scan is not
read before another has ended. The caller reads small scans itself, in order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from catalog import Scan, Split

# Bytes of batches that wait or are being read, for each thread: most batches have half of this.
_BYTES_PER_THREAD = 8 << 20
# The first batch of a thread, whose size is not known yet, and every smaller one count as this many bytes: it limits how
# many small batches are read ahead, for the query may want no more of them (LIMIT).
_LEAST_BYTES = 4 << 20
_LOOK_UP_S = 0.05
# To start and to join threads takes longer than to read this.
_SMALL_SCAN_BYTES = 4 << 20


@dataclass(slots=True)
class SplitCount:
    """Counts of a scan so far: splits that were read to their end, and rows."""

    splits: int = 0
    rows: int = 0


def read_splits(
    scan: Scan, threads: int, check: Callable[[], None], count: SplitCount | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a scan, in any order. Close the iterator to stop early: it leaves no thread behind.

    Args:
        scan: the scan.
        threads: most threads.
        check: raises to stop reading; called at least 20 times a second while the caller waits.
        count: counts on while the scan is read.
    """
    count = count or SplitCount()
    splits = list(scan.splits)
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
            del batch  # else it stays in memory while the next one is read
        count.splits += 1


class _SplitEnd:
    """Marks the end of a split."""


class _ThreadEnd:
    """Marks the end of a thread: its last item."""


_Item: TypeAlias = "pa.RecordBatch | BaseException | _SplitEnd | _ThreadEnd"


class _Queue:
    """Items that threads have read and the consumer has not taken, in order, with room for some bytes.

    Args:
        room_bytes: the room; an empty queue takes one batch of any size.
    """

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes
        self._items: deque[tuple[_Item, int]] = deque()
        self._taken_bytes = 0
        self._changed = threading.Condition()
        self._stopped = False

    def reserve(self, size_bytes: int) -> bool:
        """Wait for room and take it; False if the queue is stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not self._taken_bytes or self._fits(size_bytes))
            self._taken_bytes += size_bytes
            return not self._stopped

    def put(self, item: _Item, size_bytes: int, reserved_bytes: int) -> None:
        """Append an item; its size replaces the bytes that were reserved for it."""
        with self._changed:
            self._taken_bytes += size_bytes - reserved_bytes
            self._items.append((item, size_bytes))
            self._changed.notify_all()

    def take(self) -> _Item | None:
        """Remove and return the next item; None if none came for a while."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, _LOOK_UP_S):
                return None
            item, size_bytes = self._items.popleft()
            self._taken_bytes -= size_bytes
            self._changed.notify_all()
            return item

    def stop(self) -> None:
        """Drop all items and wake all threads that wait for room: the consumer takes no more."""
        with self._changed:
            self._stopped = True
            self._items.clear()
            self._changed.notify_all()

    def _fits(self, size_bytes: int) -> bool:
        return self._taken_bytes + size_bytes <= self._room_bytes


class _NobodyReadsError(Exception):
    """Ends the thread of a split whose rows nobody takes."""


def _end() -> None:
    raise _NobodyReadsError


class _ParallelRead:
    def __init__(
        self, scan: Scan, splits: list[Split], threads: int, check: Callable[[], None], count: SplitCount
    ) -> None:
        self._scan = scan
        self._count = count
        self._splits = iter(splits)
        self._next_split = threading.Lock()
        self._check = check
        self._queue = _Queue(threads * _BYTES_PER_THREAD)
        self._threads = [
            threading.Thread(target=self._read, name=f"scan-{number}", daemon=True)
            for number in range(threads)
        ]

    def batches(self) -> Iterator[pa.RecordBatch]:
        for thread in self._threads:
            thread.start()
        try:
            yield from self._items()
        finally:
            self._queue.stop()
            # A split may read long before its next batch: that ends, too.
            self._scan.counter.on_check(_end)
            for thread in self._threads:
                thread.join()

    def _items(self) -> Iterator[pa.RecordBatch]:
        running = len(self._threads)
        while running:
            self._check()
            item = self._queue.take()
            if item is None:
                continue
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, _SplitEnd):
                self._count.splits += 1
            elif isinstance(item, _ThreadEnd):
                running -= 1
            else:
                self._count.rows += item.num_rows
                yield item
            del item  # else it stays in memory while the caller waits for the next one

    def _read(self) -> None:
        try:
            expected = _LEAST_BYTES
            while (split := self._take()) is not None:
                batches = iter(self._scan.read(split))
                while self._queue.reserve(expected):
                    batch = next(batches, None)
                    if batch is None:
                        self._queue.put(_SplitEnd(), 0, expected)
                        break
                    reserved, expected = expected, max(batch.nbytes, _LEAST_BYTES)
                    self._queue.put(batch, expected, reserved)
                    del batch
                else:  # the queue is stopped: nobody waits for an end
                    return
            self._queue.put(_ThreadEnd(), 0, 0)
        except BaseException as error:  # the consumer raises it: nobody looks at this thread
            self._queue.put(error, 0, 0)

    def _take(self) -> Split | None:
        with self._next_split:
            return next(self._splits, None)
