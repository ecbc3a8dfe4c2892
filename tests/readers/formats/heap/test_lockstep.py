"""The entries that two key groups of the native heap layout do not share, found by their bytes."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from readers.formats.heap import lockstep

entries = st.lists(
    st.one_of(st.binary(max_size=3), st.integers(0, 30).map(lambda number: b"entry %04d" % number)),
    max_size=60,
)


def side_of(found: list[bytes]) -> lockstep.Entries:
    """Entries one behind the other."""
    ends = np.cumsum([len(entry) for entry in found], dtype=np.int64).reshape(-1, 1)
    starts = np.concatenate([np.zeros((1, 1), dtype=np.int64), ends])[: len(found)]
    return lockstep.Entries(data=np.frombuffer(b"".join(found), dtype=np.uint8), starts=starts, ends=ends)


def shown(side: lockstep.Entries) -> list[bytes]:
    bounds = zip(side.starts[:, 0].tolist(), side.ends[:, 0].tolist(), strict=True)
    return [side.data[start:end].tobytes() for start, end in bounds]


edit = st.tuples(st.integers(0, 60), st.integers(0, 2), st.binary(max_size=3))


@given(
    before=entries,
    edits=st.lists(edit, max_size=8),
    order=st.randoms(),
)
def test_entries_without_a_partner_are_left(
    before: list[bytes], edits: list[tuple[int, int, bytes]], order: random.Random
) -> None:
    after = list(before)
    for at, kind, entry in edits:
        after[at : at + (kind != 1)] = [entry] if kind else []
    if edits and len(edits) % 3 == 0:
        order.shuffle(after)
    left, others = lockstep.without_equal(side_of(before), side_of(after))

    assert Counter(shown(left)) == Counter(before) - Counter(after)
    assert Counter(shown(others)) == Counter(after) - Counter(before)


def test_ranges_are_the_same_by_all_of_their_bytes() -> None:
    one = np.zeros((1 << 20) + 5, dtype=np.uint8)
    other = one.copy()
    assert lockstep.is_same(one, other)
    other[-1] = 1

    assert not lockstep.is_same(one, other)
    assert not lockstep.is_same(one, other[:-1])
