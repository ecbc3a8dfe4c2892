"""What real Flink found in savepoints that scripts wrote: recorded, and compared with the rows that we read in every run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from readers import Savepoint, operator_id_of
from service.cli import main
from tests.support.paths import PROJECT
from tests.support.restores import (
    RECORDED,
    RESTORES,
    Restore,
    digest,
    matrix,
    rows_of_flink,
    rows_of_ours,
)

UIDS = ("source", "aggregate")


def written(restore: Restore, folder: Path) -> Path:
    """The new savepoint, of a copy of the source: the job may delete what it refers to."""
    shutil.copytree(restore.path.parent, folder / "source")
    source = folder / "source" / restore.path.name
    assert main(["write", str(source), restore.script, "--to", str(folder / "new"), *restore.options]) == 0
    return folder / "new"


def names_of(path: Path) -> dict[str, str]:
    """Operator id → its name in the lines of the job, for the operators that the job has."""
    known = {operator_id_of(uid): uid for uid in UIDS}
    for operator in Savepoint(path, roots=[str(path.parent)]).operators:
        if any(state.name == "seen" for state in operator.states):
            known[operator.operator_id] = "mod7-no-uid"
    return known


def test_the_documentation_has_the_matrix() -> None:
    _, _, rest = (PROJECT / "docs/writing.md").read_text(encoding="utf-8").partition("<!-- matrix -->\n")
    shown, _, _ = rest.partition("<!-- /matrix -->")

    assert shown.splitlines() == matrix()


@pytest.mark.parametrize("restore", RESTORES, ids=lambda restore: restore.id)
def test_we_read_what_flink_restored(restore: Restore, tmp_path: Path) -> None:
    path = written(restore, tmp_path)

    assert digest(rows_of_ours(path, names_of(path))) == restore.recorded


@pytest.mark.flink
@pytest.mark.parametrize("restore", RESTORES, ids=lambda restore: restore.id)
def test_flink_restores_it(restore: Restore, tmp_path: Path) -> None:
    path = written(restore, tmp_path)

    found = digest(rows_of_flink(restore.restored(path)))

    assert found == digest(rows_of_ours(path, names_of(path)))
    if os.environ.get("RECORD"):
        RECORDED.mkdir(exist_ok=True)
        (RECORDED / f"{restore.id}.json").write_text(json.dumps(found, indent=1) + "\n")
    assert found == restore.recorded
