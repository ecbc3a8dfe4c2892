"""Splits read by several threads: every batch comes once, and few bytes wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import Scan
from catalog.scan import ScanCounter, Split
from service.query.engines.parallel import SplitCount, read_splits
from tests.support.examples import examples

ROOM = 8 << 20
THREADS = 3
SCHEMA = pa.schema([("value", pa.binary())])
LARGE = pa.py_buffer(bytes(64 << 20))


def batch_of(size_bytes: int) -> pa.RecordBatch:
    """A batch of one value of this size; all batches share their memory."""
    offsets = pa.array([0, size_bytes], pa.int32()).buffers()[1]
    value = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, LARGE.slice(0, size_bytes)])
    return pa.RecordBatch.from_arrays([value], schema=SCHEMA)


@dataclass
class Ahead:
    """The most bytes that were read and not taken yet."""

    now: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, size_bytes: int) -> None:
        with self.lock:
            self.now += size_bytes
            self.most = max(self.most, self.now)


@dataclass
class SizesSplit(Split):
    """A split with batches of these sizes."""

    sizes: list[int]
    ahead: Ahead
    size_bytes: int = 64 << 20

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        for size in self.sizes:
            batch = batch_of(size)
            self.ahead.add(batch.nbytes)
            yield batch


def scan_of(sizes: list[list[int]], ahead: Ahead) -> Scan:
    splits = tuple(SizesSplit(each, ahead) for each in sizes)
    return Scan(SCHEMA, splits)


def read(sizes: list[list[int]]) -> tuple[list[int], int, SplitCount]:
    """Read a scan: the sizes of the values, the most bytes that waited, and the counts."""
    ahead, count, found = Ahead(), SplitCount(), []
    for batch in read_splits(scan_of(sizes, ahead), THREADS, lambda: None, count):
        found += pc.binary_length(batch.column("value")).to_pylist()
        ahead.add(-batch.nbytes)
    return found, ahead.most, count


@settings(max_examples=examples(25))
@given(
    sizes=st.lists(
        st.lists(st.sampled_from([0, 1000, 1 << 20, 3 << 20, 20 << 20]), max_size=12), min_size=2, max_size=6
    )
)
def test_every_batch_comes_once_and_few_bytes_wait(sizes: list[list[int]]) -> None:
    found, most, count = read(sizes)

    assert sorted(found) == sorted(size for each in sizes for size in each)
    assert count == SplitCount(splits=len(sizes), rows=len(found))
    # Beyond the room: a thread that expected less, each.
    assert most <= THREADS * (ROOM + (21 << 20))


def test_of_large_values_one_waits_behind_those_that_nobody_expected() -> None:
    value = 64 << 20
    found, most, _ = read([[value] * 10] * 4)

    assert found == [value] * 40
    assert most < THREADS * (value + 100)


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_a_reader_that_stops_early_leaves_no_thread(taken: int) -> None:
    ahead = Ahead()
    batches = read_splits(scan_of([[64 << 20] * 10] * 4, ahead), THREADS, lambda: None)
    assert isinstance(batches, Iterator)
    for _ in range(taken):
        next(batches)
    batches.close()  # type: ignore[attr-defined]  # a generator

    assert not [thread for thread in threading.enumerate() if thread.name.startswith("scan-")]
