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

The formats read a key group as one buffer, and release its bytes as they go. A large key group is therefore decompressed chunk by
chunk into a temporary file without a name, which is mapped: then only the pages in use, and the largest entry, take memory. A
small key group stays in memory. Snappy expands a byte to about 20 bytes at most, which bounds the size of the file. `TMPDIR`
names the folder of such files; a folder in memory (tmpfs) saves no memory.

A lookup, which stops early, uses `UnpackedWindows`: it decompresses some chunks at a time and drops those behind it. Only a large
entry needs a file then.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import cramjam
import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.errors import StorageError
from readers.storage.filesystems import BufferStream, ReadCounter, Windows

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


IN_MEMORY_BYTES = 4 << 20  # plain bytes; more of them go into a file
_STRETCH_BYTES = 1 << 20  # packed bytes that are released at once
_STEP_BYTES = 1 << 18  # plain bytes that a lookup decompresses at once
_UNKNOWN_END = 1 << 62  # the length of the plain bytes stands nowhere; it is known at the last chunk
Release = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainBytes:
    """The plain bytes of a key group.

    Attributes:
        data: the bytes.
        path: for errors: the compressed file, and the position in it where the key group begins.
        release: called with the start and end of bytes that are no longer needed; arrays of them stay valid.
    """

    data: NDArray[np.uint8]
    path: str
    release: Release


def unpack(cursor: Cursor, release: Release) -> PlainBytes:
    """Decompress all chunks from the cursor to its end.

    Args:
        cursor: at the first chunk.
        release: called with the start and end of compressed bytes that are no longer needed.

    Raises:
        CorruptDataError: see `snappy.chunks`.
        StorageError: a large key group does not fit into the folder of temporary files.
    """
    path = _path(cursor)
    plain, waiting = chunks(cursor), bytearray()
    for chunk in plain:
        waiting += chunk
        if len(waiting) > IN_MEMORY_BYTES:
            try:
                return _in_a_file(waiting, plain, cursor, path, release)
            except OSError as error:
                message = f"expected room for a key group among the temporary files: {error.strerror}"
                raise StorageError(message, path=path) from error
    return PlainBytes(
        data=np.frombuffer(bytes(waiting), dtype=np.uint8), path=path, release=lambda _start, _end: None
    )


class UnpackedWindows(Windows):
    """The plain bytes of compressed bytes that arrive window by window; positions count from the first plain byte.

    Args:
        packed: the compressed bytes, from the first chunk to the end of the last one.
    """

    is_plain = False

    def __init__(self, packed: Windows) -> None:
        cursor = Cursor(packed.data, path=packed.path, position=packed.start, end=packed.end)
        super().__init__(_path(cursor), np.empty(0, dtype=np.uint8), 0, _UNKNOWN_END)
        self._packed = packed
        self._cursor = cursor
        self._whole: PlainBytes | None = None

    def ask(self, position: int, needed: int) -> None:
        if self._whole is None and needed > self._there:
            # How long the next chunk is stands in its head: no more than that can be requested before it is there.
            at = self._cursor.position
            self._packed.ask(at, min(at + HEAD_BYTES, self._packed.end))

    def reach(self, position: int, needed: int) -> int:
        if self._whole is None and needed - max(position, self.base) > IN_MEMORY_BYTES:
            self._take_whole()
        if self._whole is not None:
            return super().reach(position, needed)
        if needed > self._there:
            self._unpack(position, max(needed, position + _STEP_BYTES))
        return self._there

    def _unpack(self, position: int, behind: int) -> None:
        """Decompress up to `behind`, or the last chunk, and drop the bytes before `position`."""
        begin = min(max(position, self.base), self._there)
        found = [self.data[begin - self.base :].tobytes()]
        there = self._there
        while there < behind and self._cursor.remaining:
            chunk = self._next_chunk()
            there += len(chunk)
            if there > position:
                found.append(chunk)
            else:
                begin = there
        if not self._cursor.remaining:
            self.end = there
        self.base, self.data = begin, np.frombuffer(b"".join(found), dtype=np.uint8)

    def _next_chunk(self) -> bytes:
        cursor = self._cursor
        at, end = cursor.position, cursor.end
        self._packed.reach(at, min(at + HEAD_BYTES, end))
        self._packed.reach(at, min(at + chunk_bytes(cursor.data[at : at + HEAD_BYTES]), end))
        return read_chunk(cursor)

    def _take_whole(self) -> None:
        """Decompress all chunks, for an entry that is too large for memory."""
        first, end = self._packed.start, self._packed.end
        self._packed.reach(first, end)
        cursor = Cursor(self._packed.data, path=self._cursor.path, position=first, end=end)
        self._cursor, self._whole = cursor, unpack(cursor, self._packed.release)
        self.data, self.base, self.end = self._whole.data, 0, len(self._whole.data)

    @property
    def _there(self) -> int:
        return self.base + len(self.data)

    def taken_bytes(self, begun: int, position: int) -> int:
        return self._packed.taken_bytes(self._packed.start, self._cursor.position)

    def close(self, position: int) -> None:
        super().close(position)
        self._packed.close(self._cursor.position)

    def release(self, start: int, end: int) -> None:
        if self._whole is not None:
            self._whole.release(start, end)


def _path(cursor: Cursor) -> str:
    """Return the path for errors in the plain bytes of what a cursor decompresses."""
    return f"{cursor.path}, unpacked from byte {cursor.position}"


def _in_a_file(
    waiting: bytearray, plain: Iterator[bytes], cursor: Cursor, path: str, release: Release
) -> PlainBytes:
    with tempfile.TemporaryFile(prefix="savepointdb-") as file:
        file.write(waiting)
        waiting.clear()
        # The map and the arrays of it outlive the closed file: the bytes go with the last of them.
        done = cursor.position
        for chunk in plain:
            file.write(chunk)
            if cursor.position - done > _STRETCH_BYTES:
                release(done, cursor.position)
                done = cursor.position
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    data = np.frombuffer(mapped, dtype=np.uint8)
    stream = BufferStream(path, data, ReadCounter(), (mapped, 0))
    return PlainBytes(data=data, path=path, release=lambda start, end: stream.release(start, end - start))
