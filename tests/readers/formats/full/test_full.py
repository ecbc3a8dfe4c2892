"""The full layout: key groups are cut the same in pages of any size."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.errors import CorruptDataError
from readers.formats.full import layout as full
from readers.formats.streams import KeyGroupBody

END = 0xFFFF
entries = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.binary(min_size=1, max_size=9).map(lambda key: bytes([key[0] & 0x7F]) + key[1:]),
        st.binary(max_size=9),
    ),
    min_size=1,
    max_size=40,
).map(lambda found: sorted(found, key=lambda entry: entry[0]))
Framed = tuple[int, bytes, bytes]


def key_group(rows: list[Framed]) -> bytes:
    """As FullSnapshotAsyncWriter writes it."""
    parts = [struct.pack(">H", rows[0][0])]
    following = [state for state, _, _ in rows[1:]] + [END]
    for (state, key, value), after in zip(rows, following, strict=True):
        flag = 0x80 if after != state else 0
        parts.append(struct.pack(">i", len(key)) + bytes([key[0] | flag]) + key[1:])
        parts.append(struct.pack(">i", len(value)) + value)
        parts += [struct.pack(">H", after)] if flag else []
    return b"".join(parts)


def body_of(data: bytes, release: Callable[[int, int], None] = lambda _start, _end: None) -> KeyGroupBody:
    buffer = np.frombuffer(data, dtype=np.uint8)
    return KeyGroupBody(key_group=0, data=buffer, first=0, last=len(data), path="file", release=release)


def cut(data: bytes, state: int, ranges: full.StateRanges | None = None) -> list[list[tuple[bytes, bytes]]]:
    """The entries of a state, page by page, without the flags."""
    pages = []
    for starts, ends, behind in full.cut_key_group(body_of(data), state, ranges):
        page = []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            key, value = (data[first:last] for first, last in zip(start, end, strict=True))
            page.append((bytes([key[0] & 0x7F]) + key[1:], value))
        assert ends.max() <= behind <= len(data)
        pages.append(page)
    return pages


@given(rows=entries, state=st.integers(0, 2), most=st.integers(1, 50))
def test_pages_of_any_size_hold_the_entries_in_order(rows: list[Framed], state: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(full, "PAGE_ENTRIES", most)

        pages = cut(key_group(rows), state)

    assert [entry for page in pages for entry in page] == [
        (key, value) for owner, key, value in rows if owner == state
    ]
    assert all(len(page) == most for page in pages[:-1])
    assert all(0 < len(page) <= most for page in pages)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2), st.just(b"k"), st.binary(max_size=9)), min_size=1, max_size=30
    ),
    first=st.integers(0, 3),
    most=st.integers(1, 50),
    stretch_bytes=st.integers(1, 50),
)
def test_known_runs_give_what_a_walk_of_all_states_does(
    rows: list[Framed], first: int, most: int, stretch_bytes: int
) -> None:
    data, ranges = key_group(rows), full.StateRanges()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(full, "PAGE_ENTRIES", most)
        patch.setattr(full, "_STRETCH_BYTES", stretch_bytes)

        cut(data, first, ranges)
        pages = [cut(data, state, ranges) for state in range(4)]
        counts = [full.count_key_group(body_of(data), state, ranges) for state in range(4)]

    assert ranges.is_known
    assert [[entry for page in found for entry in page] for found in pages] == [
        [(key, value) for owner, key, value in rows if owner == state] for state in range(4)
    ]
    assert counts == [sum(owner == state for owner, _, _ in rows) for state in range(4)]
    assert all(0 < len(page) <= most for found in pages for page in found)


def test_where_states_change_too_often_a_key_group_is_walked_every_time() -> None:
    rows = [(number % 2, b"k", b"v") for number in range(full.MOST_RANGES)]
    data, ranges = key_group(rows), full.StateRanges()

    found = [len(cut(data, 0, ranges)[0]) for _ in range(2)]

    assert found == [len(rows) // 2] * 2
    assert not ranges.is_known


def test_of_known_runs_only_the_wanted_one_is_walked() -> None:
    rows = [(0, b"a", b"1"), (1, b"b", b"2" * 9), (2, b"c", b"3")]
    data, ranges = key_group(rows), full.StateRanges()
    cut(data, 0, ranges)
    back: list[tuple[int, int]] = []

    pages = list(full.cut_key_group(body_of(data, lambda *place: back.append(place)), 2, ranges))

    assert len(pages) == 1
    assert back == [(len(data) - 12, len(data))]


@given(rows=entries, state=st.integers(0, 2), stretch_bytes=st.integers(1, 50))
def test_a_key_group_is_walked_in_stretches_that_are_given_back(
    rows: list[Framed], state: int, stretch_bytes: int
) -> None:
    data = key_group(rows)
    cut_back: list[tuple[int, int]] = []
    counted_back: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(full, "_STRETCH_BYTES", stretch_bytes)

        pages = [
            len(starts)
            for starts, _, _ in full.cut_key_group(
                body_of(data, lambda *place: cut_back.append(place)), state
            )
        ]
        count = full.count_key_group(body_of(data, lambda *place: counted_back.append(place)), state)

    assert sum(pages) == count == sum(owner == state for owner, _, _ in rows)
    assert cut_back == counted_back
    assert [start for start, _ in cut_back] == [2, *(end for _, end in cut_back[:-1])]
    assert cut_back[-1][1] == len(data)


@pytest.mark.parametrize("seed", range(3))
def test_entries_are_the_same_whether_lengths_repeat_or_not(seed: int) -> None:
    random = Random(seed)
    rows: list[Framed] = []
    for state in range(3):
        for lengths in (
            (7, 7),
            (1, 9),
            (5, 5),
        ):  # one length, lengths of which none can be foreseen, another one
            rows += [
                (
                    state,
                    random.randbytes(random.randint(*lengths)),
                    random.randbytes(random.randint(*lengths)),
                )
                for _ in range(600)
            ]
    rows = [(state, bytes([key[0] & 0x7F]) + key[1:], value) for state, key, value in rows]
    data, ranges = key_group(rows), full.StateRanges()

    for _ in range(2):  # all states, then known runs
        for state in range(3):
            (page,) = cut(data, state, ranges)
            assert page == [(key, value) for owner, key, value in rows if owner == state]


@pytest.mark.parametrize(
    ("of_value", "length"),
    [(False, 0), *((of_value, length) for of_value in (False, True) for length in (-(2**31), -1, 2**31 - 1))],
)
def test_a_length_that_contradicts_the_many_equal_ones_before_it_is_found_where_it_stands(
    of_value: bool, length: int
) -> None:
    entry = 4 + 5 + 4 + 6
    data = bytearray(key_group([(0, b"key_1", b"value1")] * 1000))
    place = 2 + 700 * entry + (4 + 5 if of_value else 0)
    data[place : place + 4] = struct.pack(">i", length)

    with pytest.raises(CorruptDataError) as caught:
        cut(bytes(data), 0)

    assert caught.value.position == place


@given(rows=entries, state=st.integers(0, 2), most=st.integers(1, 50), data=st.data())
def test_a_truncated_key_group_is_refused(
    rows: list[Framed], state: int, most: int, data: st.DataObject
) -> None:
    whole = key_group(rows)
    left = data.draw(st.integers(0, len(whole) - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(full, "PAGE_ENTRIES", most)

        with pytest.raises(CorruptDataError, match="expected an entry of a key group"):
            cut(whole[:left], state)


@given(noise=st.binary(max_size=200), state=st.integers(0, 3))
def test_random_bytes_end_in_entries_or_an_error(noise: bytes, state: int) -> None:
    try:
        pages = cut(noise, state)
    except CorruptDataError:
        return
    assert all(pages)


@given(rows=entries, data=st.data())
def test_a_key_group_fills_its_bytes_and_no_others(rows: list[Framed], data: st.DataObject) -> None:
    whole = np.frombuffer(key_group(rows), dtype=np.uint8)
    left = data.draw(st.integers(0, len(whole) - 1))

    assert full.is_key_group(whole, 0, len(whole))
    assert not full.is_key_group(whole, 0, left)
