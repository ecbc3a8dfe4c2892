"""What stands before the entries of a stream: which states it has, and where its key groups are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.errors import CorruptDataError, ReaderError, UnsupportedSerializerError, UnsupportedVersionError
from readers.formats.entry import Entry, StateKind, keyed_entry
from readers.formats.regions import regions
from readers.formats.source import StateName
from readers.headers.keyed import KeyedHeader
from readers.metadata import KeyGroupsStateHandle, StreamStateHandle
from readers.storage.location import Ranges, Stream

_Header = TypeVar("_Header")

LARGE_HEADER_BYTES = 1 << 20
_SMALL_HEADER_BYTES = 1 << 16
_SMALL_HEADERS = 32
# A smaller stream is fetched as a whole: a query reads its entries as likely as its header.
_SMALL_STREAM_BYTES = 1 << 16
_NUMBER_BYTES = 4


def read_header(
    stream: Stream,
    end: int | None,
    read_known: Callable[[Cursor], _Header],
    read: Callable[[Cursor, int | None], _Header],
) -> _Header:
    """What stands before `end`; of a remote file no more than that is fetched.

    After a rescaling `end` may be far behind the header: then a beginning of it is tried first.
    """
    size = stream.size_bytes if end is None else max(0, min(end, stream.size_bytes))
    if stream.is_remote and size > LARGE_HEADER_BYTES:
        try:
            return read_known(Cursor(stream.span(0, LARGE_HEADER_BYTES), path=stream.path))
        except (CorruptDataError, UnsupportedSerializerError, UnsupportedVersionError):
            pass
    return header_of(stream.span(0, size)[:size], stream.path, end, read)


def header_of(
    data: NDArray[np.uint8], path: str, end: int | None, read: Callable[[Cursor, int | None], _Header]
) -> _Header:
    """What `read` makes of these bytes. The subtasks of an operator write the same: small ones are read once for all of them."""
    if len(data) > _SMALL_HEADER_BYTES:
        return read(Cursor(data, path=path), end)
    try:
        header: _Header = _header_of_bytes(data.tobytes(), end, read)
    except ReaderError as error:
        raise error.within(path=path) from error
    return header


@lru_cache(maxsize=_SMALL_HEADERS)
def _header_of_bytes(content: bytes, end: int | None, read: Callable[[Cursor, int | None], Any]) -> Any:
    return read(Cursor(content), end)


def keyed_entries(header: KeyedHeader) -> Iterator[tuple[StateName, Entry]]:
    """The states of a header in the order of their ids."""
    for state in header.states:
        entry = keyed_entry(state, header.key_serializer)
        yield StateName(name=state.name, timers=entry.kind is StateKind.TIMER), entry


def first_offset(offsets: NDArray[np.int64]) -> int | None:
    """Where the first key group begins that is not empty; None if all are."""
    used = offsets[offsets > 0]
    return int(used.min()) if len(used) else None


def is_small(stream: StreamStateHandle) -> bool:
    """Return whether a stream is fetched as a whole."""
    return stream.size_bytes <= _SMALL_STREAM_BYTES


def small_or_header(stream: StreamStateHandle, end: int | None, numbers: Iterable[int] = ()) -> Ranges:
    """Return the ranges of a stream that are read when it is opened: all of a small one.

    Args:
        stream: a stream that begins with a header.
        end: the end of the header; None where the whole stream is the header.
        numbers: offsets of four bytes that are read as well.
    """
    size = stream.size_bytes
    if is_small(stream) or end is None:
        return ((0, min(size, LARGE_HEADER_BYTES)),)
    header = min(max(end, 0), size, LARGE_HEADER_BYTES)
    inside = [number for number in numbers if header <= number <= size - _NUMBER_BYTES]
    if header in inside:
        header += _NUMBER_BYTES
    return ((0, header), *((number, number + _NUMBER_BYTES) for number in inside if number >= header))


def regions_of(
    handle: KeyGroupsStateHandle, stream: Stream, *, absent: int | None
) -> Iterator[tuple[int, int, int]]:
    """(key group, start, end) of the key groups in a handle's stream; see `formats.regions`."""
    return regions(
        handle.offsets, handle.key_group_range.start, stream.size_bytes, stream.path, absent=absent
    )
