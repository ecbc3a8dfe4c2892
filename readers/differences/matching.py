"""Hashes of rows → which rows of two sides belong together.

Of several rows with one hash, the first of one side belongs to the first of the other, and so on: rows are a multiset.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from readers.differences.hashes import Hashes

Numbers = NDArray[np.int64]


def matching_rows(before: Hashes, after: Hashes) -> tuple[Numbers, Numbers]:
    """Return the numbers of the rows that belong together, those of one side and those of the other: two arrays of one length."""
    if not len(before) or not len(after):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    both = np.concatenate([before, after])
    # A stable order: among equal hashes all rows of `before` stand first, each side in its own order.
    order = np.lexsort((both[:, 1], both[:, 0]))
    ordered = both[order]
    begins = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    family = np.cumsum(begins) - 1
    is_before = order < len(before)
    ofs_before = np.bincount(family, weights=is_before).astype(np.int64)
    sizes = np.bincount(family)
    place = np.arange(len(both)) - np.flatnonzero(begins)[family]
    pairs = np.minimum(ofs_before, sizes - ofs_before)[family]
    rank = np.where(is_before, place, place - ofs_before[family])
    chosen = rank < pairs
    return order[chosen & is_before], order[chosen & ~is_before] - len(before)


def other_rows(numbers: Numbers, rows: int) -> Numbers:
    """Return the numbers of the rows that are not among some."""
    left = np.ones(rows, dtype=np.bool_)
    left[numbers] = False
    return np.flatnonzero(left)
