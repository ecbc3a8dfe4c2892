"""Entries of two canonical savepoints that differ, found by their bytes.

Both sides of a key group are walked in step: an entry that is the same on both sides costs a comparison of its bytes and no more.
Where the entries are not the same, the next ones on both sides are looked through for a pair of one key, and the walk goes on there:
this finds entries that came or went. What was stepped over on either side is looked up by its key in the end, so that entries in
another order, as the hash tables of the hashmap backend have them, find each other, too.

| entries with one key | are |
|---|---|
| of equal bytes | left out, wherever they stand in the key group |
| of other values, or on one side only | yielded |

The bit of a key that says that another state follows does not count: the same entry may be the last one on one side only.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import (
    copy_bytes,
    load_i4,
    load_le_i4,
    load_le_i8,
    load_u1,
    same_bytes,
    stack_memory,
    store_4,
    store_8,
)
from readers.errors import CorruptDataError, hex_window
from readers.formats.full.layout import (
    END_OF_KEY_GROUP,
    LEAST_ENTRY_BYTES,
    MARK_BYTES,
    META_FOLLOWS,
    MOST_RANGES,
    PAGE_ENTRIES,
)
from readers.formats.rocksdb.sst.words import hash_bytes
from readers.formats.streams import KeyGroupBody

Positions = NDArray[np.int64]
"""Where entries begin, at the length of their keys."""

_STRETCH_BYTES = 4 << 20  # walked bytes of a mapped file stay in memory until they are released
_ROOM = 1 << 13  # entries that differ in one stretch
# So many entries of both sides are looked through for one key, where the walk has lost its step.
_AHEAD = 8
_FLAG = META_FOLLOWS << 32  # in a word of the length of a key and its first bytes
_EMPTY = -1
_SEED = secrets.randbits(63)


@subroutine
def _entry_bytes(data: int, position: int, limit: int) -> int:
    """Return the length of an entry with both of its lengths; 0 if it does not fit before `limit`, with its mark."""
    left = limit - position
    if left < 9:
        return 0
    if load_u1(data, position + 4) & META_FOLLOWS:
        left -= 2
    key_length = load_i4(data, position)
    if key_length < 1 or key_length > left - 8:
        return 0
    value_length = load_i4(data, position + 4 + key_length)
    if value_length < 0 or value_length > left - 8 - key_length:
        return 0
    return 8 + key_length + value_length


@subroutine
def _is_last(data: int, position: int) -> int:
    """Return whether an entry is the last one of its run: not 0 if the mark of another state follows."""
    return load_u1(data, position + 4) & META_FOLLOWS


@subroutine
def _behind(data: int, position: int, length: int) -> int:
    """Return the position behind an entry, and behind the mark of another state, if one follows."""
    return position + length + (2 if _is_last(data, position) else 0)


@subroutine
def _is_equal(old: int, old_position: int, new: int, new_position: int, length: int) -> int:
    """Return 1 if two byte strings that begin with the length of a key are equal but for the flag in its first byte."""
    # An entry has at least nine bytes, so that the first word of eight is always there.
    if (load_le_i8(old, old_position) ^ load_le_i8(new, new_position)) & ~_FLAG:
        return 0
    at = 8
    while length - at >= 32:
        differ = (
            (load_le_i8(old, old_position + at) ^ load_le_i8(new, new_position + at))
            | (load_le_i8(old, old_position + at + 8) ^ load_le_i8(new, new_position + at + 8))
            | (load_le_i8(old, old_position + at + 16) ^ load_le_i8(new, new_position + at + 16))
            | (load_le_i8(old, old_position + at + 24) ^ load_le_i8(new, new_position + at + 24))
        )
        if differ:
            return 0
        at += 32
    while length - at >= 8:
        if load_le_i8(old, old_position + at) != load_le_i8(new, new_position + at):
            return 0
        at += 8
    while length - at >= 4:
        if load_le_i4(old, old_position + at) != load_le_i4(new, new_position + at):
            return 0
        at += 4
    while at < length:
        if load_u1(old, old_position + at) != load_u1(new, new_position + at):
            return 0
        at += 1
    return 1


@subroutine
def _has_key(old: int, old_position: int, new: int, new_position: int) -> bool:
    """Return whether two entries have the same key."""
    length = load_i4(old, old_position)
    if length != load_i4(new, new_position):
        return False
    if (load_u1(old, old_position + 4) ^ load_u1(new, new_position + 4)) & 0x7F:
        return False
    is_equal: bool = same_bytes(old + old_position + 5, new + new_position + 5, length - 1)
    return is_equal


@subroutine
def _is_before(old: int, old_position: int, new: int, new_position: int) -> int:
    """Return 1 if the key of the first entry sorts before that of the second one."""
    old_length = load_i4(old, old_position)
    new_length = load_i4(new, new_position)
    shared = old_length if old_length < new_length else new_length
    index = 0
    while index < shared:
        left = load_u1(old, old_position + 4 + index)
        right = load_u1(new, new_position + 4 + index)
        if index == 0:
            left &= 0x7F
            right &= 0x7F
        if left != right:
            return 1 if left < right else 0
        index += 1
    return 1 if old_length < new_length else 0


@subroutine
def _entries_ahead(data: int, position: int, limit: int, found: int) -> int:
    """Store the positions of the next entries of a run, and return how many there are; the walk meets a bad one again."""
    count = 0
    while count < _AHEAD:
        length = _entry_bytes(data, position, limit)
        if length == 0:
            break
        store_8(found, count * 8, position)
        count += 1
        if _is_last(data, position):
            break
        position += length
    return count


_ahead_of_old = stack_memory(8 * _AHEAD)
_ahead_of_new = stack_memory(8 * _AHEAD)


@kernel
def _walk(
    old: int,
    old_limit: int,
    new: int,
    new_limit: int,
    stop: int,
    old_found: int,
    new_found: int,
    room: int,
    state: int,
) -> None:
    """Walk two runs in step until one ends, `stop` is reached on the old side, or less room is left than one step may need.

    `state` has the positions on both sides, whether their runs have ended, how many entries were found on either, how many are
    equal on both sides, and where the bytes are bad, if they are.
    """
    old_position = load_le_i8(state, 0)
    new_position = load_le_i8(state, 8)
    old_count = load_le_i8(state, 16)
    new_count = load_le_i8(state, 24)
    equal = load_le_i8(state, 32)
    old_ahead = _ahead_of_old()
    new_ahead = _ahead_of_new()
    old_ended = 0
    new_ended = 0
    while not old_ended and not new_ended and old_position < stop:
        length = _entry_bytes(old, old_position, old_limit)
        if length == 0:
            store_8(state, 40, old_position)
            store_8(state, 48, 0)
            break
        if new_limit - new_position >= length and _is_equal(old, old_position, new, new_position, length):
            equal += 1
            old_ended = _is_last(old, old_position)
            new_ended = _is_last(new, new_position)
            old_position += length + (2 if old_ended else 0)
            new_position += length + (2 if new_ended else 0)
            continue
        other_length = _entry_bytes(new, new_position, new_limit)
        if other_length == 0:
            store_8(state, 40, new_position)
            store_8(state, 48, 1)
            break
        if old_count + _AHEAD > room or new_count + _AHEAD > room:
            break
        if _has_key(old, old_position, new, new_position):
            store_8(old_found, old_count * 8, old_position)
            store_8(new_found, new_count * 8, new_position)
            old_count += 1
            new_count += 1
            old_ended = _is_last(old, old_position)
            new_ended = _is_last(new, new_position)
            old_position += length + (2 if old_ended else 0)
            new_position += other_length + (2 if new_ended else 0)
            continue
        olds = _entries_ahead(old, old_position, old_limit, old_ahead)
        news = _entries_ahead(new, new_position, new_limit, new_ahead)
        # The fewest entries that are stepped over come first.
        old_skip = -1
        new_skip = -1
        for steps in range(1, olds + news - 1):
            for skip in range(steps + 1):
                if (
                    old_skip < 0
                    and skip < olds
                    and steps - skip < news
                    and _has_key(
                        old, load_le_i8(old_ahead, skip * 8), new, load_le_i8(new_ahead, (steps - skip) * 8)
                    )
                ):
                    old_skip = skip
                    new_skip = steps - skip
            if old_skip >= 0:
                break
        if old_skip < 0:
            # Sorted keys (RocksDB) meet again so; of others, one more step is as good as any.
            if _is_before(old, old_position, new, new_position):
                old_skip = 1
                new_skip = 0
            else:
                old_skip = 0
                new_skip = 1
        for skip in range(old_skip):
            store_8(old_found, old_count * 8, load_le_i8(old_ahead, skip * 8))
            old_count += 1
        for skip in range(new_skip):
            store_8(new_found, new_count * 8, load_le_i8(new_ahead, skip * 8))
            new_count += 1
        if old_skip:
            last = load_le_i8(old_ahead, (old_skip - 1) * 8)
            old_ended = _is_last(old, last)
            old_position = _behind(old, last, _entry_bytes(old, last, old_limit))
        if new_skip:
            last = load_le_i8(new_ahead, (new_skip - 1) * 8)
            new_ended = _is_last(new, last)
            new_position = _behind(new, last, _entry_bytes(new, last, new_limit))
    store_8(state, 0, old_position)
    store_8(state, 8, new_position)
    store_8(state, 16, old_count)
    store_8(state, 24, new_count)
    store_8(state, 32, equal)
    store_8(state, 56, old_ended)
    store_8(state, 64, new_ended)


@kernel
def _rest(data: int, position: int, limit: int, found: int, room: int) -> tuple[int, int, int, int]:
    """Store where the entries of a run begin.

    Returns:
        How many; the position behind them; whether the run has ended; where the bytes are bad, or -1.
    """
    count = 0
    ended = 0
    while not ended and count < room:
        length = _entry_bytes(data, position, limit)
        if length == 0:
            return count, position, 0, position
        store_8(found, count * 8, position)
        count += 1
        ended = _is_last(data, position)
        position = _behind(data, position, length)
    return count, position, ended, -1


@subroutine
def _key_hash(data: int, position: int, seed: int) -> int:
    first = load_u1(data, position + 4) & 0x7F
    code: int = hash_bytes(data + position + 5, load_i4(data, position) - 1, seed ^ first)
    return code


@kernel
def _pair(
    old: int,
    old_found: int,
    old_count: int,
    new: int,
    new_found: int,
    new_count: int,
    slots: int,
    bits: int,
    partners: int,
    seed: int,
) -> int:
    """Find for each new entry the old one with the same key; return how many of these pairs have equal bytes.

    `slots` are 2^bits of i4, all -1. `partners` (of the old entries, then of the new ones) get the number of the other entry: -1
    if there is none, -2 if it has the same bytes.
    """
    mask = (1 << bits) - 1
    for number in range(old_count):
        slot = _key_hash(old, load_le_i8(old_found, number * 8), seed) & mask
        while load_le_i4(slots, slot * 4) >= 0:
            slot = (slot + 1) & mask
        store_4(slots, slot * 4, number)
    equal = 0
    for number in range(new_count):
        position = load_le_i8(new_found, number * 8)
        slot = _key_hash(new, position, seed) & mask
        while True:
            candidate = load_le_i4(slots, slot * 4)
            if candidate < 0:
                break
            other = load_le_i8(old_found, candidate * 8)
            if load_le_i8(partners, candidate * 8) == -1 and _has_key(old, other, new, position):
                length = 8 + load_i4(old, other) + load_i4(old, other + 4 + load_i4(old, other))
                own = 8 + load_i4(new, position) + load_i4(new, position + 4 + load_i4(new, position))
                if length == own and _is_equal(old, other, new, position, length):
                    store_8(partners, candidate * 8, -2)
                    store_8(partners, (old_count + number) * 8, -2)
                    equal += 1
                else:
                    store_8(partners, candidate * 8, number)
                    store_8(partners, (old_count + number) * 8, candidate)
                break
            slot = (slot + 1) & mask
    return equal


@kernel
def _bounds(data: int, positions: int, count: int, starts: int, ends: int) -> None:
    """Store the segments of entries: key and value."""
    for number in range(count):
        position = load_le_i8(positions, number * 8)
        key_length = load_i4(data, position)
        value = position + 8 + key_length
        store_8(starts, number * 16, position + 4)
        store_8(ends, number * 16, position + 4 + key_length)
        store_8(starts, number * 16 + 8, value)
        store_8(ends, number * 16 + 8, value + load_i4(data, position + 4 + key_length))


@kernel
def _copy(data: int, starts: int, ends: int, count: int, target: int) -> None:
    """Copy entries, each from the start of its key to the end of its value, one behind the other, and store their new bounds."""
    at = 0
    for number in range(count):
        begin = load_le_i8(starts, number * 16)
        end = load_le_i8(ends, number * 16 + 8)
        shift = at - begin
        copy_bytes(data + begin, target + at, end - begin)
        store_8(starts, number * 16, begin + shift)
        store_8(ends, number * 16, load_le_i8(ends, number * 16) + shift)
        store_8(starts, number * 16 + 8, load_le_i8(starts, number * 16 + 8) + shift)
        store_8(ends, number * 16 + 8, end + shift)
        at = end + shift


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Entries of one state in a key group that differ.

    Attributes:
        changed_before, changed_after: those of one key on both sides, in pairs.
        removed, added: those that one side has.
        equal: how many are equal on both sides.
    """

    changed_before: Positions
    changed_after: Positions
    removed: Positions
    added: Positions
    equal: int

    def __len__(self) -> int:
        return len(self.changed_before) + len(self.removed) + len(self.added)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFound:
    """What differs in all states of a key group.

    Attributes:
        states: id of a state on either side → its entries that differ.
        before, after: the marks of either side: id of a state, position of its first entry; see `StateRanges`.
    """

    states: dict[tuple[int, int], Found]
    before: Positions
    after: Positions


def compare_groups(
    before: KeyGroupBody, after: KeyGroupBody, is_same: Callable[[int, int], bool]
) -> GroupFound | None:
    """Return what differs between two key groups, in one walk; None if their states do not stand in one order, in one run each.

    Args:
        before, after: the key groups.
        is_same: returns whether two ids are those of one state.

    Raises:
        CorruptDataError: a length leads out of a key group.
    """
    old, new = (_mark(side, side.first) for side in (before, after))
    old_marks, new_marks = [old], [new]
    found: dict[tuple[int, int], Found] = {}
    while len(old_marks) < MOST_RANGES:
        (old_state, old_begin), (new_state, new_begin) = old, new
        if (old_state, new_state) in found or not is_same(old_state, new_state):
            return None
        walk = _Walk(before, after)
        old_end, new_end = walk.step(old_begin, new_begin)
        found[old_state, new_state] = walk.found()
        old, new = _mark(before, old_end - MARK_BYTES), _mark(after, new_end - MARK_BYTES)
        old_marks.append(old)
        new_marks.append(new)
        if old[0] == new[0] == END_OF_KEY_GROUP:
            marks = (np.array(marks, dtype=np.int64) for marks in (old_marks, new_marks))
            return GroupFound(states=found, before=next(marks), after=next(marks))
        if END_OF_KEY_GROUP in (old[0], new[0]):
            return None
    return None


def _mark(side: KeyGroupBody, position: int) -> tuple[int, int]:
    """Return the id of a state, and the position of its first entry."""
    if side.last - position < MARK_BYTES:
        raise _corrupt(side, position)
    return int.from_bytes(side.data[position : position + MARK_BYTES].tobytes(), "big"), position + MARK_BYTES


def compare_runs(
    before: KeyGroupBody, after: KeyGroupBody, old_runs: Iterable[int], new_runs: Iterable[int]
) -> Found:
    """Return the entries of a state in a key group that differ between two sides.

    Args:
        before, after: the key groups.
        old_runs, new_runs: where the entries of the state begin that follow each other, on either side.

    Raises:
        CorruptDataError: a length leads out of the key group.
    """
    walk = _Walk(before, after)
    for old, new in zip_longest(old_runs, new_runs):
        walk.step(old, new)
    return walk.found()


@dataclass(slots=True)
class _Walk:
    """A walk through the entries of a state on both sides."""

    before: KeyGroupBody
    after: KeyGroupBody
    old: list[Positions] = field(default_factory=list)
    new: list[Positions] = field(default_factory=list)
    equal: int = 0

    def step(self, old: int | None, new: int | None) -> tuple[int, int]:
        """Walk through a run of either side, and return the positions behind both."""
        before, after = self.before, self.after
        old_position, old_ended = (0, 1) if old is None else (old, 0)
        new_position, new_ended = (0, 1) if new is None else (new, 0)
        old_found, new_found = (np.empty(_ROOM, dtype=np.int64) for _ in range(2))
        while not old_ended and not new_ended:
            state = np.array([old_position, new_position, 0, 0, 0, -1, 0, 0, 0], dtype=np.int64)
            _walk(
                before.data, before.last, after.data, after.last, old_position + _STRETCH_BYTES,
                old_found, new_found, _ROOM, state,
            )  # fmt: skip
            old_behind, new_behind, old_count, new_count, equal, bad, bad_side, old_ended, new_ended = (
                state.tolist()
            )
            if bad >= 0:
                raise _corrupt(after if bad_side else before, bad)
            self.equal += equal
            _keep(self.old, old_found, old_count)
            _keep(self.new, new_found, new_count)
            before.release(old_position, old_behind)
            after.release(new_position, new_behind)
            old_position, new_position = old_behind, new_behind
        if not old_ended:
            old_position = _keep_rest(before, self.old, old_position)
        if not new_ended:
            new_position = _keep_rest(after, self.new, new_position)
        return old_position, new_position

    def found(self) -> Found:
        """Return what differs: entries with one key on both sides are paired, wherever they stand."""
        old, new = (np.concatenate(kept) if kept else _NONE for kept in (self.old, self.new))
        if not len(old) or not len(new):
            return Found(changed_before=_NONE, changed_after=_NONE, removed=old, added=new, equal=self.equal)
        bits = max(4, (2 * len(old) - 1).bit_length())
        slots = np.full(1 << bits, _EMPTY, dtype=np.int32)
        partners = np.full(len(old) + len(new), _EMPTY, dtype=np.int64)
        equal = _pair(
            self.before.data, old, len(old), self.after.data, new, len(new), slots, bits, partners, _SEED
        )
        of_old, of_new = partners[: len(old)], partners[len(old) :]
        paired = np.flatnonzero(of_old >= 0)
        return Found(
            changed_before=old[paired],
            changed_after=new[of_old[paired]],
            removed=old[of_old == _EMPTY],
            added=new[of_new == _EMPTY],
            equal=self.equal + equal,
        )


def _keep(kept: list[Positions], found: Positions, count: int) -> None:
    if count:
        kept.append(found[:count].copy())


def _keep_rest(side: KeyGroupBody, kept: list[Positions], position: int) -> int:
    """Keep all entries that one side has left in its run, and return the position behind them."""
    ended = 0
    while not ended:
        room = min(PAGE_ENTRIES, max(side.last - position, 0) // LEAST_ENTRY_BYTES + 1)
        found: Positions = np.empty(room, dtype=np.int64)
        count, behind, ended, bad = _rest(side.data, position, side.last, found, room)
        if bad >= 0:
            raise _corrupt(side, bad)
        _keep(kept, found, count)
        side.release(position, behind)
        position = behind
    return position


_NONE: Positions = np.empty(0, dtype=np.int64)


NOTHING = Found(changed_before=_NONE, changed_after=_NONE, removed=_NONE, added=_NONE, equal=0)
"""What differs in a state that a key group has no entries of on both sides."""


def bounds(data: NDArray[np.uint8], positions: Positions) -> tuple[Positions, Positions]:
    """Return the starts and ends of the keys and values of entries, two arrays of shape (entries, 2)."""
    starts, ends = (np.empty((len(positions), 2), dtype=np.int64) for _ in range(2))
    _bounds(data, positions, len(positions), starts, ends)
    return starts, ends


def copied(data: NDArray[np.uint8], starts: Positions, ends: Positions) -> NDArray[np.uint8]:
    """Return the bytes of entries, one behind the other; the bounds become those in them."""
    target = np.empty(int((ends[:, 1] - starts[:, 0]).sum()), dtype=np.uint8)
    _copy(data, starts, ends, len(starts), target)
    return target


def _corrupt(side: KeyGroupBody, position: int) -> CorruptDataError:
    window = hex_window(memoryview(side.data), position)
    return CorruptDataError(
        f"expected an entry of a key group; bytes {window}", path=side.path, position=position
    )
