"""Keyed state in one stream: the full layout, and the native one of the hashmap backend."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.page import Page
from readers.decode.program import Program
from readers.errors import ReaderError, UnsupportedSerializerError
from readers.formats.beginning import first_offset, keyed_entries, read_header, regions_of
from readers.formats.composite import layout as composite
from readers.formats.composite.source import CompositeSource
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.full import layout as full
from readers.formats.full.lookup import LookupTarget, Search, in_rounds
from readers.formats.heap import layout as heap
from readers.formats.heap import maps as heapmaps
from readers.formats.source import HandleSource, Selection, StateName
from readers.formats.unpacked import Release, UnpackedWindows, unpack
from readers.headers.keyed import KeyedHeader, read_keyed_header, read_known_keyed_header
from readers.keygroups import key_group_bytes
from readers.metadata import KeyGroupsStateHandle
from readers.serializers.primitives import VoidNamespaceSerializer
from readers.storage.filesystems import StreamWindows, Windows
from readers.storage.location import Stream

_ORDER_TRIES = 8
_MOST_AT_ONCE = 16
_OF_SEVERAL = frozenset({StateKind.MAP, StateKind.TIMER})
"""The kinds of which a key has more than one entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """A key group: where its states stand, from `first` to `last` in a buffer; for `path` and `release` see `PlainBytes`."""

    key_group: int
    data: NDArray[np.uint8]
    first: int
    last: int
    path: str
    release: Release


class KeyedStreamSource(HandleSource):
    """What FullSource and HeapSource share: a stream with a proxy and key-group offsets."""

    handle: KeyGroupsStateHandle

    def __init__(
        self, subtask: int, handle: KeyGroupsStateHandle, stream: Stream, max_parallelism: int
    ) -> None:
        super().__init__(subtask, stream.path, handle.size_bytes)
        self.handle = handle
        self.stream = stream
        self.max_parallelism = max_parallelism

    @cached_property
    def header(self) -> KeyedHeader:
        """The KeyedBackendSerializationProxy at the start of the stream: it ends where the first key group begins."""
        end = first_offset(self.handle.offsets)
        return read_header(self.stream, end, read_known_keyed_header, read_keyed_header)

    @cached_property
    def entries(self) -> dict[StateName, Entry]:
        return dict(keyed_entries(self.header))

    @cached_property
    def _names(self) -> tuple[StateName, ...]:
        """The names of the states in the order of their ids."""
        return tuple(name for name, _ in keyed_entries(self.header))

    def key_group_bytes(self, state: StateName) -> list[tuple[int, int]]:
        regions = self._regions()
        return [(key_group, end - start) for key_group, start, end in regions]

    @abstractmethod
    def _regions(self) -> Iterator[tuple[int, int, int]]:
        """(key group, start, end) of the key groups in the stream."""

    def _bodies(self, selection: Selection) -> Iterator[_Body]:
        """The wanted key groups."""
        for (key_group, start, end), span in self._wanted(selection):
            selection.account(end - start)
            yield self._body(span, key_group, start, end)
            self._release(start, end)

    def _body(self, span: NDArray[np.uint8], key_group: int, start: int, end: int) -> _Body:
        """A key group, decompressed if it is compressed."""
        cursor = self._beginning(span, key_group, start, end)
        release: Release = self._release
        data, first, path = span, cursor.position, self.path
        if self.header.compressed:
            plain = unpack(cursor, self._release)
            data, first, end, path, release = plain.data, 0, len(plain.data), plain.path, plain.release
        return _Body(key_group=key_group, data=data, first=first, last=end, path=path, release=release)

    @abstractmethod
    def _beginning(self, span: NDArray[np.uint8], key_group: int, start: int, end: int) -> Cursor:
        """At what a key group is made of, behind what is never compressed."""

    def _release(self, start: int, end: int) -> None:
        """What stands in the stream is done with, from … to."""
        self.stream.release(start, end - start)

    def _wanted(self, selection: Selection) -> Iterator[tuple[tuple[int, int, int], NDArray[np.uint8]]]:
        """The regions of a selection, each with an array that has its bytes."""
        wanted = [region for region in self._regions() if selection.wants(region[0])]
        return zip(wanted, self.stream.spans([region[1:] for region in wanted]), strict=True)

    def _id_of(self, state: StateName) -> int:
        return self._names.index(state)

    def _page(
        self,
        body: _Body,
        bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
        data: NDArray[np.uint8] | None = None,
    ) -> Page:
        starts, ends = bounds
        return Page(
            data=body.data if data is None else data,
            starts=starts,
            ends=ends,
            key_groups=np.full(len(starts), body.key_group, dtype=np.int32),
            subtask=self.subtask,
            path=body.path,
        )


class FullSource(KeyedStreamSource, CompositeSource):
    """The full layout."""

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        if selection.keys is not None:
            yield from self._looked_up(self._targets(state, selection.keys), selection)
            return
        number = self._id_of(state)
        for body in self._bodies(selection):
            data, first, last = body.data, body.first, body.last
            ranges = self._ranges[body.key_group]
            for starts, ends, _ in full.cut_key_group(
                data, first, last, number, body.path, body.release, ranges
            ):
                yield self._page(body, (starts, ends))

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        if selection.keys is not None:
            yield from super().counts(state, selection)
            return
        number = self._id_of(state)
        for body in self._bodies(selection):
            data, first, last = body.data, body.first, body.last
            ranges = self._ranges[body.key_group]
            count = full.count_key_group(data, first, last, number, body.path, body.release, ranges)
            yield body.key_group, count

    def _targets(self, state: StateName, keys: tuple[tuple[int, Any], ...]) -> dict[int, LookupTarget]:
        """What is to be looked up in which key groups; all entries of the state where the bytes of a key are not known."""
        entry, width = self.entries[state], key_group_bytes(self.max_parallelism)
        encoded: defaultdict[int, set[bytes | None]] = defaultdict(set)
        for key_group, key in keys:
            prefix = composite.encode_key_prefix(entry, key, key_group, self.max_parallelism)
            encoded[key_group].add(None if prefix is None else prefix[width:])
        is_single = entry.kind not in _OF_SEVERAL and isinstance(entry.namespace, VoidNamespaceSerializer)
        return {
            key_group: LookupTarget(
                state=self._id_of(state),
                width=width,
                keys=() if None in found else tuple(sorted(key for key in found if key is not None)),
                is_single=is_single,
            )
            for key_group, found in encoded.items()
        }

    def _looked_up(self, targets: dict[int, LookupTarget], selection: Selection) -> Iterator[Page]:
        regions = [
            region for region in self._regions() if region[0] in targets and selection.wants(region[0])
        ]
        for lot in self._lots(regions):
            searches = {
                key_group: Search(windows, targets[key_group], self._ranges[key_group], selection.account)
                for key_group, windows in lot.items()
            }
            for key_group, (data, starts, ends) in in_rounds(searches):
                yield Page(
                    data=data,
                    starts=starts,
                    ends=ends,
                    key_groups=np.full(len(starts), key_group, dtype=np.int32),
                    subtask=self.subtask,
                    path=lot[key_group].path,
                )

    def _lots(self, regions: list[tuple[int, int, int]]) -> Iterator[dict[int, Windows]]:
        """The bytes of key groups that are looked into at the same time: few in windows, of many each is read as for a scan."""
        if len(regions) <= _MOST_AT_ONCE:
            yield {region[0]: self._plain(self.stream.windows(*region[1:])) for region in regions}
            return
        spans = self.stream.spans([region[1:] for region in regions])
        for (key_group, start, end), span in zip(regions, spans, strict=True):
            yield {key_group: self._plain(StreamWindows(self.stream, span, start, end))}

    def _plain(self, windows: Windows) -> Windows:
        return UnpackedWindows(windows) if self.header.compressed else windows

    @cached_property
    def _ranges(self) -> defaultdict[int, full.StateRanges]:
        """Of the key groups, as far as they are known."""
        return defaultdict(full.StateRanges)

    def _beginning(self, span: NDArray[np.uint8], key_group: int, start: int, end: int) -> Cursor:
        return Cursor(span, path=self.path, position=start, end=end)

    def _regions(self) -> Iterator[tuple[int, int, int]]:
        return regions_of(self.handle, self.stream, absent=0)


class HeapSource(KeyedStreamSource):
    """The native layout of the hashmap backend."""

    backend = "hashmap"
    frames_values = True
    frames_entries = False

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return heap.heap_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        heap.emit_heap(program, layout, entry, by_namespace=self._by_namespace)

    def emit_undescribed(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        heap.emit_heap(program, layout, entry, undescribed=True, by_namespace=self._by_namespace)

    @property
    def _by_namespace(self) -> bool:
        return self.header.version <= heapmaps.LAST_HEADER_VERSION

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        number = self._id_of(state)
        for body, reader in self._read_bodies(selection):
            with _located(body):
                for cut in reader.cuts(body.data, body.first, body.last, number, body.key_group):
                    if cut.partial is not None:
                        page = self._page(body, (cut.starts, cut.ends), cut.partial.data)
                        yield replace(page, first_index=cut.partial.first_index)
                    elif len(cut.starts):
                        page = self._page(body, (cut.starts, cut.ends))
                        yield replace(page, undivided=cut.undivided)

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        number = self._id_of(state)
        for body, reader in self._read_bodies(selection):
            with _located(body):
                count = reader.count(body.data, body.first, body.last, number, body.key_group)
            yield body.key_group, count

    def _read_bodies(
        self, selection: Selection
    ) -> Iterator[tuple[_Body, heap.HeapKeyGroupReader | heapmaps.HeapMapsKeyGroupReader]]:
        """The wanted key groups, and what walks them."""
        reader = self._reader()
        for body in self._bodies(selection):
            reader.release = body.release
            yield body, reader

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """The state ids in the order of the key groups, from the smallest that can be walked; empty if none can."""
        reader = self._heap_reader()
        regions = sorted(self._regions(), key=lambda region: region[2] - region[1])
        for region in regions[:_ORDER_TRIES]:
            try:
                body = self._body(self.stream.span(*region[1:]), *region)
                return reader.order(body.data, body.first, body.last)
            except UnsupportedSerializerError:
                continue
        return ()

    @cached_property
    def _ends(self) -> dict[tuple[int, int], int | ReaderError]:
        """Where states that cannot be walked end, as far as that was asked for."""
        return {}

    def _reader(self) -> heap.HeapKeyGroupReader | heapmaps.HeapMapsKeyGroupReader:
        if self._by_namespace:
            return heapmaps.HeapMapsKeyGroupReader([self.entries[name] for name in self._names], self.path)
        return self._heap_reader()

    def _heap_reader(self) -> heap.HeapKeyGroupReader:
        states = [(name.name, self.entries[name]) for name in self._names]
        return heap.HeapKeyGroupReader(
            states, lambda: self._order, self._ends, self.max_parallelism, self.path
        )

    def _beginning(self, span: NDArray[np.uint8], key_group: int, start: int, end: int) -> Cursor:
        return heap.key_group_body(span, key_group, start, end, self.path)

    def _regions(self) -> Iterator[tuple[int, int, int]]:
        return regions_of(self.handle, self.stream, absent=None)


@contextmanager
def _located(body: _Body) -> Iterator[None]:
    """Errors say where a key group stands, as all positions in them are within it."""
    try:
        yield
    except ReaderError as error:
        error.path = body.path
        raise
