"""What is read of the files of a savepoint as soon as it is opened, so that it can be fetched at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from readers.formats.beginning import LARGE_HEADER_BYTES, first_offset
from readers.formats.heap import layout as heap
from readers.formats.rocksdb.database import manifest_files, options_files
from readers.metadata import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupsStateHandle,
    OperatorStreamStateHandle,
    StateObject,
    StreamStateHandle,
)
from readers.storage.location import Ranges

# A smaller file is fetched as a whole: its data are as likely to be asked for as its header.
_SMALL_BYTES = 1 << 16
_NUMBER_BYTES = 4


def beginnings(
    handle: StateObject, *, first: bool, few: bool = False
) -> Iterator[tuple[StreamStateHandle, Ranges]]:
    """The streams of a handle that are read as soon as its source is opened, and which places of them.

    Args:
        handle: one of a subtask.
        first: whether the subtask is asked for what is the same for all: which backend wrote it.
        few: whether there are few subtasks, so that what leads to the data may come along; a lookup waits twice less then.
    """
    if isinstance(handle, KeyGroupsStateHandle):
        numbers = []
        if not handle.savepoint:
            numbers = heap.asked_offsets(handle.offsets, handle.key_group_range.start)
        yield handle.delegate, _places(handle.delegate, first_offset(handle.offsets), numbers)
    elif isinstance(handle, OperatorStreamStateHandle):
        offsets = [int(offset) for state in handle.state_meta_infos for offset in state.offsets]
        for stream in handle.streams():
            yield stream, _places(stream, min(offsets, default=None))
    elif isinstance(handle, IncrementalRemoteKeyedStateHandle):
        yield handle.meta_state_handle, _places(handle.meta_state_handle, None)
        if first:
            yield from ((stream, _places(stream, None)) for stream in options_files(handle))
        if few:
            small = (stream for stream in manifest_files(handle) if stream.size_bytes <= _SMALL_BYTES)
            yield from ((stream, _places(stream, None)) for stream in small)
    elif isinstance(handle, ChangelogStateBackendHandle):
        for base in handle.materialized:
            yield from beginnings(base, first=first, few=few)


def _places(stream: StreamStateHandle, end: int | None, numbers: Iterable[int] = ()) -> Ranges:
    """The header, which ends at `end`, and the four bytes at some numbers; all of a small stream."""
    size = stream.size_bytes
    if size <= _SMALL_BYTES or end is None:
        return ((0, min(size, LARGE_HEADER_BYTES)),)
    header = min(max(end, 0), size, LARGE_HEADER_BYTES)
    found = [number for number in numbers if header <= number <= size - _NUMBER_BYTES]
    if header in found:
        header += _NUMBER_BYTES
    return ((0, header), *((number, number + _NUMBER_BYTES) for number in found if number >= header))
