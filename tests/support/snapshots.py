"""The snapshots that families of tests read: those of `tests/data`, the packed ones among them, and those of the corpus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from readers.formats.heap.source import HeapSource
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


# To read one state of a heap file walks through the entries of all: a file of 120 states takes minutes.
_MANY_STATES = 50
# The packed and the copied savepoints have the formats and types of the corpus, and are read whole.
_MANY_STATES_OF_CORPUS = 25


def states_of(snapshot: Snapshot) -> Iterator[State]:
    """The states of a snapshot, which is open while they are looked at.

    Of very many states in heap files, or in a snapshot of the corpus, evenly some.
    """
    in_corpus = CORPUS in snapshot.directory.parents
    savepoint = Savepoint(snapshot.directory)
    states = [state for operator in savepoint.operators for state in operator.states]
    costly = [in_corpus or _is_on_heap(state) for state in states]
    step = 1 + sum(costly) // (_MANY_STATES_OF_CORPUS if in_corpus else _MANY_STATES)
    for number, state in enumerate(states):
        if not costly[number] or sum(costly[:number]) % step == 0:
            yield state
    savepoint.close()


def _is_on_heap(state: State) -> bool:
    return any(isinstance(part.source, HeapSource) for part in state.parts)
