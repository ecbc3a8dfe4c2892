"""The snapshots that families of tests read: those of `tests/data`, the packed ones among them, and those of the corpus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from readers.savepoint import Savepoint
from readers.states import State
from tests.support.expected import Snapshot, snapshots_of
from tests.support.paths import CORPUS, DATA
from tests.support.unpacked import ARCHIVES

COPIED = [snapshot for folder in (DATA / "corpus", DATA / "flink") for snapshot in snapshots_of(folder)]
# The names of archives, for `tests.support.unpacked`.
PACKED = sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES.glob("*.tar.xz"))
needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="no corpus of savepoints; set SAVEPOINTDB_CORPUS"
)


def states_of(snapshot: Snapshot) -> Iterator[State]:
    """All states of a snapshot, which is open while they are looked at."""
    savepoint = Savepoint(snapshot.directory)
    for operator in savepoint.operators:
        yield from operator.states
    savepoint.close()
