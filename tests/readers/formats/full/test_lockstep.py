"""The entries that two key groups of the full layout do not share, found by their bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.errors import CorruptDataError
from readers.formats.full import layout as full
from readers.formats.full import lockstep
from readers.formats.streams import KeyGroupBody

END = 0xFFFF
Entries = Mapping[bytes, bytes]
Difference = tuple[set[tuple[bytes, bytes, bytes]], dict[bytes, bytes], dict[bytes, bytes], int]

keys = st.one_of(st.binary(max_size=12), st.integers(0, 40).map(lambda number: b"key_%06d" % number)).map(
    lambda key: b"\x07" + key
)
values = st.one_of(st.binary(max_size=3), st.integers(0, 3).map(lambda number: b"value" * number))
states = st.dictionaries(keys, values, min_size=1, max_size=40)
# Most entries stay: a few are changed, removed and added, as between two checkpoints.
edits = st.dictionaries(keys, st.one_of(st.none(), values), max_size=6)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[tuple[int, bytes, bytes]], list[tuple[int, bytes, bytes]]]:
    """The entries of two key groups, with the states of both in one order or in another."""
    sides: tuple[list[tuple[int, bytes, bytes]], list[tuple[int, bytes, bytes]]] = ([], [])
    numbers = (
        [draw(st.permutations([0, 1, 2]))] * 2
        if draw(st.booleans())
        else [draw(st.permutations([0, 1, 2])) for _ in sides]
    )
    known: dict[int, tuple[Entries, Entries]] = {}
    for state in range(3):
        before = draw(st.one_of(st.just({}), states))
        changes = draw(edits)
        after = {key: value for key, value in (before | changes).items() if value is not None}
        known[state] = before, after
    for side, (order, rows) in enumerate(zip(numbers, sides, strict=True)):
        for state in order:
            entries = list(known[state][side].items())
            if draw(st.booleans()):
                entries = draw(st.permutations(entries))
            elif draw(st.booleans()):
                entries.sort()
            rows += [(state, key, value) for key, value in entries]
    return sides


def key_group(rows: list[tuple[int, bytes, bytes]]) -> bytes:
    """The bytes of entries, in this order."""
    parts = [struct.pack(">H", rows[0][0])]
    following = [state for state, _, _ in rows[1:]] + [END]
    for (state, key, value), after in zip(rows, following, strict=True):
        flag = 0x80 if after != state else 0
        parts.append(struct.pack(">i", len(key)) + bytes([key[0] | flag]) + key[1:])
        parts.append(struct.pack(">i", len(value)) + value)
        parts += [struct.pack(">H", after)] if flag else []
    return b"".join(parts)


def side_of(data: bytes) -> KeyGroupBody:
    return KeyGroupBody(
        key_group=0, data=np.frombuffer(data, dtype=np.uint8), first=0, last=len(data), path="file"
    )


def entries_at(side: KeyGroupBody, positions: lockstep.Positions) -> list[tuple[bytes, bytes]]:
    found = []
    data = side.data.tobytes()
    for position in positions.tolist():
        (length,) = struct.unpack_from(">i", data, position)
        key = data[position + 4 : position + 4 + length]
        (size,) = struct.unpack_from(">i", data, position + 4 + length)
        found.append(
            (bytes([key[0] & 0x7F]) + key[1:], data[position + 8 + length : position + 8 + length + size])
        )
    return found


def shown(before: KeyGroupBody, after: KeyGroupBody, found: lockstep.Found) -> Difference:
    changed = [entries_at(before, found.changed_before), entries_at(after, found.changed_after)]
    assert [key for key, _ in changed[0]] == [key for key, _ in changed[1]]
    pairs = {(key, old, new) for (key, old), (_, new) in zip(*changed, strict=True)}
    return pairs, dict(entries_at(before, found.removed)), dict(entries_at(after, found.added)), found.equal


def expected(before: Entries, after: Entries) -> Difference:
    shared = before.keys() & after.keys()
    return (
        {(key, before[key], after[key]) for key in shared if before[key] != after[key]},
        {key: value for key, value in before.items() if key not in shared},
        {key: value for key, value in after.items() if key not in shared},
        sum(before[key] == after[key] for key in shared),
    )


def of_state(rows: list[tuple[int, bytes, bytes]], state: int) -> Entries:
    return {key: value for owner, key, value in rows if owner == state}


@given(pair=pairs(), room=st.integers(8, 20), stretch_bytes=st.integers(1, 60))
def test_what_differs_is_found_whatever_the_order(
    pair: tuple[list[tuple[int, bytes, bytes]], list[tuple[int, bytes, bytes]]], room: int, stretch_bytes: int
) -> None:
    old, new = pair
    if not old or not new:
        return
    before, after = side_of(key_group(old)), side_of(key_group(new))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lockstep, "_ROOM", room)
        patch.setattr(lockstep, "_STRETCH_BYTES", stretch_bytes)
        whole = lockstep.compare_groups(before, after, int.__eq__)
        for state in range(3):
            runs = []
            for side in (before, after):
                ranges = full.StateRanges()
                assert full.runs_of(side, ranges) is not None
                runs.append([begin for begin, _ in ranges.of(state)])
            found = lockstep.compare_runs(before, after, *runs)

            wanted = expected(of_state(old, state), of_state(new, state))
            assert shown(before, after, found) == wanted
            if whole is not None:
                one = whole.states.get((state, state), lockstep.NOTHING)
                assert shown(before, after, one) == wanted
    orders = [list(dict.fromkeys(state for state, _, _ in rows)) for rows in pair]
    assert (whole is not None) == (orders[0] == orders[1])


@given(pair=pairs())
def test_a_walk_of_all_states_learns_where_they_are(
    pair: tuple[list[tuple[int, bytes, bytes]], list[tuple[int, bytes, bytes]]],
) -> None:
    if not all(pair):
        return
    sides = [side_of(key_group(rows)) for rows in pair]
    whole = lockstep.compare_groups(sides[0], sides[1], int.__eq__)
    if whole is None:
        return
    for side, marks in zip(sides, (whole.before, whole.after), strict=True):
        walked, learnt = full.StateRanges(), full.StateRanges()
        full.runs_of(side, walked)
        learnt.keep(marks, len(marks))

        assert list(learnt.all()) == list(walked.all())


@given(pair=pairs(), at=st.integers(0, 10_000), byte=st.integers(0, 255), kept=st.integers(0, 10_000))
def test_bytes_that_contradict_the_format_are_an_error_or_other_entries(
    pair: tuple[list[tuple[int, bytes, bytes]], list[tuple[int, bytes, bytes]]], at: int, byte: int, kept: int
) -> None:
    if not all(pair):
        return
    data = bytearray(key_group(pair[1]))
    data[at % len(data)] = byte
    before, after = side_of(key_group(pair[0])), side_of(bytes(data[: max(2, kept % (len(data) + 1))]))
    for first, second in ((before, after), (after, before)):
        try:
            whole = lockstep.compare_groups(first, second, int.__eq__)
        except CorruptDataError:
            continue
        for found in whole.states.values() if whole else ():
            shown(first, second, found)


def test_many_entries_that_went_away_are_found_among_sorted_keys() -> None:
    rows = [(0, b"\x07%05d" % number, b"value %d" % number) for number in range(3000)]
    kept = [row for number, row in enumerate(rows) if not 100 <= number < 1700 and number % 500]
    before, after = side_of(key_group(rows)), side_of(key_group(kept))
    whole = lockstep.compare_groups(before, after, int.__eq__)

    assert whole is not None
    assert shown(before, after, whole.states[0, 0]) == expected(of_state(rows, 0), of_state(kept, 0))
