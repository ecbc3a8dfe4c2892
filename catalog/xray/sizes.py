"""The table `xray`: how many entries and bytes the states of a savepoint have, and where.

A row has its place in `level`:

| level | a row per | its bytes |
|---|---|---|
| operator | operator | all that `_metadata` refers to for it |
| state | state of an operator | of its entries in the files |
| subtask | state and subtask that wrote a part of it | the same |
| key_group | state and key group that has entries | the same |

Nothing is decoded. What a format records is taken from there (`source`), else the entries are found, as for `count(*)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from catalog.predicate import Predicate
from catalog.scan import ScanCounter
from catalog.xray.reference import OPERATOR_COLUMNS, OperatorReference, OperatorSplit, OperatorsTable
from readers import (
    Operator,
    ReaderError,
    Selection,
    Source,
    State,
    StateKind,
    StateName,
    Tally,
    VoidNamespaceSerializer,
    is_keyed,
)

XRAY = pa.schema(
    [
        ("level", pa.string()),
        *OPERATOR_COLUMNS,
        ("state_name", pa.string()),
        ("state_kind", pa.string()),
        ("subtask", pa.int32()),
        ("key_group", pa.int32()),
        ("entries", pa.int64()),
        ("bytes", pa.int64()),
        ("is_estimate", pa.bool_()),
        ("distinct_keys", pa.int64()),
        ("deleted_share", pa.float64()),
        ("source", pa.string()),
    ]
)
_BATCH_ROWS = 1 << 15
_METADATA = "metadata"


@dataclass(slots=True)
class _Total:
    """A sum of tallies; entries or bytes are None as soon as those of one tally are."""

    entries: int | None = 0
    size_bytes: int | None = 0
    is_estimate: bool = False
    stored: int = 0
    deleted: int = 0
    origins: set[str] = field(default_factory=set)

    def add(self, tally: Tally) -> None:
        self.entries = _sum(self.entries, tally.entries)
        self.size_bytes = _sum(self.size_bytes, tally.size_bytes)
        self.is_estimate |= tally.is_estimate
        self.stored += tally.stored
        self.deleted += tally.deleted
        self.origins.add(tally.origin)

    @property
    def row(self) -> dict[str, Any]:
        """The columns of the sum."""
        return {
            "entries": self.entries,
            "bytes": self.size_bytes,
            "is_estimate": self.is_estimate,
            "deleted_share": self.deleted / self.stored if self.stored else None,
            "source": ", ".join(sorted(self.origins)) or _METADATA,
        }


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


@dataclass(slots=True)
class _StateTotals:
    """The sums of one state."""

    state: State
    whole: _Total = field(default_factory=_Total)
    subtasks: dict[int, _Total] = field(default_factory=dict)
    groups: dict[tuple[int, int], _Total] = field(default_factory=dict)  # by key group and subtask

    def add(self, subtask: int, tally: Tally) -> None:
        self.whole.add(tally)
        self.subtasks.setdefault(subtask, _Total()).add(tally)
        if tally.key_group >= 0:
            self.groups.setdefault((tally.key_group, subtask), _Total()).add(tally)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield its rows: of the state, then of subtasks, then of key groups."""
        named = {"state_name": self.state.name, "state_kind": self.state.kind.value}
        known = _has_one_entry_a_key(self.state)

        def row(level: str, total: _Total, **places: int) -> dict[str, Any]:
            found = total.row
            return {
                "level": level,
                **named,
                **places,
                **found,
                "distinct_keys": found["entries"] if known and not total.is_estimate else None,
            }

        yield row("state", self.whole)
        for subtask, total in sorted(self.subtasks.items()):
            yield row("subtask", total, subtask=subtask)
        for (group, subtask), total in sorted(self.groups.items()):
            yield row("key_group", total, subtask=subtask, key_group=group)


def _has_one_entry_a_key(state: State) -> bool:
    """Return whether each entry of a state has a key of its own."""
    if not is_keyed(state.kind) or state.kind is StateKind.TIMER:
        return False
    return all(
        isinstance(part.entry.namespace, VoidNamespaceSerializer)
        and not (state.kind is StateKind.MAP and part.source.is_composite)
        for part in state.parts
    )


class SizesTable(OperatorsTable):
    """The table `xray`."""

    @property
    def schema(self) -> pa.Schema:
        return XRAY

    def splits(
        self, operator: Operator, reference: OperatorReference, predicate: Predicate, *, may_be_partial: bool
    ) -> Iterator[OperatorSplit]:
        yield SizesSplit(
            reference=reference,
            columns=tuple(XRAY.names),
            size_bytes=sum(source.tallied_bytes for source, _ in _sources(operator.states).values()),
            may_be_partial=may_be_partial,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesSplit(OperatorSplit):
    """The rows of `xray` of one operator."""

    def batches(
        self, counter: ScanCounter, failed: Callable[[ReaderError], None]
    ) -> Iterator[pa.RecordBatch]:
        operator = self.reference.operator()
        rows: list[dict[str, Any]] = []
        for row in self._rows(operator, counter, failed):
            rows.append(self.reference.values | row)
            if len(rows) == _BATCH_ROWS:
                yield self._batch(rows)
                rows = []
        yield self._batch(rows)

    def _batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(rows, schema=XRAY).select(list(self.columns))

    def _rows(
        self, operator: Operator, counter: ScanCounter, failed: Callable[[ReaderError], None]
    ) -> Iterator[dict[str, Any]]:
        totals = [_StateTotals(state) for state in operator.states]
        selection = Selection(account=self.account(counter))
        for source, numbers in _sources(operator.states).values():
            counter.check()
            by_name = {name: totals[number] for name, number in numbers.items()}
            for found in by_name.values():
                found.subtasks.setdefault(source.subtask, _Total())
            try:
                for tally in source.tallies(list(by_name), selection):
                    by_name[tally.state].add(source.subtask, tally)
            except ReaderError as error:
                failed(error.within(operator.operator_id, path=source.path))
        entries: int | None = 0
        for found in totals:
            entries = _sum(entries, found.whole.entries)
        origins = set[str]().union(*(found.whole.origins for found in totals))
        yield {
            "level": "operator",
            "entries": entries,
            "bytes": operator.metadata.size_bytes,
            "is_estimate": any(found.whole.is_estimate for found in totals),
            "source": ", ".join(sorted(origins | {_METADATA})),
        }
        for found in totals:
            yield from found.rows()


def _sources(states: Iterable[State]) -> dict[int, tuple[Source, dict[StateName, int]]]:
    """Return the sources of states, each with the names that these have in it, and their numbers."""
    found: dict[int, tuple[Source, dict[StateName, int]]] = {}
    for number, state in enumerate(states):
        for part in state.parts:
            found.setdefault(id(part.source), (part.source, {}))[1][part.name] = number
    return found
