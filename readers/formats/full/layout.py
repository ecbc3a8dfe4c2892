"""The full layout: canonical savepoints of any backend, full checkpoints of RocksDB up to 1.15.

The stream is a `KeyedBackendSerializationProxy`, then at the handle's offset of each key group that is not empty:

| bytes | meaning |
|---|---|
| u2 | state id: the index of the state in the proxy |
| i4 length, bytes | composite key; bit 80 of the first byte: "meta data follows this entry" |
| i4 length, bytes | value |
| [u2] | if that bit is set: FFFF for the end of the key group, else the next state id |

A writer puts the entries of a state together. After one walk over a key group its few `StateRanges` are known, and later walks step
over the states that are not wanted. With compression each key group is one snappy stream.

Flink: FullSnapshotAsyncWriter, FullSnapshotRestoreOperation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.decode.loads import load_i4, load_u1, load_u2, opaque, store_8
from readers.errors import CorruptDataError, hex_window

PAGE_ENTRIES = 1 << 15
# A walk pauses after so many bytes, also without entries: walked bytes of a mapped file stay in memory until they are released.
_STRETCH_BYTES = 4 << 20
MARK_BYTES = 2
NOWHERE = -1  # in place of a position: the state has no entries
END_OF_KEY_GROUP = 0xFFFF
META_FOLLOWS = 0x80
LENGTHS_BYTES = 8  # before key and value of an entry
LEAST_ENTRY_BYTES = 9  # two lengths and the first byte of the key, which carries the flag
# Guesses of lengths: a wrong one costs more than a right one saves, so that a walk gives up where one in four is wrong.
_CREDIT = 256
_MISS = 4
_NO_GUESS = -(2**31)
_COUNT = -1  # count the entries, store none
# Flink writes one range a state; a file with more ranges is read, too, but not remembered.
MOST_RANGES = 64

Release = Callable[[int, int], None]
"""Called with the start and end of bytes that are no longer needed; see `Stream.release`."""

_Room = tuple[NDArray[np.int64], NDArray[np.int64], int]  # arrays for starts and ends, and how many fit
_NO_BOUNDS: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)


def _keep(start: int, end: int) -> None:
    """Release nothing: the buffer is no mapped file."""


@kernel
def _walk(
    data: int,
    position: int,
    limit: int,
    stop: int,
    state: int,
    wanted: int,
    starts: int,
    ends: int,
    room: int,
    marks: int,
    marked: int,
) -> tuple[int, int, int, int, int]:
    """Walk a key group from the entry at `position` to the first entry at or behind `stop`; store up to `room` wanted entries.

    Each time the state changes, also store a mark (state, position of its first entry) in `marks` behind the first `marked`
    marks, as long as they fit.

    Returns:
        The number of entries found; the position and the state of the next entry (at the end of the key group: the position
        behind it, and the end mark); -1, or the position where the bytes contradict the format; the number of marks.
    """
    found = 0
    key_guess = 0
    value_guess = 0
    credit = _CREDIT
    # Where an entry begins depends on the lengths before it, and a processor would wait for each of them. The guess is that they
    # are those of the entry before: then it goes on with the next entries while it reads, and compares, the lengths.
    # Every length is checked against what is left before it is used: `limit - position` never overflows, a sum could.
    while True:
        start = position
        if position >= stop:
            return found, position, state, -1, marked
        if limit - position < 4:
            return found, position, state, position, marked
        credit += 1
        key_length = key_guess
        stored = load_i4(data, position)
        if stored != key_guess:
            key_length = opaque(stored)
            credit -= _MISS
            key_guess = key_length if credit > 0 else _NO_GUESS
        key = position + 4
        if key_length < 1 or key_length > limit - key - 4:
            return found, position, state, position, marked
        position = key + key_length
        value_length = value_guess
        stored = load_i4(data, position)
        if stored != value_guess:
            value_length = opaque(stored)
            credit -= _MISS
            value_guess = value_length if credit > 0 else _NO_GUESS
        value = position + 4
        if value_length < 0 or value_length > limit - value:
            return found, position, state, position, marked
        if state == wanted:
            if found == room:
                return found, start, state, -1, marked
            if room >= 0:
                store_8(starts, found * 16, key)
                store_8(ends, found * 16, key + key_length)
                store_8(starts, found * 16 + 8, value)
                store_8(ends, found * 16 + 8, value + value_length)
            found += 1
        position = value + value_length
        if load_u1(data, key) & META_FOLLOWS:
            if limit - position < 2:
                return found, position, state, position, marked
            state = load_u2(data, position)
            position += 2
            if marked < MOST_RANGES:
                store_8(marks, marked * 16, state)
                store_8(marks, marked * 16 + 8, position)
            marked += 1
            key_guess = 0
            value_guess = 0
            credit = _CREDIT
            if state == END_OF_KEY_GROUP:
                return found, position, state, -1, marked


class StateRanges:
    """The ranges of bytes that each state has in a key group.

    They are known after a walk to the end of the key group, unless the state changes more than `MOST_RANGES` times. A
    lookup stops earlier: after it only the beginning of one state is known.
    """

    __slots__ = ("_beginnings", "_marks")

    def __init__(self) -> None:
        self._marks: NDArray[np.int64] | None = None
        self._beginnings: dict[int, int] = {}

    @property
    def is_known(self) -> bool:
        """True if `of` can be called."""
        return self._marks is not None

    def keep(self, marks: NDArray[np.int64], marked: int) -> None:
        """Keep the marks of a walk from the first entry to the end of the key group."""
        if marked <= len(marks):
            self._marks = marks[:marked].copy()

    def keep_beginning(self, state: int, position: int) -> None:
        """Keep the position of the first entry of a state; `NOWHERE` if it has none."""
        self._beginnings[state] = position

    def beginning(self, state: int) -> int | None:
        """Return the position of the first entry of a state, `NOWHERE` if it has none, None if that is not known."""
        if self.is_known:
            return next((begin for begin, _ in self.of(state)), NOWHERE)
        return self._beginnings.get(state)

    def all(self) -> Iterator[tuple[int, int, int]]:
        """Yield (state, start, end) of all ranges by position, each end before the mark behind the last entry."""
        assert self._marks is not None
        for (owner, begin), (_, end) in pairwise(self._marks.tolist()):
            yield owner, begin, end - MARK_BYTES

    def of(self, state: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges (start, end) of a state's entries, each with the mark behind its last entry."""
        assert self._marks is not None
        marks: list[tuple[int, int]] = [(int(owner), int(begin)) for owner, begin in self._marks]
        for (owner, begin), (_, end) in pairwise(marks):
            if owner == state:
                yield begin, end


def is_key_group(data: NDArray[np.uint8], position: int, limit: int) -> bool:
    """Return whether these bytes are exactly one key group in this layout; reads all of them."""
    reader = _KeyGroupReader(data, position, limit, -1, "", _keep, None)
    try:
        return max((behind for _, behind in reader.steps(_no_room)), default=position) == limit
    except CorruptDataError:
        return False


def runs_of(
    data: NDArray[np.uint8],
    position: int,
    limit: int,
    path: str,
    ranges: StateRanges,
    release: Release = _keep,
) -> tuple[tuple[int, int, int], ...] | None:
    """Return (state, start, end) of the entries of each state that follow each other; None if the state changes very often.

    Args:
        data, position, limit, path, release: see `cut_key_group`.
        ranges: those of this key group, which become known.

    Raises:
        CorruptDataError: a length leads out of the key group, or it does not end with the end mark.
    """
    if not ranges.is_known:
        for _ in _KeyGroupReader(data, position, limit, -1, path, release, ranges).steps(_no_room):
            pass
    return tuple(ranges.all()) if ranges.is_known else None


def _no_room(_left_bytes: int) -> _Room:
    return _NO_BOUNDS, _NO_BOUNDS, _COUNT


def count_key_group(
    data: NDArray[np.uint8],
    position: int,
    limit: int,
    state: int,
    path: str,
    release: Release = _keep,
    ranges: StateRanges | None = None,
) -> int:
    """Count the entries of one state in a key group; for the arguments and errors see `cut_key_group`."""
    reader = _KeyGroupReader(data, position, limit, state, path, release, ranges)
    return sum(found for found, _ in reader.steps(_no_room))


def cut_key_group(
    data: NDArray[np.uint8],
    position: int,
    limit: int,
    state: int,
    path: str,
    release: Release = _keep,
    ranges: StateRanges | None = None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
    """Find the entries of one state in a key group, some at a time, so that a key with millions of entries takes little memory.

    Args:
        data: the buffer.
        position, limit: the range of the key group in the buffer.
        state: the id of the state.
        path: the file, for errors.
        release: called with ranges of bytes that are no longer needed.
        ranges: those of this key group; if they are known, other states are stepped over, else this walk makes them known.

    Yields:
        starts and ends, int64 (entries, 2), of 1 to PAGE_ENTRIES entries, and the position up to which bytes were walked.

    Raises:
        CorruptDataError: a length leads out of the key group, or it does not end with the end mark.
    """
    starts = ends = _NO_BOUNDS

    def page(left_bytes: int) -> _Room:
        nonlocal starts, ends
        room = min(PAGE_ENTRIES, left_bytes // LEAST_ENTRY_BYTES + 1)
        starts, ends = np.empty((room, 2), dtype=np.int64), np.empty((room, 2), dtype=np.int64)
        return starts, ends, room

    for found, behind in _KeyGroupReader(data, position, limit, state, path, release, ranges).steps(page):
        if found:
            yield starts[:found], ends[:found], behind


@dataclass(frozen=True, slots=True)
class _KeyGroupReader:
    """Walks a key group for one state; the fields are the arguments of `cut_key_group`."""

    data: NDArray[np.uint8]
    position: int
    limit: int
    state: int
    path: str
    release: Release
    ranges: StateRanges | None

    def steps(self, page: Callable[[int], _Room]) -> Iterator[tuple[int, int]]:
        """Yield, for each step of the walk, how many entries it found and the position behind it.

        Args:
            page: returns room for the entries of the next step; its argument is the number of bytes left at most.
        """
        if self.ranges is not None and self.ranges.is_known:
            for begin, end in self.ranges.of(self.state):
                yield from self._stretches(page, begin, end, self.state, _NO_BOUNDS, MOST_RANGES)
            return
        if self.limit - self.position < 2:
            raise _corrupt(self.data, self.position, self.limit, self.path)
        marks: NDArray[np.int64] = np.empty((MOST_RANGES, 2), dtype=np.int64)
        first, begin = _first_state(self.data, self.position), self.position + 2
        marks[0] = first, begin
        marked = yield from self._stretches(page, begin, self.limit, first, marks, 1)
        if self.ranges is not None:
            self.ranges.keep(marks, marked)

    def _stretches(
        self,
        page: Callable[[int], _Room],
        position: int,
        end: int,
        following: int,
        marks: NDArray[np.int64],
        marked: int,
    ) -> Generator[tuple[int, int], None, int]:
        """Walk from an entry of the state `following` to `end`, yield as `steps` does, and return the number of marks."""
        data, limit = self.data, self.limit
        # The walk of a known range stops at `end`; lengths are still checked against the end of the key group.
        is_whole = end == limit
        while following != END_OF_KEY_GROUP and (is_whole or position < end):
            starts, ends, room = page(end - position)
            begin, stop = position, position + _STRETCH_BYTES
            found, position, following, bad, marked = _walk(
                data, position, limit, stop if is_whole else min(stop, end), following, self.state, starts, ends, room,
                marks, marked,
            )  # fmt: skip
            if bad >= 0:
                raise _corrupt(data, bad, limit, self.path)
            yield found, position
            self.release(begin, position)
        return marked


def _first_state(data: NDArray[np.uint8], position: int) -> int:
    return int.from_bytes(data[position : position + 2].tobytes(), "big")


def _corrupt(data: NDArray[np.uint8], position: int, limit: int, path: str) -> CorruptDataError:
    window = hex_window(memoryview(data), position)
    return CorruptDataError(
        f"expected an entry of a key group that ends by byte {limit}; bytes {window}",
        path=path,
        position=position,
    )
