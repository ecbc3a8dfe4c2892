"""Surveys of states: how many keys there are, which are the largest, when values were updated last, which have only timers.

All entries of a key are in one key group, so that keys are counted key group by key group, and few of them are in memory at once. A
key group with more keys than have room is thinned out: the largest keys stay, and of all others those whose hash ends with some zero
bits, which are a sample whose size tells the number of all (Wegman's adaptive sampling). What is counted then is an estimate.

Where the entries of a key follow each other, as RocksDB sorts them, nothing has to be estimated. Where each entry has a key of its
own no table is needed.

Orphan timers are those of keys of an operator that have no entry in any other keyed state of it. The keys of timers are kept, the
entries of all other states pass by. Keys are compared by their bytes. Where the keys of timers have no room in memory, they are
looked at in several rounds, each for a part of all hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.decode.decoder import Page
from readers.errors import UnsupportedStateError
from readers.formats.entry import Entry, EntryLayout, StateKind, column_type
from readers.formats.source import KeyBounds, Selection
from readers.jsontext import json_text
from readers.rows import is_keyed
from readers.serializers.primitives import VoidNamespaceSerializer
from readers.states import State, StatePart
from readers.surveys.keytable import BYTES, CODE, ENTRIES, GROUP, KEY, LEAST, SEEN, KeyTable

LARGEST = 20
"""How many keys a survey names."""

MOST_KEYS = 1 << 19  # of a table: 64 MB of slots
_MOST_KEY_BYTES = 1 << 25
_MANY_KEYS = 1 << 14  # a table with as many is emptied at the next key group
_MOST_TIMES = 1 << 20
_SEQUENCE_BYTES = 8  # behind each key in files of RocksDB
_TTL = "ttl_timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeKey:
    """A key among the largest.

    Attributes:
        entries, size_bytes: of the key.
        key_group: of the key.
        part: the number of the part of the state that has it.
        key: its bytes.
    """

    entries: int
    size_bytes: int
    key_group: int
    part: int
    key: bytes


@dataclass(slots=True, kw_only=True)
class KeySurvey:
    """What a pass found; surveys of several key groups or parts add up.

    Attributes:
        entries: as the format stores them.
        keys: distinct keys; None where keys are not found in the bytes.
        is_estimate: whether `keys` and the numbers of `by_bytes` and `by_entries` are estimates.
        size_bytes: of keys and values.
        largest_bytes: of the largest entry.
        by_bytes, by_entries: the largest keys.
    """

    entries: int = 0
    keys: int | None = 0
    is_estimate: bool = False
    size_bytes: int = 0
    largest_bytes: int = 0
    by_bytes: list[LargeKey] = field(default_factory=list)
    by_entries: list[LargeKey] = field(default_factory=list)

    def add(self, other: KeySurvey) -> None:
        """Add a survey of other key groups."""
        self.entries += other.entries
        self.keys = None if self.keys is None or other.keys is None else self.keys + other.keys
        self.is_estimate |= other.is_estimate
        self.size_bytes += other.size_bytes
        self.largest_bytes = max(self.largest_bytes, other.largest_bytes)
        self.offer(other.by_bytes, other.by_entries)

    def offer(self, by_bytes: Iterable[LargeKey], by_entries: Iterable[LargeKey]) -> None:
        """Let keys be among the largest, if they are."""
        # Equal ones are in the order of their key groups and bytes, whichever of them was found first.
        self.by_bytes = sorted(
            [*self.by_bytes, *by_bytes],
            key=lambda key: (-key.size_bytes, -key.entries, key.key_group, key.key),
        )[:LARGEST]
        self.by_entries = sorted(
            [*self.by_entries, *by_entries],
            key=lambda key: (-key.entries, -key.size_bytes, key.key_group, key.key),
        )[:LARGEST]


def has_one_entry_a_key(part: StatePart) -> bool:
    """Return whether each entry of a part has a key of its own."""
    kind = part.entry.kind
    return (
        kind is not StateKind.TIMER
        and isinstance(part.entry.namespace, VoidNamespaceSerializer)
        and not (kind is StateKind.MAP and part.source.is_composite)
    )


def survey(state: State, number: int, selection: Selection, *, most_keys: int = MOST_KEYS) -> KeySurvey:
    """Return what is found in the selected key groups of one part of a state.

    Args:
        state: a keyed state.
        number: the number of the part.
        selection: the key groups.
        most_keys: that a key group may have before its survey is an estimate, a power of 2.

    Raises:
        ReaderError: the file contradicts its format; the breadcrumbs have the state.
    """
    part = state.parts[number]
    pass_ = _Pass(part, number, most_keys)
    with part.located():
        for page in part.source.pages(part.name, selection):
            pass_.take(page)
    return pass_.finished()


class _Pass:
    """One pass over the pages of a part."""

    def __init__(self, part: StatePart, number: int, most_keys: int) -> None:
        self._number = number
        self._bounds = part.source.key_bounds(part.name)
        self._is_direct = has_one_entry_a_key(part) and (
            part.source.is_composite or part.entry.kind not in (StateKind.LIST, StateKind.MAP)
        )
        self._is_ordered = part.source.is_ordered and part.entry.kind is not StateKind.TIMER
        self._most_keys = most_keys
        self._table = KeyTable(most_keys, _MOST_KEY_BYTES)
        self._group = -1
        self._level = 0
        self._found = KeySurvey(keys=None if self._bounds is None else 0)

    def take(self, page: Page) -> None:
        """Count the entries of a page."""
        found = self._found
        sizes = (page.ends - page.starts).sum(axis=1)
        # A large list or map comes in parts, each of them with its key again.
        weight = 0 if page.first_index else 1
        found.entries += weight * len(page)
        found.size_bytes += int(sizes.sum())
        found.largest_bytes = max(found.largest_bytes, int(sizes.max(initial=0)))
        if page.undivided:
            found.keys = self._bounds = None
        if self._bounds is None:
            return
        if self._is_direct:
            assert found.keys is not None
            found.keys += len(page)
            self._offer_entries(page, sizes, self._bounds)
            return
        bounds = self._bounds(page)
        begins = np.flatnonzero(page.key_groups[1:] != page.key_groups[:-1]) + 1
        for first, end in pairwise([0, *begins.tolist(), len(page)] if len(page) else [0]):
            self._begin(int(page.key_groups[first]))
            self._add(page, bounds, sizes, first, end, weight)

    def finished(self) -> KeySurvey:
        """Return what was found."""
        self._settle()
        return self._found

    def _begin(self, group: int) -> None:
        """Go on with a key group: keys of those before it do not come again."""
        if group != self._group and (
            len(self._table) >= min(_MANY_KEYS, self._most_keys // 2) or self._level
        ):
            self._settle()
        self._group = group

    def _add(
        self,
        page: Page,
        bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
        sizes: NDArray[np.int64],
        first: int,
        end: int,
        weight: int,
    ) -> None:
        keys = bounds[0][first:end], bounds[1][first:end]
        groups = page.key_groups[first:end]
        done = 0
        while (
            done := self._table.add(page.data, keys, sizes[first:end], groups, done, weight=weight)
        ) < end - first:
            self._make_room()

    def _make_room(self) -> None:
        rows = self._table.rows()
        if self._is_ordered:
            # All keys are complete but the last one.
            last = int(rows[:, KEY].argmax())
            self._count(np.delete(rows, last, axis=0))
            self._table.keep(rows[last : last + 1])
            return
        self._found.is_estimate = True
        quarter = max(len(rows) // 4, 1)
        while int(_sampled(rows, self._level).sum()) > quarter:
            self._level += 1
        kept = _sampled(rows, self._level)
        for word in (BYTES, ENTRIES):
            kept[np.argpartition(rows[:, word], len(rows) - quarter)[len(rows) - quarter :]] = True
        self._table.keep(rows[kept])

    def _settle(self) -> None:
        """Count the keys of the table, which are complete, and empty it."""
        rows = self._table.rows()
        if len(rows):
            self._count(rows)
            self._table.clear()
        self._level = 0

    def _count(self, rows: NDArray[np.int64]) -> None:
        assert self._found.keys is not None
        self._found.keys += int(_sampled(rows, self._level).sum()) << self._level
        self._found.offer(self._keys(rows, BYTES, ENTRIES), self._keys(rows, ENTRIES, BYTES))

    def _keys(self, rows: NDArray[np.int64], first: int, second: int) -> Iterator[LargeKey]:
        """Yield the keys that are the largest by the first word, and among equal ones by the second."""
        # All that are as large as the last one: most tables are not sorted as a whole.
        if len(rows) > LARGEST:
            rows = rows[rows[:, first] >= np.partition(rows[:, first], -LARGEST)[-LARGEST]]
        order = np.lexsort((rows[:, CODE], rows[:, GROUP], -rows[:, second], -rows[:, first]))
        for row in rows[order[:LARGEST]]:
            yield LargeKey(
                entries=int(row[ENTRIES]),
                size_bytes=int(row[BYTES]),
                key_group=int(row[GROUP]),
                part=self._number,
                key=self._table.key(row),
            )

    def _offer_entries(self, page: Page, sizes: NDArray[np.int64], find: KeyBounds) -> None:
        """Let the entries of a page, each the only one of its key, be among the largest."""
        known = self._found.by_bytes
        least = known[-1].size_bytes if len(known) == LARGEST else 0
        chosen = np.flatnonzero(sizes >= least)
        # Equal ones as they come: by key group, and in the order of the file.
        chosen = np.sort(chosen[np.argsort(-sizes[chosen], kind="stable")[:LARGEST]])
        if not len(chosen):
            return
        starts, ends = find(page.only(chosen))
        keys = [
            LargeKey(
                entries=1,
                size_bytes=int(sizes[entry]),
                key_group=int(page.key_groups[entry]),
                part=self._number,
                key=page.data[start:end].tobytes(),
            )
            for entry, start, end in zip(chosen.tolist(), starts.tolist(), ends.tolist(), strict=True)
        ]
        # No key has more entries than another: those of `by_entries` are the largest ones, too.
        self._found.offer(keys, keys)


def _sampled(rows: NDArray[np.int64], level: int) -> NDArray[np.bool_]:
    """Return which slots are in the sample of one of 2^level."""
    # Bits that choose neither slot nor part.
    found: NDArray[np.bool_] = (rows[:, CODE] >> 24 & ((1 << level) - 1)) == 0
    return found


def key_texts(
    state: State, keys: Iterable[tuple[int, bytes]], shown: Callable[[pa.Array], pa.Array] = lambda keys: keys
) -> list[str]:
    """Return keys as text: texts as they are, others as JSON.

    Args:
        state: the state.
        keys: number of the part that has the key, and its bytes.
        shown: returns what stands in place of keys, in their type.

    Raises:
        ReaderError: bytes contradict the serializer.
    """
    return [
        _text_of(shown(_decoded(state.parts[part].entry, key, state.parts[part].source.path)))
        for part, key in keys
    ]


def _text_of(key: pa.Array) -> str:
    text = key if pa.types.is_string(key.type) else json_text(key)
    return str(text[0].as_py())


def _decoded(entry: Entry, key: bytes, path: str) -> pa.Array:
    """Return one key, alone."""
    layout = EntryLayout({"key": column_type(entry, "key")})
    decoder = layout.decoder(lambda program, columns: columns.emit(program, entry, "key"))
    start: NDArray[np.int64] = np.zeros((1, 1), dtype=np.int64)
    page = Page.of(np.frombuffer(key, dtype=np.uint8), (start, start + len(key)), -1, 0, path)
    (array,) = (batch.arrays[0] for batch in decoder.decode(page))
    return array


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTimes:
    """When the values of a state with TTL were accessed last, in milliseconds since 1970.

    Attributes:
        times: of some values, evenly taken where there are many; int64.
        oldest, newest: of all values.
    """

    times: NDArray[np.int64]
    oldest: int
    newest: int

    @property
    def median(self) -> int:
        """The time before which half of the values were accessed last."""
        return int(np.partition(self.times, (len(self.times) - 1) // 2)[(len(self.times) - 1) // 2])


def update_times(state: State, selection: Selection) -> UpdateTimes | None:
    """Return when the values of a state were accessed last; None without TTL, or without values.

    Raises:
        ReaderError: a file is missing or contradicts its format.
    """
    if _TTL not in state.schema.names:
        return None
    kept: list[NDArray[np.int64]] = []
    number, step, bounds = 0, 1, []
    for batch in state.read([_TTL], selection):
        found = batch.column(0).drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
        if not len(found):
            continue
        bounds += [int(found.min()), int(found.max())]
        # A copy, or the whole batch would stay in memory.
        kept.append(found[-number % step :: step].copy())
        number += len(found)
        if sum(map(len, kept)) > _MOST_TIMES:
            # Every second one of those that were every n-th one.
            kept, step = [np.concatenate(kept)[::2]], 2 * step
    if not kept:
        return None
    return UpdateTimes(times=np.concatenate(kept), oldest=min(bounds), newest=max(bounds))


def garbage_share(state: State, found: KeySurvey, parts: Iterable[int]) -> float | None:
    """Return the share of plain bytes in RocksDB's files that a compaction would remove; None if it is not recorded.

    Args:
        state: the state.
        found: its survey.
        parts: the numbers of the parts that were surveyed.

    Raises:
        ReaderError: a file is missing or contradicts its format.
    """
    stored = [state.parts[number].source.plain_bytes(state.parts[number].name) for number in parts]
    known = [size for size in stored if size is not None]
    if not known or len(known) < len(stored) or not sum(known):
        return None
    return max(0.0, 1 - (found.size_bytes + _SEQUENCE_BYTES * found.entries) / sum(known))


_MOST_KEYS = 1 << 19
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
