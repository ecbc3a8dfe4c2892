"""Finds the entries of a heap state, some megabytes at a time, and the end of one that cannot be walked.

No length records the end of an entry: it is walked within a window, and an entry that does not end there is large. A large list or
map is cut between its elements into partial entries. The bytes of a partial entry are those of an entry: the namespace and key,
then the number of some of the elements and these elements. So a key with millions of elements takes as much memory as a
window; only a single large element takes more.

Where a value has no known end (an unknown serializer, an object of a
class that the savepoint does not describe), the next state is found by what must be true of it:

* the states of a key group follow each other, each once, as `u2 id, i4 count, entries`, and fill it exactly;
* every key group of a stream has them in the same order (`HeapSnapshotStrategy` iterates one map for each);
* the key of every entry hashes to this key group.

The right position always passes these checks, so a position that passes alone is the right one. If several pass, or the
search takes too many tries, the states behind cannot be read, and the error names them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import Decoder, Page, walker
from readers.decode.program import Program
from readers.errors import ReaderError, UnsupportedSerializerError
from readers.formats.entry import Entry, EntryLayout, StateKind, column_type, map_serializer
from readers.formats.streams import KeyGroupBody
from readers.keygroups import key_group_of

WINDOW_BYTES = 4 << 20
CUT_ENTRIES = 1 << 15  # at most, in one range
_COUNT = struct.Struct(">i")
_Emit = Callable[[Program, EntryLayout, Entry], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialEntry:
    """Some elements of a large list or map, as an entry of its own.

    Attributes:
        data: the bytes of the entry.
        first_index: the index of its first element in the whole list or map.
    """

    data: NDArray[np.uint8]
    first_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRange:
    """Entries that follow each other, or a part of a large one.

    Attributes:
        starts, ends: int64 (entries, 1), in the buffer that was walked, or in the partial entry.
        behind: the position behind them in the buffer that was walked.
        partial: None for whole entries.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    behind: int
    partial: PartialEntry | None = None


class EntryReader:
    """Finds the entries of one state by walking them; belongs to one thread.

    Args:
        entry: the serializers of an entry, all of which find the end of their values.
        emit: emits an entry.
        emit_scope: emits the bytes before its value.
        path: the file, for errors.
    """

    def __init__(self, entry: Entry, emit: _Emit, emit_scope: _Emit, path: str) -> None:
        self._whole = walker(lambda program: emit(program, EntryLayout({}), entry))
        self._entry = entry
        self._emit_scope = emit_scope
        self._path = path

    # Only large entries need these two, and a scan of one state makes a reader of each state before it.
    @cached_property
    def _scope(self) -> Decoder:
        return walker(lambda program: self._emit_scope(program, EntryLayout({}), self._entry))

    @cached_property
    def _element(self) -> Decoder | None:
        emit_element = element_of(self._entry)
        return walker(emit_element) if emit_element else None

    def ranges(
        self, data: NDArray[np.uint8], position: int, limit: int, count: int, *, partials: bool = True
    ) -> Iterator[EntryRange]:
        """Yield the ranges of `count` entries from `position` on.

        Args:
            data: the buffer.
            position: the start of the first entry.
            limit: the last possible end of the last entry.
            count: the number of entries.
            partials: True to build partial entries; the elements of large entries are walked in any case.

        Raises:
            CorruptDataError: the bytes contradict the serializers.
        """
        while count:
            window = min(position + WINDOW_BYTES, limit)
            most = min(count, CUT_ENTRIES)
            starts, ends = self._whole.measure(
                data, position, window, most, self._path, open_end=window < limit
            )
            if len(starts):
                position, count = int(ends[-1, 0]), count - len(starts)
                yield EntryRange(starts=starts, ends=ends, behind=position)
                continue
            for entries in self._large(data, position, limit, partials=partials):
                position = entries.behind
                yield entries
            count -= 1

    def _large(
        self, data: NDArray[np.uint8], position: int, limit: int, *, partials: bool
    ) -> Iterator[EntryRange]:
        """Yield one entry that does not end within a window, in parts if it is a list or map."""
        if self._element is not None:
            _, ends = self._scope.measure(data, position, limit, 1, self._path)
            begin = int(ends[0, 0])
            # Every part repeats namespace and key: a key that is large itself would be copied again and again.
            if begin - position < WINDOW_BYTES // 2:
                scope = data[position:begin]
                yield from self._elements(self._element, data, scope, begin, limit, partials=partials)
                return
        starts, ends = self._whole.measure(data, position, limit, 1, self._path)
        yield EntryRange(starts=starts, ends=ends, behind=int(ends[0, 0]))

    def _elements(
        self,
        element: Decoder,
        data: NDArray[np.uint8],
        scope: NDArray[np.uint8],
        begin: int,
        limit: int,
        *,
        partials: bool,
    ) -> Iterator[EntryRange]:
        cursor = Cursor(data, path=self._path, position=begin, end=limit)
        count, index = cursor.count("elements"), 0
        position = cursor.position
        while index < count:
            window = min(position + WINDOW_BYTES, limit)
            most = min(count - index, CUT_ENTRIES)
            _, ends = element.measure(data, position, window, most, self._path, open_end=window < limit)
            # An element that is larger than a window is walked on its own, however long it is.
            if not len(ends):
                _, ends = element.measure(data, position, limit, 1, self._path)
            behind = int(ends[-1, 0])
            if partials:
                yield _partial_entry(scope, data[position:behind], len(ends), index, behind)
            else:
                yield EntryRange(starts=ends[:0], ends=ends[:0], behind=behind)
            position, index = behind, index + len(ends)


def element_of(entry: Entry) -> Callable[[Program], None] | None:
    """Return what declares an element of a list or an entry of a map; None if values are neither."""
    if entry.kind is StateKind.MAP:
        return map_serializer(entry).emit_entry
    return entry.value.emit if entry.kind is StateKind.LIST and entry.value is not None else None


def _partial_entry(
    scope: NDArray[np.uint8], elements: NDArray[np.uint8], count: int, index: int, behind: int
) -> EntryRange:
    number = np.frombuffer(_COUNT.pack(count), dtype=np.uint8)
    partial = np.concatenate([scope, number, elements])
    starts, ends = (np.array([[bound]], dtype=np.int64) for bound in (0, len(partial)))
    return EntryRange(
        starts=starts, ends=ends, behind=behind, partial=PartialEntry(data=partial, first_index=index)
    )


BLOCK_HEADER_BYTES = 6
# The search tries positions of positions: these limits keep hostile or unlucky bytes from taking minutes.
_MAX_TRIES = 4096
_MAX_GAPS = 32
_MAX_SPLIT_BYTES = 16_384
_SAMPLED_KEYS = 64

Bounds = tuple[NDArray[np.int64], NDArray[np.int64]]
Measure = Callable[[int, KeyGroupBody, int, int], Bounds]
"""Returns the bounds of a state's entries: (state id, key group, position, count); raises a `ReaderError` if they do not fit."""


class UncertainEndError(UnsupportedSerializerError):
    """The end of a state that cannot be walked is not certain; the states behind it cannot be read."""


@dataclass(eq=False)
class Gaps:
    """Finds the end of states that cannot be walked; belongs to one thread.

    Attributes:
        states: name and entry of the states, in the order of their ids.
        walked: finds the entries of the other states.
        emit_scope: emits the bytes before a value: namespace and key.
        order: returns the state ids in the order in which key groups have them; empty if that is not known.
        max_parallelism: the number of key groups of the operator.
        path: the file, for errors.
    """

    states: Sequence[tuple[str, Entry]]
    walked: Measure
    emit_scope: Callable[[Program, EntryLayout, Entry], None]
    order: Callable[[], Sequence[int]]
    max_parallelism: int
    path: str
    _keys: dict[int, Decoder | None] = field(default_factory=dict)

    def end(self, region: KeyGroupBody, state: int, unseen: Set[int], error: ReaderError) -> int:
        """Return the end of a state; `unseen` are the ids of the states behind it.

        Raises:
            UncertainEndError: several positions fit; the message extends that of `error` and names the states behind.
        """
        if not unseen:
            return region.last
        try:
            # A second position that fits makes both uncertain: no need to look for a third.
            fitting = list(islice(_Search(self, region).candidates(region.first, frozenset(unseen)), 2))
        except _TooManyTriesError:
            fitting = []
        if len(fitting) == 1:
            return fitting[0]
        name = self.states[state][0]
        behind = ", ".join(sorted(self.states[other][0] for other in unseen))
        raise UncertainEndError(
            f"{error.message}; entries of native heap snapshots carry no length and the end of state {name} is not "
            f"certain, so in key group {region.key_group} the states behind it cannot be read: {behind}",
            path=self.path,
            position=region.first,
            breadcrumbs=error.breadcrumbs,
        ) from error

    def split(self, region: KeyGroupBody, state: int, count: int) -> Bounds | None:
        """Return the bounds of the entries of a state that fills the region; None if they are not certain."""
        starts = [region.first]
        if count > 1:
            if region.last - region.first <= _MAX_SPLIT_BYTES:
                positions = range(region.first + 1, region.last)
                starts += [start for start in positions if self.belongs(region, state, [start])]
            if len(starts) != count:
                return None
        column = np.array(starts, dtype=np.int64).reshape(-1, 1)
        return column, np.append(column[1:], [[region.last]], axis=0)

    def following(self, unseen: Set[int]) -> Set[int]:
        """Return those of the states `unseen` that may come next."""
        following = next((state for state in self.order() if state in unseen), None)
        return unseen if following is None else {following}

    def belongs(self, region: KeyGroupBody, state: int, starts: Sequence[int]) -> bool:
        """Return whether entries that begin at `starts` have keys of this key group, as far as their hashes are known."""
        decoder, entry = self._key_decoder(state), self.states[state][1]
        if decoder is None or entry.key is None:
            return True
        column = np.array(starts, dtype=np.int64).reshape(-1, 1)
        bounds = column, np.full_like(column, region.last)
        page = Page.of(region.data, bounds, region.key_group, 0, self.path)
        try:
            keys = [key for batch in decoder.decode(page) for key in _python_values(batch.arrays[0])]
        except ReaderError:
            return False
        codes = [entry.key.hash_code(key) for key in keys]
        return all(
            code is None or key_group_of(code, self.max_parallelism) == region.key_group for code in codes
        )

    def _key_decoder(self, state: int) -> Decoder | None:
        """Return a decoder of the key of an entry; None if the key cannot be decoded."""
        if state not in self._keys:
            entry = self.states[state][1]
            known = not entry.is_raw("key") and not entry.is_raw("namespace")
            layout = EntryLayout({"key": column_type(entry, "key")})
            emit = self.emit_scope
            self._keys[state] = (
                layout.decoder(lambda program, to: emit(program, to, entry)) if known else None
            )
        return self._keys[state]


class _TooManyTriesError(Exception):
    """The search would take too long."""


@dataclass
class _Search:
    """One search for the states behind a gap; remembers the positions that it tried."""

    gaps: Gaps
    region: KeyGroupBody
    known: dict[tuple[int, Set[int]], bool] = field(default_factory=dict)

    def candidates(self, start: int, unseen: frozenset[int], depth: int = 0) -> Iterator[int]:
        """Yield the positions from `start` on where the states `unseen` may begin."""
        region = self.region
        last = region.last - BLOCK_HEADER_BYTES * len(unseen)
        for position in _possible_headers(region.data, start, last, self.gaps.following(unseen)):
            if self.fits(position, unseen, depth):
                yield position

    def fits(self, position: int, unseen: frozenset[int], depth: int) -> bool:
        """Return whether the bytes from `position` to the end of the region are the states `unseen` and nothing else."""
        if (position, unseen) not in self.known:
            if len(self.known) >= _MAX_TRIES or depth > _MAX_GAPS:
                raise _TooManyTriesError
            self.known[position, unseen] = False  # counts as a try also if the search ends with an error
            self.known[position, unseen] = self._follow(position, unseen, depth)
        return self.known[position, unseen]

    def _follow(self, position: int, unseen: frozenset[int], depth: int) -> bool:
        region = self.region
        while unseen:
            if region.last - position < BLOCK_HEADER_BYTES:
                return False
            header = region.data[position : position + BLOCK_HEADER_BYTES].tobytes()
            state, count = int.from_bytes(header[:2]), int.from_bytes(header[2:], signed=True)
            position += BLOCK_HEADER_BYTES
            if state not in self.gaps.following(unseen) or not 0 <= count <= region.last - position:
                return False
            unseen -= {state}
            if count == 0:
                continue
            if not self.gaps.belongs(region, state, [position]):
                return False
            try:
                starts, ends = self.gaps.walked(state, region, position, count)
            except UnsupportedSerializerError:
                return not unseen or any(True for _ in self.candidates(position, unseen, depth + 1))
            except ReaderError:
                return False
            if not self.gaps.belongs(region, state, starts[:_SAMPLED_KEYS, 0].tolist()):
                return False
            position = int(ends[-1, 0])
        return position == region.last


def _possible_headers(data: NDArray[np.uint8], first: int, last: int, states: Set[int]) -> Iterator[int]:
    """Yield the positions from `first` to `last` with the id of one of `states` and a possible count."""
    window = data[first : last + BLOCK_HEADER_BYTES].astype(np.int64)
    size = len(window) - BLOCK_HEADER_BYTES + 1
    if size <= 0:
        return
    # All positions at once in numpy: each entry takes at least a byte, so a count above the bytes left is none.
    parts = [window[offset : offset + size] for offset in range(BLOCK_HEADER_BYTES)]
    ids = parts[0] << 8 | parts[1]
    counts = parts[2] << 24 | parts[3] << 16 | parts[4] << 8 | parts[5]
    likely = np.isin(ids, list(states)) & (counts <= len(data) - first - np.arange(size))
    yield from (first + np.flatnonzero(likely)).tolist()


def _python_values(array: pa.Array) -> list[object]:
    """Return the keys as Python values; none if Python cannot hold them: nanoseconds, years beyond 9999."""
    try:
        return list(array.to_pylist())
    except (ValueError, OverflowError):
        return []
