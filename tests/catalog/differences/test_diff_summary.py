"""What differs between two databases: the states of their summary, and what no row of it says."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from catalog import Database, SummaryTable, connect, diff_facts
from catalog.masks.masks import Masks
from tests.support.commands import WriteCommand
from tests.support.paths import DATA

FLINK = DATA / "flink" / "1.20.3"
EVERYTHING = FLINK / "everything-hashmap-savepoints" / "canonical"
NATIVE = FLINK / "everything-rocksdb-savepoints" / "native"
WORDCOUNT = FLINK / "wordcount-hashmap-savepoints" / "canonical"


def databases(before: Path, after: Path) -> tuple[Database, Database]:
    old, new = (connect(path).default for path in (before, after))
    assert old is not None
    assert new is not None
    return old, new


def summary(before: Path, after: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = SummaryTable(*databases(before, after)).scan().to_arrow().to_pylist()
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("path", [EVERYTHING, NATIVE, WORDCOUNT])
def test_a_savepoint_is_the_same_as_itself(path: Path) -> None:
    known = diff_facts(*databases(path, path))

    assert {state["change"] for state in summary(path, path)} == {"same"}
    assert (known.moved, known.offsets, known.offsets_error) == ({}, (), None)


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
    found = summary(EVERYTHING, write.target)
    known = diff_facts(*databases(EVERYTHING, write.target))

    changed = {state["state_name"]: state for state in found if state["change"] != "same"}
    assert changed["map"] | {"size_before": 0, "size_after": 0, "samples": []} == {
        "operator_id": changed["map"]["operator_id"],
        "operator": changed["map"]["operator"],
        "state_name": "map",
        "table_name": f"{changed['map']['operator_id']}__map",
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
        "samples": [],
        "error": None,
    }
    assert (changed["reducing"]["change"], changed["reducing"]["removed"]) == ("removed", 6)
    assert changed["reducing"]["type_after"] is None
    assert len(changed) == 2
    assert known.size_after < known.size_before


@pytest.mark.slow
def test_offsets_that_moved_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write = WriteCommand(WORDCOUNT, tmp_path / "new", capsys)
    known = connect(WORDCOUNT).default
    assert known is not None
    rows = known.table("source_offsets").scan().to_arrow().to_pylist()
    topic = rows[0]["topic"]
    ended = write('UPDATE source_offsets SET starting_offset = 7 WHERE "partition" = 0')
    assert ended.code == 0, ended
    found = diff_facts(*databases(WORDCOUNT, write.target))

    before = next(row["starting_offset"] for row in rows if row["partition"] == 0)
    assert [(one.topic, one.partition, one.before, one.after) for one in found.offsets] == [
        (topic, 0, before, 7)
    ]
    # A mask of the state of the source hides where it stood.
    (tmp_path / "masks.toml").write_text(
        'version = 1\n[[mask]]\ncolumns = ["e5a72f353fc1e6bbf3bd96a41384998c.value.**"]\nwith = "null"\n',
        encoding="utf-8",
    )
    masks = Masks.load(tmp_path / "masks.toml")
    old, new = (one.masked(masks) for one in databases(WORDCOUNT, write.target))
    assert (diff_facts(old, new).offsets, diff_facts(old, new).offsets_error) == ((), None)


@pytest.mark.slow
def test_a_state_that_cannot_be_read_has_its_error_and_others_are_compared(tmp_path: Path) -> None:
    shutil.copytree(NATIVE, tmp_path / "broken")
    for file in (tmp_path / "broken").iterdir():
        if file.name != "_metadata":
            file.unlink()
    states = summary(NATIVE, tmp_path / "broken")

    assert {state["change"] for state in states} == {"same", None}
    assert all((state["change"] is None) == (state["error"] is not None) for state in states)
    assert {state["added"] for state in states} == {0, None}
