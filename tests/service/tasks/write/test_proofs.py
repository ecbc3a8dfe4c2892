"""Each statement of the reference, restored by both versions and both backends of real Flink, and read back."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.cli import main
from tests.support.creations import BACKENDS, outputs_of
from tests.support.paths import PROJECT
from tests.support.proofs import Proof, digest, operator_ids, rows_of_operators
from tests.support.proven import PROOFS, statement_matrix
from tests.support.restoring import VERSIONS, Restore

EACH = [(version, backend) for version in VERSIONS for backend in BACKENDS]
RESTORES = [
    pytest.param(proof, proof.restore(*one), id=proof.restore(*one).id) for one in EACH for proof in PROOFS
]
_IN_EVERY_RUN = ("rows-of-operators",)


def written(restore: Restore, folder: Path) -> Path:
    source = restore.copy(folder)
    named = restore.named(folder)
    options = ["--to", str(folder / "new"), *restore.options, *named]
    assert main(["write", str(source), restore.script, *options]) == 0
    return folder / "new"


def documentation(page: str) -> str:
    return (PROJECT / "docs" / page).read_text(encoding="utf-8")


def test_the_documentation_has_the_statements_and_who_restored_them() -> None:
    _, _, rest = documentation("evidence/restored.md").partition("<!-- statements -->\n")
    shown, _, _ = rest.partition("<!-- /statements -->")

    assert shown.splitlines() == statement_matrix()


def test_each_statement_of_the_documentation_is_proven_by_all() -> None:
    _, _, rest = documentation("reference/statements.md").partition(
        "| statement | what happens | what Flink does |\n"
    )
    shown, _, _ = rest.partition("\n\n")
    statements = [line[2:].partition(" | ")[0] for line in shown.splitlines()[1:]]

    assert sorted({proof.statement for proof in PROOFS}) == sorted(set(statements))
    for proof in PROOFS:
        assert proof.recorded["restored_by"] == [" ".join(one) for one in EACH], proof.name


@pytest.mark.parametrize(
    "proof",
    [
        pytest.param(proof, marks=() if proof.name in _IN_EVERY_RUN else pytest.mark.slow, id=proof.name)
        for proof in PROOFS
    ],
)
def test_we_read_what_each_flink_found(proof: Proof, tmp_path: Path) -> None:
    path = written(proof.restore("2.3.0", "rocksdb"), tmp_path)

    assert digest(proof.told_rows(path)) == proof.recorded["state"]


@pytest.mark.flink
@pytest.mark.parametrize(("proof", "restore"), RESTORES)
def test_each_flink_restores_it(proof: Proof, restore: Restore, tmp_path: Path) -> None:
    path = written(restore, tmp_path)
    taken = (
        "--restored-to",
        str(tmp_path / "restored"),
        "--savepoint",
        "canonical",
        "--to",
        str(tmp_path / "end"),
    )

    lines = replace(restore, restoring=(*restore.restoring, *taken)).restored(path)

    told = proof.told_rows(path)
    assert proof.lines(lines) == told
    (restored,), (end,) = (tmp_path / "restored").iterdir(), (tmp_path / "end").iterdir()
    kept = operator_ids(path) & operator_ids(restored)
    assert rows_of_operators(restored, kept) == rows_of_operators(path, kept)
    found: dict[str, Any] = {
        "state": digest(told),
        "output": outputs_of(lines),
        "after": digest(rows_of_operators(end, operator_ids(end))),
    }
    if os.environ.get("RECORD"):
        proof.record(restore, **found)
    assert found == {name: proof.recorded[name] for name in found}
