"""`diff` at every door: two savepoints, the same differences."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors import Door, Told, doors_over
from tests.support.retained import WORDCOUNT, changed

Difference = tuple[str, str | None, int | None, int | None, int | None]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A savepoint and a copy of it; and one with another value, and a key less."""
    folder = tmp_path_factory.mktemp("diff")
    after = changed(
        folder / "after",
        "UPDATE aggregate__count SET value = -3 WHERE key = 'key_662'; DELETE FROM aggregate WHERE key = 'key_0'",
    )
    return Path(shutil.copytree(WORDCOUNT, folder / "copy")), after


@pytest.fixture(scope="module")
def diff_doors(pair: tuple[Path, Path], broken: Path) -> Iterator[dict[str, Door]]:
    with doors_over(WORDCOUNT, *pair, broken) as opened:
        yield opened


def differences(door: str, told: Told) -> list[Difference]:
    """What differs: operator, change, rows added, removed and changed of each state."""
    if door == "mcp":
        rows = [(state["operator"], state) for state in told.outcome["states"]]
    else:
        rows = [(one["name"], state) for one in told.outcome["operators"] for state in one["states"]]
    return sorted(
        (operator, state["change"], state["added"], state["removed"], state["changed"])
        for operator, state in rows
        if state["change"] != "same"
    )


def test_every_door_finds_the_same_differences(diff_doors: dict[str, Door], pair: tuple[Path, Path]) -> None:
    told = {name: door.run("diff", WORDCOUNT, after=pair[1]) for name, door in diff_doors.items()}

    assert told["cli"].exit_code == 1
    assert differences("cli", told["cli"]) == [("aggregate", "changed", 0, 1, 1)]
    found = {name: differences(name, one) for name, one in told.items()}
    assert found == dict.fromkeys(found, found["cli"])
    assert told["cli"].outcome == told["python"].outcome
    assert told["cli"].outcome.items() <= told["http"].outcome.items()


@pytest.mark.parametrize("operator", ["source", "mod7-no-uid"])
def test_every_door_compares_one_operator(
    diff_doors: dict[str, Door], pair: tuple[Path, Path], operator: str
) -> None:
    told = {
        name: door.run("diff", WORDCOUNT, after=pair[1], operator=operator)
        for name, door in diff_doors.items()
    }

    assert told["cli"].exit_code == 0
    assert [differences(name, one) for name, one in told.items()] == [[], [], [], []]


def test_every_door_finds_that_a_copy_is_the_same(
    diff_doors: dict[str, Door], pair: tuple[Path, Path]
) -> None:
    told = {name: door.run("diff", WORDCOUNT, after=pair[0]) for name, door in diff_doors.items()}

    assert told["cli"].exit_code == 0
    assert [differences(name, one) for name, one in told.items()] == [[], [], [], []]
    assert [told[name].outcome["is_equal"] for name in ("http", "mcp")] == [True, True]


@pytest.mark.parametrize(
    ("options", "code", "exit_code"),
    [({"operator": "agregate"}, "TABLE_NOT_FOUND", 2), ({}, "CORRUPT_SAVEPOINT", 3)],
    ids=["operator", "damage"],
)
def test_every_door_refuses_the_same(
    diff_doors: dict[str, Door],
    pair: tuple[Path, Path],
    broken: Path,
    options: dict[str, Any],
    code: str,
    exit_code: int,
) -> None:
    after = pair[1] if options else broken

    told = {name: door.run("diff", WORDCOUNT, after=after, **options) for name, door in diff_doors.items()}

    assert {name: one.code for name, one in told.items() if name != "cli"} == dict.fromkeys(
        ("http", "mcp", "python"), code
    )
    assert told["cli"].exit_code == exit_code
