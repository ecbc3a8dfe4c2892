"""Entries of two key groups whose bytes differ, where nothing but a walk finds the end of an entry.

Both sides are walked in step. Where two entries are not the same, the next ones on both sides are looked through for a pair of
equal bytes, and the walk goes on there. Of what was stepped over, entries that are equal wherever they stand are left out in the
end: the hash tables of the hashmap backend change their order as they grow.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i4, load_le_i8, same_bytes, store_4, store_8
from readers.formats.rocksdb.sst.words import hash_bytes

# So many entries of both sides are looked through for an equal pair, where the walk has lost its step.
_AHEAD = 8
_COMPARED_BYTES = 1 << 20
_SEED = secrets.randbits(63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Entries of a state in a key group.

    Attributes:
        data: the buffer.
        starts, ends: int64, shape (entries, 1): the bytes of each.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def chosen(self, numbers: NDArray[np.int64]) -> Entries:
        """Return some of the entries."""
        return Entries(data=self.data, starts=self.starts[numbers], ends=self.ends[numbers])


@subroutine
def _is_equal(
    old: int, old_starts: int, old_ends: int, one: int, new: int, new_starts: int, new_ends: int, other: int
) -> bool:
    """Return whether two entries have the same bytes."""
    start = load_le_i8(old_starts, one * 8)
    there = load_le_i8(new_starts, other * 8)
    size = load_le_i8(old_ends, one * 8) - start
    if load_le_i8(new_ends, other * 8) - there != size:
        return False
    is_equal: bool = same_bytes(old + start, new + there, size)
    return is_equal


@kernel
def _walk(
    old: int,
    old_starts: int,
    old_ends: int,
    old_count: int,
    new: int,
    new_starts: int,
    new_ends: int,
    new_count: int,
    old_left: int,
    new_left: int,
) -> tuple[int, int]:
    """Store the numbers of the entries of either side that were stepped over; return how many these are."""
    one = 0
    other = 0
    olds = 0
    news = 0
    while one < old_count and other < new_count:
        if _is_equal(old, old_starts, old_ends, one, new, new_starts, new_ends, other):
            one += 1
            other += 1
            continue
        old_skip = -1
        new_skip = -1
        # The fewest entries that are stepped over come first.
        for steps in range(1, 2 * _AHEAD - 1):
            for skip in range(steps + 1):
                if (
                    old_skip < 0
                    and skip < _AHEAD
                    and steps - skip < _AHEAD
                    and one + skip < old_count
                    and other + steps - skip < new_count
                    and _is_equal(
                        old, old_starts, old_ends, one + skip, new, new_starts, new_ends, other + steps - skip
                    )
                ):
                    old_skip = skip
                    new_skip = steps - skip
            if old_skip >= 0:
                break
        if old_skip < 0:
            old_skip = 1
            new_skip = 1
        for _ in range(old_skip):
            store_8(old_left, olds * 8, one)
            olds += 1
            one += 1
        for _ in range(new_skip):
            store_8(new_left, news * 8, other)
            news += 1
            other += 1
    while one < old_count:
        store_8(old_left, olds * 8, one)
        olds += 1
        one += 1
    while other < new_count:
        store_8(new_left, news * 8, other)
        news += 1
        other += 1
    return olds, news


@subroutine
def _hash(data: int, starts: int, ends: int, number: int, seed: int) -> int:
    start = load_le_i8(starts, number * 8)
    code: int = hash_bytes(data + start, load_le_i8(ends, number * 8) - start, seed)
    return code


@kernel
def _match(
    old: int,
    old_starts: int,
    old_ends: int,
    old_count: int,
    new: int,
    new_starts: int,
    new_ends: int,
    new_count: int,
    slots: int,
    bits: int,
    old_equal: int,
    new_equal: int,
    seed: int,
) -> None:
    """Store 1 for each entry of either side that has a partner of the same bytes, one for one; `slots` are 2^bits of i4, all -1."""
    mask = (1 << bits) - 1
    for number in range(old_count):
        slot = _hash(old, old_starts, old_ends, number, seed) & mask
        while load_le_i4(slots, slot * 4) >= 0:
            slot = (slot + 1) & mask
        store_4(slots, slot * 4, number)
    for number in range(new_count):
        slot = _hash(new, new_starts, new_ends, number, seed) & mask
        while True:
            candidate = load_le_i4(slots, slot * 4)
            if candidate < 0:
                break
            if not load_le_i4(old_equal, candidate * 4) and _is_equal(
                old, old_starts, old_ends, candidate, new, new_starts, new_ends, number
            ):
                store_4(old_equal, candidate * 4, 1)
                store_4(new_equal, number * 4, 1)
                break
            slot = (slot + 1) & mask


def is_same(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> bool:
    """Return whether two ranges have the same bytes."""
    return len(before) == len(after) and all(
        np.array_equal(before[start : start + _COMPARED_BYTES], after[start : start + _COMPARED_BYTES])
        for start in range(0, len(before), _COMPARED_BYTES)
    )


def without_equal(before: Entries, after: Entries) -> tuple[Entries, Entries]:
    """Return the entries of either side that have no partner of the same bytes on the other one."""
    if not len(before) or not len(after):
        return before, after
    left_old, left_new = (np.empty(len(side), dtype=np.int64) for side in (before, after))
    olds, news = _walk(
        before.data, before.starts, before.ends, len(before), after.data, after.starts, after.ends, len(after),
        left_old, left_new,
    )  # fmt: skip
    old, new = before.chosen(left_old[:olds]), after.chosen(left_new[:news])
    if not olds or not news:
        return old, new
    bits = max(4, (2 * olds - 1).bit_length())
    slots = np.full(1 << bits, -1, dtype=np.int32)
    equal_old, equal_new = (np.zeros(count, dtype=np.int32) for count in (olds, news))
    _match(
        old.data, old.starts, old.ends, olds, new.data, new.starts, new.ends, news, slots, bits, equal_old, equal_new,
        _SEED,
    )  # fmt: skip
    return old.chosen(np.flatnonzero(equal_old == 0)), new.chosen(np.flatnonzero(equal_new == 0))
