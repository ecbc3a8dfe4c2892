"""The splits of a table of differences.

| split | reads |
|---|---|
| DifferenceSplit | key groups of one state on both sides, or all of an operator's state |
| OneSideSplit | rows that only one side has, because the other one has no such state |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from catalog.differences.columns import ADDED, REMOVED, ComparedColumns
from catalog.differences.joining import Batches, Counts, JoinedRows
from catalog.scan import ScanCounter, Split
from catalog.splits import StateSplit
from readers import ComparedState, Selection, StateKind, differing_rows, is_keyed

_INDEX = "list_index"


@dataclass(frozen=True, slots=True)
class DifferenceSplit(Split):
    """What differs in some key groups of a state.

    Attributes:
        before, after: the state in either database; the number of the part does not count.
        columns: of the table of differences.
        names: of the columns that its rows have.
        kind: of the state.
        size_bytes: about how many bytes it reads.
    """

    before: StateSplit
    after: StateSplit
    columns: ComparedColumns
    names: tuple[str, ...]
    kind: StateKind
    size_bytes: int

    def elsewhere(self) -> DifferenceSplit:
        return replace(self, before=_elsewhere(self.before), after=_elsewhere(self.after))

    def narrowed(self, columns: Sequence[str]) -> DifferenceSplit:
        return replace(self, names=tuple(columns))

    @property
    def order(self) -> tuple[int, int]:
        return 0, min(self.wanted_key_groups, default=0)

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        return self.before.wanted_key_groups | self.after.wanted_key_groups

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        for joined in self._joined(counter or ScanCounter()):
            for batch in joined.batches():
                yield batch.select(self.names)

    def counts(self, counter: ScanCounter | None = None) -> Counts:
        """Return how many of its rows differ.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """
        return sum((joined.counts for joined in self._joined(counter or ScanCounter())), Counts())

    def sampled(self, most_rows: int, counter: ScanCounter | None = None) -> tuple[Counts, pa.RecordBatch]:
        """Return how many of its rows differ, and the first of these; reads hardly more than `counts`.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """
        counts, samples = Counts(), _Samples(self.columns.schema, most_rows)
        for joined in self._joined(counter or ScanCounter()):
            counts += joined.counts
            if joined.counts.differing:
                samples.add(joined.batches())
        return counts, samples.batch()

    def _joined(self, counter: ScanCounter) -> Iterator[JoinedRows]:
        has_index = has_places(self.kind)
        for found in differing_rows(_compared(self.before, counter), _compared(self.after, counter)):
            # Much may be compared before a row differs.
            counter.check()
            yield JoinedRows(
                before=_of_table(self.before, found.before, has_index=has_index),
                after=_of_table(self.after, found.after, has_index=has_index),
                columns=self.columns,
                is_paired=has_index and self.kind is not StateKind.TIMER,
                equal_rows=found.equal_rows,
            )


@dataclass(frozen=True, slots=True)
class OneSideSplit(Split):
    """Rows of a state, or of a table of facts, that the other database does not have.

    Attributes:
        rows: of the table in one database.
        is_before: whether that is the one before.
        columns: of the table of differences.
        names: of the columns that its rows have.
        kind: of the state; None for facts.
        size_bytes: about how many bytes it reads.
    """

    rows: StateSplit
    is_before: bool
    columns: ComparedColumns
    names: tuple[str, ...]
    kind: StateKind
    size_bytes: int

    def elsewhere(self) -> OneSideSplit:
        return replace(self, rows=_elsewhere(self.rows))

    def narrowed(self, columns: Sequence[str]) -> OneSideSplit:
        return replace(self, names=tuple(columns))

    @property
    def order(self) -> tuple[int, int]:
        return self.rows.order

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        return self.rows.wanted_key_groups

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        for batch in self._own(counter):
            sides = (REMOVED, batch, None) if self.is_before else (ADDED, None, batch)
            yield self.columns.rows(*sides).select(self.names)

    def counts(self, counter: ScanCounter | None = None) -> Counts:
        """Return how many rows it has.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """
        rows = sum(batch.num_rows for batch in self.rows.narrowed(()).read(counter))
        return Counts(removed=rows, before=rows) if self.is_before else Counts(added=rows, after=rows)

    def sampled(self, most_rows: int, counter: ScanCounter | None = None) -> tuple[Counts, pa.RecordBatch]:
        """Return how many rows it has, and the first of these.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """
        samples = _Samples(self.columns.schema, most_rows)
        samples.add(self.narrowed(self.columns.schema.names).read(counter))
        return self.counts(counter), samples.batch()

    def _own(self, counter: ScanCounter | None) -> Iterator[pa.RecordBatch]:
        has_index = has_places(self.kind)
        for batch in self.rows.read(counter):
            yield _without_index(batch, has_index=has_index)


class _Samples:
    """The first rows of some batches.

    Args:
        schema: of the batches.
        most_rows: how many at most.
    """

    def __init__(self, schema: pa.Schema, most_rows: int) -> None:
        self._schema = schema
        self._left = most_rows
        self._kept: list[pa.RecordBatch] = []

    def add(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Keep the first rows of batches, as long as there is room; then no more batch is made."""
        while self._left > 0 and (batch := next(batches, None)) is not None:
            self._kept.append(batch.slice(0, self._left))
            self._left -= self._kept[-1].num_rows

    def batch(self) -> pa.RecordBatch:
        """Return the rows that were kept."""
        found = pa.Table.from_batches(self._kept, self._schema).combine_chunks().to_batches()
        return found[0] if found else pa.RecordBatch.from_pylist([], self._schema)


def has_places(kind: StateKind) -> bool:
    """Return whether elements of lists keep their places: those of an operator are dealt out to its subtasks anew."""
    return is_keyed(kind) or kind is StateKind.BROADCAST


def _compared(split: StateSplit, counter: ScanCounter) -> ComparedState:
    selection = Selection(key_groups=split.key_groups, keys=split.keys, account=counter.add)
    return ComparedState(
        state=split.reference.state(), selection=selection, columns=tuple(sorted(split.sources))
    )


def _of_table(split: StateSplit, rows: Batches, *, has_index: bool) -> Batches:
    """Return the rows of a state as rows of its table."""
    return lambda: (_without_index(split.rows_of_table(batch), has_index=has_index) for batch in rows())


def _without_index(batch: pa.RecordBatch, *, has_index: bool) -> pa.RecordBatch:
    """Return rows without the places of elements that have no identity: another subtask may have them now."""
    index = batch.schema.get_field_index(_INDEX)
    if has_index or index < 0:
        return batch
    nothing = pa.nulls(batch.num_rows, batch.schema.field(index).type)
    return batch.set_column(index, batch.schema.field(index), nothing)


def _elsewhere(split: StateSplit) -> StateSplit:
    reference = split.reference
    return replace(split, reference=replace(reference, savepoint=reference.savepoint.elsewhere()))
