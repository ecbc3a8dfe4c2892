"""Many byte strings, looked for in any number of bytes at once.

Each position of the bytes is the end of a string: the four bytes before it are looked up in a filter of bits, and only if these are
the last of some string, the lengths of such strings tell which bytes are compared. So the time depends on the bytes, and hardly on how
many strings there are.

| table | holds |
|---|---|
| filter | a bit for each hash of the last four bytes |
| windows | hash of the last eight bytes (four of shorter strings), and a length of such strings; by open addressing |
| strings | hash of all bytes, and the number of the string; by open addressing |

A string may be as short as four bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i4, load_le_i8, load_u1, store_1, store_8
from readers.formats.rocksdb.sst.blocks import entries_length, entry_header
from readers.formats.rocksdb.sst.words import multiply_fold, shift_right, wrapping_product

LEAST_BYTES = 4
MALFORMED = -1
_AHEAD = 2
_LOW_32 = 0xFFFFFFFF
_GOLDEN = -0x61C8864680B583EB
_SHORT, _LONG, _WHOLE = 0x2D358DCCAA6C78A5, -0x7447366A37F9C735, 0x4B33A62ED433D4A3
_FEWEST_BITS, _MOST_BITS = 16, 24
_SHARE = 16  # of the bits of the filter that are set, at most
# The fields of the tables, in words.
_FILTER, _BITS, _WINDOWS, _WINDOW_MASK, _STRINGS, _STRING_MASK, _OFFSETS, _BYTES, _TEXTS, _COUNTS, _FIRSTS = (
    range(11)
)
_FIELDS = 11


@subroutine
def _field(tables: int, number: int) -> int:
    return load_le_i8(tables, number * 8)


@subroutine
def _filter_place(word: int, bits: int) -> int:
    return shift_right(wrapping_product(word, _GOLDEN), 64 - bits)


@subroutine
def _short_window(data: int, end: int) -> int:
    return multiply_fold((load_le_i4(data, end - 4) & _LOW_32) ^ _SHORT, _GOLDEN) | 1


@subroutine
def _long_window(data: int, end: int) -> int:
    return multiply_fold(load_le_i8(data, end - 8) ^ _LONG, _GOLDEN) | 1


@subroutine
def _whole(data: int, start: int, length: int) -> int:
    """Return the hash of a string of four bytes or more."""
    found = length ^ _WHOLE
    index = 0
    while index + 8 <= length:
        found = multiply_fold(found ^ load_le_i8(data, start + index), _GOLDEN)
        index += 8
    if length >= 8:
        found = multiply_fold(found ^ load_le_i8(data, start + length - 8), _LONG)
    else:
        first = load_le_i4(data, start) & _LOW_32
        found = multiply_fold(found ^ first, _GOLDEN)
        found = multiply_fold(found ^ (load_le_i4(data, start + length - 4) & _LOW_32), _LONG)
    return found


@kernel
def _fill(tables: int, count: int) -> None:
    """Enter the strings into the tables."""
    offsets = _field(tables, _OFFSETS)
    data = _field(tables, _BYTES)
    bits = _field(tables, _BITS)
    for number in range(count):
        start = load_le_i8(offsets, number * 8)
        end = load_le_i8(offsets, number * 8 + 8)
        length = end - start
        place = _filter_place(load_le_i4(data, end - 4) & _LOW_32, bits)
        bytes_ = _field(tables, _FILTER)
        store_1(bytes_, place >> 3, load_u1(bytes_, place >> 3) | (1 << (place & 7)))
        window = _long_window(data, end) if length >= 8 else _short_window(data, end)
        windows = _field(tables, _WINDOWS)
        mask = _field(tables, _WINDOW_MASK)
        slot = window & mask
        while load_le_i8(windows, slot * 16) != 0:
            if load_le_i8(windows, slot * 16) == window and load_le_i8(windows, slot * 16 + 8) == length:
                break
            slot = (slot + 1) & mask
        store_8(windows, slot * 16, window)
        store_8(windows, slot * 16 + 8, length)
        whole = _whole(data, start, length)
        strings = _field(tables, _STRINGS)
        mask = _field(tables, _STRING_MASK)
        slot = whole & mask
        while load_le_i8(strings, slot * 16 + 8) != 0:
            slot = (slot + 1) & mask
        store_8(strings, slot * 16, whole)
        store_8(strings, slot * 16 + 8, number + 1)


@subroutine
def _is_letter(byte: int) -> bool:
    """Return whether a byte is an ASCII letter or digit."""
    return 0x30 <= byte <= 0x39 or 0x41 <= byte <= 0x5A or 0x61 <= byte <= 0x7A


@subroutine
def _is_inside(tables: int, number: int, data: int, start: int, length: int, size: int) -> bool:
    """Return whether a text goes on, so that it is a part of another one; a length before it says that it does not.

    Before a text stand its length (Java), one more (Flink, Kryo) or twice as much (Avro).
    """
    width = load_u1(_field(tables, _TEXTS), number)
    if width == 0:
        return False
    end = start + length
    if width == 1 and start >= 1:
        before = load_u1(data, start - 1)
        if before == length or before == length + 1 or before == 2 * length:
            return False
        if _is_letter(before):
            return True
    if width == 1:
        return end < size and _is_letter(load_u1(data, end))
    if end + 2 > size:
        return False
    # Of UTF-16 one byte of a letter is zero.
    high = load_u1(data, end)
    low = load_u1(data, end + 1)
    return (high == 0 and _is_letter(low)) if width == 2 else (low == 0 and _is_letter(high))


@subroutine
def _compare(tables: int, window: int, data: int, end: int, base: int, size: int) -> None:
    """Note the strings that end at a position and have a window."""
    windows = _field(tables, _WINDOWS)
    mask = _field(tables, _WINDOW_MASK)
    slot = window & mask
    while load_le_i8(windows, slot * 16) != 0:
        length = load_le_i8(windows, slot * 16 + 8)
        if load_le_i8(windows, slot * 16) == window and length <= end:
            _note(tables, data, end - length, length, base, size)
        slot = (slot + 1) & mask


@subroutine
def _note(tables: int, data: int, start: int, length: int, base: int, size: int) -> None:
    """Count the string that some bytes are, if they are one."""
    whole = _whole(data, start, length)
    strings = _field(tables, _STRINGS)
    mask = _field(tables, _STRING_MASK)
    slot = whole & mask
    while load_le_i8(strings, slot * 16 + 8) != 0:
        if load_le_i8(strings, slot * 16) == whole:
            number = load_le_i8(strings, slot * 16 + 8) - 1
            offsets = _field(tables, _OFFSETS)
            first = load_le_i8(offsets, number * 8)
            if load_le_i8(offsets, number * 8 + 8) - first == length:
                known = _field(tables, _BYTES)
                index = 0
                while index < length and load_u1(known, first + index) == load_u1(data, start + index):
                    index += 1
                if index == length and not _is_inside(tables, number, data, start, length, size):
                    counts = _field(tables, _COUNTS)
                    firsts = _field(tables, _FIRSTS)
                    store_8(counts, number * 8, load_le_i8(counts, number * 8) + 1)
                    if load_le_i8(firsts, number * 8) < 0:
                        store_8(firsts, number * 8, base + start)
        slot = (slot + 1) & mask


@kernel
def _search(tables: int, data: int, first: int, last: int, size: int, base: int) -> None:
    """Count the strings that end behind the first bytes of some data, and not behind the last ones."""
    bits = _field(tables, _BITS)
    bytes_ = _field(tables, _FILTER)
    for end in range(max(first + 1, LEAST_BYTES), last + 1):
        place = _filter_place(load_le_i4(data, end - 4) & _LOW_32, bits)
        if load_u1(bytes_, place >> 3) >> (place & 7) & 1:
            _compare(tables, _short_window(data, end), data, end, base, size)
            if end >= 8:
                _compare(tables, _long_window(data, end), data, end, base, size)


@kernel
def _expanded_bytes(block: int, length: int) -> int:
    """Return how many bytes the keys and values of a plain block have, the keys in full; `MALFORMED` if it is no block."""
    size = entries_length(block, length)
    if size < 0:
        return MALFORMED
    position = block
    total = 0
    key = 0
    while position < block + size:
        shared, more, value, position = entry_header(position, block + size)
        if shared < 0 or shared > key:
            return MALFORMED
        key = shared + more
        total += key + value
        position += more + value
    return total


@kernel
def _expand(block: int, length: int, target: int) -> None:
    """Write the keys, in full, and values of a plain block one behind the other."""
    size = entries_length(block, length)
    position = block
    place = 0
    before = 0
    while position < block + size:
        shared, more, value, position = entry_header(position, block + size)
        for index in range(shared):
            store_1(target, place + index, load_u1(target, before + index))
        for index in range(more + value):
            store_1(target, place + shared + index, load_u1(position, index))
        before = place
        place += shared + more + value
        position += more + value


def expanded(block: NDArray[np.uint8], length: int) -> NDArray[np.uint8] | None:
    """Return the keys, in full, and values of a plain block of an SST file, one behind the other; None if it is malformed."""
    size = _expanded_bytes(block.ctypes.data, length)
    if size < 0:
        return None
    target = np.empty(size + 8, dtype=np.uint8)
    _expand(block.ctypes.data, length, target.ctypes.data)
    return target[:size]


@dataclass(frozen=True, slots=True)
class Hit:
    """A string that was found: its number, how often, and where first."""

    number: int
    count: int
    first: int


class Needles:
    """Byte strings that are looked for.

    Args:
        strings: of `LEAST_BYTES` or more, no two alike.
        texts: of each what it is: 1 a text in bytes, 2 in UTF-16 of big endian, 3 of little endian; 0 no text. Texts that are a
            part of a longer word do not count.
    """

    def __init__(self, strings: Sequence[bytes], texts: Sequence[int] | None = None) -> None:
        assert all(len(one) >= LEAST_BYTES for one in strings)
        self._strings = strings
        self.longest = max(map(len, strings), default=0)
        self._offsets = np.zeros(len(strings) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in strings], out=self._offsets[1:])
        self._bytes = np.frombuffer(b"".join(strings) + bytes(8), dtype=np.uint8)
        self._texts = np.array(texts or [0] * max(len(strings), 1), dtype=np.uint8)
        bits = min(max((len(strings) * _SHARE).bit_length(), _FEWEST_BITS), _MOST_BITS)
        slots = 1 << max(4, (len(strings) * 2).bit_length())
        self._filter = np.zeros((1 << bits) // 8, dtype=np.uint8)
        self._windows: NDArray[np.int64] = np.zeros((slots, 2), dtype=np.int64)
        self._table: NDArray[np.int64] = np.zeros((slots, 2), dtype=np.int64)
        self._words = [
            self._filter.ctypes.data, bits, self._windows.ctypes.data, slots - 1, self._table.ctypes.data, slots - 1,
            self._offsets.ctypes.data, self._bytes.ctypes.data, self._texts.ctypes.data,
        ]  # fmt: skip
        tables = np.array([*self._words, 0, 0], dtype=np.int64)
        _fill(tables.ctypes.data, len(strings))

    def hits(self, pieces: Iterable[NDArray[np.uint8]]) -> list[Hit]:
        """Return the strings that pieces of bytes, which follow each other, have; a string may reach over several of them."""
        counts = np.zeros(len(self._strings), dtype=np.int64)
        firsts = np.full(len(self._strings), -1, dtype=np.int64)
        tables = np.array([*self._words, counts.ctypes.data, firsts.ctypes.data], dtype=np.int64)
        assert len(tables) == _FIELDS
        left, base, done = np.zeros(0, dtype=np.uint8), 0, 0
        # The last bytes wait for the next piece: it may tell that a text goes on.
        for piece in pieces:
            data = np.concatenate([left, piece])
            last = max(len(data) - _AHEAD, 0)
            _search(tables.ctypes.data, data.ctypes.data, done, last, len(data), base)
            kept = min(self.longest + _AHEAD, len(data))
            base += len(data) - kept
            left = data[len(data) - kept :].copy()
            done = max(kept - _AHEAD, 0)
        _search(tables.ctypes.data, left.ctypes.data, done, len(left), len(left), base)
        return [
            Hit(int(number), int(counts[number]), int(firsts[number])) for number in np.flatnonzero(counts)
        ]
