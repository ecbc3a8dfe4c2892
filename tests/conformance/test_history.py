"""`history` at every door: one request, the same changes of a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors import Door, Told, doors_over
from tests.support.retained import JOB, changed, retain

KEY = "key_662"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four checkpoints of a job; from the third on a value is another one."""
    folder = tmp_path_factory.mktemp("history")
    bad = changed(folder / "bad", f"UPDATE aggregate__count SET value = -3 WHERE key = '{KEY}'")
    retain(folder / "job" / JOB, range(1, 3))
    retain(folder / "job" / JOB, range(3, 5), bad)
    return folder / "job"


@pytest.fixture(scope="module")
def job_doors(root: Path) -> Iterator[dict[str, Door]]:
    with doors_over(root) as opened:
        yield opened


def changes(door: str, told: Told) -> list[tuple[str, str, str]]:
    """The operator, the state and the new value of each change."""
    match door:
        case "mcp":
            names = told.outcome["columns"]
            rows = [dict(zip(names, row, strict=True)) for row in told.outcome["rows"]]
            return [(row["operator"], row["state"], row["value"]) for row in rows]
        case "cli":
            return [
                (row["operator"], row["state"], str(row["value"])) for row in told.outcome if row["changed"]
            ]
        case _:
            return [
                (state["operator"], state["state"], entry["value"])
                for state in told.outcome["states"]
                for point in state["points"]
                if point["changed"]
                for entry in point["rows"]
            ]


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({}, 2),
        ({"last": 2}, 1),
        ({"state": "COUNT", "operator": "aggregate"}, 2),
        ({"job": JOB}, 2),
    ],
    ids=str,
)
def test_every_door_has_the_same_changes(
    job_doors: dict[str, Door], root: Path, options: dict[str, Any], values: int
) -> None:
    told = {
        name: changes(name, door.run("history", root, key=KEY, **options)) for name, door in job_doors.items()
    }

    assert [place[:2] for place in told["cli"]] == [("aggregate", "count")] * values
    assert told["cli"][-1][2] == "-3"
    assert told == dict.fromkeys(told, told["cli"])


def test_every_door_finds_nothing_of_a_key_that_no_checkpoint_has(
    job_doors: dict[str, Door], root: Path
) -> None:
    told = {name: door.run("history", root, key="nobody") for name, door in job_doors.items()}

    assert told["cli"].exit_code == 1
    assert [changes(name, one) for name, one in told.items() if name != "cli"] == [[], [], []]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"job": "nobody"}, "JOB_NOT_FOUND"),
        ({"state": "other"}, "INVALID_REQUEST"),
        ({"last": 0}, "INVALID_REQUEST"),
    ],
    ids=str,
)
def test_every_door_refuses_the_same(
    job_doors: dict[str, Door], root: Path, options: dict[str, Any], code: str
) -> None:
    told = {name: door.run("history", root, key=KEY, **options) for name, door in job_doors.items()}

    assert {name: one.code for name, one in told.items() if name != "cli"} == dict.fromkeys(
        ("http", "mcp", "python"), code
    )
    assert told["cli"].exit_code == 2
