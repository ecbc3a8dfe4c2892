"""Entries that were encoded beside the bytes that they were read from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from readers import Page

# Canonical files mark the last entry of a state in the first bit of its key group, which is no part of the entry.
KEY_GROUP_BITS = 0x7F


def same_entries(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    page: Page,
    *,
    has_key_group: bool,
) -> NDArray[np.bool_]:
    """Return which entries have the bytes of the entries of a page; bool (entries,).

    Args:
        data: the encoded bytes.
        starts, ends: int64 (entries, segments), in them; as many entries as the page has.
        page: the bytes that were read.
        has_key_group: whether the first segment begins with the key group.
    """
    sizes = page.ends - page.starts
    same: NDArray[np.bool_] = (sizes == ends - starts).all(axis=1)
    for segment in range(sizes.shape[1]):
        rows = np.flatnonzero(same)
        counts = sizes[rows, segment]
        owners = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = page.data[page.starts[rows, segment][owners] + within]
        encoded = data[starts[rows, segment][owners] + within]
        if has_key_group and segment == 0:
            found = np.where(within == 0, found & KEY_GROUP_BITS, found)
        same[rows[owners[found != encoded]]] = False
    return same
