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

A key group has no index: the first lookup of some keys walks over all entries before the wanted ones, and leaves one (`index.py`). It
ends as soon as no more entry can come:

| the walk ends | because |
|---|---|
| behind the last entry of the state | a writer puts the entries of a state together |
| where every key was found, unless the state has windows or is a map | a key and a namespace have one entry |

The first holds since Flink 1.2: the merge iterator reads RocksDB's entries in the order of key group and state, and the heap's
iterator reads one state table after the other. The second holds because RocksDB has one value for a key and a hash table has
one for equal keys; the keys that are looked up by their bytes are equal if and only if their bytes are. RocksDB's entries are
also sorted by key and the heap's are not; no file records which backend wrote it, so a lookup does not rely on the order.

A lookup does not read what follows. So it does not report bytes there that contradict the format, and does not find a state or a key
that comes a second time, which no writer produces. Nor does a scan of large key groups that are fetched over a network; any other
scan does both. The number of bytes that arrive at a time does not change the result.

Flink: FullSnapshotAsyncWriter, FullSnapshotRestoreOperation, RocksStatesPerKeyGroupMergeIterator, HeapKeyValueStateIterator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_i4, load_le_i8, load_u1, load_u2, opaque, store_1, store_8
from readers.errors import CorruptDataError, hex_window
from readers.formats.full.index import StateIndex
from readers.formats.streams import KeyGroupBody
from readers.storage.filesystems import Windows

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

_Room = tuple[NDArray[np.int64], NDArray[np.int64], int]  # arrays for starts and ends, and how many fit
_NO_BOUNDS: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)


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
    """The ranges of bytes that each state has in a key group, as far as walks from its first entry have found them.

    A state has one range, unless a writer alternates them: of a key group in which they change more than `MOST_RANGES` times, only the
    first ranges are known.

    Attributes:
        indexes: of states, by their ids.
    """

    __slots__ = ("_marks", "indexes")

    def __init__(self) -> None:
        self._marks: list[tuple[int, int]] = []
        self.indexes: dict[int, StateIndex] = {}

    @property
    def is_known(self) -> bool:
        """True if all ranges are known."""
        return bool(self._marks) and self._marks[-1][0] == END_OF_KEY_GROUP

    @property
    def last(self) -> tuple[int, int] | None:
        """The state and the position up to which all ranges are known; None if none is."""
        return self._marks[-1] if self._marks else None

    def keep(self, marks: NDArray[np.int64], marked: int) -> None:
        """Keep the marks of a walk from the first entry to the end of the key group."""
        if marked <= len(marks):
            self._marks = [(int(state), int(position)) for state, position in marks[:marked]]

    def note(self, state: int, position: int) -> None:
        """Note the position of the first entry of a state behind the last known range; the end mark is behind all entries."""
        if len(self._marks) < MOST_RANGES and (not self._marks or position > self._marks[-1][1]):
            self._marks.append((state, position))

    def beginning(self, state: int) -> int | None:
        """Return the position of the first entry of a state, `NOWHERE` if it has none, None if that is not known."""
        unknown = NOWHERE if self.is_known else None
        return next((begin for owner, begin in self._marks if owner == state), unknown)

    def all(self) -> Iterator[tuple[int, int, int]]:
        """Yield (state, start, end) of the known ranges by position, each end before the mark behind the last entry."""
        for (owner, begin), (_, end) in pairwise(self._marks):
            yield owner, begin, end - MARK_BYTES

    def of(self, state: int) -> Iterator[tuple[int, int]]:
        """Yield the known ranges (start, end) of a state's entries, each with the mark behind its last entry."""
        for (owner, begin), (_, end) in pairwise(self._marks):
            if owner == state:
                yield begin, end


def is_key_group(data: NDArray[np.uint8], position: int, limit: int) -> bool:
    """Return whether these bytes are exactly one key group in this layout; reads all of them."""
    reader = _KeyGroupReader(
        KeyGroupBody(key_group=0, data=data, first=position, last=limit, path=""), -1, None
    )
    try:
        return max((behind for _, behind in reader.steps(_no_room)), default=position) == limit
    except CorruptDataError:
        return False


def runs_of(body: KeyGroupBody, ranges: StateRanges) -> tuple[tuple[int, int, int], ...] | None:
    """Return (state, start, end) of the entries of each state that follow each other; None if the state changes very often.

    Args:
        body: the key group.
        ranges: those of this key group, which become known.

    Raises:
        CorruptDataError: a length leads out of the key group, or it does not end with the end mark.
    """
    if not ranges.is_known:
        for _ in _KeyGroupReader(body, -1, ranges).steps(_no_room):
            pass
    return tuple(ranges.all()) if ranges.is_known else None


def _no_room(_left_bytes: int) -> _Room:
    return _NO_BOUNDS, _NO_BOUNDS, _COUNT


def count_key_group(body: KeyGroupBody, state: int, ranges: StateRanges | None = None) -> int:
    """Count the entries of one state in a key group; for the arguments and errors see `cut_key_group`."""
    return sum(found for found, _ in _KeyGroupReader(body, state, ranges).steps(_no_room))


def cut_key_group(
    body: KeyGroupBody, state: int, ranges: StateRanges | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
    """Find the entries of one state in a key group, some at a time, so that a key with millions of entries takes little memory.

    Args:
        body: the key group.
        state: the id of the state.
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

    for found, behind in _KeyGroupReader(body, state, ranges).steps(page):
        if found:
            yield starts[:found], ends[:found], behind


@dataclass(frozen=True, slots=True)
class _KeyGroupReader:
    """Walks a key group for one state; the fields are the arguments of `cut_key_group`."""

    body: KeyGroupBody
    state: int
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
        data, position, limit = self.body.data, self.body.first, self.body.last
        if limit - position < MARK_BYTES:
            raise _corrupt(self.body, position)
        marks: NDArray[np.int64] = np.empty((MOST_RANGES, 2), dtype=np.int64)
        begin = position + MARK_BYTES
        first = int.from_bytes(data[position:begin].tobytes(), "big")
        marks[0] = first, begin
        marked = yield from self._stretches(page, begin, limit, first, marks, 1)
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
        data, limit = self.body.data, self.body.last
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
                raise _corrupt(self.body, bad)
            yield found, position
            self.body.release(begin, position)
        return marked


def _corrupt(body: KeyGroupBody, position: int) -> CorruptDataError:
    window = hex_window(memoryview(body.data), position)
    return CorruptDataError(
        f"expected an entry of a key group that ends by byte {body.last}; bytes {window}",
        path=body.path,
        position=position,
    )


_STATE_BYTES = 2
_CORRUPT = -1

Entries = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]
"""A buffer, and the starts and ends of the entries in it, int64 (entries, 2)."""


@subroutine
def _which(data: int, position: int, end: int, keys: int, bounds: int, count: int) -> int:
    """Return the number of the sorted key that the bytes begin with; -1 for none. No key begins with another."""
    first = 0
    behind = count
    while first < behind:
        middle = (first + behind) // 2
        key = load_le_i8(bounds, middle * 8)
        length = load_le_i8(bounds, middle * 8 + 8) - key
        there = min(length, end - position)
        same = 0
        while same < there and load_u1(data, position + same) == load_u1(keys, key + same):
            same += 1
        if same == length:
            return middle
        if same == there or load_u1(data, position + same) < load_u1(keys, key + same):
            behind = middle
        else:
            first = middle + 1
    return -1


@kernel
def _find(
    data: int,
    position: int,
    limit: int,
    end: int,
    state: int,
    wanted: int,
    width: int,
    keys: int,
    bounds: int,
    count: int,
    seen: int,
    left: int,
    starts: int,
    ends: int,
    room: int,
) -> tuple[int, int, int, int, int]:
    """Walk a key group from an entry on; store up to `room` entries of the wanted state and keys.

    Args:
        data: the buffer.
        position: an entry.
        limit: the position behind the bytes that are in the buffer.
        end: the position behind the key group.
        state: the state of the entry at `position`.
        wanted: the state to find.
        width: the number of bytes before the key proper in a composite key.
        keys, bounds, count: the sorted keys, see `_which`; with `count` 0 all entries are wanted.
        seen: a byte for each key, 1 if it was found.
        left: the number of keys that were not found yet; the walk ends at 0; a negative number never ends it.

    Returns:
        The number of entries found; the position and the state of the next entry; why the walk ended; the new `left`.
        It ended with 0: a state ends, or no key or no room is left. With `_CORRUPT`: the bytes at the
        position contradict the format. Else it needs the bytes up to the returned position.
    """
    found = 0
    while True:
        start = position
        if end - position < 4:
            return found, position, state, _CORRUPT, left
        if limit - position < 4:
            return found, position, state, position + 4, left
        key_length = load_i4(data, position)
        key = position + 4
        if key_length < 1 or key_length > end - key - 4:
            return found, position, state, _CORRUPT, left
        position = key + key_length
        value = position + 4
        if limit < value:
            return found, start, state, value, left
        # Lengths are checked against the end of the key group, not against `limit`: the bytes behind that may just not be there yet.
        value_length = load_i4(data, position)
        if value_length < 0 or value_length > end - value:
            return found, position, state, _CORRUPT, left
        behind = value + value_length
        is_last = load_u1(data, key) & META_FOLLOWS
        if is_last:
            behind += 2
        if behind > end:
            return found, behind - 2, state, _CORRUPT, left
        which = -1
        if state == wanted and count == 0:
            which = 0
        elif state == wanted and key_length >= width:
            which = _which(data, key + width, position, keys, bounds, count)
        # An entry that is not wanted may be stepped over before its value is there, but not the state id behind it.
        if limit < behind and (is_last or which >= 0):
            return found, start, state, behind, left
        if which >= 0:
            if found == room:
                return found, start, state, 0, left
            store_8(starts, found * 16, key)
            store_8(ends, found * 16, position)
            store_8(starts, found * 16 + 8, value)
            store_8(ends, found * 16 + 8, value + value_length)
            found += 1
            if count and load_u1(seen, which) == 0:
                store_1(seen, which, 1)
                left -= 1
        position = behind
        if is_last:
            return found, position, load_u2(data, behind - 2), 0, left
        if left == 0:
            return found, position, state, 0, left


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupTarget:
    """The state and the keys that a lookup finds in a key group.

    Attributes:
        state: the id of the state.
        width: the number of bytes before the key proper in a composite key.
        keys: the bytes of the keys, sorted; empty for all entries of the state.
        is_single: True if a key has at most one entry.
    """

    state: int
    width: int
    keys: tuple[bytes, ...]
    is_single: bool


class Search:
    """A lookup in a key group, whose bytes arrive window by window.

    Args:
        windows: the bytes of the key group.
        target: the state and the keys to find.
        ranges: those of this key group; if the beginning of the state is known, the walk begins there, else it becomes known.
        account: called with the number of bytes of the file that were read.
        expected: the position up to which it may need the bytes: they are fetched together.
    """

    def __init__(
        self,
        windows: Windows,
        target: LookupTarget,
        ranges: StateRanges,
        account: Callable[[int], None],
        expected: int = 0,
    ) -> None:
        self._windows = windows
        self._target = target
        self._ranges = ranges
        self._account = account
        self._keys = np.frombuffer(b"".join(target.keys) or b"\0", dtype=np.uint8)
        self._bounds = np.cumsum([0, *map(len, target.keys)], dtype=np.int64)
        self._seen: NDArray[np.uint8] = np.zeros(max(len(target.keys), 1), dtype=np.uint8)
        # A key of a map or of a windowed state has more entries, wherever they stand: these walks never end with a key.
        self._left = len(target.keys) if target.is_single and target.keys else -1
        # An earlier scan or lookup may have found where the state begins, or that the key group has none of it.
        beginning = ranges.beginning(target.state)
        self.is_over = beginning == NOWHERE
        self._state: int | None = None
        begin = windows.start
        if beginning is not None:
            self._state, begin = target.state, beginning
        elif ranges.last is not None:
            self._state, begin = ranges.last
        self._position = self._begun = begin
        self._needed = max(begin + _STATE_BYTES, min(expected, windows.end))
        self._index: StateIndex | None = None
        self._stop: int | None = None
        self._spans: deque[tuple[int, int | None]] = deque()
        if beginning is not None and not self.is_over:
            self._open_index(beginning)
        if self._index is not None and target.keys:
            spans, behind = self._index.spans(target.keys)
            self._spans += spans
            if behind is not None:
                self._spans.append((behind, None))
            self._take_span()

    def _open_index(self, beginning: int) -> None:
        """Find the index of the state, or begin one. Places in compressed bytes are no places to read from."""
        windows, target = self._windows, self._target
        if windows.is_plain:
            new = StateIndex(beginning, target.width, windows.end - windows.start, is_single=target.is_single)
            self._index = self._ranges.indexes.setdefault(target.state, new)

    def _take_span(self) -> None:
        """Go on where entries of the keys may be next."""
        self._account(self._windows.taken_bytes(self._begun, self._position))
        self.is_over = not self._spans
        if self._spans:
            begin, self._stop = self._spans.popleft()
            self._position = self._begun = begin
            self._needed = self._stop or begin + _STATE_BYTES
        else:
            self._begun = self._position

    @property
    def position(self) -> int:
        """Behind the last entry that it has walked over."""
        return self._position

    def ask(self) -> None:
        """Request the bytes that the next step needs, without waiting."""
        self._windows.ask(self._position, self._needed)

    def step(self) -> Iterator[Entries]:
        """Wait for the next bytes and yield the entries in them.

        Raises:
            CorruptDataError: a length leads out of the key group, or it does not end with the end mark.
            ReaderError: the bytes cannot be read.
        """
        windows = self._windows
        limit = windows.reach(self._position, self._needed)
        if self._state is None:
            self._enter(limit)
        while not self.is_over:
            starts, ends, found, stopped = self._find(limit if self._stop is None else min(limit, self._stop))
            if found:
                yield windows.data, starts[:found], ends[:found]
            if stopped == _CORRUPT:
                raise self._corrupt()
            if self._stop is not None and self._position >= self._stop and not self.is_over:
                self._take_span()
                return
            if stopped:
                self._needed = stopped
                return

    def _enter(self, limit: int) -> None:
        """Read the id of the first state."""
        if limit < self._needed:
            raise self._corrupt()
        first = self._position - self._windows.base
        self._state = int.from_bytes(self._windows.data[first : first + _STATE_BYTES].tobytes(), "big")
        self._position += _STATE_BYTES
        self._note(self._state)

    def _find(self, limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int, int]:
        """Walk on; return starts, ends and number of the entries found, and why the walk ended (see the kernel)."""
        windows, target, before = self._windows, self._target, self._state
        # Room for as many entries as the bytes that are there can hold, but for no more than a page.
        base, room = windows.base, min(PAGE_ENTRIES, max(limit - self._position, 0) // LEAST_ENTRY_BYTES + 1)
        starts, ends = np.empty((room, 2), dtype=np.int64), np.empty((room, 2), dtype=np.int64)
        found, position, self._state, stopped, self._left = _find(
            windows.data, self._position - base, limit - base, windows.end - base, before, target.state, target.width,
            self._keys, self._bounds, len(target.keys), self._seen, self._left, starts, ends, room,
        )  # fmt: skip
        begin, self._position = self._position, position + base
        is_behind = before == target.state and self._state != target.state
        if before == target.state and self._index is not None and self._stop is None and stopped != _CORRUPT:
            self._index.extend(windows.data, begin, self._position, is_whole=is_behind)
        if self._state != before:
            self._note(self._state)
        self.is_over = stopped == 0 and (is_behind or self._state == END_OF_KEY_GROUP or self._left == 0)
        return starts, ends, found, stopped + base if stopped > 0 else stopped

    def _note(self, state: int) -> None:
        """Note that a state begins here, or that the key group ends."""
        self._ranges.note(state, self._position)
        if state == self._target.state:
            self._open_index(self._position)

    def _corrupt(self) -> CorruptDataError:
        window = hex_window(memoryview(self._windows.data), self._position - self._windows.base)
        return CorruptDataError(
            f"expected an entry of a key group; bytes {window}",
            path=self._windows.path,
            position=self._position,
        )

    def close(self) -> None:
        """End the lookup and account for the bytes that were read."""
        self._account(self._windows.taken_bytes(self._begun, self._position))
        self._windows.close(self._position)


def in_rounds(searches: Mapping[int, Search]) -> Iterator[tuple[int, Entries]]:
    """Yield what each search finds, with its number.

    In each round all searches request their next bytes before one of them waits: over a network they wait together.

    Raises:
        ReaderError: as `Search.step`.
    """
    try:
        while waiting := {number: search for number, search in searches.items() if not search.is_over}:
            for search in waiting.values():
                search.ask()
            for number, search in waiting.items():
                for found in search.step():
                    yield number, found
    finally:
        for search in searches.values():
            search.close()
