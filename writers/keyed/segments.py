"""Entries as the addresses of their bytes: those of the source, and those that were encoded, side by side in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers import Page
from readers.metadata import KeyGroupRange

KEY_ADDRESS, KEY_BYTES, VALUE_ADDRESS, VALUE_BYTES = range(4)
FIELDS = 4


def groups_within(groups: NDArray[Any], within: KeyGroupRange) -> NDArray[Any]:
    """Return those of some key groups that are in a range."""
    return groups[(groups >= within.start) & (groups <= within.end)]


@dataclass(frozen=True, slots=True)
class EntrySegments:
    """Canonical entries: a composite key and a value each.

    Attributes:
        table: int64 (entries, FIELDS); see the names above.
        buffers: the arrays that the addresses lie in: they live as long as the entries.
    """

    table: NDArray[np.int64]
    buffers: tuple[NDArray[np.uint8], ...]

    def __len__(self) -> int:
        return len(self.table)

    @classmethod
    def of(cls, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> EntrySegments:
        """Return entries of one buffer; `starts` and `ends` are int64 (entries, 2)."""
        base = int(data.__array_interface__["data"][0])
        table: NDArray[np.int64] = np.empty((len(starts), FIELDS), dtype=np.int64)
        table[:, KEY_ADDRESS::2] = starts + base
        table[:, KEY_BYTES::2] = ends - starts
        return cls(table, (data,))

    @classmethod
    def of_page(cls, page: Page) -> EntrySegments:
        """Return the entries of a page."""
        return cls.of(page.data, page.starts, page.ends)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> EntrySegments:
        """Return some of the entries, by their numbers or by a mask."""
        return EntrySegments(np.ascontiguousarray(self.table[rows]), self.buffers)

    def with_values(self, rows: NDArray[np.int64], values: EntrySegments) -> EntrySegments:
        """Return the entries; those at `rows` have the values of `values`, in order, and keep their keys."""
        table = self.table.copy()
        table[rows, VALUE_ADDRESS:] = values.table[:, VALUE_ADDRESS:]
        return EntrySegments(table, (*self.buffers, *values.buffers))

    def replaced(self, rows: NDArray[np.int64], entries: EntrySegments) -> EntrySegments:
        """Return the entries with others at `rows`, in order."""
        table = self.table.copy()
        table[rows] = entries.table
        return EntrySegments(table, (*self.buffers, *entries.buffers))
