"""Reads the native layout of the hashmap backend: checkpoints and native savepoints.

Header version 1 (Flink 1.2) has the states of a key group by namespace. Its layout is that of `layout.py`, except for the bytes
behind the id of a state:

| bytes | meaning |
|---|---|
| u1 | 0: the state has no entries in this key group |
| i4 n, n × (namespace, i4 m, m × (key, value)) | else |

An entry has two segments: its namespace, which it shares with others, then key and value.

Flink: StateTableByKeyGroupReaders$StateTableByKeyGroupReaderV1 (1.3), HeapKeyedStateBackend#writeStateTableForKeyGroup (1.2)
"""

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
from readers.decode.decoder import Decoder, Page, walker
from readers.decode.program import Program
from readers.errors import CorruptDataError, ReaderError, UnsupportedSerializerError
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.full.source import FullSource
from readers.formats.heap import layout as heap
from readers.formats.heap import lockstep
from readers.formats.heap.entries import CUT_ENTRIES, WINDOW_BYTES
from readers.formats.heap.layout import (
    Cut,
    emit_key_and_value,
    emit_namespace_alone,
    is_plain,
    require_sized,
    undivided,
)
from readers.formats.opener import Opener, OpeningContext
from readers.formats.source import (
    CollectedPages,
    DifferingPages,
    KeyBounds,
    PagesAnew,
    Selection,
    Source,
    StateName,
    Tally,
)
from readers.formats.streams import (
    KeyedStreamSource,
    KeyGroupBody,
    first_offset,
    header_outline,
    small_or_header,
)
from readers.metadata import KeyGroupsStateHandle, StreamStateHandle
from readers.storage.filesystems import Stream
from readers.storage.location import Ranges

LAST_HEADER_VERSION = 1
_NAMESPACE_BYTES = 4  # the least that a namespace takes: the count of its entries


class HeapMapsKeyGroupReader:
    """Finds the entries of states in the key groups of one stream; belongs to one thread.

    Args:
        entries: the serializers of the states' entries, in the order of the state ids.
        path: the file, for errors.
    """

    def __init__(self, entries: Sequence[Entry], path: str) -> None:
        self._entries = entries
        self._walkers: dict[int, tuple[Decoder, Decoder]] = {}
        self._path = path

    def cuts(self, body: KeyGroupBody, wanted: int) -> Iterator[Cut]:
        """Find the entries of a state, some megabytes at a time; see `HeapKeyGroupReader.cuts`."""
        if is_plain(self._entries[wanted]):
            cursor, _ = self._find(body, wanted)
            if cursor.boolean():
                yield from self._cuts(body, cursor, wanted)
        else:
            yield self.cut(body, wanted)

    def cut(self, body: KeyGroupBody, wanted: int) -> Cut:
        """Find the entries of a state; see `HeapKeyGroupReader.cut`.

        Raises:
            CorruptDataError: the bytes contradict the layout.
            UnsupportedSerializerError: a state before this one cannot be walked, or this one cannot and others follow.
        """
        cursor, is_last = self._find(body, wanted)
        start = cursor.position
        cuts = [_nothing()]
        try:
            if cursor.boolean():
                cuts += self._cuts(body, cursor, wanted)
        except UnsupportedSerializerError:
            # Only the last state has a certain end without a walk: that of the key group. `entries.py` knows the newer layout only.
            if is_last:
                return undivided(start, body.last)
            raise
        return _joined(cuts)

    def count(self, body: KeyGroupBody, wanted: int) -> int:
        """Count the entries that `cuts` finds; the layout records their number by namespace only."""
        return sum(len(cut.starts) for cut in self.cuts(body, wanted))

    def _find(self, body: KeyGroupBody, wanted: int) -> tuple[Cursor, bool]:
        """Return a cursor behind the id of a state, and whether the state is the last one of the key group."""
        cursor = Cursor(body.data, path=self._path, position=body.first, end=body.last)
        unseen = set(range(len(self._entries)))
        while unseen:
            start = cursor.position
            state = cursor.u2()
            if state not in unseen:
                raise cursor.corrupt(
                    f"expected one of {len(unseen)} states not yet seen, found {state}", start
                )
            unseen.remove(state)
            if state == wanted:
                return cursor, not unseen
            if cursor.boolean():
                for _ in self._cuts(body, cursor, state):
                    pass
        raise CorruptDataError(
            f"expected state {wanted} in key group {body.key_group}, found {len(self._entries)} others",
            path=self._path,
            position=cursor.position,
        )

    def _cuts(self, body: KeyGroupBody, cursor: Cursor, state: int) -> Iterator[Cut]:
        """Yield the entries of a state that has some; the cursor is at its namespaces, and moves behind them."""
        namespaces, entries = self._walker(state)
        data = body.data
        found: list[Cut] = []
        rows, begun = 0, cursor.position
        for _ in range(cursor.count("namespaces", _NAMESPACE_BYTES)):
            first, behind = namespaces.measure(data, cursor.position, cursor.end, 1, self._path)
            cursor.position = int(behind[0, 0])
            left = cursor.count("entries of a namespace")
            while left:
                count = min(left, CUT_ENTRIES)
                begin, end = entries.measure(data, cursor.position, cursor.end, count, self._path)
                cursor.position = int(end[-1, 0])
                # Each entry gets the bounds of the namespace that it shares as its first segment.
                scope = (np.repeat(bound, count, axis=0) for bound in (first, behind))
                starts, ends = (np.hstack(pair) for pair in zip(scope, (begin, end), strict=True))
                found.append(Cut(starts=starts, ends=ends))
                rows, left = rows + count, left - count
                if rows >= CUT_ENTRIES or cursor.position - begun >= WINDOW_BYTES:
                    yield _joined(found)
                    body.release(begun, cursor.position)
                    found, rows, begun = [], 0, cursor.position
        if found:
            yield _joined(found)
            body.release(begun, cursor.position)

    def _walker(self, state: int) -> tuple[Decoder, Decoder]:
        if state not in self._walkers:
            entry, layout = self._entries[state], EntryLayout({})
            require_sized(entry)
            self._walkers[state] = (
                walker(lambda program: emit_namespace_alone(program, layout, entry)),
                walker(lambda program: emit_key_and_value(program, layout, entry)),
            )
        return self._walkers[state]


def _joined(cuts: Sequence[Cut]) -> Cut:
    return Cut(
        starts=np.concatenate([cut.starts for cut in cuts]), ends=np.concatenate([cut.ends for cut in cuts])
    )


def _nothing() -> Cut:
    empty: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
    return Cut(starts=empty, ends=empty)


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
    absent = None

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
        return self.header.version <= LAST_HEADER_VERSION

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        number = self._id_of(state)
        for body, reader in self._read_bodies(selection):
            with _located(body):
                for cut in reader.cuts(body, number):
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
        reader: heap.HeapKeyGroupReader | HeapMapsKeyGroupReader,
        state: StateName,
    ) -> lockstep.Entries | None:
        """Return where a key group has the entries of a state; None if one is so large that it comes in parts."""
        starts, ends = [], []
        for cut in reader.cuts(body, self._id_of(state)):
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
                count = reader.count(body, number)
            yield body.key_group, count

    def tallies(self, states: Sequence[StateName], selection: Selection) -> Iterator[Tally]:
        if self._by_namespace:
            yield from super().tallies(states, selection)
            return
        wanted = set(states)
        for body, reader in self._read_bodies(selection):
            assert isinstance(reader, heap.HeapKeyGroupReader)
            with _located(body):
                found = list(reader.sizes(body))
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
    ) -> Iterator[tuple[KeyGroupBody, heap.HeapKeyGroupReader | HeapMapsKeyGroupReader]]:
        """Yield the selected key groups, each with a reader for it."""
        # Readers keep what they learn and belong to one thread: every scan has its own.
        reader = self._reader()
        without_jars: heap.HeapKeyGroupReader | None = None
        for body in self._bodies(selection):
            if self.described and isinstance(reader, heap.HeapKeyGroupReader):
                if body.key_group not in self._fits:
                    self._fits[body.key_group] = reader.fits(body)
                if not self._fits[body.key_group]:
                    without_jars = without_jars or self._plain._heap_reader()
                    yield body, without_jars
                    continue
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
                return reader.order(self._body(self.stream.span(*region[1:]), *region))
            except (UnsupportedSerializerError, CorruptDataError):
                continue
        return ()

    @cached_property
    def _ends(self) -> dict[tuple[int, int], int | ReaderError]:
        """Ends of states that cannot be walked, by key group and state id, as far as they were searched."""
        return {}

    def _reader(self) -> heap.HeapKeyGroupReader | HeapMapsKeyGroupReader:
        if self._by_namespace:
            return HeapMapsKeyGroupReader([self.entries[name] for name in self._names], self.path)
        return self._heap_reader()

    def _heap_reader(self) -> heap.HeapKeyGroupReader:
        states = [(name.name, self.entries[name]) for name in self._names]
        return heap.HeapKeyGroupReader(
            states, lambda: self._order, self._ends, self.max_parallelism, self.path
        )

    def _beginning(self, span: NDArray[np.uint8], key_group: int, start: int, end: int) -> Cursor:
        return heap.key_group_body(span, key_group, start, end, self.path)


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
