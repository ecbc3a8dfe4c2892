"""Keyed state written anew: the rows are those of the source, and bytes that nobody changes stay as they are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from readers import Savepoint, SavepointLocation, is_keyed, json_text
from readers.metadata import KeyGroupsSavepointStateHandle, read_metadata
from tests.support.paths import DATA
from writers import RewriteKeyedState, SavepointWriter

FLINK = DATA / "flink/2.3.0"
CANONICAL = (
    "wordcount-hashmap-savepoints/canonical",
    "wordcount-rocksdb-savepoints/canonical",
    "everything-hashmap-savepoints/canonical",
)
HASHMAP = (
    "wordcount-hashmap-savepoints/native",
    "everything-hashmap-savepoints/native",
)
ROCKSDB = (
    "wordcount-rocksdb-savepoints/native",
    "wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2",
    "everything-rocksdb-savepoints/native",
)


def rewrites(savepoint: Savepoint) -> list[RewriteKeyedState]:
    """An edit for each operator with keyed state."""
    return [
        RewriteKeyedState(operator=operator)
        for operator in savepoint.operators
        if any(subtask.managed_keyed_state for subtask in operator.metadata.subtasks)
    ]


def rows(savepoint: Savepoint) -> Counter[str]:
    """All rows of keyed state, as text."""
    return Counter(
        f"{operator.operator_id} {state.kind} {state.name} {row}"
        for operator in savepoint.operators
        for state in operator.states
        if is_keyed(state.kind)
        for batch in state.read()
        for row in json_text(batch.to_struct_array()).to_pylist()
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=pytest.mark.slow if "everything" in one else ())
        for one in [*CANONICAL, *HASHMAP, *ROCKSDB]
    ],
)
def test_state_that_nobody_changes_has_the_same_rows(name: str, tmp_path: Path) -> None:
    source = Savepoint(FLINK / name)
    edits = rewrites(source)
    assert edits

    writer = SavepointWriter(SavepointLocation(FLINK / name), edits)
    expected = writer.summary
    written = writer.write(tmp_path / "new")

    assert written == expected
    assert rows(Savepoint(tmp_path / "new")) == rows(source)
    metadata = read_metadata((tmp_path / "new/_metadata").read_bytes())
    handles = [one.managed_keyed_state for operator in metadata.operators for one in operator.subtasks]
    assert {type(handle) for handle in handles if handle is not None} == {KeyGroupsSavepointStateHandle}
