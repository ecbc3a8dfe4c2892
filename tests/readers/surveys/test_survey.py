"""Surveys of keys: exact as long as there is room, and estimates that say so where there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers.decode.decoder import Page
from readers.errors import CorruptDataError
from readers.formats.composite import ComposedSource
from readers.formats.entry import Entry, StateKind
from readers.formats.source import Selection, StateName
from readers.serializers.primitives import (
    IntSerializer,
    LongSerializer,
    StringSerializer,
    VoidNamespaceSerializer,
)
from readers.states import State, StatePart
from readers.surveys.survey import LARGEST, KeySurvey, key_texts, survey

NAME = StateName(name="perDay")
MAP = Entry(
    kind=StateKind.MAP,
    key=StringSerializer(),
    namespace=VoidNamespaceSerializer(),
    map_key=IntSerializer(),
    value=LongSerializer(),
)
Rows = list[tuple[int, str]]  # key group and key of each entry


@dataclass(frozen=True, kw_only=True, eq=False)
class MemorySource(ComposedSource):
    """Entries of a map in memory, as RocksDB has them."""

    rows: Rows
    page_entries: int

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        for first in range(0, len(self.rows), self.page_entries):
            yield page(self.rows[first : first + self.page_entries])


class SortedSource(MemorySource):
    is_ordered = True


def page(rows: Rows) -> Page:
    entries = [
        (
            # Key group, length of the text and its units, namespace, map key.
            bytes([group, len(key) + 1]) + key.encode() + b"\0" + number.to_bytes(4, "big"),
            b"\0" + bytes(8),
        )
        for number, (group, key) in enumerate(rows)
    ]
    sizes = np.array([[len(key), len(value)] for key, value in entries], dtype=np.int64).reshape(-1, 2)
    ends = np.cumsum(sizes.ravel()).reshape(-1, 2)
    return Page(
        data=np.frombuffer(b"".join(key + value for key, value in entries), dtype=np.uint8),
        starts=ends - sizes,
        ends=ends,
        key_groups=np.array([group for group, _ in rows], dtype=np.int32),
        subtask=0,
        path="memory",
    )


def state_of(rows: Rows, *, ordered: bool = False, page_entries: int = 7, entry: Entry = MAP) -> State:
    kind = SortedSource if ordered else MemorySource
    source = kind(
        subtask=0,
        path="memory",
        size_bytes=0,
        entries={NAME: entry},
        max_parallelism=128,
        rows=rows,
        page_entries=page_entries,
    )
    part = StatePart(source=source, name=NAME, entry=entry)
    return State(operator_id="", name=NAME.name, kind=StateKind.MAP, max_parallelism=128, parts=(part,))


def entry_bytes(key: str) -> int:
    return 16 + len(key)


def check_exact(found: KeySurvey, rows: Rows, state: State) -> None:
    keys = Counter(rows)
    sizes = {place: number * entry_bytes(place[1]) for place, number in keys.items()}

    assert (found.entries, found.keys, found.is_estimate) == (len(rows), len(keys), False)
    assert found.size_bytes == sum(sizes.values())
    assert found.largest_bytes == max((entry_bytes(key) for _, key in rows), default=0)
    for largest, sizes_of in ((found.by_bytes, sizes), (found.by_entries, dict(keys))):
        texts = key_texts(state, ((key.part, key.key) for key in largest))
        assert len(set(texts)) <= len(largest) == min(len(keys), LARGEST)
        numbers = [key.size_bytes if largest is found.by_bytes else key.entries for key in largest]
        assert numbers == sorted(sizes_of.values(), reverse=True)[:LARGEST]
        for key, text in zip(largest, texts, strict=True):
            assert (key.size_bytes, key.entries) == (sizes[key.key_group, text], keys[key.key_group, text])


# A key is in one key group, as Flink's hash puts it there.
keys_of_groups = st.lists(
    st.tuples(st.integers(0, 5), st.text("abc", max_size=9)).map(lambda row: (row[0], f"{row[0]}{row[1]}")),
    max_size=120,
)


@given(rows=keys_of_groups, page_entries=st.integers(1, 50))
def test_a_survey_is_exact_while_there_is_room(rows: Rows, page_entries: int) -> None:
    by_group = sorted(rows, key=lambda row: row[0])
    state = state_of(by_group, page_entries=page_entries)

    check_exact(survey(state, 0, Selection(), most_keys=128), by_group, state)


@given(rows=keys_of_groups, page_entries=st.integers(1, 50), room=st.sampled_from([2, 4, 16]))
def test_keys_in_order_need_no_room(rows: Rows, page_entries: int, room: int) -> None:
    in_order = sorted(rows)
    state = state_of(in_order, ordered=True, page_entries=page_entries)

    check_exact(survey(state, 0, Selection(), most_keys=room), in_order, state)


def test_a_key_group_with_too_many_keys_is_an_estimate() -> None:
    # Ten keys have a thousand entries each, and 30,000 have one.
    numbers = [*range(30_000), *(number for number in range(10) for _ in range(999))]
    rows = [(3, f"key-{number:05}") for number in np.random.default_rng(1).permutation(numbers).tolist()]
    state = state_of(rows, page_entries=4096)

    found = survey(state, 0, Selection(), most_keys=4096)

    assert (found.entries, found.is_estimate) == (len(rows), True)
    assert found.keys == pytest.approx(30_000, rel=0.15)
    largest = key_texts(state, ((key.part, key.key) for key in found.by_entries[:10]))
    assert sorted(largest) == [f"key-{number:05}" for number in range(10)]


def test_surveys_of_key_groups_add_up() -> None:
    rows = [(group, f"{group}-{number}") for group in range(4) for number in range(20) for _ in range(number)]
    whole = survey(state_of(rows), 0, Selection())
    added = KeySurvey()
    for _, some in groupby(rows, key=lambda row: row[0]):
        added.add(survey(state_of(list(some)), 0, Selection()))

    assert added == whole


def test_an_entry_that_is_shorter_than_its_key_is_corrupt() -> None:
    value = Entry(
        kind=StateKind.VALUE,
        key=StringSerializer(),
        namespace=VoidNamespaceSerializer(),
        value=LongSerializer(),
    )
    short = page([(1, "a")])
    short.ends[0, 0] = short.starts[0, 0] + 1

    bounds = state_of([], entry=value).parts[0].source.key_bounds(NAME)

    assert bounds is not None
    with pytest.raises(CorruptDataError, match="expected an entry with a key, found a shorter one"):
        bounds(short)
