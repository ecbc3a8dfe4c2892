"""What real Flink found in savepoints that scripts wrote: recorded, and compared with the rows that we read in every run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from readers import Savepoint, operator_id_of
from service.cli import main
from tests.support.paths import PROJECT
from tests.support.restores import RESTORES, matrix
from tests.support.restoring import RECORDED, Restore, digest, rows_of_flink, rows_of_ours

# One edit of every source in every run, and some samples; the others beside the slow tests.
FAST = ("rewind", "sample-raw-1", "sample-masked-native")
UIDS = ("source", "aggregate", "kafka-source", "numseq", "files", "events", "broadcast", "kinds", "types")


def written(restore: Restore, folder: Path) -> Path:
    """The new savepoint, of a copy of the source: the job may delete what it refers to."""
    source = restore.copy(folder)
    named = restore.named(folder)
    own = [str(PROJECT / one) if one.startswith("tests/") else one for one in restore.options]
    script = [restore.script] if restore.script else []
    options = ["--to", str(folder / "new"), *own, *named]
    assert main([restore.command, str(source), *script, *options]) == 0
    return folder / "new"


def names_of(restore: Restore, path: Path) -> dict[str, str]:
    """Operator id → its name in the lines of the job, for the operators that the job has."""
    # The operators that only job `types` has are left out of the others.
    known = {operator_id_of(uid): uid for uid in UIDS if (uid == "types") == (restore.job == "types")}
    for operator in Savepoint(path, roots=[str(path.parent)]).operators:
        # An operator without a uid has the same id only in savepoints of this very job.
        if "/" in restore.source and any(state.name == "seen" for state in operator.states):
            known[operator.operator_id] = "mod7-no-uid"
    return known


def test_the_documentation_has_the_matrix() -> None:
    _, _, rest = (
        (PROJECT / "docs/evidence/restored.md").read_text(encoding="utf-8").partition("<!-- matrix -->\n")
    )
    shown, _, _ = rest.partition("<!-- /matrix -->")

    assert shown.splitlines() == matrix()


@pytest.mark.parametrize(
    "restore",
    [pytest.param(one, marks=() if one.name.startswith(FAST) else pytest.mark.slow) for one in RESTORES],
    ids=lambda restore: restore.id,
)
def test_we_read_what_flink_restored(restore: Restore, tmp_path: Path) -> None:
    path = written(restore, tmp_path)

    assert digest(rows_of_ours(path, names_of(restore, path), restore)) == restore.recorded


@pytest.mark.flink
@pytest.mark.parametrize("restore", RESTORES, ids=lambda restore: restore.id)
def test_flink_restores_it(restore: Restore, tmp_path: Path) -> None:
    path = written(restore, tmp_path)

    lines = restore.restored(path)

    found = digest(rows_of_flink(lines, restore))

    assert found == digest(rows_of_ours(path, names_of(restore, path), restore))
    assert [sent for sent in map(json.loads, restore.sends) if sent not in lines] == []
    if os.environ.get("RECORD"):
        RECORDED.mkdir(exist_ok=True)
        (RECORDED / f"{restore.id}.json").write_text(json.dumps(found, indent=1) + "\n")
    assert found == restore.recorded
