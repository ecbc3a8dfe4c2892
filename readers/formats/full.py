"""The full layout: canonical savepoints of any backend, full checkpoints of RocksDB up to 1.15.

The stream is a `KeyedBackendSerializationProxy`, then at the handle's offset of each key group that is not empty:

| bytes | meaning |
|---|---|
| u2 | state id: the index of the state in the proxy |
| i4 length, bytes | composite key; bit 80 of the first byte: "meta data follows this entry" |
| i4 length, bytes | value |
| [u2] | if that bit is set: FFFF for the end of the key group, else the next state id |

With compression each key group is one snappy stream. Flink: FullSnapshotAsyncWriter, FullSnapshotRestoreOperation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.decode.loads import load_i4, load_u1, load_u2, store_8
from readers.errors import CorruptDataError, hex_window

_END_OF_KEY_GROUP = 0xFFFF
_META_FOLLOWS = 0x80
_MEASURE, _CUT = 0, 1


@kernel
def _walk(
    data: int, position: int, limit: int, wanted: int, starts: int, ends: int, room: int
) -> tuple[int, int, int]:
    """Walk one key group; fill in as many of the wanted state's entries as there is `room` for.

    Returns:
        The number of entries of the wanted state, the position behind the key group, and -1; or in place of that the
        position where the bytes contradict the format.
    """
    found = 0
    if limit - position < 2:
        return 0, position, position
    state = load_u2(data, position)
    position += 2
    while True:
        if limit - position < 4:
            return found, position, position
        key_length = load_i4(data, position)
        key = position + 4
        if key_length < 1 or key_length > limit - key - 4:
            return found, position, position
        position = key + key_length
        value_length = load_i4(data, position)
        value = position + 4
        if value_length < 0 or value_length > limit - value:
            return found, position, position
        if state == wanted:
            if found < room:
                store_8(starts, found * 16, key)
                store_8(ends, found * 16, key + key_length)
                store_8(starts, found * 16 + 8, value)
                store_8(ends, found * 16 + 8, value + value_length)
            found += 1
        position = value + value_length
        if load_u1(data, key) & _META_FOLLOWS:
            if limit - position < 2:
                return found, position, position
            state = load_u2(data, position)
            position += 2
            if state == _END_OF_KEY_GROUP:
                return found, position, -1


def is_key_group(data: NDArray[np.uint8], position: int, limit: int) -> bool:
    """Whether a key group in this layout fills these bytes; reads all of them."""
    nowhere: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
    _, end, bad = _walk(data, position, limit, -1, nowhere, nowhere, 0)
    return bool(bad < 0 and end == limit)


def count_key_group(data: NDArray[np.uint8], position: int, limit: int, state: int, path: str) -> int:
    """How many entries one state has in a key group; for errors see `cut_key_group`."""
    nowhere: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
    count, _, bad = _walk(data, position, limit, state, nowhere, nowhere, 0)
    if bad >= 0:
        raise CorruptDataError(
            f"expected an entry of a key group that ends by byte {limit}; bytes {hex_window(memoryview(data), bad)}",
            path=path,
            position=bad,
        )
    return int(count)


def cut_key_group(
    data: NDArray[np.uint8], position: int, limit: int, state: int, path: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the entries of one state stand in a key group: starts and ends, int64 (entries, 2).

    Raises:
        CorruptDataError: a length leads out of the key group, or it does not end with the end mark.
    """
    count = count_key_group(data, position, limit, state, path)
    starts: NDArray[np.int64] = np.empty((count, 2), dtype=np.int64)
    ends: NDArray[np.int64] = np.empty((count, 2), dtype=np.int64)
    _walk(data, position, limit, state, starts, ends, count)
    return starts, ends
