"""Rows of both sides that may differ → rows that do.

Each side is read once for the hashes of its rows, of 32 bytes a row. Rows that both sides have are taken out, one for one; of the
others, those with one identity are a changed row. Only these are read again, unless all rows are few enough to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.differences.columns import ADDED, CHANGED, REMOVED, ComparedColumn, ComparedColumns
from readers import Hashes, combined_hashes, matching_rows, other_rows, row_hashes

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
            before=_sum(self.before, other.before),
            after=_sum(self.after, other.after),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


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
            before=_sum(before, self.equal_rows),
            after=_sum(after, self.equal_rows),
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
