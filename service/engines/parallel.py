"""Reads the splits of a scan by several threads.

Each thread takes the next split and puts its batches into one bounded queue, so a slow consumer holds the readers back.
The threads belong to the scan and end with it: threads shared between scans would deadlock in a join, where one scan is not
read before another has ended. Small scans are read by the caller, in order.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from catalog import Scan, Split

_BATCHES_PER_THREAD = 2
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
        count.splits += 1


class _SplitEnded:
    """A thread's word behind a split."""


class _Ended:
    """A thread's last word."""


_Found: TypeAlias = "pa.RecordBatch | BaseException | _SplitEnded | _Ended"


class _ParallelRead:
    def __init__(
        self, scan: Scan, splits: list[Split], threads: int, check: Callable[[], None], count: SplitCount
    ) -> None:
        self._scan = scan
        self._count = count
        self._waiting = iter(splits)
        self._next_split = threading.Lock()
        self._check = check
        self._stop = threading.Event()
        self._queue: queue.Queue[_Found] = queue.Queue(threads * _BATCHES_PER_THREAD)
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
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def _taken(self) -> Iterator[pa.RecordBatch]:
        running = len(self._threads)
        while running:
            self._check()
            try:
                found = self._queue.get(timeout=_LOOK_UP_S)
            except queue.Empty:
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

    def _read(self) -> None:
        try:
            while (split := self._take()) is not None:
                for batch in self._scan.read(split):
                    if not self._put(batch):
                        return
                self._put(_SplitEnded())
            self._put(_Ended())
        except BaseException as error:  # it is raised where the batches are taken
            self._put(error)

    def _take(self) -> Split | None:
        with self._next_split:
            return next(self._waiting, None)

    def _put(self, found: _Found) -> bool:
        """Whether somebody will take it."""
        while not self._stop.is_set():
            try:
                self._queue.put(found, timeout=_LOOK_UP_S)
            except queue.Full:
                continue
            return True
        return False
