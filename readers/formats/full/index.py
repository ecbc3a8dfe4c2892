"""Where the entries of a state are in a key group of the full layout, as far as lookups have walked over it.

A key group has no index of its own. So what a lookup walks over is noted, in blocks of 64 KiB, or of a 4096th of a larger key
group:

| entries | what is kept of a block | where a key can be |
|---|---|---|
| sorted by their keys, as RocksDB's are | the first 32 bytes of the key of its first entry | in the blocks between |
| others, of which each key has one, as the heap's | a hash of 32 bits of each key | in the blocks with its hash |

Of other entries nothing is kept. A lookup walks over the blocks in which its keys can be, and then goes on where the earlier ones
have ended.

What is kept is part of an open savepoint, and bounded for all of them together: what was used least goes first.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import (
    load_i4,
    load_i8,
    load_le_i8,
    load_u1,
    opaque,
    store_4,
    store_8,
    store_be_8,
)
from readers.formats.rocksdb.sst.words import hash_bytes

_BLOCK_BYTES = 64 << 10
_MOST_BLOCKS = 4096
_MOST_BYTES = 64 << 20
_PREFIX_BYTES = 32
_SIGN = -(2**63)
_SEED = secrets.randbits(62)
_VOID_BYTES = 1  # behind the key of a state without a namespace

_Bytes = NDArray[np.uint8]
Span = tuple[int, int]
"""Positions of an entry, and behind an entry."""


@subroutine
def _prefix_word(data: int, position: int, end: int) -> int:
    """Return up to eight bytes as a word, big endian, zeros behind them, of which the signed order is that of the bytes."""
    word = 0
    if end - position >= 8:
        word = load_i8(data, position)
    else:
        for index in range(8):
            word = (word << 8) | (load_u1(data, position + index) if position + index < end else 0)
    return word ^ _SIGN


@kernel
def _note_sorted(
    data: int, position: int, end: int, width: int, block: int, following: int, last: int, begins: int, prefixes: int
) -> tuple[int, int, int]:  # fmt: skip
    """Note blocks of entries, up to one whose key is less than the one before it.

    Args:
        data: the buffer.
        position, end: an entry, and the position behind the last one.
        width: the number of bytes before the key in a composite key.
        block: the least bytes of a block.
        following: the first position at which an entry begins a block.
        last: four words, the prefix of the key before `position`; they become those of the last one.
        begins, prefixes: int64 and 32 bytes for each block.

    Returns:
        The number of blocks, the position of the entry at which it ended, -1 if one does not fit, and the new `following`.
    """
    blocks = 0
    while position < end:
        key_end, behind = _ends(data, position, end)
        if behind == 0:
            return blocks, -1, following
        order = 0
        for index in range(4):
            word = _prefix_word(data, position + 4 + width + index * 8, key_end)
            if order == 0:
                before = load_le_i8(last, index * 8)
                order = 1 if word > before else (-1 if word < before else 0)
            if order < 0:
                return blocks, position, following
            store_8(last, index * 8, word)
        if position >= following:
            store_8(begins, blocks * 8, position)
            for index in range(4):
                store_be_8(prefixes, blocks * 32 + index * 8, load_le_i8(last, index * 8) ^ _SIGN)
            blocks += 1
            following = position + block
        position = behind
    return blocks, position, following


@subroutine
def _ends(data: int, position: int, end: int) -> tuple[int, int]:
    """Return where the key of an entry ends, and the entry with the mark of another state that may follow; 0 if it does not fit.

    The lookup has checked the same lengths; a file that somebody changes in this moment has others.
    """
    left = end - position - 8
    key_length = opaque(load_i4(data, position)) if left > 0 else 0
    if key_length < 1 or key_length > left:
        return 0, 0
    key_end = position + 4 + key_length
    value_length = opaque(load_i4(data, key_end))
    behind = key_end + 4 + value_length + (2 if load_u1(data, position + 4) & 0x80 else 0)
    return (0, 0) if value_length < 0 or behind > end else (key_end, behind)


@kernel
def _note_hashes(
    data: int, position: int, end: int, width: int, block: int, following: int, begins: int, firsts: int,
    hashes: int, seed: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Note the hashes of the keys of entries, and blocks of them; for the arguments see `_note_sorted`.

    Args:
        firsts: int64 for each block: the number of its first entry.
        hashes: int32 for each entry.

    Returns:
        The number of blocks and of entries, -1 if one does not fit, and the new `following`.
    """
    blocks = 0
    entries = 0
    while position < end:
        key_end, behind = _ends(data, position, end)
        if behind == 0:
            return blocks, -1, following
        key = position + 4 + width
        store_4(
            hashes,
            entries * 4,
            hash_bytes(data + key, max(key_end - key - _VOID_BYTES, 0), seed) & 0x7FFFFFFF,
        )
        if position >= following:
            store_8(begins, blocks * 8, position)
            store_8(firsts, blocks * 8, entries)
            blocks += 1
            following = position + block
        entries += 1
        position = behind
    return blocks, entries, following


@kernel
def _hash_key(data: int, length: int, seed: int) -> int:
    """Return the hash of a key."""
    found: int = hash_bytes(data, length, seed) & 0x7FFFFFFF
    return found


class StateIndex:
    """What is known of the entries of a state in a key group. Safe to share between threads.

    Args:
        begin: the position of its first entry.
        width: the number of bytes before the key in a composite key.
        is_single: whether a key has one entry, behind whose key one byte stands.
        size_bytes: of the key group.

    Attributes:
        end: behind the last entry that is known.
        is_whole: whether that is the last entry of the state.
    """

    def __init__(self, begin: int, width: int, size_bytes: int, *, is_single: bool) -> None:
        self._begin = begin
        self._width = width
        self._is_single = is_single
        self._block_bytes = max(_BLOCK_BYTES, size_bytes // _MOST_BLOCKS)
        self._lock = threading.Lock()
        self._begin_anew()

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self.end = self._following = self._sorted_end = self._begin
        self.is_whole = self._is_over = False
        self._last = np.full(_PREFIX_BYTES // 8, _SIGN, dtype=np.int64)
        self._begins: NDArray[np.int64] = _NONE
        self._prefixes: _Bytes = np.empty((0, _PREFIX_BYTES), dtype=np.uint8)
        # Of the blocks behind the sorted ones.
        self._others: NDArray[np.int64] = _NONE
        self._firsts: NDArray[np.int64] = _NONE
        self._hashes: NDArray[np.int32] = np.empty(0, dtype=np.int32)

    @property
    def size_bytes(self) -> int:
        """Of what is kept."""
        arrays = (self._begins, self._prefixes, self._others, self._firsts, self._hashes)
        return sum(array.nbytes for array in arrays)

    def extend(self, data: _Bytes, begin: int, end: int, *, is_whole: bool) -> None:
        """Note entries; without effect where they do not begin where the known ones end.

        Args:
            data: has the bytes of all entries at their positions but, of some, the values.
            begin: the position of the first one.
            end: the position behind the last one, which was walked over without an error.
            is_whole: whether the last one is the last of the state.
        """
        with self._lock:
            if begin != self.end or self._is_over or self.is_whole:
                return
            position = self._extend_sorted(data, begin, end) if self._sorted_end == begin else begin
            if begin <= position < end and self._is_single:
                position = self._extend_hashes(data, position, end)
            # In another order, or of which a key may have several, or of a changed file: nothing tells where these entries are.
            self._is_over = position < end
            self.end = max(position, begin)
            self.is_whole = is_whole and position == end
        _kept.use(self)

    def _extend_sorted(self, data: _Bytes, begin: int, end: int) -> int:
        """Note entries as far as they are sorted; return the position behind them, -1 for a changed file."""
        room = (end - begin) // self._block_bytes + 2
        begins, prefixes = np.empty(room, dtype=np.int64), np.empty((room, _PREFIX_BYTES), dtype=np.uint8)
        blocks, position, self._following = _note_sorted(
            data, begin, end, self._width, self._block_bytes, self._following, self._last, begins, prefixes
        )
        if position < 0:
            return -1
        if position < end and self._is_single and begin == self._begin:
            # The first entries may be sorted by chance: all are hashed.
            self._following = self._sorted_end = self._begin
            return self._begin
        self._begins = np.concatenate([self._begins, begins[:blocks]])
        self._prefixes = np.concatenate([self._prefixes, prefixes[:blocks]])
        self._sorted_end = int(position)
        if position < end:
            self._following = position
        return self._sorted_end

    def _extend_hashes(self, data: _Bytes, begin: int, end: int) -> int:
        """Note entries; return the position behind them, -1 for a changed file."""
        room = (end - begin) // self._block_bytes + 2
        begins, firsts = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        hashes = np.empty((end - begin) // _LEAST_ENTRY_BYTES + 1, dtype=np.int32)
        blocks, entries, self._following = _note_hashes(
            data, begin, end, self._width, self._block_bytes, self._following, begins, firsts, hashes, _SEED
        )
        if entries < 0:
            return -1
        self._others = np.concatenate([self._others, begins[:blocks]])
        self._firsts = np.concatenate([self._firsts, firsts[:blocks] + len(self._hashes)])
        self._hashes = np.concatenate([self._hashes, hashes[:entries]])
        return end

    def spans(self, keys: Iterable[bytes]) -> tuple[list[Span], int | None]:
        """Return where entries of keys may be, in order, and the position from which nothing is known; None if all is.

        Args:
            keys: the bytes that composite keys have behind `width`, up to the namespace.
        """
        with self._lock:
            found: list[Span] = []
            for key in keys:
                found += self._sorted_spans(key) if len(self._begins) else ()
                found += self._hashed_spans(key) if len(self._others) else ()
            behind = None if self.is_whole else self.end
        _kept.use(self)
        return _merged(found), behind

    def _sorted_spans(self, key: bytes) -> list[Span]:
        prefixes = self._prefixes.view(f"S{_PREFIX_BYTES}")[:, 0]
        least, greatest = (
            np.array([key[:_PREFIX_BYTES].ljust(_PREFIX_BYTES, byte)], prefixes.dtype)
            for byte in (b"\0", b"\xff")
        )
        # The block before the first one that begins with the key may end with it.
        first = max(int(np.searchsorted(prefixes, least, side="left")[0]) - 1, 0)
        behind = int(np.searchsorted(prefixes, greatest, side="right")[0])
        if behind == 0:
            return []
        end = self._begins[behind] if behind < len(self._begins) else self._sorted_end
        return [(int(self._begins[first]), int(end))]

    def _hashed_spans(self, key: bytes) -> list[Span]:
        wanted = _hash_key(np.frombuffer(key, dtype=np.uint8), len(key), _SEED)
        places = np.flatnonzero(self._hashes == wanted)
        blocks = np.unique(np.searchsorted(self._firsts, places, side="right") - 1)
        ends = np.append(self._others[1:], self.end)
        return [(int(self._others[block]), int(ends[block])) for block in blocks]


def _merged(spans: list[Span]) -> list[Span]:
    """Return the same spans in order, those together that overlap or follow each other."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


class _Kept:
    """Bounds what all indexes keep: those that were used last stay."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: WeakValueDictionary[int, StateIndex] = WeakValueDictionary()
        self._sizes: OrderedDict[int, int] = OrderedDict()
        self._size_bytes = 0

    def use(self, index: StateIndex) -> None:
        """Note a use of an index, and its size."""
        dropped = []
        with self._lock:
            self._alive[id(index)] = index
            self._size_bytes += index.size_bytes - self._sizes.pop(id(index), 0)
            self._sizes[id(index)] = index.size_bytes
            while self._size_bytes > _MOST_BYTES and len(self._sizes) > 1:
                number, size_bytes = self._sizes.popitem(last=False)
                self._size_bytes -= size_bytes
                dropped.append(self._alive.pop(number, None))
        for one in dropped:
            if one is not None:
                one.clear()


_kept = _Kept()
_NONE: NDArray[np.int64] = np.empty(0, dtype=np.int64)
_LEAST_ENTRY_BYTES = 9
