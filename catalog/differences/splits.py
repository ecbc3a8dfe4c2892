"""The columns of a table of differences, from those of the two tables.

Rows of both sides that may differ → rows that do.

Each side is read once for the hashes of its rows, of 32 bytes a row. Rows that both sides have are taken out, one for one; of the
others, those with one identity are a changed row. Only these are read again, unless all rows are few enough to be kept.

The splits of a table of differences.

| split | reads |
|---|---|
| DifferenceSplit | key groups of one state on both sides, or all of an operator's state |
| OneSideSplit | rows that only one side has, because the other one has no such state |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.references import masked_errors
from catalog.scan import DerivedSplit, ScanCounter, Split, StateSplit
from catalog.statetables import common_type
from catalog.table import known_sum
from readers import (
    KEY_GROUP,
    ComparedState,
    Hashes,
    Selection,
    StateKind,
    combined_hashes,
    conform,
    differing_rows,
    is_keyed,
    json_text,
    matching_rows,
    other_rows,
    row_hashes,
)

CHANGE = "change"
ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_BEFORE, _AFTER = "_before", "_after"


class Role(Enum):
    """What a column of two tables is to their differences."""

    IDENTITY = "says which entry a row is"
    HIDDEN_IDENTITY = "says so, and is not shown"
    CONTENT = "is compared and shown twice, as before and after"
    FACT = "is shown and not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedColumn:
    """A column of two tables.

    Attributes:
        name: in both.
        role: what it is to the differences.
        before, after: its type in either; that of the other where one does not have it.
        compared: the type in which values are compared.
        is_json: True if values are compared as JSON text.
    """

    name: str
    role: Role
    before: pa.DataType
    after: pa.DataType
    compared: pa.DataType
    is_json: bool

    @property
    def shown(self) -> str:
        """Its name among the differences, where `change` is another column."""
        return f"{CHANGE}_1" if self.name == CHANGE else self.name

    def of_side(self, batch: pa.RecordBatch) -> pa.Array:
        """Return its values in rows of either side, in the type in which they are compared."""
        array = _column(batch, self.name)
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), self.compared)
        # A text becomes JSON text, too: '5' is another value than 5.
        return json_text(array) if self.is_json else conform(array, self.compared)


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """The columns of both tables, in order, as they are compared."""

    columns: tuple[ComparedColumn, ...]

    @property
    def identity(self) -> tuple[ComparedColumn, ...]:
        """The columns that say which entry a row is."""
        return tuple(one for one in self.columns if one.role in (Role.IDENTITY, Role.HIDDEN_IDENTITY))

    @property
    def contents(self) -> tuple[ComparedColumn, ...]:
        """The columns that are compared and shown twice."""
        return tuple(one for one in self.columns if one.role is Role.CONTENT)

    @property
    def _shown_once(self) -> tuple[ComparedColumn, ...]:
        return tuple(one for one in self.columns if one.role in (Role.IDENTITY, Role.FACT))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table of differences."""
        once = [(one.shown, one.compared) for one in self._shown_once]
        twice = [
            field
            for one in self.contents
            for field in ((one.name + _BEFORE, one.before), (one.name + _AFTER, one.after))
        ]
        # The key group stands last, as in the tables of states.
        first = [field for field in once if field[0] != KEY_GROUP]
        last = [field for field in once if field[0] == KEY_GROUP]
        return pa.schema([(CHANGE, pa.string()), *first, *twice, *last])

    def rows(
        self, change: str, before: pa.RecordBatch | None, after: pa.RecordBatch | None
    ) -> pa.RecordBatch:
        """Return rows of the table from those of the sides that have them, row by row."""
        known = after if after is not None else before
        assert known is not None
        length = known.num_rows
        arrays = {CHANGE: pa.repeat(change, length)}
        for column in self._shown_once:
            arrays[column.shown] = column.of_side(known)
        for column in self.contents:
            for tail, side, kind in ((_BEFORE, before, column.before), (_AFTER, after, column.after)):
                own = None if side is None else _column(side, column.name)
                is_absent = own is None or pa.types.is_null(own.type)
                arrays[column.name + tail] = pa.nulls(length, kind) if is_absent else own
        schema = self.schema
        return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def compared_columns(before: pa.Schema, after: pa.Schema, roles: Mapping[str, Role]) -> ComparedColumns:
    """Return the columns of the differences of two tables.

    Args:
        before, after: the columns of either table; of one that only one side has, twice the same.
        roles: the roles of the columns.
    """
    schemas = (before, after)
    names = dict.fromkeys(name for schema in schemas for name in schema.names)
    return ComparedColumns(tuple(_compared(name, roles[name], schemas) for name in names))


def _compared(name: str, role: Role, schemas: Sequence[pa.Schema]) -> ComparedColumn:
    types = [schema.field(name).type for schema in schemas if name in schema.names]
    compared = common_type(types)
    return ComparedColumn(
        name=name,
        role=role,
        before=types[0],
        after=types[-1],
        compared=compared,
        is_json=pa.types.is_string(compared) and not all(map(pa.types.is_string, types)),
    )


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    index = batch.schema.get_field_index(name)
    return pa.nulls(batch.num_rows) if index < 0 else batch.column(index)


Batches = Callable[[], Iterator[pa.RecordBatch]]
Numbers = NDArray[np.int64]
# Rows of both sides together, as decoded, that are kept between the two readings.
_KEPT_BYTES = 32 << 20
# Rows that differ and are in memory at once, of either side; fewer if they are large.
_MOST_ROWS = 1 << 17
_MOST_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many rows differ.

    Attributes:
        added, removed, changed: rows.
        before, after: all rows of either side; None where they were not counted.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    before: int | None = 0
    after: int | None = 0

    @property
    def differing(self) -> int:
        """How many rows differ in any way."""
        return self.added + self.removed + self.changed

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            added=self.added + other.added,
            removed=self.removed + other.removed,
            changed=self.changed + other.changed,
            before=known_sum(self.before, other.before),
            after=known_sum(self.after, other.after),
        )


@dataclass(frozen=True, kw_only=True)
class JoinedRows:
    """Rows of two sides, joined by their identity.

    Attributes:
        before, after: return the rows of either side, with the columns of its table.
        columns: of the table of differences.
        is_paired: False if a row has no identity: then none is changed.
        equal_rows: how many rows of either side are equal and not here; None if that is not known.
    """

    before: Batches
    after: Batches
    columns: ComparedColumns
    is_paired: bool = True
    equal_rows: int | None = 0
    _kept: list[list[pa.RecordBatch]] = field(default_factory=list)
    _row_bytes: list[int] = field(default_factory=lambda: [1])

    @cached_property
    def counts(self) -> Counts:
        """How many rows differ, without reading them again."""
        before, after = (len(identity) for identity, _ in self._hashes)
        pairs = len(self._pairs[0])
        return Counts(
            added=len(self._left[1]) - pairs,
            removed=len(self._left[0]) - pairs,
            changed=pairs,
            before=known_sum(before, self.equal_rows),
            after=known_sum(after, self.equal_rows),
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that differ, with the columns of the table of differences."""
        (old, new), (left_old, left_new) = self._pairs, self._left
        at_once = max(1, min(_MOST_ROWS, _MOST_BYTES // max(self._row_bytes)))
        for start in range(0, len(old), at_once):
            end = start + at_once
            yield self.columns.rows(CHANGED, self._taken(0, old[start:end]), self._taken(1, new[start:end]))
        for side, change, left, paired in ((0, REMOVED, left_old, old), (1, ADDED, left_new, new)):
            alone = np.setdiff1d(left, paired, assume_unique=True)
            for start in range(0, len(alone), at_once):
                rows = self._taken(side, alone[start : start + at_once])
                yield self.columns.rows(change, *((rows, None) if side == 0 else (None, rows)))

    @cached_property
    def _hashes(self) -> tuple[tuple[Hashes, Hashes], tuple[Hashes, Hashes]]:
        """Of either side the hashes of the identity and of all columns of its rows."""
        left_bytes = _KEPT_BYTES
        kept: list[list[pa.RecordBatch]] = []
        found = []
        for read in (self.before, self.after):
            identity, whole = [_NONE], [_NONE]
            own: list[pa.RecordBatch] = []
            size_bytes = rows = 0
            for batch in read():
                size_bytes += batch.nbytes
                rows += batch.num_rows
                left_bytes -= batch.nbytes
                if left_bytes >= 0:
                    own.append(batch)
                else:
                    kept.clear()
                    own.clear()
                of_identity = self._hashes_of(batch, self.columns.identity)
                identity.append(of_identity)
                whole.append(combined_hashes(of_identity, self._hashes_of(batch, self.columns.contents)))
            kept.append(own)
            self._row_bytes.append(size_bytes // max(rows, 1))
            found.append((np.concatenate(identity), np.concatenate(whole)))
        if left_bytes >= 0:
            self._kept.extend(kept)
        return found[0], found[1]

    def _hashes_of(self, batch: pa.RecordBatch, columns: tuple[ComparedColumn, ...]) -> Hashes:
        return row_hashes([column.of_side(batch) for column in columns], batch.num_rows)

    @cached_property
    def _left(self) -> tuple[Numbers, Numbers]:
        """The numbers of the rows of either side that the other one does not have."""
        (_, old), (_, new) = self._hashes
        equal_old, equal_new = matching_rows(old, new)
        return other_rows(equal_old, len(old)), other_rows(equal_new, len(new))

    @cached_property
    def _pairs(self) -> tuple[Numbers, Numbers]:
        """The numbers of the rows before and after of each changed row, by those before."""
        (old, _), (new, _) = self._hashes
        left_old, left_new = self._left
        if not self.is_paired:
            return left_old[:0], left_new[:0]
        pairs_old, pairs_new = matching_rows(old[left_old], new[left_new])
        order = np.argsort(pairs_old)
        return left_old[pairs_old[order]], left_new[pairs_new[order]]

    def _taken(self, side: int, numbers: Numbers) -> pa.RecordBatch:
        """Return rows of a side by their numbers, in this order."""
        read = self.after if side else self.before
        batches = iter(self._kept[side]) if self._kept else read()
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        found, first = [], 0
        for batch in batches:
            wanted = ordered[slice(*np.searchsorted(ordered, [first, first + batch.num_rows]))]
            if len(wanted):
                found.append(batch.take(pa.array(wanted - first)))
            first += batch.num_rows
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        together = pa.Table.from_batches(found).combine_chunks().to_batches()[0]
        return together.take(pa.array(places))


_NONE: Hashes = np.empty((0, 2), dtype=np.int64)


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
        return replace(self, before=self.before.elsewhere(), after=self.after.elsewhere())

    def narrowed(self, columns: Sequence[str]) -> DifferenceSplit:
        return replace(self, names=tuple(columns))

    @property
    def order(self) -> tuple[int, int]:
        return 0, min(self.wanted_key_groups, default=0)

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        return self.before.wanted_key_groups | self.after.wanted_key_groups

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        found = (
            batch.select(self.names)
            for joined in self._joined(counter or ScanCounter())
            for batch in joined.batches()
        )
        masked = self.after.reference.masked
        with masked_errors(self.after.reference.savepoint):
            yield from found if masked is None else map(masked.reordered, masked.gathered(found))

    def sampled(self, most_rows: int, counter: ScanCounter | None = None) -> tuple[Counts, pa.RecordBatch]:
        """Return how many of its rows differ, and the first of these; reads hardly more than `counts`.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """
        counts, samples = Counts(), _Samples(self.columns.schema, most_rows)
        with masked_errors(self.after.reference.savepoint):
            for joined in self._joined(counter or ScanCounter()):
                counts += joined.counts
                if joined.counts.differing:
                    samples.add(joined.batches())
        return counts, samples.batch()

    def _joined(self, counter: ScanCounter) -> Iterator[JoinedRows]:
        has_index = has_places(self.kind)
        differing = differing_rows(_compared_rows(self.before, counter), _compared_rows(self.after, counter))
        for found in differing:
            # Much may be compared before a row differs.
            counter.check()
            yield JoinedRows(
                before=_of_table(self.before, found.before, has_index=has_index),
                after=_of_table(self.after, found.after, has_index=has_index),
                columns=self.columns,
                is_paired=has_index and self.kind is not StateKind.TIMER,
                equal_rows=found.equal_rows,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSideSplit(DerivedSplit):
    """Rows of a state, or of a table of facts, that the other database does not have.

    Attributes:
        origin: of the table in one database.
        is_before: whether that is the one before.
        columns: of the table of differences.
        names: of the columns that its rows have.
        kind: of the state; None for facts.
        size_bytes: about how many bytes it reads.
    """

    origin: StateSplit
    is_before: bool
    columns: ComparedColumns
    names: tuple[str, ...]
    kind: StateKind

    def elsewhere(self) -> OneSideSplit:
        return self.over(self.origin.elsewhere())

    def narrowed(self, columns: Sequence[str]) -> OneSideSplit:
        return replace(self, names=tuple(columns))

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        for batch in self._own(counter):
            sides = (REMOVED, batch, None) if self.is_before else (ADDED, None, batch)
            yield self.columns.rows(*sides).select(self.names)

    def sampled(self, most_rows: int, counter: ScanCounter | None = None) -> tuple[Counts, pa.RecordBatch]:
        """Return how many rows it has, and the first of these.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """
        samples = _Samples(self.columns.schema, most_rows)
        samples.add(self.narrowed(self.columns.schema.names).read(counter))
        rows = sum(batch.num_rows for batch in self.origin.narrowed(()).read(counter))
        counts = Counts(removed=rows, before=rows) if self.is_before else Counts(added=rows, after=rows)
        return counts, samples.batch()

    def _own(self, counter: ScanCounter | None) -> Iterator[pa.RecordBatch]:
        has_index = has_places(self.kind)
        for batch in self.origin.read(counter):
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


def _compared_rows(split: StateSplit, counter: ScanCounter) -> ComparedState:
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
