"""The compression of RocksDB's blocks: each call decompresses one block.

| type byte | compression | before the compressed bytes |
|---|---|---|
| 00 | none | |
| 01 | Snappy | (its own varint, the length of the plain bytes) |
| 02 | zlib, raw deflate | varint, the length of the plain bytes |
| 04 05 | LZ4, LZ4HC | as above |
| 07 | ZSTD | as above |

The lengths are there since `format_version` 2. Compiled code decompresses Snappy and LZ4: a block has four kilobytes in Flink, and a
call of a library from Python takes as long as decompressing it.

RocksDB: UncompressData; Snappy: format_description.txt; LZ4: lz4_Block_format.md.
"""

from __future__ import annotations

import cramjam
import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i2, load_le_i4, load_le_i8, load_u1, store_1, store_8
from readers.formats.rocksdb.sst.words import copy_words

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
