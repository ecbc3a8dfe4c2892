"""States of operator state that go, become empty, or get other names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readers import Savepoint, offset_places, operator_id_of
from readers.storage.location import SavepointLocation
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from writers import AlterOperatorStates, RefusedEditError, SavepointWriter, SetOffsets

EVERYTHING = DATA / "flink/2.3.0/everything-hashmap-savepoints/canonical"
EVENTS, BROADCAST = operator_id_of("events"), operator_id_of("broadcast")
Altered = Callable[..., dict[str, list[Any]]]


def rows(path: Path, operator_id: str) -> dict[str, list[Any]]:
    """State → the values of its rows, with the subtask."""
    operator = next(one for one in Savepoint(path).operators if one.operator_id == operator_id)
    return {
        state.name: [
            (row.get("_subtask"), row.get("map_key"), row["value"])
            for batch in state.read()
            for row in batch.to_pylist()
        ]
        for state in operator.states
    }


@pytest.fixture
def altered(tmp_path: Path) -> Altered:
    """Returns what an operator has after a change."""

    def alter(operator_id: str, source: Path = EVERYTHING, **changes: Any) -> dict[str, list[Any]]:
        edit = AlterOperatorStates(operator_id=operator_id, **changes)
        SavepointWriter(SavepointLocation(source), [edit]).write(tmp_path / "new")
        return rows(tmp_path / "new", operator_id)

    return alter


def test_a_dropped_state_goes_and_the_others_keep_their_elements(altered: Altered) -> None:
    before = rows(EVERYTHING, EVENTS)

    after = altered(EVENTS, dropped=frozenset({"readers"}))

    assert list(before) == ["readers", "last-numbers"]
    assert after == {"last-numbers": before["last-numbers"]}
    assert len(after["last-numbers"]) == 6


def test_an_operator_without_states_has_no_handles(altered: Altered) -> None:
    assert altered(EVENTS, dropped=frozenset({"readers", "last-numbers"})) == {}


def test_a_state_gets_another_name(altered: Altered) -> None:
    before = rows(EVERYTHING, EVENTS)

    after = altered(EVENTS, renamed={"readers": "who-reads"})

    assert after == {"who-reads": before["readers"], "last-numbers": before["last-numbers"]}


def test_a_truncated_list_is_empty_and_still_there(altered: Altered) -> None:
    before = rows(EVERYTHING, EVENTS)

    after = altered(EVENTS, truncated=frozenset({"last-numbers"}))

    assert after == {"readers": before["readers"], "last-numbers": []}


def test_a_truncated_broadcast_state_is_empty_in_every_copy(altered: Altered) -> None:
    assert rows(EVERYTHING, BROADCAST)["rules"] != []
    assert altered(BROADCAST, truncated=frozenset({"rules"})) == {"rules": []}


def test_numbers_that_were_patched_before_stay_patched(tmp_path: Path) -> None:
    path = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
    source, operator = SavepointLocation(path), operator_id_of("source")
    place = offset_places(Savepoint(path))[0]
    assert place is not None
    patch = SetOffsets(operator, {place: (24750, 5)})

    edit = AlterOperatorStates(operator_id=operator, renamed={"topic-partition-offset-states": "offsets"})
    SavepointWriter(source, [patch, edit]).write(tmp_path / "new")

    assert (0, None, {"f0": "words", "f1": 0, "f2": 5}) in rows(tmp_path / "new", operator)["offsets"]


def test_one_half_of_a_source_is_refused(tmp_path: Path) -> None:
    source = unpacked("2.3.0-source-kafka-hashmap-canonical", tmp_path).directory
    edit = AlterOperatorStates(
        operator_id=operator_id_of("kafka-source"), dropped=frozenset({"SourceReaderState"})
    )

    with pytest.raises(RefusedEditError, match="two halves of one source"):
        SavepointWriter(SavepointLocation(source), [edit])


@pytest.mark.parametrize("state", ["streaming_committer_raw_states", "writer_raw_states"])
def test_states_of_sinks_stay(state: str, tmp_path: Path) -> None:
    source = unpacked("2.3.0-source-kafka-hashmap-canonical", tmp_path).directory
    operator = next(
        one for one in Savepoint(source).operators if any(found.name == state for found in one.states)
    )
    edit = AlterOperatorStates(operator_id=operator.operator_id, truncated=frozenset({state}))

    with pytest.raises(RefusedEditError, match=f"{state} cannot be changed: it holds transactions or files"):
        SavepointWriter(SavepointLocation(source), [edit])


def test_a_truncated_broadcast_state_in_compressed_state_is_empty(tmp_path: Path) -> None:
    source = unpacked("1.20.3-kinds-compressed-canonical", tmp_path).directory
    edit = AlterOperatorStates(operator_id=BROADCAST, truncated=frozenset({"rules"}))

    SavepointWriter(SavepointLocation(source), [edit]).write(tmp_path / "new")

    assert rows(tmp_path / "new", BROADCAST) == {"rules": []}
