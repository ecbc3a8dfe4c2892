"""Whether a new savepoint has the entries that were made: they are read back, decoded, counted, and their bytes are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from readers import Savepoint, Selection, State
from writers.creation.elements import CollectedElements
from writers.creation.grouping import mixed
from writers.creation.spool import SpooledEntries
from writers.errors import UnwritableError

_WORD = (1 << 64) - 1


def check_created(
    savepoint: Savepoint,
    operator_id: str,
    keyed: Sequence[SpooledEntries],
    elements: Sequence[CollectedElements],
) -> None:
    """Check that an operator of a new savepoint has these states.

    Raises:
        UnwritableError: it has others.
        ReaderError: it cannot be read.
    """
    states = {
        state.name: state
        for operator in savepoint.operators
        if operator.operator_id == operator_id
        for state in operator.states
    }
    for entries in keyed:
        _compare(entries.state.name, _made(entries), _found(states.get(entries.state.name)))
    for one in elements:
        state = states.get(one.state.name)
        found = -1 if state is None else sum(batch.num_rows for batch in state.read())
        _compare(one.state.name, (one.rows, 0), (found, 0))


def _compare(name: str, made: tuple[int, int], found: tuple[int, int]) -> None:
    if made != found:
        raise UnwritableError(
            f"expected {made[0]} entries of the new state {name}, read {found[0]} back, or others; nothing was written"
        )


def _made(entries: SpooledEntries) -> tuple[int, int]:
    """Return the number of entries and a hash of them all."""
    count = total = 0
    for run in entries.runs():
        total += mixed(run.data, *run.bounds())
        count += len(run.starts)
    return count, total & _WORD


def _found(state: State | None) -> tuple[int, int]:
    """Return the same of a state that is read back; -1 if there is none."""
    if state is None:
        return -1, 0
    count = total = 0
    for part in state.parts:
        for batch in part.entries(Selection()):
            page = batch.page
            data = np.ascontiguousarray(page.data)
            total += mixed(data, page.starts, page.ends)
            count += len(page)
    return count, total & _WORD
