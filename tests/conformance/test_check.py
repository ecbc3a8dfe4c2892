"""`check` at every door: one request, one verdict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import CANONICAL, NATIVE
from tests.support.compatpairs import unpack_pairs
from tests.support.doors import Door, Told, doors_over

VERDICT = ("outcome", "severity", "loses_data", "headline", "advice", "flink", "backend")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A savepoint, and one of a new job in which an operator has another uid."""
    folder = unpack_pairs(tmp_path_factory.mktemp("pairs"), ["uid-changed"]) / "uid-changed" / "savepoints"
    return folder / "A-2.3.0-hashmap-canonical", folder / "B-2.3.0-hashmap-canonical"


@pytest.fixture(scope="module")
def check_doors(pair: tuple[Path, Path], broken: Path) -> Iterator[dict[str, Door]]:
    with doors_over(NATIVE, CANONICAL, *pair, broken) as opened:
        yield opened


def verdicts(doors: dict[str, Door], savepoint: Path, **options: Any) -> dict[str, list[Any]]:
    told = {name: door.run("check", savepoint, **options) for name, door in doors.items()}
    return {name: [one.outcome[fact] for fact in VERDICT] for name, one in told.items()}


@pytest.mark.parametrize(
    ("savepoint", "options"),
    [(NATIVE, {"backend": "both"}), (CANONICAL, {"flink": "1.20"}), (CANONICAL, {"values": "sample"})],
    ids=str,
)
def test_every_door_says_the_same_of_a_savepoint(
    check_doors: dict[str, Door], savepoint: Path, options: dict[str, Any]
) -> None:
    told = verdicts(check_doors, savepoint, **options)

    assert told == dict.fromkeys(told, told["cli"])


def test_a_native_savepoint_of_rocksdb_restores_where_nobody_names_a_backend(
    check_doors: dict[str, Door],
) -> None:
    told = {name: door.run("check", NATIVE) for name, door in check_doors.items()}

    assert told["cli"].exit_code == 0
    assert {one.outcome["outcome"] for one in told.values()} == {"restores"}
    assert {one.outcome["backend"] for one in told.values()} == {"rocksdb"}


def test_every_door_compares_with_the_same_job(check_doors: dict[str, Door], pair: tuple[Path, Path]) -> None:
    old, new = pair

    told = {name: check_doors[name].run("check", old, against=given) for name, given in compared(new).items()}

    assert {name: one.outcome["outcome"] for name, one in told.items()} == dict.fromkeys(told, "fails")
    assert told["cli"].exit_code == 2
    assert {name: one.outcome["headline"] for name, one in told.items()} == dict.fromkeys(
        told, told["cli"].outcome["headline"]
    )


def test_every_door_drops_what_the_new_job_lacks_where_it_may(
    check_doors: dict[str, Door], pair: tuple[Path, Path]
) -> None:
    old, new = pair

    told = {
        name: check_doors[name].run("check", old, against=given, allow_non_restored=True)
        for name, given in compared(new).items()
    }

    assert {name: verdict(one) for name, one in told.items()} == dict.fromkeys(
        told, ("restores", "loses", True)
    )
    assert told["cli"].exit_code == 1


def compared(new: Path) -> dict[str, Any]:
    """What each door takes: a path, or the names of databases."""
    return {"cli": new, "http": [new.name], "mcp": [new.name], "python": new}


def verdict(told: Told) -> tuple[Any, ...]:
    return tuple(told.outcome[fact] for fact in ("outcome", "severity", "loses_data"))


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"flink": "3.0"}, "expected a version of Flink from 1.8 to 2.x"),
        ({"flink": "two"}, "expected a version of Flink such as"),
        ({"backend": "memory"}, "backend"),
        ({"values": "some"}, "values"),
    ],
    ids=str,
)
def test_every_door_refuses_the_same(check_doors: dict[str, Door], wrong: dict[str, Any], word: str) -> None:
    told = {name: door.run("check", NATIVE, **wrong) for name, door in check_doors.items()}

    assert {name: one.code for name, one in told.items() if name != "cli"} == dict.fromkeys(
        ("http", "mcp", "python"), "INVALID_REQUEST"
    )
    assert told["cli"].exit_code == 4
    assert [name for name, one in told.items() if word not in one.message] == []


def test_every_door_reports_the_same_damage(check_doors: dict[str, Door], broken: Path) -> None:
    told = {name: door.run("check", broken) for name, door in check_doors.items()}

    assert told["cli"].exit_code == 4
    assert {one.code for name, one in told.items() if name != "cli"} == {"CORRUPT_SAVEPOINT"}
    assert {"expected 11928 bytes of inline state" in one.message for one in told.values()} == {True}
