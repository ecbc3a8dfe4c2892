"""Reads the native layout of the hashmap backend: checkpoints and native savepoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.page import Page
from readers.decode.program import Program
from readers.errors import CorruptDataError, ReaderError, UnsupportedSerializerError
from readers.formats.beginning import first_offset, header_outline, regions_of, small_or_header
from readers.formats.differing import CollectedPages, DifferingPages, PagesAnew
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.full.source import FullSource
from readers.formats.heap import layout as heap
from readers.formats.heap import lockstep
from readers.formats.heap import maps as heapmaps
from readers.formats.keybounds import KeyBounds
from readers.formats.keyedstream import KeyedStreamSource, KeyGroupBody
from readers.formats.opener import Opener, OpeningContext
from readers.formats.source import Selection, Source, StateName, Tally
from readers.metadata import KeyGroupsStateHandle, StreamStateHandle
from readers.storage.location import Ranges, Stream

# Key groups that are tried for the order of states; the smallest come first, as they are the cheapest to walk.
_ORDER_TRIES = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class HeapSource(KeyedStreamSource):
    """Keyed state whose entries have no lengths: finding one state's entries means walking those of the states before it."""

    # The entries without what jars say of them; empty where these say nothing.
    described: Mapping[StateName, Entry] = field(default_factory=dict)

    backend = "hashmap"
    frames_values = True
    frames_entries = False

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return heap.heap_columns(entry)

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        heap.emit_heap(program, layout, entry, by_namespace=self._by_namespace)
        # Where the jars' classes do not fit, the end of an entry is found without them.
        if entry.is_assumed:
            program.expect_end()

    def emit_undescribed(
        self, program: Program, layout: EntryLayout, entry: Entry, *, whole: bool = False
    ) -> None:
        heap.emit_heap(program, layout, entry, undescribed=True, whole=whole, by_namespace=self._by_namespace)

    def assuming(self, described: Mapping[StateName, Entry]) -> Self:
        return replace(self, described=described)

    @property
    def _by_namespace(self) -> bool:
        """True if entries are grouped by namespace, as Flink 1.2 wrote them."""
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

    def differing(
        self, state: StateName, other: Source, other_state: StateName, selection: Selection
    ) -> Iterator[DifferingPages] | None:
        if not isinstance(other, HeapSource) or self.max_parallelism != other.max_parallelism:
            return None
        if not (self._divides(state) and other._divides(other_state)):
            return None
        groups, others = ([one[0] for one in side._chosen(selection)] for side in (self, other))
        return self._differing(state, other, other_state, selection) if groups == others else None

    def _divides(self, state: StateName) -> bool:
        """Return whether the ends of the entries of a state are certain."""
        return not self._by_namespace and not self.described and heap.is_plain(self.entries[state])

    def _differing(
        self, state: StateName, other: HeapSource, other_state: StateName, selection: Selection
    ) -> Iterator[DifferingPages]:
        """Yield the entries that differ; all of a key group together, since their keys are not known here."""
        collected = CollectedPages()
        is_alike = self._names == other._names and self.entries == other.entries
        for (old, reader), (new, other_reader) in zip(
            self._read_bodies(selection), other._read_bodies(selection), strict=True
        ):
            if is_alike and lockstep.is_same(old.data[old.first : old.last], new.data[new.first : new.last]):
                yield from collected.add((), (), None)
                continue
            with _located(old):
                before = self._entries_of(old, reader, state)
            with _located(new):
                after = other._entries_of(new, other_reader, other_state)
            if before is None or after is None:
                alone = Selection(key_groups=frozenset({old.key_group}))
                # A list or map of many megabytes comes in parts, which are copies.
                yield DifferingPages(
                    before=PagesAnew(partial(self.pages, state, alone)),
                    after=PagesAnew(partial(other.pages, other_state, alone)),
                )
                continue
            left, others = lockstep.without_equal(before, after)
            yield from collected.add(
                self._pages_of(old, left), other._pages_of(new, others), len(before) - len(left)
            )
        yield from collected.rest()

    def _entries_of(
        self,
        body: KeyGroupBody,
        reader: heap.HeapKeyGroupReader | heapmaps.HeapMapsKeyGroupReader,
        state: StateName,
    ) -> lockstep.Entries | None:
        """Return where a key group has the entries of a state; None if one is so large that it comes in parts."""
        starts, ends = [], []
        for cut in reader.cuts(body.data, body.first, body.last, self._id_of(state), body.key_group):
            if cut.partial is not None or cut.undivided:
                return None
            starts.append(cut.starts)
            ends.append(cut.ends)
        none = np.empty((0, 1), dtype=np.int64)
        return lockstep.Entries(
            data=body.data, starts=np.concatenate([none, *starts]), ends=np.concatenate([none, *ends])
        )

    def _pages_of(self, body: KeyGroupBody, entries: lockstep.Entries) -> tuple[Page, ...]:
        return (self._page(body, (entries.starts, entries.ends)),) if len(entries) else ()

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        number = self._id_of(state)
        for body, reader in self._read_bodies(selection):
            with _located(body):
                count = reader.count(body.data, body.first, body.last, number, body.key_group)
            yield body.key_group, count

    def tallies(self, states: Sequence[StateName], selection: Selection) -> Iterator[Tally]:
        if self._by_namespace:
            yield from super().tallies(states, selection)
            return
        wanted = set(states)
        for body, reader in self._read_bodies(selection):
            assert isinstance(reader, heap.HeapKeyGroupReader)
            with _located(body):
                found = list(reader.sizes(body.data, body.first, body.last, body.key_group))
            sizes = {self._names[number]: (count, size) for number, count, size in found}
            for state in wanted:
                # Behind a state without a certain end nothing is known.
                count, size = sizes.get(state, (None, None))
                if count != 0:
                    yield Tally(
                        state=state,
                        key_group=body.key_group,
                        entries=count,
                        size_bytes=size,
                        origin="headers",
                    )

    def key_bounds(self, state: StateName) -> KeyBounds | None:
        return heap.heap_key_bounds(self.entries[state], by_namespace=self._by_namespace)

    def _read_bodies(
        self, selection: Selection
    ) -> Iterator[tuple[KeyGroupBody, heap.HeapKeyGroupReader | heapmaps.HeapMapsKeyGroupReader]]:
        """Yield the selected key groups, each with a reader for it."""
        # Readers keep what they learn and belong to one thread: every scan has its own.
        reader = self._reader()
        without_jars: heap.HeapKeyGroupReader | None = None
        for body in self._bodies(selection):
            if self.described and isinstance(reader, heap.HeapKeyGroupReader):
                if body.key_group not in self._fits:
                    self._fits[body.key_group] = reader.fits(body.data, body.first, body.last)
                if not self._fits[body.key_group]:
                    without_jars = without_jars or self._plain._heap_reader()
                    without_jars.release = body.release
                    yield body, without_jars
                    continue
            reader.release = body.release
            yield body, reader

    @cached_property
    def _fits(self) -> dict[int, bool]:
        """Whether the key groups that were read are as the jars have their classes."""
        return {}

    @cached_property
    def _plain(self) -> HeapSource:
        """The same source without the jars."""
        return replace(self, entries=self.described, described={})

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """State ids in the order in which every key group has them; empty if no key group can be walked to its end."""
        reader = self._heap_reader()
        regions = sorted(self._known_regions, key=lambda region: region[2] - region[1])
        for region in regions[:_ORDER_TRIES]:
            try:
                body = self._body(self.stream.span(*region[1:]), *region)
                return reader.order(body.data, body.first, body.last)
            except (UnsupportedSerializerError, CorruptDataError):
                continue
        return ()

    @cached_property
    def _ends(self) -> dict[tuple[int, int], int | ReaderError]:
        """Ends of states that cannot be walked, by key group and state id, as far as they were searched."""
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
def _located(body: KeyGroupBody) -> Iterator[None]:
    """Put the path of a key group into errors: their positions count from its start if it is compressed."""
    try:
        yield
    except ReaderError as error:
        error.path = body.path
        raise


class KeyGroupsOpener(Opener[KeyGroupsStateHandle]):
    """Opens key groups that may be of either layout: the handle does not record which backend wrote them."""

    family = StateKind.VALUE
    sources = (HeapSource, FullSource)

    def open(self, handle: KeyGroupsStateHandle, context: OpeningContext) -> Source:
        stream = context.location.open_stream(handle.delegate)
        kind = _source_of(stream, handle.offsets, handle.key_group_range.start)
        return kind.open(context.subtask, handle, stream, context.max_parallelism)

    def outline(self, handle: KeyGroupsStateHandle, context: OpeningContext) -> bytes | None:
        stream = context.location.open_stream(handle.delegate)
        return key_groups_outline(stream, handle.offsets, handle.key_group_range.start)

    def first_ranges(
        self, handle: KeyGroupsStateHandle, *, first: bool, few: bool
    ) -> Iterator[tuple[StreamStateHandle, Ranges]]:
        numbers = heap.asked_offsets(handle.offsets, handle.key_group_range.start)
        yield handle.delegate, small_or_header(handle.delegate, first_offset(handle.offsets), numbers)


def key_groups_outline(stream: Stream, offsets: NDArray[np.int64], first: int) -> bytes | None:
    """Return the outline of key groups in a stream; see `Opener.outline`.

    Args:
        stream: the stream.
        offsets: where each key group begins.
        first: the first key group.

    Raises:
        ReaderError: the stream cannot be read.
    """
    header = header_outline(stream, first_offset(offsets))
    return None if header is None else _source_of(stream, offsets, first).__name__.encode() + header


def _source_of(stream: Stream, offsets: NDArray[np.int64], first: int) -> type[HeapSource | FullSource]:
    """Return the source of the layout that a stream has."""
    return HeapSource if heap.is_heap_layout(stream, offsets, first) else FullSource
