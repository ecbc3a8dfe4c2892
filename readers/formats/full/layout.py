"""The full layout: canonical savepoints of any backend, full checkpoints of RocksDB up to 1.15.

The stream is a `KeyedBackendSerializationProxy`, then at the handle's offset of each key group that is not empty:

| bytes | meaning |
|---|---|
| u2 | state id: the index of the state in the proxy |
| i4 length, bytes | composite key; bit 80 of the first byte: "meta data follows this entry" |
| i4 length, bytes | value |
| [u2] | if that bit is set: FFFF for the end of the key group, else the next state id |

A writer puts the entries of a state together, so a key group that was walked once is known by its few `StateRanges`, and what the
next one does not want is stepped over. With compression each key group is one snappy stream. Flink:
FullSnapshotAsyncWriter, FullSnapshotRestoreOperation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.decode.loads import load_i4, load_u1, load_u2, store_8
from readers.errors import CorruptDataError, hex_window

PAGE_ENTRIES = 1 << 15
# Also where a state has no entries: what was walked of a mapped file is memory until it is given back.
_STRETCH_BYTES = 4 << 20
NOWHERE = -1
END_OF_KEY_GROUP = 0xFFFF
META_FOLLOWS = 0x80
LEAST_ENTRY_BYTES = 9
_COUNT = -1  # room for any number of entries, none of which is filled in
_MOST_RANGES = 64

Release = Callable[[int, int], None]
"""Told of bytes that are done with, from … to; see `Stream.release`."""

_Room = tuple[NDArray[np.int64], NDArray[np.int64], int]  # for starts and ends, and for how many
_NO_PLACES: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)


def _keep(start: int, end: int) -> None:
    """The buffer is no mapped file."""


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
    """Walk a key group from an entry up to one at `stop` or behind; fill in the wanted state's entries, as many as there is `room` for.

    Also fill in `marks`, behind the first `marked` ones: the state that follows, and where; no more than fit.

    Returns:
        The number of entries found, the position and the state of the next entry (of the end of the key group the position
        behind it, and its mark), and -1; or in place of that the position where the bytes contradict the format. And how
        many marks there are.
    """
    found = 0
    while True:
        start = position
        if position >= stop:
            return found, position, state, -1, marked
        if limit - position < 4:
            return found, position, state, position, marked
        key_length = load_i4(data, position)
        key = position + 4
        if key_length < 1 or key_length > limit - key - 4:
            return found, position, state, position, marked
        position = key + key_length
        value_length = load_i4(data, position)
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
            if marked < _MOST_RANGES:
                store_8(marks, marked * 16, state)
                store_8(marks, marked * 16 + 8, position)
            marked += 1
            if state == END_OF_KEY_GROUP:
                return found, position, state, -1, marked


class StateRanges:
    """Where the states stand in a key group; known when it was walked to its end, unless they change too often.

    Who walked to one of them only knows where that begins.
    """

    __slots__ = ("_beginnings", "_marks")

    def __init__(self) -> None:
        self._marks: NDArray[np.int64] | None = None
        self._beginnings: dict[int, int] = {}

    @property
    def is_known(self) -> bool:
        """Whether `of` can tell."""
        return self._marks is not None

    def keep(self, marks: NDArray[np.int64], marked: int) -> None:
        """Take what a walk from the first entry to the end of the key group found."""
        if marked <= len(marks):
            self._marks = marks[:marked].copy()

    def keep_beginning(self, state: int, position: int) -> None:
        """Take where the first entry of a state stands; `NOWHERE` if it has none."""
        self._beginnings[state] = position

    def beginning(self, state: int) -> int | None:
        """Where the first entry of a state stands, `NOWHERE` if it has none; None if that is not known."""
        if self.is_known:
            return next((begin for begin, _ in self.of(state)), NOWHERE)
        return self._beginnings.get(state)

    def of(self, state: int) -> Iterator[tuple[int, int]]:
        """From … to of the entries of a state, the marks behind them included."""
        assert self._marks is not None
        places: list[tuple[int, int]] = [(int(owner), int(place)) for owner, place in self._marks]
        for (owner, begin), (_, end) in pairwise(places):
            if owner == state:
                yield begin, end


def is_key_group(data: NDArray[np.uint8], position: int, limit: int) -> bool:
    """Whether a key group in this layout fills these bytes; reads all of them."""
    reader = _KeyGroupReader(data, position, limit, -1, "", _keep, None)
    try:
        return max((behind for _, behind in reader.steps(_no_room)), default=position) == limit
    except CorruptDataError:
        return False


def _no_room(_left_bytes: int) -> _Room:
    return _NO_PLACES, _NO_PLACES, _COUNT


def count_key_group(
    data: NDArray[np.uint8],
    position: int,
    limit: int,
    state: int,
    path: str,
    release: Release = _keep,
    ranges: StateRanges | None = None,
) -> int:
    """How many entries one state has in a key group; for the arguments and errors see `cut_key_group`."""
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
    """Where the entries of one state stand in a key group, some at a time: memory is bounded where one key has millions.

    Args:
        data: the buffer.
        position, limit: where the key group stands in it.
        state: the id of the state.
        path: the file, for errors.
        release: told of bytes that are done with.
        ranges: of this key group; where they are known, other states are stepped over, else they become known.

    Yields:
        starts and ends, int64 (entries, 2), at least one and at most PAGE_ENTRIES; and the position behind what was walked.

    Raises:
        CorruptDataError: a length leads out of the key group, or it does not end with the end mark.
    """
    starts = ends = _NO_PLACES

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
    """One state's way through a key group; the fields are the arguments of `cut_key_group`."""

    data: NDArray[np.uint8]
    position: int
    limit: int
    state: int
    path: str
    release: Release
    ranges: StateRanges | None

    def steps(self, page: Callable[[int], _Room]) -> Iterator[tuple[int, int]]:
        """How many entries each step found, and the position behind it.

        Args:
            page: gives room for the entries of the next step; it is told how many bytes are left at most.
        """
        if self.ranges is not None and self.ranges.is_known:
            for begin, end in self.ranges.of(self.state):
                yield from self._stretches(page, begin, end, self.state, _NO_PLACES, _MOST_RANGES)
            return
        if self.limit - self.position < 2:
            raise _corrupt(self.data, self.position, self.limit, self.path)
        marks: NDArray[np.int64] = np.empty((_MOST_RANGES, 2), dtype=np.int64)
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
        """As `steps`, from an entry of the state `following` to an end; returns how many marks there are then."""
        data, limit = self.data, self.limit
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
