"""The summary of what differs between two databases."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from catalog import DiffSummary, connect, diff_summary
from tests.support.commands import WriteCommand
from tests.support.paths import DATA

FLINK = DATA / "flink" / "1.20.3"
EVERYTHING = FLINK / "everything-hashmap-savepoints" / "canonical"
NATIVE = FLINK / "everything-rocksdb-savepoints" / "native"
WORDCOUNT = FLINK / "wordcount-hashmap-savepoints" / "canonical"


def summary(before: Path, after: Path, **options: Any) -> DiffSummary:
    old, new = (connect(path).default for path in (before, after))
    assert old is not None
    assert new is not None
    return diff_summary(old, new, **options)


@pytest.mark.slow
@pytest.mark.parametrize("path", [EVERYTHING, NATIVE, WORDCOUNT])
def test_a_savepoint_is_the_same_as_itself(path: Path) -> None:
    found = summary(path, path)

    assert found.is_same
    assert {state.change for operator in found.operators for state in operator.states} == {"same"}


@pytest.mark.slow
def test_states_that_were_edited_dropped_and_made_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write = WriteCommand(EVERYTHING, tmp_path / "new", capsys)
    ended = write(
        "UPDATE kinds__map SET value = 'new' WHERE map_key = 'm0'; DELETE FROM kinds__map WHERE map_key = 'm3';"
        "INSERT INTO kinds__map (key, map_key, value) VALUES ('k9', 'm7', 'x'); DROP TABLE kinds__reducing"
    )
    assert ended.code == 0, ended
    known = json.loads(json.dumps(summary(EVERYTHING, write.target).to_dict()))

    (kinds,) = [operator for operator in known["operators"] if operator["change"] != "same"]
    changed = {state["state_name"]: state for state in kinds["states"] if state["change"] != "same"}
    assert changed["map"] | {"size_before": 0, "size_after": 0} == {
        "state_name": "map",
        "table_name": f"{kinds['operator_id']}__map",
        "change": "changed",
        "type_before": changed["map"]["type_after"],
        "type_after": "MAP(key String, namespace VoidNamespace, map_key String, value String)",
        "added": 1,
        "removed": 6,
        "changed": 6,
        "rows_before": 18,
        "rows_after": 13,
        "size_before": 0,
        "size_after": 0,
        "error": None,
    }
    assert (changed["reducing"]["change"], changed["reducing"]["removed"]) == ("removed", 6)
    assert changed["reducing"]["type_after"] is None
    assert len(changed) == 2
    assert known["sizes"]["after"] < known["sizes"]["before"]


@pytest.mark.slow
def test_offsets_that_moved_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write = WriteCommand(WORDCOUNT, tmp_path / "new", capsys)
    known = connect(WORDCOUNT).default
    assert known is not None
    rows = known.table("source_offsets").scan().to_arrow().to_pylist()
    topic = rows[0]["topic"]
    ended = write('UPDATE source_offsets SET starting_offset = 7 WHERE "partition" = 0')
    assert ended.code == 0, ended
    found = summary(WORDCOUNT, write.target)

    before = next(row["starting_offset"] for row in rows if row["partition"] == 0)
    assert [(one.topic, one.partition, one.before, one.after) for one in found.offsets] == [
        (topic, 0, before, 7)
    ]
    assert not found.is_same


def test_without_counts_nothing_is_called_the_same() -> None:
    found = summary(EVERYTHING, EVERYTHING, counts=False)

    assert {state.change for operator in found.operators for state in operator.states} == {None}
    assert not found.is_same


@pytest.mark.slow
def test_a_state_that_cannot_be_read_has_its_error_and_others_are_compared(tmp_path: Path) -> None:
    shutil.copytree(NATIVE, tmp_path / "broken")
    for file in (tmp_path / "broken").iterdir():
        if file.name != "_metadata":
            file.unlink()
    found = summary(NATIVE, tmp_path / "broken")

    states = [state for operator in found.operators for state in operator.states]
    assert {state.change for state in states} == {"same", None}
    assert all((state.change is None) == (state.error is not None) for state in states)
    assert {state.added for state in states} == {0, None}
    assert len(found.errors) >= 1


def test_progress_ends_with_all_bytes() -> None:
    seen: list[tuple[int, int]] = []
    summary(EVERYTHING, EVERYTHING, progress=lambda done, total: seen.append((done, total)))

    assert seen[-1][0] == seen[-1][1] > 0
