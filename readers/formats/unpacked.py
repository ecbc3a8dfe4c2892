"""A key group that was written with compression, as if it had been written without.

What lays out a key group wants all of its bytes side by side, and gives them back as it goes. So those of a large one are unpacked,
a chunk at a time, into a file that has no name, and mapped: memory is what is being looked at, and as much as the largest
entry takes. A small one stays in memory. Snappy makes at most about 20 bytes of one, so no key group fills a disk that had
room for 20 of it. `TMPDIR` says where such files are: a folder that is memory itself saves none.
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
from readers.filesystems import BufferStream, ReadCounter
from readers.formats.snappy import chunks

IN_MEMORY_BYTES = 4 << 20
_STRETCH_BYTES = 1 << 20
Release = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """Plain bytes.

    Attributes:
        data: all of them.
        path: the file they were packed in, and where; for errors.
        release: told of bytes that are done with, from … to; arrays of them stay valid.
    """

    data: NDArray[np.uint8]
    path: str
    release: Release


def unpack(cursor: Cursor, release: Release) -> Unpacked:
    """The plain bytes of all that a cursor has left.

    Args:
        cursor: at the beginning of what is packed.
        release: told of packed bytes that are done with.

    Raises:
        CorruptDataError: as `snappy.chunks`.
        StorageError: there is no room for a large key group among the temporary files.
    """
    path = f"{cursor.path}, unpacked from byte {cursor.position}"
    plain, waiting = chunks(cursor), bytearray()
    for chunk in plain:
        waiting += chunk
        if len(waiting) > IN_MEMORY_BYTES:
            try:
                return _in_a_file(waiting, plain, cursor, path, release)
            except OSError as error:
                message = f"expected room for a key group among the temporary files: {error.strerror}"
                raise StorageError(message, path=path) from error
    return Unpacked(
        data=np.frombuffer(bytes(waiting), dtype=np.uint8), path=path, release=lambda _start, _end: None
    )


def _in_a_file(
    waiting: bytearray, plain: Iterator[bytes], cursor: Cursor, path: str, release: Release
) -> Unpacked:
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
    return Unpacked(data=data, path=path, release=lambda start, end: stream.release(start, end - start))
