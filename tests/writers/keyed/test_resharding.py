"""Other key groups and other subtasks: every entry where Flink looks for its key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers import Operator, Savepoint, SavepointLocation, is_keyed, json_text, operator_id_of
from readers.metadata import KeyGroupsSavepointStateHandle, read_metadata
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from writers import RefusedEditError, RewriteKeyedState, SavepointWriter, key_groups_of
from writers.keyed.resharding import SubtaskRanges

FLINK = DATA / "flink/2.3.0"
SOURCES = (
    "everything-hashmap-savepoints/canonical",
    pytest.param("everything-hashmap-savepoints/native", marks=pytest.mark.slow),
    pytest.param("everything-rocksdb-savepoints/native", marks=pytest.mark.slow),
)
PLACES = ("_key_group", "_subtask")


def operators(path: Path) -> list[Operator]:
    return [
        operator
        for operator in Savepoint(path).operators
        if any(subtask.managed_keyed_state for subtask in operator.metadata.subtasks)
    ]


def rows(path: Path) -> Counter[str]:
    """All rows of keyed state, without their places."""
    return Counter(
        f"{operator.operator_id} {state.kind} {state.name} {row}"
        for operator in operators(path)
        for state in operator.states
        if is_keyed(state.kind)
        for batch in state.read()
        for row in json_text(
            batch.select([name for name in batch.schema.names if name not in PLACES]).to_struct_array()
        ).to_pylist()
    )


def check_places(path: Path) -> None:
    """Check that every key is in the group that Java's hash code says, and in the subtask that has the group."""
    for operator in operators(path):
        shape = SubtaskRanges(operator.metadata.max_parallelism, operator.metadata.parallelism)
        for state in operator.states:
            if is_keyed(state.kind):
                assert state.entry is not None
                assert state.entry.key is not None
                for batch in state.read():
                    groups = np.asarray(batch.column("_key_group"))
                    known = key_groups_of(state.entry.key, batch.column("key"), shape.max_parallelism)
                    assert (groups == known).all()
                    for group, subtask in zip(
                        groups.tolist(), batch.column("_subtask").to_pylist(), strict=True
                    ):
                        assert group in shape.of(subtask)


def write(
    source: Path, target: Path, *, max_parallelism: int | None = None, parallelism: int | None = None
) -> Path:
    edits = [
        RewriteKeyedState(operator=operator, max_parallelism=max_parallelism, parallelism=parallelism)
        for operator in operators(source)
    ]
    writer = SavepointWriter(SavepointLocation(source), edits)
    expected = writer.summary
    assert writer.write(target) == expected
    return target


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_all_states_are_dealt_out_and_come_back(name: str, tmp_path: Path) -> None:
    many = write(FLINK / name, tmp_path / "many", max_parallelism=1000, parallelism=3)
    few = write(many, tmp_path / "few", max_parallelism=7, parallelism=2)

    for path in (many, few):
        assert rows(path) == rows(FLINK / name)
        check_places(path)
    metadata = read_metadata((few / "_metadata").read_bytes())
    handles = [one.managed_keyed_state for operator in metadata.operators for one in operator.subtasks]
    assert {type(handle) for handle in handles if handle is not None} == {KeyGroupsSavepointStateHandle}
    assert {operator.max_parallelism for operator in metadata.operators if operator.subtasks} >= {7}


@pytest.mark.slow
@pytest.mark.parametrize("operator_id", ["d6a07001", "59c03d48"])
def test_a_state_that_a_subtask_has_not_registered_is_in_all_of_them(
    operator_id: str, tmp_path: Path
) -> None:
    source = unpacked("1.20.3-allstates-hashmap-compressed-canonical", tmp_path).directory
    operator = next(one for one in operators(source) if one.operator_id.startswith(operator_id))
    before = {state.name for state in operator.states}

    edit = RewriteKeyedState(operator=operator, max_parallelism=300)
    SavepointWriter(SavepointLocation(source), [edit]).write(tmp_path / "new")

    found = next(one for one in operators(tmp_path / "new") if one.operator_id.startswith(operator_id))
    assert {state.name for state in found.states} == before
    assert rows(tmp_path / "new") == rows(source)


def test_subtasks_change_without_the_hash_codes_of_keys(tmp_path: Path) -> None:
    source = FLINK / "wordcount-hashmap-savepoints/canonical"

    one = write(source, tmp_path / "one", parallelism=2, max_parallelism=128)
    five = write(one, tmp_path / "five", parallelism=5)

    assert rows(five) == rows(source)
    check_places(five)
    assert {operator.metadata.parallelism for operator in operators(five)} == {5}


def test_states_and_their_order_stay_in_a_key_group(tmp_path: Path) -> None:
    source = FLINK / "everything-hashmap-savepoints/canonical"

    same = write(source, tmp_path / "same", max_parallelism=128, parallelism=2)

    names = [[state.name for state in operator.states] for operator in operators(source)]
    assert [[state.name for state in operator.states] for operator in operators(same)] == names


@pytest.mark.parametrize(
    ("uid", "max_parallelism", "parallelism", "message"),
    [
        ("kinds", None, 129, "found max_parallelism 128 and parallelism 129"),
        ("kinds", 1 << 15, 4097, "expected a parallelism of at most 4,096 in a new savepoint, found 4,097"),
        ("kinds", 40000, None, "expected at most 32768 key groups"),
        ("events", None, 1, "subtask 1 of events has operator state"),
    ],
)
def test_a_shape_that_flink_has_not_is_refused(
    uid: str, max_parallelism: int | None, parallelism: int | None, message: str
) -> None:
    path = FLINK / "everything-hashmap-savepoints/canonical"
    operator = next(one for one in Savepoint(path).operators if one.operator_id == operator_id_of(uid))

    edit = RewriteKeyedState(operator=operator, max_parallelism=max_parallelism, parallelism=parallelism)
    with pytest.raises(RefusedEditError, match=message):
        SavepointWriter(SavepointLocation(path), [edit])


@given(max_parallelism=st.integers(1, 2000), parallelism=st.integers(1, 2000))
def test_subtasks_have_every_key_group_once(max_parallelism: int, parallelism: int) -> None:
    parallelism = min(parallelism, max_parallelism)

    ranges = [SubtaskRanges(max_parallelism, parallelism).of(index) for index in range(parallelism)]

    assert [group for one in ranges for group in range(one.start, one.end + 1)] == list(
        range(max_parallelism)
    )
