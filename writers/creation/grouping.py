"""Entries of many batches → the bytes of each key group.

An entry of a canonical savepoint is `i4 length, composite key, i4 length, value`. The entries of a state stand one after the other, so
what several batches have of a key group is put together as it is. The last entry of a state in a key group has bit 80 in the first
byte of its key: it is set when all are there. A list's elements are joined by 2C when all are there, too.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from readers import (
    hash_bytes,
    kernel,
    load_i4,
    load_le_i8,
    load_u1,
    same_bytes,
    store_1,
    store_8,
    store_be_4,
)
from writers.encode.encoder import Encoded
from writers.encode.machine.values import copy_bytes

FRAME_BYTES = 8  # the lengths of key and value
_SPARE_BYTES = 8  # a copy writes up to seven bytes behind its end
_MANY = -0x61C8864680B583EB  # 2^64 / golden ratio
_DELIMITER = 0x2C
_META_FOLLOWS = 0x80
_LENGTH_BYTES = 4


@kernel
def _pack(data: int, data_end: int, offsets: int, order: int, count: int, output: int) -> int:
    """Write entries in an order, each with its lengths; return the position behind them."""
    position = 0
    for index in range(count):
        entry = load_le_i8(order, index * 8) * 16
        begin = load_le_i8(offsets, entry)
        middle = load_le_i8(offsets, entry + 8)
        end = load_le_i8(offsets, entry + 16)
        store_be_4(output, position, middle - begin)
        copy_bytes(output, position + 4, data, begin, middle, data_end)
        position += 4 + middle - begin
        store_be_4(output, position, end - middle)
        copy_bytes(output, position + 4, data, middle, end, data_end)
        position += 4 + end - middle
    return position


@kernel
def _locate(data: int, size: int, starts: int, hashes: int) -> int:
    """Find the begin of each entry, and the hash of its key; return their number."""
    position = 0
    count = 0
    while position < size:
        store_8(starts, count * 8, position)
        key_length = load_i4(data, position)
        store_8(hashes, count * 8, hash_bytes(data + position + 4, key_length, 0))
        position += 4 + key_length
        position += 4 + load_i4(data, position)
        count += 1
    return count


@kernel
def _mixed(data: int, starts: int, ends: int, count: int) -> int:
    """Return a hash of entries of two segments that does not depend on their order; the first bit of keys does not count."""
    found = 0
    for index in range(count):
        begin = load_le_i8(starts, index * 16)
        first = load_u1(data, begin) & 0x7F
        key = hash_bytes(data + begin + 1, load_le_i8(ends, index * 16) - begin - 1, first)
        begin = load_le_i8(starts, index * 16 + 8)
        value = hash_bytes(data + begin, load_le_i8(ends, index * 16 + 8) - begin, 0)
        found += (key ^ value * 31) * _MANY
    return found


@kernel
def _same_as_before(data: int, starts: int, order: int, hashes: int, count: int, same: int) -> int:
    """Mark the entries, in an order by hash, whose key is that of the entry before; return how many share only its hash."""
    collisions = 0
    store_1(same, 0, 0)
    for index in range(1, count):
        entry = load_le_i8(order, index * 8)
        before = load_le_i8(order, index * 8 - 8)
        is_same = 0
        if load_le_i8(hashes, entry * 8) == load_le_i8(hashes, before * 8):
            one = data + load_le_i8(starts, entry * 8)
            other = data + load_le_i8(starts, before * 8)
            length = load_i4(one, 0)
            if length == load_i4(other, 0) and same_bytes(one + 4, other + 4, length):
                is_same = 1
            else:
                collisions += 1
        store_1(same, index, is_same)
    return collisions


@kernel
def _join(data: int, data_end: int, starts: int, order: int, same: int, count: int, output: int) -> int:
    """Write entries, of which several may have one key: their values are joined; return the position behind them."""
    position = 0
    frame = 0  # where the length of the last entry's value stands
    for index in range(count):
        start = load_le_i8(starts, load_le_i8(order, index * 8) * 8)
        value = start + 4 + load_i4(data, start)
        length = load_i4(data, value)
        if load_u1(same, index):
            store_1(output, position, _DELIMITER)
            position += 1
        else:
            copy_bytes(output, position, data, start, value, data_end)
            frame = position + value - start
            position = frame + 4
        copy_bytes(output, position, data, value + 4, value + 4 + length, data_end)
        position += length
        store_be_4(output, frame, position - frame - 4)
    return position


def mixed(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Return a hash of entries of two segments that does not depend on their order, int64.

    Args:
        data: a buffer.
        starts, ends: of the segments in it, int64 (entries, 2).
    """
    found: int = _mixed(data, np.ascontiguousarray(starts), np.ascontiguousarray(ends), len(starts))
    return found


def packed(encoded: Encoded, order: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return entries of two segments in an order, each with its lengths."""
    size = len(encoded.data) + FRAME_BYTES * len(order)
    output: NDArray[np.uint8] = np.empty(size + _SPARE_BYTES, dtype=np.uint8)
    end = _pack(encoded.data, len(encoded.data), encoded.offsets, order, len(order), output)
    return output[:end]


class EntryRun:
    """The packed entries of one state in one key group.

    Args:
        data: the bytes; they are changed.
        count: the number of entries.
    """

    def __init__(self, data: NDArray[np.uint8], count: int) -> None:
        self.data = data
        self.starts: NDArray[np.int64] = np.empty(count, dtype=np.int64)
        self._hashes: NDArray[np.int64] = np.empty(count, dtype=np.int64)
        _locate(data, len(data), self.starts, self._hashes)

    def key(self, number: int) -> bytes:
        """Return the composite key of an entry."""
        start = int(self.starts[number])
        length = int.from_bytes(self.data[start : start + 4].tobytes(), "big")
        return self.data[start + 4 : start + 4 + length].tobytes()

    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the key and the value of each entry begin and end, int64 (entries, 2)."""
        behind = np.append(self.starts[1:], len(self.data))
        lengths = (
            self.data[self.starts[:, None] + np.arange(_LENGTH_BYTES)].view(">i4").ravel().astype(np.int64)
        )
        keys = self.starts + _LENGTH_BYTES
        values = keys + lengths + _LENGTH_BYTES
        return np.stack([keys, values], axis=1), np.stack([keys + lengths, behind], axis=1)

    def marked(self) -> NDArray[np.uint8]:
        """Return the bytes with the mark in the last key that the id of another state, or the end, follows."""
        self.data[int(self.starts[-1]) + _LENGTH_BYTES] |= _META_FOLLOWS
        return self.data

    def _grouped(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return an order in which entries of one key stand together, as they came, and which are of the key before."""
        order = np.argsort(self._hashes, kind="stable")
        same: NDArray[np.uint8] = np.empty(len(order), dtype=np.uint8)
        if _same_as_before(self.data, self.starts, order, self._hashes, len(order), same):
            # Two keys of one hash: their entries may alternate.
            keys = [self.key(number) for number in range(len(order))]
            by_key = sorted(range(len(order)), key=keys.__getitem__)
            order = np.array(by_key, dtype=np.int64)
            same[1:] = [keys[one] == keys[before] for before, one in pairwise(by_key)]
        return order, same

    def duplicate(self) -> int | None:
        """Return the number of an entry whose composite key another one has, too; None if there is none."""
        order, same = self._grouped()
        twice = np.flatnonzero(same)
        return int(order[twice[0]]) if len(twice) else None

    def joined(self) -> EntryRun:
        """Return one entry for each key, with the values joined by 2C in the order in which they came."""
        order, same = self._grouped()
        output: NDArray[np.uint8] = np.empty(len(self.data) + _SPARE_BYTES, dtype=np.uint8)
        end = _join(self.data, len(self.data), self.starts, order, same, len(order), output)
        return EntryRun(output[:end], int(len(same) - same.sum()))
