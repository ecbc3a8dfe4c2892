"""What reads of the same columns share: no read sees what another one did, in whatever order and at whatever time they come."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from readers import ROW, Savepoint, Selection
from readers.jsontext import json_text
from readers.states import PartReadings, State
from tests.support.paths import DATA
from tests.support.thorough import thorough

SAVEPOINTS = [
    "everything-hashmap-savepoints/canonical",
    "everything-hashmap-savepoints/native",
    "everything-rocksdb-savepoints/native",
]
FAST = {"everything-hashmap-savepoints/canonical"}
THREADS = 4


@cache
def states_of(name: str) -> list[State]:
    savepoint = Savepoint(str(DATA / "flink" / "2.3.0" / name))
    return [state for operator in savepoint.operators for state in operator.states if state.parts]


def unread(state: State) -> State:
    """The same state, that nobody has read."""
    return replace(state, parts=tuple(map(replace, state.parts)))


def rows(state: State, columns: list[str], selection: Selection | None = None) -> list[tuple[str, ...]]:
    return [row for batch in state.read(columns, selection) for row in texts(batch)]


def texts(batch: pa.RecordBatch) -> list[tuple[str, ...]]:
    """As text: NaN is not equal to itself, and Python has no date after 9999."""
    return list(zip(*(json_text(column).to_pylist() for column in batch.columns), strict=True))


@pytest.mark.parametrize("name", thorough(SAVEPOINTS, FAST))
@examples(max_examples=6)
@given(data=st.data())
def test_a_read_returns_what_the_first_one_returns(name: str, data: st.DataObject) -> None:
    state = states_of(name)[data.draw(st.integers(0, len(states_of(name)) - 1))]
    wanted = st.lists(st.sampled_from([*state.schema.names, ROW]), unique=True)

    # More sets of columns than are kept, some of them twice.
    for columns in data.draw(st.lists(wanted, min_size=1, max_size=12)):
        assert rows(state, columns) == rows(unread(state), columns)


@pytest.mark.parametrize("name", thorough(SAVEPOINTS, FAST))
def test_reads_at_the_same_time_do_not_meet(name: str) -> None:
    for state in states_of(name)[::2]:
        columns = state.schema.names
        expected = rows(unread(state), columns)
        other, found = state.read(columns), []
        for batch in state.read(columns):
            next(other, None)
            found += texts(batch)

        assert found == expected


def test_threads_read_at_the_same_time() -> None:
    for state in states_of(SAVEPOINTS[0])[::4]:
        expected, shared = rows(unread(state), state.schema.names), unread(state)
        with ThreadPoolExecutor(THREADS) as threads:
            read = [threads.submit(rows, shared, state.schema.names) for _ in range(2 * THREADS)]

        assert [reading.result() for reading in read] == [expected] * len(read)


@pytest.mark.parametrize("name", thorough(SAVEPOINTS, FAST))
def test_keys_are_looked_up_one_after_the_other(name: str) -> None:
    for state in states_of(name)[::3]:
        if "key" not in state.schema.names or "value" not in state.schema.names:
            continue
        for batch in state.read(["key"]):
            for key in batch.column("key").to_pylist()[:1]:
                groups = state.key_groups_of([key])
                selection = Selection(keys=groups, key_groups=frozenset({groups[0][0]}) if groups else None)
                for columns in (["key", "value"], ["value"], ["key"]):
                    found = rows(state, columns, selection)

                    assert found
                    assert found == rows(unread(state), columns, selection)


def test_what_is_kept_is_bounded_and_stays_in_its_process() -> None:
    state = states_of(SAVEPOINTS[0])[0]
    names = state.schema.names
    for number in range(1, 1 << min(len(names), 5)):
        rows(state, [name for bit, name in enumerate(names) if number >> bit & 1])
    (readings, *_) = (part._readings for part in state.parts)

    assert 0 < len(readings._kept) <= 8
    assert isinstance(copy := pickle.loads(pickle.dumps(readings)), PartReadings)
    assert not copy._kept
