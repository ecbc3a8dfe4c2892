"""Looks up the entries of some keys in a key group of the full layout, and walks no further than needed.

A key group has no index: a lookup walks over all entries before the wanted ones. It ends as soon as no more entry can come:

| the walk ends | because |
|---|---|
| behind the last entry of the state | a writer puts the entries of a state together |
| where every key was found, unless the state has windows or is a map | a key and a namespace have one entry |

The first holds since Flink 1.2: the merge iterator reads RocksDB's entries in the order of key group and state, and the heap's
iterator reads one state table after the other. The second holds because RocksDB has one value for a key and a hash table has
one for equal keys; the keys that are looked up by their bytes are equal if and only if their bytes are. RocksDB's entries are
also sorted by key and the heap's are not; no file records which backend wrote it, so a lookup does not rely on the order.

A lookup does not read what follows. So it does not report bytes there that contradict the format, and does not find a state or a key
that comes a second time, which no writer produces. A scan does both. The number of bytes that arrive at a time does not
change the result.

Flink: RocksStatesPerKeyGroupMergeIterator, HeapKeyValueStateIterator, FullSnapshotAsyncWriter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_i4, load_le_i8, load_u1, load_u2, store_1, store_8
from readers.errors import CorruptDataError, hex_window
from readers.formats.full.layout import (
    END_OF_KEY_GROUP,
    LEAST_ENTRY_BYTES,
    META_FOLLOWS,
    NOWHERE,
    PAGE_ENTRIES,
    StateRanges,
)
from readers.storage.filesystems import Windows

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
        It ended with 0: the wanted state begins or ends, or no key or no room is left. With `_CORRUPT`: the bytes at the
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
            before = state
            state = load_u2(data, behind - 2)
            if state == END_OF_KEY_GROUP or (state == wanted) != (before == wanted):
                return found, position, state, 0, left
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
    """

    def __init__(
        self, windows: Windows, target: LookupTarget, ranges: StateRanges, account: Callable[[int], None]
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
        self._state = None if beginning is None else target.state
        self._position = self._begun = windows.start if beginning is None else beginning
        self._needed = self._position + _STATE_BYTES

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
            starts, ends, found, stopped = self._find(limit)
            if found:
                yield windows.data, starts[:found], ends[:found]
            if stopped == _CORRUPT:
                raise self._corrupt()
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
        if self._state == self._target.state:
            self._ranges.keep_beginning(self._state, self._position)

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
        self._position = position + base
        if before != target.state:
            self._note_beginning()
        is_behind = before == target.state and self._state != target.state
        self.is_over = stopped == 0 and (is_behind or self._state == END_OF_KEY_GROUP or self._left == 0)
        return starts, ends, found, stopped + base if stopped > 0 else stopped

    def _note_beginning(self) -> None:
        if self._state == self._target.state:
            self._ranges.keep_beginning(self._target.state, self._position)
        elif self._state == END_OF_KEY_GROUP:
            self._ranges.keep_beginning(self._target.state, NOWHERE)

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
