"""Orphan timers: keys of an operator that have timers and no entry in any other keyed state of it.

The keys of timers are kept, the entries of all other states pass by. Keys are compared by their bytes. Where the keys of timers have no
room in memory, they are looked at in several rounds, each for a part of all hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode.page import Page
from readers.errors import UnsupportedStateError
from readers.formats.entry import EntryLayout, StateKind
from readers.formats.keybounds import KeyBounds
from readers.formats.source import Selection
from readers.rows import is_keyed
from readers.states import State, StatePart
from readers.surveys.keytable import ENTRIES, GROUP, LEAST, SEEN, KeyTable

_MOST_KEYS = 1 << 19
_MOST_KEY_BYTES = 1 << 25
_MOST_ROUNDS = 1 << 8
_TIME = "value"  # the column of an entry that has the time of a timer


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanTimers:
    """The timers of a key that has nothing else.

    Attributes:
        state: the number of the timer state among the states that were looked at.
        part: the number of the part of it.
        key: the bytes of the key.
        key_group: of the key.
        timers: how many it has there.
        first_time: of these, in milliseconds since 1970.
    """

    state: int
    part: int
    key: bytes
    key_group: int
    timers: int
    first_time: int


class _FullTableError(Exception):
    """The keys of timers have no room."""


def orphan_timers(
    states: Sequence[State], selection: Selection, *, most_keys: int = _MOST_KEYS
) -> Iterator[OrphanTimers]:
    """Yield the orphan timers of an operator in the selected key groups, by timer state, part, key group and key.

    Args:
        states: all states of the operator.
        selection: the key groups.
        most_keys: of timers that are in memory at once, a power of 2.

    Raises:
        UnsupportedStateError: the keys of a state are not found in its bytes.
        ReaderError: a file is missing or contradicts its format.
    """
    rounds = 1
    while True:
        try:
            found = [
                orphan
                for number in range(rounds)
                for orphan in _round(states, selection, rounds, number, most_keys)
            ]
        except _FullTableError:
            rounds *= 2
            if rounds > _MOST_ROUNDS:
                raise UnsupportedStateError(
                    f"expected at most {_MOST_ROUNDS * most_keys} keys with timers in some key groups, found more"
                ) from None
            continue
        yield from sorted(found, key=lambda one: (one.state, one.part, one.key_group, one.key))
        return


def _round(
    states: Sequence[State], selection: Selection, rounds: int, number: int, most_keys: int
) -> Iterator[OrphanTimers]:
    tables = []
    for index, state in enumerate(states):
        if state.kind is StateKind.TIMER:
            for place, part in enumerate(state.parts):
                table = KeyTable(most_keys, _MOST_KEY_BYTES, parts=rounds, part=number)
                for page, bounds, times in _timers(state, part, selection):
                    if table.add(page.data, bounds, times, page.key_groups) < len(page):
                        raise _FullTableError
                if len(table):
                    tables.append((index, place, table))
    if not tables:
        return
    for state in states:
        if state.kind is StateKind.TIMER or not is_keyed(state.kind):
            continue
        for part in state.parts:
            for page, bounds in _keys(state, part, selection):
                for _, _, table in tables:
                    table.mark(page.data, bounds)
    for index, place, table in tables:
        rows = table.rows()
        for row in rows[rows[:, SEEN] == 0]:
            yield OrphanTimers(
                state=index,
                part=place,
                key=table.key(row),
                key_group=int(row[GROUP]),
                timers=int(row[ENTRIES]),
                first_time=int(row[LEAST]),
            )


def _keys(
    state: State, part: StatePart, selection: Selection
) -> Iterator[tuple[Page, tuple[NDArray[np.int64], NDArray[np.int64]]]]:
    """Yield the pages of a part, each with the bounds of its keys."""
    find: KeyBounds | None = part.source.key_bounds(part.name)
    with part.located():
        for page in part.source.pages(part.name, selection):
            if find is None or page.undivided:
                _refuse(state)
            yield page, find(page)


def _refuse(state: State) -> NoReturn:
    raise UnsupportedStateError(
        f"expected a state whose keys are found in its bytes, found {state.name}: keys with timers cannot be compared with it"
    )


def _timers(
    state: State, part: StatePart, selection: Selection
) -> Iterator[tuple[Page, tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]]:
    """Yield the same for timers, with their times."""
    source, entry = part.source, part.entry
    layout = EntryLayout(source.columns(entry), frozenset({_TIME}))
    decoder = layout.decoder(lambda program, columns: source.emit(program, columns, entry))
    for page, bounds in _keys(state, part, selection):
        times = [batch.arrays[0].cast(pa.int64()).to_numpy() for batch in decoder.decode(page)]
        if times:
            yield page, bounds, np.concatenate(times)
