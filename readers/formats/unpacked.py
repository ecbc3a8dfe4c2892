"""A key group that was written with compression, as if it had been written without.

What lays out a key group wants all of its bytes side by side, and gives them back as it goes. So those of a large one are unpacked,
a chunk at a time, into a file that has no name, and mapped: memory is what is being looked at, and as much as the largest
entry takes. A small one stays in memory. Snappy makes at most about 20 bytes of one, so no key group fills a disk that had
room for 20 of it. `TMPDIR` says where such files are: a folder that is memory itself saves none.

Who will stop somewhere on the way has `UnpackedWindows`: some chunks at a time, which are forgotten behind it. Of these only an
entry that is large takes such a file.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.errors import StorageError
from readers.formats.snappy import HEAD_BYTES, chunk_bytes, chunks, read_chunk
from readers.storage.filesystems import BufferStream, ReadCounter, Windows

IN_MEMORY_BYTES = 4 << 20
_STRETCH_BYTES = 1 << 20
_STEP_BYTES = 1 << 18
_UNKNOWN_END = 1 << 62
Release = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainBytes:
    """Plain bytes.

    Attributes:
        data: all of them.
        path: the file they were packed in, and where; for errors.
        release: told of bytes that are done with, from … to; arrays of them stay valid.
    """

    data: NDArray[np.uint8]
    path: str
    release: Release


def unpack(cursor: Cursor, release: Release) -> PlainBytes:
    """The plain bytes of all that a cursor has left.

    Args:
        cursor: at the beginning of what is packed.
        release: told of packed bytes that are done with.

    Raises:
        CorruptDataError: as `snappy.chunks`.
        StorageError: there is no room for a large key group among the temporary files.
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
    """The plain bytes of what is packed in pieces; positions count from the first plain byte.

    Args:
        packed: from the beginning of what is packed to its end.
    """

    def __init__(self, packed: Windows) -> None:
        cursor = Cursor(packed.data, path=packed.path, position=packed.start, end=packed.end)
        super().__init__(_path(cursor), np.empty(0, dtype=np.uint8), 0, _UNKNOWN_END)
        self._packed = packed
        self._cursor = cursor
        self._whole: PlainBytes | None = None

    def ask(self, position: int, needed: int) -> None:
        if self._whole is None and needed > self._there:
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
        """Have what stands from `position` to `behind`, as far as there is so much; forget what stands before it."""
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
        """Where an entry is so large that memory does not do."""
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
    """What is named in errors of what a cursor is about to unpack."""
    return f"{cursor.path}, unpacked from byte {cursor.position}"


def _in_a_file(
    waiting: bytearray, plain: Iterator[bytes], cursor: Cursor, path: str, release: Release
) -> PlainBytes:
    with tempfile.TemporaryFile(prefix="savepointdb-") as file:
        file.write(waiting)
        waiting.clear()
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
