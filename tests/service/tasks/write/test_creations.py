"""What real Flink found in savepoints that were created from nothing: recorded, and compared with the rows that we read."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from service.cli import main
from tests.support.creations import (
    CREATIONS,
    Creation,
    creation_matrix,
    digest,
    outputs_of,
    record,
    recorded,
    restores,
    rows_of_job,
)
from tests.support.paths import PROJECT
from tests.support.restoring import Restore

CASES = [pytest.param(creation, restore, id=restore.id) for creation, restore in restores()]


def created(creation: Creation, folder: Path) -> Path:
    assert main(["create", str(folder / "new"), creation.script]) == 0
    return folder / "new"


def test_the_documentation_has_the_creations() -> None:
    _, _, rest = (
        (PROJECT / "docs/evidence/restored.md").read_text(encoding="utf-8").partition("<!-- creations -->\n")
    )
    shown, _, _ = rest.partition("<!-- /creations -->")

    assert shown.splitlines() == creation_matrix()


@pytest.mark.parametrize("creation", CREATIONS, ids=lambda creation: creation.job)
def test_we_read_what_flink_restored(creation: Creation, tmp_path: Path) -> None:
    path = created(creation, tmp_path)

    assert digest(creation.rows(path)) == recorded(creation)["state"]


@pytest.mark.flink
@pytest.mark.parametrize(("creation", "restore"), CASES)
def test_flink_restores_what_was_created(creation: Creation, restore: Restore, tmp_path: Path) -> None:
    path = created(creation, tmp_path)
    taken = ("--restored-to", str(tmp_path / "taken"))

    lines = replace(restore, restoring=(*restore.restoring, *taken)).restored(path)

    rows = rows_of_job(lines)
    assert rows == creation.rows(path)
    (savepoint,) = (tmp_path / "taken").iterdir()
    assert creation.rows(savepoint) == rows
    if os.environ.get("RECORD"):
        record(creation, restore, digest(rows), outputs_of(lines))
    assert digest(rows) == recorded(creation)["state"]
    assert outputs_of(lines) == recorded(creation)["output"]
