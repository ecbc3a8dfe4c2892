"""Blocks: the unit that a table is read, checked, compressed and decompressed by.

| type byte | compression | before the compressed bytes |
|---|---|---|
| 00 | none | |
| 01 | Snappy | (its own varint, the length of the plain bytes) |
| 02 | zlib, raw deflate | varint, the length of the plain bytes |
| 04 05 | LZ4, LZ4HC | as above |
| 07 | ZSTD | as above |

The lengths are there since `format_version` 2. Compiled code decompresses Snappy and LZ4: a block has four kilobytes in Flink, and a
call of a library from Python takes as long as decompressing it.

On disk, at a handle (offset, size):

| bytes | meaning |
|---|---|
| size | the block, perhaps compressed |
| u1 | compression |
| u4 little endian | checksum of both |

A plain block:

| bytes | meaning |
|---|---|
| varint shared, varint more, [varint length], more bytes, value | an entry; its key begins with `shared` bytes of the key before |
| … | |
| u4 × restarts | where keys stand in full |
| [u1 × buckets, u2 buckets] | of the hash index that data blocks may have, then bit 31 of the last word is set |
| u4 | number of restarts |

All little endian. Keys in data blocks are internal keys: the user's key, then u8 sequence << 8 | type. The key of an index entry is
not less than any key in its block, and less than all keys in the next; it may lack the u8. The value of an index entry is a
handle, two varints. With delta encoding these values have no length; where the key shares bytes with the key before, the
value is only the difference in size (zigzag), and the block starts where the block before ends.

RocksDB: Block, BlockBuilder, IndexValue, DataBlockFooter, UncompressData; Snappy: format_description.txt; LZ4: lz4_Block_format.md.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import cramjam
import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i2, load_le_i4, load_le_i8, load_u1, store_1, store_8
from readers.formats.rocksdb.sst.words import compare_bytes, copy_words, shift_right

NONE, SNAPPY, ZLIB, LZ4, LZ4HC, ZSTD = 0, 1, 2, 4, 5, 7
MAX_PLAIN_BYTES = 2**31
MALFORMED = -1

_U2 = 0xFFFF
_U4 = 0xFFFFFFFF
_LZ4_MIN_MATCH = 4
# The most plain bytes that a compressed byte can stand for, rounded up. A block that claims more is malformed: without this a
# few hostile bytes would allocate gigabytes.
_SNAPPY_RATIO = 32
_LZ4_RATIO = 256
_OTHER_RATIO = 1 << 16


@kernel
def varint(address: int, limit: int) -> tuple[int, int]:
    """Read an unsigned varint of up to 63 bits before the address `limit`; return it, or `MALFORMED`, and the address behind it."""
    value = 0
    shift = 0
    while address < limit and shift < 63:
        byte = load_u1(address, 0)
        address += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, address
        shift += 7
    return MALFORMED, address


@kernel
def plain_length(kind: int, address: int, length: int) -> int:
    """Return the length of the plain bytes that a compressed block claims, or `MALFORMED` if that cannot be."""
    claimed, _ = varint(address, address + length)
    ratio = _OTHER_RATIO
    if kind == SNAPPY:
        ratio = _SNAPPY_RATIO
    elif kind in (LZ4, LZ4HC):
        ratio = _LZ4_RATIO
    if claimed > ratio * length or claimed > MAX_PLAIN_BYTES:
        return MALFORMED
    return claimed


@subroutine
def _repeat(target: int, distance: int, count: int) -> None:
    """Copy `count` bytes from `distance` before `target`, and up to 7 more."""
    # The source of a short distance grows while it is copied: the bytes repeat, and whole words would read old ones.
    if distance >= 8:
        copy_words(target, target - distance, count)
        return
    for index in range(count):
        store_1(target, index, load_u1(target, index - distance))


@subroutine
def _literal(target: int, source: int, count: int) -> None:
    """Copy `count` bytes, and up to 15 more: most literals fit into two words, which need no loop."""
    store_8(target, 0, load_le_i8(source, 0))
    store_8(target, 8, load_le_i8(source, 8))
    if count > 16:
        copy_words(target + 16, source + 16, count - 16)


@kernel
def decompress_snappy(source: int, length: int, plain: int, plain_bytes: int) -> bool:
    """Decompress a Snappy block; return whether it is one, of exactly `plain_bytes` plain bytes."""
    limit = source + length
    _, source = varint(source, limit)
    target = plain
    end = plain + plain_bytes
    while source < limit:
        tag = load_u1(source, 0)
        source += 1
        kind = tag & 3
        count = (tag >> 2) + 1
        if kind == 0:
            # A literal; lengths above 60 stand in the 1 to 4 bytes behind the tag.
            extra = count - 60
            if extra > 0:
                if extra > limit - source:
                    return False
                count = (load_le_i4(source, 0) & _U4 & ((1 << 8 * extra) - 1)) + 1
                source += extra
            if count > limit - source or count > end - target:
                return False
            _literal(target, source, count)
            source += count
        else:
            width = kind if kind < 3 else 4
            if width > limit - source:
                return False
            if kind == 1:
                count = (tag >> 2 & 7) + 4
                distance = tag >> 5 << 8 | load_u1(source, 0)
            elif kind == 2:
                distance = load_le_i2(source, 0) & _U2
            else:
                distance = load_le_i4(source, 0) & _U4
            source += width
            if distance == 0 or distance > target - plain or count > end - target:
                return False
            _repeat(target, distance, count)
        target += count
    return target == end


@subroutine
def _lz4_length(count: int, source: int, limit: int) -> tuple[int, int]:
    """Read the rest of a length that begins in a token; return it, or `MALFORMED`, and the address behind it."""
    if count < 15:
        return count, source
    while source < limit:
        byte = load_u1(source, 0)
        source += 1
        count += byte
        if byte < 255:
            return count, source
    return MALFORMED, source


@kernel
def decompress_lz4(source: int, length: int, plain: int, plain_bytes: int) -> bool:
    """Decompress an LZ4 block; return whether it is one, of exactly `plain_bytes` plain bytes."""
    limit = source + length
    _, source = varint(source, limit)
    target = plain
    end = plain + plain_bytes
    while source < limit:
        token = load_u1(source, 0)
        count, source = _lz4_length(token >> 4, source + 1, limit)
        if count < 0 or count > limit - source or count > end - target:
            return False
        _literal(target, source, count)
        source += count
        target += count
        if source == limit:
            break  # the last sequence is a literal without a match
        if limit - source < 2:
            return False
        distance = load_le_i2(source, 0) & _U2
        count, source = _lz4_length(token & 15, source + 2, limit)
        if count < 0:
            return False
        count += _LZ4_MIN_MATCH
        if distance == 0 or distance > target - plain or count > end - target:
            return False
        _repeat(target, distance, count)
        target += count
    return target == end


def decompress_elsewhere(
    kind: int, block: NDArray[np.uint8], plain: NDArray[np.uint8], plain_bytes: int
) -> bool:
    """Decompress a block of zlib or ZSTD into `plain`; return whether it is one, of exactly `plain_bytes` plain bytes."""
    address = block.ctypes.data
    _, start = varint(address, address + len(block))
    decompressor = cramjam.zstd if kind == ZSTD else cramjam.deflate
    try:
        found = decompressor.decompress_into(block[start - address :], plain[:plain_bytes])
    except (cramjam.DecompressionError, ValueError, OSError):
        return False
    return bool(found == plain_bytes)


TRAILER_BYTES = 5
SEQUENCE_BYTES = 8

_MAX_BYTES_WITH_HASH_INDEX = 1 << 16  # in larger blocks bit 31 is a part of the number of restarts
_HASH_INDEX = 1 << 31
_HANDLE_BYTES = 16
_BOUNDS_BYTES = 16
_HANDLES_OF_A_LOOKUP = 64  # a scan has more, and walks the index twice


_ALL_KEYS = (0, 0, 0, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Different keys in ascending order.

    Attributes:
        data: holds them, with slack behind.
        starts, ends: where each begins and ends: int64 (keys, 2), of which the first column counts.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> bytes:
        return self.data[self.starts[number, 0] : self.ends[number, 0]].tobytes()

    @property
    def addresses(self) -> tuple[int, int, int, int]:
        """The addresses of data, starts and ends, and the number of keys."""
        return self.data.ctypes.data, self.starts.ctypes.data, self.ends.ctypes.data, len(self)

    def between(self, first: bytes, last: bytes) -> Keys:
        """Return the keys from `first` to `last`, both included, without a copy."""
        start, stop = bisect_left(self, first), bisect_right(self, last)
        return Keys(data=self.data, starts=self.starts[start:stop], ends=self.ends[start:stop])


@kernel
def entries_length(block: int, length: int) -> int:
    """Return how many bytes of a plain block are entries, or `MALFORMED`."""
    if length < 4:
        return MALFORMED
    restarts = load_le_i4(block, length - 4) & _U4
    end = length - 4
    if length <= _MAX_BYTES_WITH_HASH_INDEX and restarts & _HASH_INDEX:
        if length < 6:
            return MALFORMED
        restarts ^= _HASH_INDEX
        end = length - 6 - (load_le_i2(block, length - 6) & _U2)
    return max(end - 4 * restarts, MALFORMED)


@kernel
def entry_header(position: int, end: int) -> tuple[int, int, int, int]:
    """Read the header of an entry.

    Returns:
        The number of shared bytes of its key, of further bytes of it, of bytes of its value, and the address behind these
        numbers; `MALFORMED` first if key and value do not fit before `end`.
    """
    # Nearly every number is below 128: three of them are one load and one test.
    if end - position >= 3:
        word = load_le_i4(position, 0)
        if word & 0x808080 == 0:
            more = word >> 8 & 0x7F
            length = word >> 16 & 0x7F
            if more + length > end - position - 3:
                return MALFORMED, more, length, position
            return word & 0x7F, more, length, position + 3
    shared, position = varint(position, end)
    more, position = varint(position, end)
    length, position = varint(position, end)
    if shared < 0 or more < 0 or length < 0 or more > end - position or length > end - position - more:
        return MALFORMED, more, length, position
    return shared, more, length, position


@subroutine
def _index_key(position: int, end: int, delta: bool) -> tuple[int, int, int]:
    """Read the header of an index entry; return the shared and further bytes of its key, and the address behind the numbers."""
    if not delta:
        shared, more, _, position = entry_header(position, end)
        return shared, more, position
    shared, position = varint(position, end)
    more, position = varint(position, end)
    if shared < 0 or more < 0 or more > end - position:
        return MALFORMED, more, position
    return shared, more, position


@subroutine
def _restart_before(
    block: int, length: int, size: int, delta: bool, suffix: int, first: int, first_length: int
) -> int:
    """Return the address of the last restart of an index whose key is less than the first wanted one; else of its first entry.

    A lookup begins to walk there: an index of a 64 MB file has 16,000 entries, of which it needs one or two. A restart that
    cannot be read counts as one that is too far behind: the walk then begins before it, and judges the bytes.
    """
    start = block
    low = 0
    high = (length - 4 - size) // 4
    while low < high:
        middle = (low + high) // 2
        offset = load_le_i4(block, size + 4 * middle)
        is_less = False
        if 0 <= offset < size:
            shared, more, key = _index_key(block + offset, block + size, delta)
            if shared == 0 and more >= suffix:
                is_less = compare_bytes(key, more - suffix, first, first_length) < 0
        if is_less:
            start = block + offset
            low = middle + 1
        else:
            high = middle
    return start


@subroutine
def _is_sought(
    key: int, key_bytes: int, suffix: int, sought: int, starts: int, ends: int, count: int, seek: int
) -> tuple[bool, int]:
    """Return whether the block that ends with an index key may hold sought keys from number `seek` on, and the first one behind it.

    With sequence numbers in the index the entries of one key may go on in the next block.
    """
    is_sought = False
    while seek < count:
        start = load_le_i8(starts, seek * _BOUNDS_BYTES)
        length = load_le_i8(ends, seek * _BOUNDS_BYTES) - start
        compared = compare_bytes(sought + start, length, key, key_bytes)
        is_sought |= compared <= 0
        if compared > 0 or (compared == 0 and suffix > 0):
            break
        seek += 1
    return is_sought, seek


@kernel
def _walk_index(
    block: int,
    length: int,
    delta: bool,
    suffix: int,
    bounds: int,
    first_length: int,
    behind_length: int,
    key: int,
    limit: int,
    handles: int,
    room: int,
    sought: int,
    sought_starts: int,
    sought_ends: int,
    sought_count: int,
) -> int:
    """Find the handles of the blocks that may hold keys of a range, or some keys of it; store up to `room` of them.

    Args:
        block, length: the plain index block.
        delta: whether the handles are delta encoded.
        suffix: the number of bytes behind the user's key.
        bounds: the first key, and at `bounds + first_length + 64` the key behind the last; each with slack.
        first_length: the length of the first key.
        behind_length: the length of the key behind the last; -1 for no end.
        key: memory for keys, `length` bytes.
        limit: the size of the file: no block ends behind it.
        handles, room: memory for handles, int64 (room, 2).
        sought, sought_starts, sought_ends: the keys that are sought, ascending; see `Keys`.
        sought_count: their number; -1 for all keys of the range.

    Returns:
        The number of handles, or `MALFORMED`.
    """
    size = entries_length(block, length)
    if size < 0:
        return MALFORMED
    behind = bounds + first_length + 64
    position = _restart_before(block, length, size, delta, suffix, bounds, first_length)
    end = block + size
    found = 0
    known = 0
    offset = 0
    bytes_ = -TRAILER_BYTES
    seek = 0
    while position < end:
        shared, more, position = _index_key(position, end, delta)
        if shared < 0 or shared > known or shared + more < suffix:
            return MALFORMED
        copy_words(key + shared, position, more)
        known = shared + more
        position += more
        if delta and shared > 0:
            change, position = varint(position, end)
            if change < 0:
                return MALFORMED
            offset += bytes_ + TRAILER_BYTES
            bytes_ += shift_right(change, 1) ^ -(change & 1)
        else:
            offset, position = varint(position, end)
            bytes_, position = varint(position, end)
        if offset < 0 or bytes_ < 0 or offset > limit or bytes_ > limit - offset - TRAILER_BYTES:
            return MALFORMED
        # All keys of this block are less than the first wanted one.
        if compare_bytes(key, known - suffix, bounds, first_length) < 0:
            continue
        is_sought = True
        if sought_count >= 0:
            is_sought, seek = _is_sought(
                key, known - suffix, suffix, sought, sought_starts, sought_ends, sought_count, seek
            )
        if is_sought:
            if found < room:
                store_8(handles, found * _HANDLE_BYTES, offset)
                store_8(handles, found * _HANDLE_BYTES + 8, bytes_)
            found += 1
        if behind_length >= 0 and compare_bytes(key, known - suffix, behind, behind_length) >= 0:
            break
    return found


def index_handles(
    block: NDArray[np.uint8],
    length: int,
    first: bytes,
    behind: bytes | None,
    *,
    limit: int,
    delta: bool,
    user_keys: bool,
    keys: Keys | None = None,
) -> NDArray[np.int64] | None:
    """Find the blocks that may hold keys from `first` to `behind` (excluded).

    Args:
        block: a plain index block of `length` bytes, with slack behind it.
        length: its length.
        first: the least wanted key.
        behind: the key behind the last wanted one; None for no end.
        limit: the size of the file: no block ends behind it.
        delta: whether handles are delta encoded.
        user_keys: whether the keys lack sequence numbers.
        keys: leaves out blocks that hold none of these; None for all.

    Returns:
        Offset and size of the blocks, int64 (blocks, 2); None if the index block is malformed.
    """
    bounds = np.frombuffer(first + bytes(64) + (behind or b"") + bytes(64), dtype=np.uint8)
    behind_length = -1 if behind is None else len(behind)
    suffix = 0 if user_keys else SEQUENCE_BYTES
    key = np.empty(length + 64, dtype=np.uint8)
    handles: NDArray[np.int64] = np.empty((_HANDLES_OF_A_LOOKUP, 2), dtype=np.int64)
    while True:
        found = _walk_index(
            block.ctypes.data,
            length,
            delta,
            suffix,
            bounds.ctypes.data,
            len(first),
            behind_length,
            key.ctypes.data,
            limit,
            handles.ctypes.data,
            len(handles),
            *(_ALL_KEYS if keys is None else keys.addresses),
        )
        if found < 0:
            return None
        if found <= len(handles):
            return handles[:found]
        handles = np.empty((found, 2), dtype=np.int64)


def block_pairs(block: bytes) -> Iterator[tuple[bytes, bytes]] | None:
    """Return the keys and values of a small plain block, such as that of the properties; None if it is malformed."""
    memory = np.frombuffer(block + bytes(64), dtype=np.uint8)
    start = memory.ctypes.data
    size = entries_length(start, len(block))
    if size < 0:
        return None
    pairs = []
    position = start
    key = b""
    while position < start + size:
        shared, more, length, position = entry_header(position, start + size)
        if shared < 0 or shared > len(key):
            return None
        at = position - start
        key = key[:shared] + block[at : at + more]
        pairs.append((key, block[at + more : at + more + length]))
        position += more + length
    return iter(pairs)
