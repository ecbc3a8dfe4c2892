"""The source of a keyed snapshot."""

from __future__ import annotations

from readers.errors import UnsupportedStateError
from readers.formats.full.source import FullSource
from readers.formats.heap import layout as heap
from readers.formats.heap.source import HeapSource
from readers.formats.rocksdb.source import RocksSource
from readers.formats.source import Source
from readers.metadata import IncrementalRemoteKeyedStateHandle, KeyedStateHandle, KeyGroupsStateHandle
from readers.storage.location import SavepointLocation


def snapshot_source(
    subtask: int, handle: KeyedStateHandle, storage: SavepointLocation, max_parallelism: int
) -> Source:
    """The source of a keyed state handle that is no changelog: of what a changelog is based on, too.

    Raises:
        UnsupportedStateError: no format here serves it; the message names the handle.
    """
    if isinstance(handle, IncrementalRemoteKeyedStateHandle):
        return RocksSource(subtask, handle, storage, max_parallelism)
    if isinstance(handle, KeyGroupsStateHandle):
        stream = storage.open_stream(handle.delegate)
        first = handle.key_group_range.start
        if not handle.savepoint and heap.is_heap_layout(stream, handle.offsets, first):
            return HeapSource(subtask, handle, stream, max_parallelism)
        return FullSource(subtask, handle, stream, max_parallelism)
    raise UnsupportedStateError(
        f"expected heap, full or RocksDB snapshots or a changelog, found {type(handle).__name__}"
    )
