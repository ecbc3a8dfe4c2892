"""`inspect` at every door: one savepoint, the same operators and states."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import savepointdb
from tests.conformance.conftest import CANONICAL, NATIVE
from tests.support.doors import Door, Told, doors_over, tellers
from tests.support.paths import DATA

CHECKPOINT = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"


@pytest.mark.parametrize("savepoint", [NATIVE, CANONICAL], ids=lambda path: path.name)
def test_every_door_shows_the_same_savepoint(doors: dict[str, Door], savepoint: Path) -> None:
    told = {door.name: door.run("inspect", savepoint) for door in tellers(doors, "inspect")}

    first = told["http"].outcome
    [shown] = first["savepoints"]
    assert [len(shown[name]) for name in ("operators", "states", "missing_files")] == [3, 3, 0]
    for one in (*told["cli"].outcome, *(one["savepoints"][0] for one in outcomes(told))):
        one["age_s"] = shown["age_s"]
    assert told["cli"].outcome == [shown]
    assert [one == first for one in outcomes(told)] == [True] * 3


def outcomes(told: dict[str, Told]) -> list[Any]:
    return [told[name].outcome for name in ("http", "mcp", "python")]


def test_every_door_reports_the_same_damage(doors: dict[str, Door], broken: Path) -> None:
    told = {door.name: door.run("inspect", broken) for door in tellers(doors, "inspect")}

    assert told["cli"].exit_code == 3
    assert {one.code for name, one in told.items() if name != "cli"} == {"CORRUPT_SAVEPOINT"}
    assert {"expected 11928 bytes of inline state" in one.message for one in told.values()} == {True}


def test_every_door_lists_missing_files(tmp_path: Path) -> None:
    shutil.copytree(CHECKPOINT, tmp_path / "job")
    savepoint = tmp_path / "job" / "chk-2"
    file = max((tmp_path / "job" / "shared").iterdir())
    file.unlink()
    with doors_over(savepoint) as doors:
        told = {door.name: door.run("inspect", savepoint) for door in tellers(doors, "inspect")}

    assert told["cli"].exit_code == 1
    assert told["cli"].message.splitlines()[-1] == "savepointdb: files are missing or cut: chk-2"
    missing = told["cli"].outcome[0]["missing_files"]
    assert [one["path"].endswith(file.name) for one in missing] == [True]
    assert [one["savepoints"][0]["missing_files"] for one in outcomes(told)] == [missing] * 3


def test_every_door_refuses_a_wrong_option(doors: dict[str, Door]) -> None:
    told = [doors[name].run("inspect", NATIVE, depth=3) for name in ("http", "mcp")]

    assert {one.code for one in told} == {"INVALID_REQUEST"}


def test_without_a_database_all_are_shown(doors: dict[str, Door]) -> None:
    found = doors["http"].run("inspect", NATIVE, database=None).outcome

    assert sorted(one["name"] for one in found["savepoints"]) == ["canonical", "native"]
    assert [one["database"] for one in found["unread"]] == ["broken"]


def test_python_has_states_as_rows() -> None:
    found = savepointdb.inspect(NATIVE.parent)

    databases = [name.rpartition("__")[2] for name in found.df()["database"]]
    assert databases == ["canonical"] * 3 + ["native"] * 3
    assert found["operators"].pl()["operator_max_parallelism"].to_list() == [128] * 6
    assert len(found["missing_files"]) == 0
    assert len(savepointdb.inspect(NATIVE.parent, database="native")) == 3
