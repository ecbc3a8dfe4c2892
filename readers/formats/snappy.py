"""Snapshot compression: the snappy framing format, as `SnappyStreamCompressionDecorator` writes it.

| bytes | meaning |
|---|---|
| u1 type, u3 little-endian length L, L bytes | a chunk |
| type FF | stream identifier; repeated where a new stream begins |
| type 00 | u4 masked CRC32C, a raw snappy block |
| type 01 | u4 masked CRC32C, plain bytes |
| type 80…FD, FE | skippable, padding |
| type 02…7F | an error: such chunks must not be skipped |

There is no end mark: the stream ends with its region. Blocks hold at most 64 KiB (`SnappyFramedOutputStream`). The checksums are
not verified.
"""

from __future__ import annotations

from collections.abc import Iterator

import cramjam
import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor

HEAD_BYTES = 4
_COMPRESSED, _PLAIN, _FIRST_SKIPPABLE, _IDENTIFIER = 0x00, 0x01, 0x80, 0xFF
_CHECKSUM_BYTES = 4  # before the block; the length of the chunk includes it
_MAX_BLOCK_BYTES = 1 << 16


def decompress(cursor: Cursor) -> NDArray[np.uint8]:
    """Return the plain bytes of all chunks from the cursor to its end.

    Raises:
        CorruptDataError: not the framing format, or a block larger than 64 KiB.
    """
    return np.frombuffer(b"".join(chunks(cursor)), dtype=np.uint8)


def chunks(cursor: Cursor) -> Iterator[bytes]:
    """Yield the plain bytes chunk by chunk; the cursor is behind the chunk that was yielded last.

    Raises:
        CorruptDataError: see `decompress`.
    """
    while cursor.remaining:
        plain = read_chunk(cursor)
        if plain:
            yield plain


def chunk_bytes(beginning: memoryview) -> int:
    """Return the size of a chunk, its head included, from the first `HEAD_BYTES` bytes of it."""
    return HEAD_BYTES + int.from_bytes(beginning[1:HEAD_BYTES], "little")


def read_chunk(cursor: Cursor) -> bytes:
    """Return the plain bytes of the next chunk; empty if it holds no data.

    Raises:
        CorruptDataError: see `decompress`.
    """
    start = cursor.position
    kind = cursor.u1()
    length = int.from_bytes(cursor.read(HEAD_BYTES - 1), "little")
    body = cursor.read(length, "snappy chunk")
    if kind in (_COMPRESSED, _PLAIN) and length < _CHECKSUM_BYTES:
        raise cursor.corrupt(f"expected a snappy chunk with a checksum, found {length} bytes", start)
    if kind == _PLAIN:
        return bytes(body[_CHECKSUM_BYTES:])
    if kind == _COMPRESSED:
        return _block(cursor, bytes(body[_CHECKSUM_BYTES:]), start)
    if kind < _FIRST_SKIPPABLE:
        raise cursor.corrupt(f"expected a snappy chunk, found one of type {kind:#04x}", start)
    return b""


def _block(cursor: Cursor, block: bytes, start: int) -> bytes:
    try:
        # Before decompressing: the claimed length is what the library allocates, and hostile bytes may claim gigabytes.
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _MAX_BLOCK_BYTES:
            raise cursor.corrupt(
                f"expected a snappy block of at most {_MAX_BLOCK_BYTES} bytes, found {size}", start
            )
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise cursor.corrupt(f"expected a snappy block: {error}", start) from error
