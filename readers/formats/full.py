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

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.decode.loads import load_i4, load_u1, load_u2, store_8
from readers.errors import CorruptDataError, hex_window

PAGE_ENTRIES = 1 << 15
# Also where a state has no entries: what was walked of a mapped file is memory until it is given back.
_STRETCH_BYTES = 4 << 20
_END_OF_KEY_GROUP = 0xFFFF
_META_FOLLOWS = 0x80
_LEAST_ENTRY_BYTES = 9
_COUNT = -1  # room for any number of entries, none of which is filled in

Release = Callable[[int, int], None]
"""Told of bytes that are done with, from … to; see `Stream.release`."""


def _keep(start: int, end: int) -> None:
    """The buffer is no mapped file."""


@kernel
def _walk(
    data: int,
    position: int,
    limit: int,
    stop: int,
    state: int,
    wanted: int,
    starts: int,
    ends: int,
    room: int,
) -> tuple[int, int, int, int]:
    """Walk a key group from an entry up to one at `stop` or behind; fill in the wanted state's entries, as many as there is `room` for.

    Returns:
        The number of entries found, the position and the state of the next entry (of the end of the key group the position
        behind it, and its mark), and -1; or in place of that the position where the bytes contradict the format.
    """
    found = 0
    while True:
        start = position
        if position >= stop:
            return found, position, state, -1
        if limit - position < 4:
            return found, position, state, position
        key_length = load_i4(data, position)
        key = position + 4
        if key_length < 1 or key_length > limit - key - 4:
            return found, position, state, position
        position = key + key_length
        value_length = load_i4(data, position)
        value = position + 4
        if value_length < 0 or value_length > limit - value:
            return found, position, state, position
        if state == wanted:
            if found == room:
                return found, start, state, -1
            if room >= 0:
                store_8(starts, found * 16, key)
                store_8(ends, found * 16, key + key_length)
                store_8(starts, found * 16 + 8, value)
                store_8(ends, found * 16 + 8, value + value_length)
            found += 1
        position = value + value_length
        if load_u1(data, key) & _META_FOLLOWS:
            if limit - position < 2:
                return found, position, state, position
            state = load_u2(data, position)
            position += 2
            if state == _END_OF_KEY_GROUP:
                return found, position, state, -1


def is_key_group(data: NDArray[np.uint8], position: int, limit: int) -> bool:
    """Whether a key group in this layout fills these bytes; reads all of them."""
    _, end, bad = _count(data, position, limit, -1)
    return bad < 0 and end == limit


def count_key_group(
    data: NDArray[np.uint8], position: int, limit: int, state: int, path: str, release: Release = _keep
) -> int:
    """How many entries one state has in a key group; for errors see `cut_key_group`."""
    count, _, bad = _count(data, position, limit, state, release)
    if bad >= 0:
        raise _corrupt(data, bad, limit, path)
    return count


def cut_key_group(
    data: NDArray[np.uint8], position: int, limit: int, state: int, path: str, release: Release = _keep
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
    """Where the entries of one state stand in a key group, some at a time: memory is bounded where one key has millions.

    Args:
        data: the buffer.
        position, limit: where the key group stands in it.
        state: the id of the state.
        path: the file, for errors.
        release: told of bytes that are done with.

    Yields:
        starts and ends, int64 (entries, 2), at least one and at most PAGE_ENTRIES; and the position behind what was walked.

    Raises:
        CorruptDataError: a length leads out of the key group, or it does not end with the end mark.
    """
    if limit - position < 2:
        raise _corrupt(data, position, limit, path)
    following, position = _first_state(data, position), position + 2
    while True:
        room = min(PAGE_ENTRIES, (limit - position) // _LEAST_ENTRY_BYTES + 1)
        starts: NDArray[np.int64] = np.empty((room, 2), dtype=np.int64)
        ends: NDArray[np.int64] = np.empty((room, 2), dtype=np.int64)
        begin, stop = position, position + _STRETCH_BYTES
        count, position, following, bad = _walk(
            data, position, limit, stop, following, state, starts, ends, room
        )
        if bad >= 0:
            raise _corrupt(data, bad, limit, path)
        if count:
            yield starts[:count], ends[:count], position
        release(begin, position)
        if following == _END_OF_KEY_GROUP:
            return


def _count(
    data: NDArray[np.uint8], position: int, limit: int, state: int, release: Release = _keep
) -> tuple[int, int, int]:
    """How many entries of a state there are, where the key group ends, and -1 or where the bytes contradict the format."""
    if limit - position < 2:
        return 0, position, position
    nowhere: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
    following, position, count = _first_state(data, position), position + 2, 0
    while following != _END_OF_KEY_GROUP:
        begin, stop = position, position + _STRETCH_BYTES
        found, position, following, bad = _walk(
            data, position, limit, stop, following, state, nowhere, nowhere, _COUNT
        )
        count += found
        if bad >= 0:
            return count, position, bad
        release(begin, position)
    return count, position, -1


def _first_state(data: NDArray[np.uint8], position: int) -> int:
    return int.from_bytes(data[position : position + 2].tobytes(), "big")


def _corrupt(data: NDArray[np.uint8], position: int, limit: int, path: str) -> CorruptDataError:
    window = hex_window(memoryview(data), position)
    return CorruptDataError(
        f"expected an entry of a key group that ends by byte {limit}; bytes {window}",
        path=path,
        position=position,
    )
