"""`file_identity`: the physical bytes behind a handle, so that two savepoints that share a file are known to share it.

Incremental checkpoints share files of state, and a savepoint that was copied with hard links shares all. Handles whose identities are
equal have the same bytes; the identities of equal copies differ.
"""

from __future__ import annotations

import os
from collections.abc import Hashable

from readers.metadata.streams import StreamStateHandle
from readers.storage.filesystems import storage_errors
from readers.storage.location import SavepointLocation


def file_identity(location: SavepointLocation, handle: StreamStateHandle) -> Hashable:
    """Return what identifies the bytes of a handle: bytes in `_metadata` are themselves; others have a file and a range of it.

    A local file is its inode, its size and its time, so links to it are the same file. A remote one is its bucket, its name, its size
    and its version: of the ETag and the time.

    Raises:
        ReaderError: the file is missing; see `SavepointLocation.open_stream`.
    """
    if handle.inline_data is not None:
        return handle.inline_data
    file = location.resolve(handle)
    if not file.is_local:
        return (location.url_of(file.location), file.identity, file.start, file.size_bytes)
    with storage_errors(file.path):
        status = os.stat(file.location.path)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, file.start, file.size_bytes)
