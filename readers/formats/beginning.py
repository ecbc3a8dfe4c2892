"""The start of a stream: the header with its states, and the positions of its key groups.

Key groups in a stream: the meaning of the offsets of a `KeyGroupsStateHandle`.

| layout | offset of a key group that is absent |
|---|---|
| full | 0 |
| heap | none is absent |
| raw keyed state | -1 |

A key group ends where the next one in the stream begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.errors import CorruptDataError, ReaderError, UnsupportedSerializerError, UnsupportedVersionError
from readers.formats.entry import Entry, StateKind, keyed_entry
from readers.formats.source import StateName
from readers.headers.keyed import KeyedHeader
from readers.metadata import KeyGroupsStateHandle, StreamStateHandle
from readers.storage.location import Ranges, Stream


def regions(
    offsets: NDArray[np.int64], first_key_group: int, size: int, path: str, *, absent: int | None
) -> Iterator[tuple[int, int, int]]:
    """Yield (key group, start, end) of the key groups in a stream, in the order of their positions.

    Args:
        offsets: the offsets of the handle.
        first_key_group: the key group of the first offset.
        size: size of the stream in bytes.
        path: the path of the stream, for errors.
        absent: the offset of absent key groups; None if none is absent.

    Raises:
        CorruptDataError: an offset lies outside the stream.
    """
    present = np.arange(len(offsets)) if absent is None else np.flatnonzero(offsets != absent)
    positions = offsets[present]
    outside = positions[(positions < 0) | (positions > size)]
    if len(outside):
        message = f"expected a key group within {size} bytes, found one at {outside[0]}"
        raise CorruptDataError(message, path=path)
    # Flink writes key groups in ascending order, but nothing records where one ends: the next position is trusted, not the next
    # offset, so that offsets out of order cannot make regions overlap.
    order = np.argsort(positions, kind="stable")
    bounds = np.append(positions[order], size)
    for index, number in enumerate(order):
        yield first_key_group + int(present[number]), int(bounds[index]), int(bounds[index + 1])


_Header = TypeVar("_Header")

# A header has some kilobytes, seldom more than a hundred. More than this of a remote file is fetched only where it is needed.
_LARGE_HEADER_BYTES = 1 << 20
_SMALL_HEADER_BYTES = 1 << 16
_SMALL_HEADERS = 32
# A smaller stream is fetched as a whole: a query reads its entries as likely as its header.
_SMALL_STREAM_BYTES = 1 << 16
_NUMBER_BYTES = 4
# An end that is known helps behind serializers that are not.
_END_MARKS = (b"!", b"?")


def read_header(
    stream: Stream,
    end: int | None,
    read_known: Callable[[Cursor], _Header],
    read: Callable[[Cursor, int | None], _Header],
) -> _Header:
    """Read the header of a stream.

    Args:
        stream: the stream.
        end: the start of the first entries, where the header ends; None where the whole stream is the header.
        read_known: reads a header whose end is not known, if all serializers in it are.
        read: reads a header that ends at a position; that makes up for a serializer of unknown length.

    Raises:
        ReaderError: the header is cut off, or contradicts its format.
    """
    size = stream.size_bytes if end is None else max(0, min(end, stream.size_bytes))
    if stream.is_remote and size > _LARGE_HEADER_BYTES:
        # After a rescaling the first key group of the handle may stand far behind the header, at the end of a large file.
        try:
            return read_known(Cursor(stream.span(0, _LARGE_HEADER_BYTES), path=stream.path))
        except (CorruptDataError, UnsupportedSerializerError, UnsupportedVersionError):
            pass
    return header_of(stream.span(0, size)[:size], stream.path, end, read)


def header_of(
    data: NDArray[np.uint8], path: str, end: int | None, read: Callable[[Cursor, int | None], _Header]
) -> _Header:
    """Return what `read` returns for these bytes, with the path in its errors.

    All subtasks of an operator write the same header: a small one is read once for all of them.
    """
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


def header_outline(stream: Stream, end: int | None) -> bytes | None:
    """Return what decides on the header that `read_header` makes: all of its bytes. None where they are not all there, or many.

    Args:
        stream: the stream.
        end: the start of the first entries; None where the whole stream is the header.

    Raises:
        ReaderError: the stream cannot be read.
    """
    size = stream.size_bytes if end is None else end
    if not 0 <= size <= min(stream.size_bytes, _LARGE_HEADER_BYTES):
        return None
    return _END_MARKS[end is None] + stream.span(0, size)[:size].tobytes()


def keyed_entries(header: KeyedHeader) -> Iterator[tuple[StateName, Entry]]:
    """Yield the states of a header in the order of their ids."""
    for state in header.states:
        entry = keyed_entry(state, header.key_serializer)
        yield StateName(name=state.name, timers=entry.kind is StateKind.TIMER), entry


def first_offset(offsets: NDArray[np.int64]) -> int | None:
    """Return the position of the first key group that is not empty; None if all are empty."""
    # Empty ones have the offset 0 (full layout) or -1 (raw keyed state).
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
        return ((0, min(size, _LARGE_HEADER_BYTES)),)
    header = min(max(end, 0), size, _LARGE_HEADER_BYTES)
    inside = [number for number in numbers if header <= number <= size - _NUMBER_BYTES]
    if header in inside:
        # One request instead of two: the first key group begins with its number.
        header += _NUMBER_BYTES
    return ((0, header), *((number, number + _NUMBER_BYTES) for number in inside if number >= header))


def regions_of(
    handle: KeyGroupsStateHandle, stream: Stream, *, absent: int | None
) -> Iterator[tuple[int, int, int]]:
    """Yield (key group, start, end) of the key groups in a handle's stream; see `regions`."""
    return regions(
        handle.offsets, handle.key_group_range.start, stream.size_bytes, stream.path, absent=absent
    )
