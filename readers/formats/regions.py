"""Where key groups stand in a stream: what the offsets of a `KeyGroupsStateHandle` mean.

| layout | a key group that is not there |
|---|---|
| full | 0 |
| heap | – |
| raw keyed state | -1 |

A key group ends where the next one in the stream begins.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from readers.errors import CorruptDataError


def regions(
    offsets: NDArray[np.int64], first_key_group: int, size: int, path: str, *, absent: int | None
) -> Iterator[tuple[int, int, int]]:
    """(key group, start, end) of the key groups in a stream, in the order of their positions.

    Args:
        offsets: those of the handle.
        first_key_group: the one that the first offset is of.
        size: of the stream, in bytes.
        path: the stream, for errors.
        absent: the offset of key groups that are not there.

    Raises:
        CorruptDataError: an offset leads out of the stream.
    """
    present = np.arange(len(offsets)) if absent is None else np.flatnonzero(offsets != absent)
    positions = offsets[present]
    outside = positions[(positions < 0) | (positions > size)]
    if len(outside):
        message = f"expected a key group within {size} bytes, found one at {outside[0]}"
        raise CorruptDataError(message, path=path)
    order = np.argsort(positions, kind="stable")
    bounds = np.append(positions[order], size)
    for index, where in enumerate(order):
        yield first_key_group + int(present[where]), int(bounds[index]), int(bounds[index + 1])
