"""Finds the entries of a heap state that can be walked, some megabytes at a time.

No length records the end of an entry: it is walked within a window, and an entry that does not end there is large. A large list or
map is cut between its elements into partial entries. The bytes of a partial entry are those of an entry: the namespace and key,
then the number of some of the elements and these elements. So a key with millions of elements takes as much memory as a
window; only a single large element takes more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import Decoder, walker
from readers.decode.program import Program
from readers.formats.entry import Entry, EntryLayout, StateKind, map_serializer

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
