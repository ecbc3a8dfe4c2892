"""The table of the keys of some key groups: how many entries and bytes each has.

Keys are the bytes of their serializer. The table is open-addressed, by a hash of these bytes, and keys are compared byte by byte: what
it says is exact as long as all keys have room. A slot is a row of int64 words:

| word | meaning |
|---|---|
| CODE | the hash; 0 for a free slot |
| ENTRIES | how many entries the key has |
| BYTES | the sum of their numbers |
| LEAST | the least of their numbers |
| KEY KEY_BYTES | where the key stands in the table's own memory, and its length |
| GROUP | its key group |
| SEEN | 1 as soon as `mark` was called with it |

The numbers are given with the entries: their sizes, or the times of timers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import copy_bytes, load_le_i4, load_le_i8, same_bytes, store_8
from readers.formats.rocksdb.sst.words import hash_bytes, shift_right, wrapping_sum

CODE = 0
ENTRIES = 1
BYTES = 2
LEAST = 3
KEY = 4
KEY_BYTES = 5
GROUP = 6
SEEN = 7
SLOT_WORDS = 8

_SLOT_BYTES = SLOT_WORDS * 8
_LEAST_SLOTS = 1 << 10
_LEAST_MEMORY = 1 << 14
# Other keys that stand in the way: more of them come from hostile keys only, and would cost time without bound.
_MOST_TRIES = 1 << 10
_SEED = 1609587929392839161  # a prime of XXH3


@subroutine
def _place(slots: int, count: int, memory: int, code: int, key: int, length: int) -> int:
    """Return the slot of a key, or the free one for it; -1 if too many others are in the way."""
    place = code & (count - 1)
    tries = 0
    while tries < _MOST_TRIES:
        slot = slots + place * _SLOT_BYTES
        found = load_le_i8(slot, CODE * 8)
        if found == 0:
            return slot
        if (
            found == code
            and load_le_i8(slot, KEY_BYTES * 8) == length
            and same_bytes(memory + load_le_i8(slot, KEY * 8), key, length)
        ):
            return slot
        place = (place + 1) & (count - 1)
        tries += 1
    return -1


@kernel
def add_entries(
    data: int,
    starts: int,
    ends: int,
    numbers: int,
    groups: int,
    first: int,
    count: int,
    weight: int,
    slots: int,
    slot_count: int,
    memory: int,
    memory_bytes: int,
    used: int,
    keys: int,
    parts: int,
    part: int,
) -> tuple[int, int, int]:
    """Add entries from `first` on whose key is of a part; return the next entry, and the keys of the table and their bytes.

    It stops before an entry whose key has no room.
    """
    index = first
    while index < count:
        key = data + load_le_i8(starts, index * 8)
        length = load_le_i8(ends, index * 8) - load_le_i8(starts, index * 8)
        code = hash_bytes(key, length, _SEED)
        # The high bits choose the part, the low ones the slot.
        if parts > 1 and (shift_right(code, 40) & (parts - 1)) != part:
            index += 1
            continue
        slot = _place(slots, slot_count, memory, code, key, length)
        if slot < 0:
            return index, keys, used
        number = load_le_i8(numbers, index * 8)
        if load_le_i8(slot, CODE * 8) == 0:
            if 2 * keys >= slot_count or used + length > memory_bytes:
                return index, keys, used
            store_8(slot, CODE * 8, code)
            store_8(slot, KEY * 8, used)
            store_8(slot, KEY_BYTES * 8, length)
            store_8(slot, GROUP * 8, load_le_i4(groups, index * 4))
            store_8(slot, LEAST * 8, number)
            copy_bytes(key, memory + used, length)
            used += length
            keys += 1
        store_8(slot, ENTRIES * 8, load_le_i8(slot, ENTRIES * 8) + weight)
        store_8(slot, BYTES * 8, wrapping_sum(load_le_i8(slot, BYTES * 8), number))
        if number < load_le_i8(slot, LEAST * 8):
            store_8(slot, LEAST * 8, number)
        index += 1
    return index, keys, used


@kernel
def mark_entries(
    data: int, starts: int, ends: int, count: int, slots: int, slot_count: int, memory: int
) -> None:
    """Mark the keys of the table that these entries have."""
    index = 0
    while index < count:
        key = data + load_le_i8(starts, index * 8)
        length = load_le_i8(ends, index * 8) - load_le_i8(starts, index * 8)
        slot = _place(slots, slot_count, memory, hash_bytes(key, length, _SEED), key, length)
        if slot >= 0 and load_le_i8(slot, CODE * 8) != 0:
            store_8(slot, SEEN * 8, 1)
        index += 1


@kernel
def move_slots(
    rows: int, count: int, old_memory: int, slots: int, slot_count: int, memory: int
) -> tuple[int, int]:
    """Put slots into an empty table with room for them; return how many, and the bytes of their keys."""
    index = 0
    used = 0
    moved = 0
    while index < count:
        row = rows + index * _SLOT_BYTES
        index += 1
        code = load_le_i8(row, CODE * 8)
        if code == 0:
            continue
        key = old_memory + load_le_i8(row, KEY * 8)
        length = load_le_i8(row, KEY_BYTES * 8)
        slot = _place(slots, slot_count, memory, code, key, length)
        # The table is larger or emptier than the one that they came from: hostile keys alone have no place.
        if slot < 0:
            continue
        word = 0
        while word < SLOT_WORDS:
            store_8(slot, word * 8, load_le_i8(row, word * 8))
            word += 1
        store_8(slot, KEY * 8, used)
        copy_bytes(key, memory + used, length)
        used += length
        moved += 1
    return moved, used


class KeyTable:
    """Keys with their entries; grows up to its limits.

    Args:
        most_keys: that have room, a power of 2.
        most_bytes: of all keys; one key has room however long it is.
        parts, part: only keys whose hash is of this part are kept; `parts` is a power of 2.
    """

    def __init__(self, most_keys: int, most_bytes: int, *, parts: int = 1, part: int = 0) -> None:
        self._most_keys = most_keys
        self._most_bytes = most_bytes
        self._parts, self._part = parts, part
        self.clear()

    def __len__(self) -> int:
        return self._keys

    def clear(self) -> None:
        """Forget all keys."""
        slots = min(_LEAST_SLOTS, 2 * self._most_keys)
        self._slots: NDArray[np.int64] = np.zeros((slots, SLOT_WORDS), dtype=np.int64)
        self._memory: NDArray[np.uint8] = np.empty(min(_LEAST_MEMORY, self._most_bytes), dtype=np.uint8)
        self._keys = self._used = 0

    def add(
        self,
        data: NDArray[np.uint8],
        bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
        numbers: NDArray[np.int64],
        groups: NDArray[np.int32],
        first: int = 0,
        *,
        weight: int = 1,
    ) -> int:
        """Add entries from number `first` on; return the next entry, which has no room, or how many there are.

        Args:
            data: a buffer.
            bounds: where keys begin and end in it, int64 (entries,).
            numbers: int64 (entries,), see above.
            groups: the key groups of the entries, int32 (entries,).
            first: the first entry to add.
            weight: how much an entry counts: 0 for the rest of one that was counted.
        """
        starts, ends, numbers, groups = map(np.ascontiguousarray, (*bounds, numbers, groups))
        while True:
            slots = self._slots
            first, self._keys, self._used = add_entries(
                data, starts, ends, numbers, groups, first, len(starts), weight, slots, len(slots),
                self._memory, len(self._memory), self._used, self._keys, self._parts, self._part,
            )  # fmt: skip
            if first == len(starts) or not self._grow(int(ends[first] - starts[first])):
                return first

    def mark(self, data: NDArray[np.uint8], bounds: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
        """Mark those of its keys that entries have; for the arguments see `add`."""
        starts, ends = map(np.ascontiguousarray, bounds)
        mark_entries(data, starts, ends, len(starts), self._slots, len(self._slots), self._memory)

    def rows(self) -> NDArray[np.int64]:
        """Return the slots with keys: int64 (keys, SLOT_WORDS)."""
        found: NDArray[np.int64] = self._slots[self._slots[:, CODE] != 0]
        return found

    def key(self, row: NDArray[np.int64]) -> bytes:
        """Return the key of a slot."""
        start = int(row[KEY])
        return self._memory[start : start + int(row[KEY_BYTES])].tobytes()

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Forget all keys but those of some of its slots."""
        self._rebuild(np.ascontiguousarray(rows), len(self._slots), len(self._memory))

    def _grow(self, length: int) -> bool:
        """Make room for a key of `length` bytes; return False if the table is as large as it may be."""
        slots, memory = len(self._slots), len(self._memory)
        if self._used + length > memory:
            # A single key has room whatever its length.
            most = max(self._most_bytes, length if not self._keys else 0)
            if self._used + length > most:
                return False
            memory = min(max(2 * memory, self._used + length), most)
        else:
            if slots >= 2 * self._most_keys:
                return False
            slots *= 2
        self._rebuild(self._slots, slots, memory)
        return True

    def _rebuild(self, rows: NDArray[np.int64], slots: int, memory_bytes: int) -> None:
        old = self._memory
        fresh: NDArray[np.int64] = np.zeros((slots, SLOT_WORDS), dtype=np.int64)
        self._memory = np.empty(memory_bytes, dtype=np.uint8)
        found: Any = move_slots(rows, len(rows), old, fresh, slots, self._memory)
        self._keys, self._used = found
        self._slots = fresh
