"""All proofs of statements, and who restored them, as docs/evidence/restored.md shows it."""

from __future__ import annotations

from tests.support.creations import BACKENDS
from tests.support.grafts import GRAFT_PROOFS
from tests.support.restoring import VERSIONS
from tests.support.rowproofs import ROW_PROOFS
from tests.support.stateproofs import STATE_PROOFS

PROOFS = (*ROW_PROOFS, *STATE_PROOFS, *GRAFT_PROOFS)
"""Each with each version and backend."""


def statement_matrix() -> list[str]:
    """Who restored each proof, as the table of docs/evidence/restored.md."""
    pairs = [(version, backend) for version in VERSIONS for backend in BACKENDS]
    lines = [
        "| statement | of | " + " | ".join(f"{version} {backend}" for version, backend in pairs) + " |",
        "|" + "---|" * (2 + len(pairs)),
    ]
    for proof in PROOFS:
        by = proof.recorded["restored_by"]
        marks = ["yes" if " ".join(pair) in by else "not tried" for pair in pairs]
        lines.append("| " + " | ".join((proof.statement, proof.of, *marks)) + " |")
    return lines
