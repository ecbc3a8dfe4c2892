"""Streams that begin with a header: the header with its states, and the key groups behind it.

Full and heap snapshots keep keyed state in one stream, and `KeyGroupsStream` is what they share; operator state and raw timers
share parts of it. The offsets of a `KeyGroupsStateHandle` are positions in the stream:

| layout | offset of a key group that is absent |
|---|---|
| full | 0 |
| heap | none is absent |
| raw keyed state | -1 |

A key group ends where the next one in the stream begins.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import Page
from readers.errors import (
    CorruptDataError,
    ReaderError,
    UnsupportedSerializerError,
    UnsupportedVersionError,
    located,
)
from readers.formats.entry import Entry, StateKind, keyed_entry
from readers.formats.snappy import Release, unpack
from readers.formats.source import HandleSource, Selection, Source, StateName, StateSize
from readers.headers import KeyedHeader, StoredHeader, read_keyed_header, read_known_keyed_header
from readers.metadata import KeyGroupsStateHandle, StreamStateHandle
from readers.serializers.base import Serializer
from readers.storage.filesystems import Stream
from readers.storage.location import Ranges, file_identity

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
    """Yield (key group, start, end) of the key groups in a handle's stream, in the order of their positions.

    Args:
        handle: the handle.
        stream: its stream.
        absent: the offset of absent key groups; None if none is absent.

    Raises:
        CorruptDataError: an offset lies outside the stream.
    """
    offsets, size = handle.offsets, stream.size_bytes
    present = np.arange(len(offsets)) if absent is None else np.flatnonzero(offsets != absent)
    positions = offsets[present]
    outside = positions[(positions < 0) | (positions > size)]
    if len(outside):
        message = f"expected a key group within {size} bytes, found one at {outside[0]}"
        raise CorruptDataError(message, path=stream.path)
    # Flink writes key groups in ascending order, but nothing records where one ends: the next position is trusted, not the next
    # offset, so that offsets out of order cannot make regions overlap.
    order = np.argsort(positions, kind="stable")
    bounds = np.append(positions[order], size)
    first = handle.key_group_range.start
    for index, number in enumerate(order):
        yield first + int(present[number]), int(bounds[index]), int(bounds[index + 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroupBody:
    """The states of one key group, decompressed.

    Attributes:
        key_group: the key group.
        data: a buffer with the states.
        first, last: the range of the states in `data`.
        path: the file, or the plain bytes of a key group in it: positions in errors count from its start.
        release: called with ranges of `data` that are not read again; not of use where the buffer is no mapped file.
    """

    key_group: int
    data: NDArray[np.uint8]
    first: int
    last: int
    path: str
    release: Release = lambda _start, _end: None


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyedStreamSource(HandleSource):
    """Keyed state in one stream: a header, then key groups at the offsets of the handle.

    Attributes:
        stream: the stream of the handle.
        header: the KeyedBackendSerializationProxy at its start.
        max_parallelism: number of key groups of the operator.
        absent: the offset of a key group that is absent; None if none is.
    """

    absent: ClassVar[int | None]

    handle: KeyGroupsStateHandle
    stream: Stream
    header: KeyedHeader
    max_parallelism: int

    @classmethod
    def open(cls, subtask: int, handle: KeyGroupsStateHandle, stream: Stream, max_parallelism: int) -> Self:
        """Read the header at the start of a stream; the first key group ends it.

        Raises:
            ReaderError: the stream is cut off or contradicts its format.
        """
        end = first_offset(handle.offsets)
        header = read_header(stream, end, read_known_keyed_header, read_keyed_header)
        return cls(
            subtask=subtask,
            path=stream.path,
            size_bytes=handle.size_bytes,
            entries=dict(keyed_entries(header)),
            handle=handle,
            stream=stream,
            header=header,
            max_parallelism=max_parallelism,
        )

    def stored_header(self) -> StoredHeader:
        return StoredHeader(data=self.stream.read(0, self.header.end), header=self.header)

    @property
    def key_serializer(self) -> Serializer:
        return self.header.key_serializer

    @property
    def is_near(self) -> bool:
        return not self.stream.is_remote or is_small(self.handle.delegate)

    @cached_property
    def _names(self) -> tuple[StateName, ...]:
        """Names of the states in the order of their ids."""
        # Not the keys of `entries`: a name that is registered twice has two ids.
        return tuple(name for name, _ in keyed_entries(self.header))

    def has_bytes_of(self, other: Source) -> bool:
        if type(other) is not type(self) or self.location is None or other.location is None:
            return False
        # Where key groups begin is recorded beside the file.
        if self.key_group_range != other.key_group_range or not np.array_equal(
            self.handle.offsets, other.handle.offsets
        ):
            return False
        return file_identity(self.location, self.handle.delegate) == file_identity(
            other.location, other.handle.delegate
        )

    def own_size(self, state: StateName, share: float) -> StateSize:
        if not self.is_near:
            return super().own_size(state, share)
        if share not in self._sizes:
            try:
                self._sizes[share] = self._walked_sizes(share)
            except ReaderError:
                # Whoever reads the entries gets the error.
                self._sizes[share] = {}
        return self._sizes[share].get(state, StateSize(None))

    @cached_property
    def _sizes(self) -> dict[float, dict[StateName, StateSize]]:
        """The sizes of all states, by the share of the stream that was walked."""
        return {}

    def _walked_sizes(self, share: float) -> dict[StateName, StateSize]:
        """Return the bytes of each state in some key groups, at regular distances, extended to all key groups."""
        regions = self._known_regions
        step = max(1, round(1 / share))
        walked = regions[step // 2 :: step] or regions[:1]
        found: dict[StateName, int | None] = dict.fromkeys(self.entries, 0)
        selection = Selection(key_groups=frozenset(region[0] for region in walked))
        with located(path=self.path, what=lambda: "key groups"):
            for tally in self.tallies(list(self.entries), selection):
                known = found[tally.state]
                found[tally.state] = (
                    None if known is None or tally.size_bytes is None else known + tally.size_bytes
                )
        if len(walked) == len(regions) and not self.header.compressed:
            return {name: StateSize(size) for name, size in found.items()}
        if None in found.values():
            return {}
        whole = sum(end - start for _, start, end in regions)
        total = sum(size for size in found.values() if size)
        return {
            name: StateSize(round(whole * size / total) if total and size else 0, is_estimate=True)
            for name, size in found.items()
        }

    def key_group_bytes(self, state: StateName) -> list[tuple[int, int]]:
        return self._known_sizes

    @cached_property
    def _known_sizes(self) -> list[tuple[int, int]]:
        return [(key_group, end - start) for key_group, start, end in self._known_regions]

    @cached_property
    def _known_regions(self) -> tuple[tuple[int, int, int], ...]:
        """The regions of all key groups: a stream does not change, and to find one key asks for them three times."""
        return tuple(regions_of(self.handle, self.stream, absent=self.absent))

    def _bodies(self, selection: Selection, state: StateName | None = None) -> Iterator[KeyGroupBody]:
        """Yield the selected key groups, at least with the bytes of a state where it is known which they are; else with all."""
        for (key_group, start, end), span in self._wanted(selection, state):
            selection.account(end - start)
            yield self._body(span, key_group, start, end)
            # The memory of a mapped file is returned key group by key group, or a scan would keep all of it.
            self._release(start, end)

    def _body(self, span: NDArray[np.uint8], key_group: int, start: int, end: int) -> KeyGroupBody:
        """Return a key group, decompressed if the header says that key groups are compressed."""
        cursor = self._beginning(span, key_group, start, end)
        release: Release = self._release
        data, first, path = span, cursor.position, self.path
        if self.header.compressed:
            # Positions count from the first plain byte then, and errors have a path that says so.
            plain = unpack(cursor, self._release)
            data, first, end, path, release = plain.data, 0, len(plain.data), plain.path, plain.release
        return KeyGroupBody(key_group=key_group, data=data, first=first, last=end, path=path, release=release)

    @abstractmethod
    def _beginning(self, span: NDArray[np.uint8], key_group: int, start: int, end: int) -> Cursor:
        """Return a cursor at the states of a key group, behind the part that is never compressed."""

    def _release(self, start: int, end: int) -> None:
        """Give back the memory of a range of the stream."""
        self.stream.release(start, end - start)

    def _wanted(
        self, selection: Selection, state: StateName | None
    ) -> Iterator[tuple[tuple[int, int, int], NDArray[np.uint8]]]:
        """Yield the regions of the selected key groups, each with an array that holds its bytes, or those of a state."""
        wanted = self._chosen(selection)
        return zip(wanted, self.stream.spans([self._part(region, state) for region in wanted]), strict=True)

    def _part(self, region: tuple[int, int, int], state: StateName | None) -> tuple[int, int]:
        """Return the part of a key group that has the entries of a state, of all states for None."""
        return region[1:]

    def _chosen(self, selection: Selection) -> list[tuple[int, int, int]]:
        """Return the regions of the selected key groups, by position."""
        groups = selection.key_groups
        if groups is None or len(groups) > 1:
            return [region for region in self.regions.values() if selection.wants(region[0])]
        return [self.regions[group] for group in groups if group in self.regions]

    @cached_property
    def regions(self) -> dict[int, tuple[int, int, int]]:
        """The region of each key group, by position."""
        return {region[0]: region for region in self._known_regions}

    def _id_of(self, state: StateName) -> int:
        return self._names.index(state)

    def _page(
        self,
        body: KeyGroupBody,
        bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
        data: NDArray[np.uint8] | None = None,
    ) -> Page:
        return Page.of(body.data if data is None else data, bounds, body.key_group, self.subtask, body.path)
