"""The tables about keys: `xray_keys`, `xray_largest` and `xray_orphan_timers`. Each reads all entries of its states once.

| table | a row per |
|---|---|
| xray_keys | keyed state, timers among them |
| xray_largest | key that is among the largest of its state, by bytes or by entries |
| xray_orphan_timers | key with timers, and nothing in any other keyed state of the operator |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from catalog.predicate import Predicate
from catalog.scan import ScanCounter
from catalog.statetables import timer_service_of
from catalog.xray.reference import OPERATOR_COLUMNS, OperatorReference, OperatorSplit, OperatorsTable
from readers import (
    KeySurvey,
    LargeKey,
    Operator,
    ReaderError,
    Selection,
    State,
    StateKind,
    garbage_share,
    is_keyed,
    key_group_chunks,
    key_texts,
    orphan_timers,
    survey,
    update_times,
)

_LONG, _TEXT, _TIME = pa.int64(), pa.string(), pa.timestamp("ms")
_STATE_COLUMNS = (*OPERATOR_COLUMNS, ("state_name", _TEXT), ("state_kind", _TEXT))
_UPDATES = ("oldest_update", "median_update", "newest_update")

XRAY_KEYS = pa.schema(
    [
        *_STATE_COLUMNS,
        ("entries", _LONG),
        ("distinct_keys", _LONG),
        ("is_estimate", pa.bool_()),
        ("entry_bytes", _LONG),
        ("largest_entry_bytes", _LONG),
        ("garbage_share", pa.float64()),
        *((name, _TIME) for name in _UPDATES),
    ]
)
XRAY_LARGEST = pa.schema(
    [
        *_STATE_COLUMNS,
        ("key", _TEXT),
        ("key_group", pa.int32()),
        ("subtask", pa.int32()),
        ("entries", _LONG),
        ("bytes", _LONG),
        ("rank_by_bytes", pa.int32()),
        ("rank_by_entries", pa.int32()),
        ("is_estimate", pa.bool_()),
    ]
)
XRAY_ORPHAN_TIMERS = pa.schema(
    [
        *OPERATOR_COLUMNS,
        ("time_domain", _TEXT),
        ("timer_service", _TEXT),
        ("key", _TEXT),
        ("key_group", pa.int32()),
        ("subtask", pa.int32()),
        ("timers", _LONG),
        ("first_timestamp", _TIME),
    ]
)
# As much as other scans read at once: timers of so many key groups are compared together.
_CHUNK_BYTES = 32 << 20


class StatesOfOperatorsTable(OperatorsTable):
    """A table with a split a keyed state."""

    split: ClassVar[type[StateOfOperatorSplit]]

    @property
    def schema(self) -> pa.Schema:
        return self.split.schema

    def splits(
        self, operator: Operator, reference: OperatorReference, predicate: Predicate, *, may_be_partial: bool
    ) -> Iterator[OperatorSplit]:
        names, kinds = predicate.of("state_name"), predicate.of("state_kind")
        for number, state in enumerate(operator.states):
            if not is_keyed(state.kind):
                continue
            if (names is None or state.name in names) and (kinds is None or state.kind.value in kinds):
                yield self.split(
                    reference=reference,
                    columns=tuple(self.schema.names),
                    size_bytes=state.size_bytes,
                    may_be_partial=may_be_partial,
                    number=number,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOfOperatorSplit(OperatorSplit):
    """The rows of one state of an operator.

    Attributes:
        number: of the state among those of the operator.
    """

    number: int
    schema: ClassVar[pa.Schema]

    def batches(
        self, counter: ScanCounter, failed: Callable[[ReaderError], None]
    ) -> Iterator[pa.RecordBatch]:
        state = self.reference.operator().states[self.number]
        named = {**self.reference.values, "state_name": state.name, "state_kind": state.kind.value}
        rows = [named | row for row in self.rows(state, Selection(account=self.account(counter)), failed)]
        yield pa.RecordBatch.from_pylist(rows, schema=self.schema).select(list(self.columns))

    @abstractmethod
    def rows(
        self, state: State, selection: Selection, failed: Callable[[ReaderError], None]
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of the state; for `failed` see `OperatorSplit.batches`."""


def _surveyed(
    state: State, selection: Selection, failed: Callable[[ReaderError], None]
) -> tuple[KeySurvey, list[int]]:
    """Return the survey of a state, and the numbers of the parts that could be read."""
    found, read = KeySurvey(), []
    for number in range(len(state.parts)):
        try:
            one = survey(state, number, selection)
        except ReaderError as error:
            failed(error.within(state.operator_id))
            continue
        found.add(one)
        read.append(number)
    return found, read


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysSplit(StateOfOperatorSplit):
    """The row of `xray_keys` of one state."""

    schema = XRAY_KEYS

    def rows(
        self, state: State, selection: Selection, failed: Callable[[ReaderError], None]
    ) -> Iterator[dict[str, Any]]:
        found, read = _surveyed(state, selection, failed)
        # The times of updates take another pass, which decodes: it is made for those who ask.
        times = update_times(state, selection) if not set(_UPDATES).isdisjoint(self.columns) else None
        yield {
            "entries": found.entries,
            "distinct_keys": found.keys,
            "is_estimate": found.is_estimate,
            "entry_bytes": found.size_bytes,
            "largest_entry_bytes": found.largest_bytes,
            "garbage_share": garbage_share(state, found, read),
            "oldest_update": times and times.oldest,
            "median_update": times and times.median,
            "newest_update": times and times.newest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestSplit(StateOfOperatorSplit):
    """The rows of `xray_largest` of one state."""

    schema = XRAY_LARGEST

    def rows(
        self, state: State, selection: Selection, failed: Callable[[ReaderError], None]
    ) -> Iterator[dict[str, Any]]:
        found, _ = _surveyed(state, selection, failed)
        by_bytes = {_place(key): rank for rank, key in enumerate(found.by_bytes, 1)}
        by_entries = {_place(key): rank for rank, key in enumerate(found.by_entries, 1)}
        keys = list({_place(key): key for key in (*found.by_bytes, *found.by_entries)}.values())
        texts = key_texts(state, ((key.part, key.key) for key in keys))
        for key, text in zip(keys, texts, strict=True):
            yield {
                "key": text,
                "key_group": key.key_group,
                "subtask": state.parts[key.part].source.subtask,
                "entries": key.entries,
                "bytes": key.size_bytes,
                "rank_by_bytes": by_bytes.get(_place(key)),
                "rank_by_entries": by_entries.get(_place(key)),
                "is_estimate": found.is_estimate,
            }


def _place(key: LargeKey) -> tuple[int, bytes]:
    return key.part, key.key


class KeysTable(StatesOfOperatorsTable):
    """The table `xray_keys`."""

    split = KeysSplit


class LargestTable(StatesOfOperatorsTable):
    """The table `xray_largest`."""

    split = LargestSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansSplit(OperatorSplit):
    """The rows of `xray_orphan_timers` of some key groups of an operator.

    Attributes:
        key_groups: to look at.
    """

    key_groups: frozenset[int]

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        return self.key_groups

    def batches(
        self, counter: ScanCounter, failed: Callable[[ReaderError], None]
    ) -> Iterator[pa.RecordBatch]:
        states = self.reference.operator().states
        selection = Selection(key_groups=self.key_groups, account=self.account(counter))
        rows: list[dict[str, Any]] = []
        try:
            rows.extend(self._rows(states, selection))
        except ReaderError as error:
            failed(error.within(self.reference.operator_id))
        yield pa.RecordBatch.from_pylist(rows, schema=XRAY_ORPHAN_TIMERS).select(list(self.columns))

    def _rows(self, states: Sequence[State], selection: Selection) -> Iterator[dict[str, Any]]:
        for orphan in orphan_timers(states, selection):
            state = states[orphan.state]
            domain, service = timer_service_of(state.name)
            (text,) = key_texts(state, [(orphan.part, orphan.key)])
            yield {
                **self.reference.values,
                "time_domain": domain,
                "timer_service": service,
                "key": text,
                "key_group": orphan.key_group,
                "subtask": state.parts[orphan.part].source.subtask,
                "timers": orphan.timers,
                "first_timestamp": orphan.first_time,
            }


class OrphansTable(OperatorsTable):
    """The table `xray_orphan_timers`."""

    @property
    def schema(self) -> pa.Schema:
        return XRAY_ORPHAN_TIMERS

    def splits(
        self, operator: Operator, reference: OperatorReference, predicate: Predicate, *, may_be_partial: bool
    ) -> Iterator[OperatorSplit]:
        if not any(state.kind is StateKind.TIMER for state in operator.states):
            return
        asked = predicate.of("key_group")
        for groups, size_bytes in _chunks(operator):
            wanted = groups if asked is None else groups & frozenset(asked)
            if wanted:
                yield OrphansSplit(
                    reference=reference,
                    columns=tuple(XRAY_ORPHAN_TIMERS.names),
                    size_bytes=size_bytes,
                    may_be_partial=may_be_partial,
                    key_groups=wanted,
                )


def _chunks(operator: Operator) -> Iterator[tuple[frozenset[int], int]]:
    """Yield the key groups of an operator, so many together as have some megabytes, and their bytes."""
    sizes: dict[int, int] = {}
    for state in operator.states:
        for part in state.parts if is_keyed(state.kind) else ():
            for group, size in part.source.key_group_bytes(part.name) or ():
                sizes[group] = sizes.get(group, 0) + size
            # Raw timers do not say how many bytes their key groups have.
            held = part.source.key_group_range
            for group in range(held.start, held.end + 1) if held else ():
                sizes.setdefault(group, 0)
    yield from key_group_chunks(sorted(sizes.items()), _CHUNK_BYTES)
