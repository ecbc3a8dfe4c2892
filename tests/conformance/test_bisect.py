"""`bisect` at every door: one request, one outcome."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors import Door, doors_over
from tests.support.retained import JOB, changed, retain

NEGATIVE = "SELECT key, value FROM aggregate WHERE value < 0"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four checkpoints of a job; from the third on a value is negative."""
    folder = tmp_path_factory.mktemp("bisect")
    bad = changed(folder / "bad", "UPDATE aggregate__count SET value = -3 WHERE key = 'key_662'")
    retain(folder / "job" / JOB, range(1, 3))
    retain(folder / "job" / JOB, range(3, 5), bad)
    return folder / "job"


@pytest.fixture(scope="module")
def job_doors(root: Path) -> Iterator[dict[str, Door]]:
    with doors_over(root) as opened:
        yield opened


@pytest.mark.parametrize(
    ("options", "outcome", "exit_code"),
    [
        ({}, "found", 0),
        ({"check_all": True}, "found", 0),
        ({"end": "2"}, "none", 1),
        ({"start": "chk-3"}, "oldest", 0),
    ],
    ids=str,
)
def test_every_door_finds_the_same_checkpoint(
    job_doors: dict[str, Door], root: Path, options: dict[str, Any], outcome: str, exit_code: int
) -> None:
    told = {name: door.run("bisect", root, sql=NEGATIVE, **options) for name, door in job_doors.items()}

    first = told["cli"].outcome
    assert (first["outcome"], told["cli"].exit_code) == (outcome, exit_code)
    assert {name: one.outcome for name, one in told.items()} == dict.fromkeys(told, first)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"sql": "SELECT nothing FROM aggregate"}, "COLUMN_NOT_FOUND"),
        ({"sql": "DELETE FROM aggregate"}, "FORBIDDEN"),
        ({"sql": NEGATIVE, "job": "nobody"}, "JOB_NOT_FOUND"),
        ({"sql": NEGATIVE, "start": "9"}, "INVALID_REQUEST"),
        ({"sql": NEGATIVE, "engine": "abacus"}, "INVALID_REQUEST"),
    ],
    ids=str,
)
def test_every_door_refuses_the_same(
    job_doors: dict[str, Door], root: Path, options: dict[str, Any], code: str
) -> None:
    told = {name: door.run("bisect", root, **options) for name, door in job_doors.items()}

    assert {name: one.code for name, one in told.items() if name != "cli"} == dict.fromkeys(
        ("http", "mcp", "python"), code
    )
    assert told["cli"].exit_code == 2
