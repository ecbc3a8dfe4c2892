"""`xray` at every door: one request, one outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import CANONICAL, NATIVE
from tests.support.doors import Door, tellers


@pytest.mark.parametrize("savepoint", [NATIVE, CANONICAL], ids=lambda path: path.name)
@pytest.mark.parametrize("options", [{}, {"quick": True}], ids=str)
def test_every_door_shows_the_same_savepoint(
    doors: dict[str, Door], savepoint: Path, options: dict[str, Any]
) -> None:
    told = {door.name: door.run("xray", savepoint, **options) for door in tellers(doors, "xray")}

    first = told["cli"].outcome
    assert first["name"] == savepoint.name
    assert sum(row["bytes"] for row in first["xray"] if row["level"] == "operator") > 0
    assert ("xray_keys" in first) is not bool(options)
    assert {name: one.outcome == first for name, one in told.items()} == dict.fromkeys(told, True)


def test_every_door_reports_the_same_damage(doors: dict[str, Door], broken: Path) -> None:
    told = {door.name: door.run("xray", broken) for door in tellers(doors, "xray")}

    assert told["cli"].exit_code == 3
    assert {one.code for name, one in told.items() if name != "cli"} == {"CORRUPT_SAVEPOINT"}
    damage = told["http"].message.rpartition(" (")[0]
    assert "expected 11928 bytes of inline state" in damage
    assert {damage in one.message for one in told.values()} == {True}


def test_every_door_refuses_an_option_of_another_type(doors: dict[str, Door]) -> None:
    told = [door.run("xray", NATIVE, quick="soon") for door in tellers(doors, "xray") if door.name != "cli"]

    assert {one.code for one in told} == {"INVALID_REQUEST"}
