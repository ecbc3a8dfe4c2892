"""The shared part of the two layouts that keep keyed state in one stream: full/ and heap/."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.page import Page
from readers.errors import ReaderError
from readers.failures import located
from readers.formats.beginning import first_offset, is_small, keyed_entries, read_header
from readers.formats.source import HandleSource, Selection, Source, StateName, StateSize
from readers.formats.unpacked import Release, unpack
from readers.headers.keyed import KeyedHeader, StoredHeader, read_keyed_header, read_known_keyed_header
from readers.metadata import KeyGroupsStateHandle
from readers.serializers.base import Serializer
from readers.storage.location import Stream
from readers.storage.sameness import file_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroupBody:
    """The states of one key group, decompressed.

    Attributes:
        key_group: the key group.
        data: a buffer with the states.
        first, last: the range of the states in `data`.
        path: the file, or the plain bytes of a key group in it: positions in errors count from its start.
        release: called with ranges of `data` that are not read again.
    """

    key_group: int
    data: NDArray[np.uint8]
    first: int
    last: int
    path: str
    release: Release


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyedStreamSource(HandleSource):
    """Keyed state in one stream: a header, then key groups at the offsets of the handle.

    Attributes:
        stream: the stream of the handle.
        header: the KeyedBackendSerializationProxy at its start.
        max_parallelism: number of key groups of the operator.
    """

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
        return tuple(self._regions())

    @abstractmethod
    def _regions(self) -> Iterator[tuple[int, int, int]]:
        """Yield (key group, start, end) of the key groups in the stream."""

    def _bodies(self, selection: Selection) -> Iterator[KeyGroupBody]:
        """Yield the selected key groups."""
        for (key_group, start, end), span in self._wanted(selection):
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

    def _wanted(self, selection: Selection) -> Iterator[tuple[tuple[int, int, int], NDArray[np.uint8]]]:
        """Yield the regions of the selected key groups, each with an array that holds its bytes."""
        wanted = self._chosen(selection)
        return zip(wanted, self.stream.spans([region[1:] for region in wanted]), strict=True)

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
