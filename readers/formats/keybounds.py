"""Where the keys of entries stand in their bytes, for those who count keys without decoding them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from readers.decode.page import Page
from readers.errors import CorruptDataError

KeyBounds = Callable[[Page], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Returns where the key of each entry of a page begins and ends in its buffer: two int64 arrays of its length."""


def checked_bounds(
    page: Page, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the bounds.

    Raises:
        CorruptDataError: one ends before it begins, because the entry is too short for what stands around the key.
    """
    short = np.flatnonzero(ends < starts)
    if len(short):
        at = int(starts[short[0]])
        raise CorruptDataError(
            "expected an entry with a key, found a shorter one", path=page.path, position=at
        )
    return starts, ends
