"""Key groups in a stream: the meaning of the offsets of a `KeyGroupsStateHandle`.

| layout | offset of a key group that is absent |
|---|---|
| full | 0 |
| heap | none is absent |
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
    """Yield (key group, start, end) of the key groups in a stream, in the order of their positions.

    Args:
        offsets: the offsets of the handle.
        first_key_group: the key group of the first offset.
        size: size of the stream in bytes.
        path: the path of the stream, for errors.
        absent: the offset of absent key groups; None if none is absent.

    Raises:
        CorruptDataError: an offset lies outside the stream.
    """
    present = np.arange(len(offsets)) if absent is None else np.flatnonzero(offsets != absent)
    positions = offsets[present]
    outside = positions[(positions < 0) | (positions > size)]
    if len(outside):
        message = f"expected a key group within {size} bytes, found one at {outside[0]}"
        raise CorruptDataError(message, path=path)
    # Flink writes key groups in ascending order, but nothing records where one ends: the next position is trusted, not the next
    # offset, so that offsets out of order cannot make regions overlap.
    order = np.argsort(positions, kind="stable")
    bounds = np.append(positions[order], size)
    for index, number in enumerate(order):
        yield first_key_group + int(present[number]), int(bounds[index]), int(bounds[index + 1])
