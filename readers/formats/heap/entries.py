"""Finds the entries of a heap state that can be walked, some megabytes at a time.

No length tells where an entry ends: it is walked within a window, and one that does not end there is large. A large list or
map is cut, too, between its elements: a partial entry is the bytes of an entry of its own, the namespace and key and then a part of the
elements with their number. So one key with millions of elements takes no more memory than a few, and one element as much
as it needs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import Decoder, walker
from readers.decode.program import Program
from readers.formats.entry import Entry, EntryLayout, StateKind, map_serializer

WINDOW_BYTES = 4 << 20
CUT_ENTRIES = 1 << 15
_COUNT = struct.Struct(">i")
_Emit = Callable[[Program, EntryLayout, Entry], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialEntry:
    """A part of a large list or map, as an entry.

    Attributes:
        data: its bytes.
        first_index: of its first element, in the whole.
    """

    data: NDArray[np.uint8]
    first_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRange:
    """Entries that follow each other, or a part of a large one.

    Attributes:
        starts, ends: int64 (entries, 1), in the buffer that was walked, or in the partial entry.
        behind: the position behind them in that buffer.
        partial: None for whole entries.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    behind: int
    partial: PartialEntry | None = None


class EntryReader:
    """Walks the entries of one state; belongs to one thread.

    Args:
        entry: what they are made of; all of it can be walked.
        emit: declares an entry.
        emit_scope: declares what stands before its value.
        path: the file, for errors.
    """

    def __init__(self, entry: Entry, emit: _Emit, emit_scope: _Emit, path: str) -> None:
        layout = EntryLayout({})
        self._entry = entry
        self._whole = walker(lambda program: emit(program, layout, entry))
        self._scope = walker(lambda program: emit_scope(program, layout, entry))
        self._element = walker(self._emit_element) if _has_elements(entry) else None
        self._path = path

    def ranges(
        self, data: NDArray[np.uint8], position: int, limit: int, count: int, *, partials: bool = True
    ) -> Iterator[EntryRange]:
        """The `count` entries from `position` on.

        Args:
            data: the buffer.
            position: where they begin.
            limit: where they end at the latest.
            count: how many there are.
            partials: whether partial entries are wanted; their elements are walked in any case.

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
        """One entry that does not end within a window."""
        if self._element is not None:
            _, ends = self._scope.measure(data, position, limit, 1, self._path)
            begin = int(ends[0, 0])
            # A key that fills the window itself tells nothing of the elements.
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
            if not len(ends):
                _, ends = element.measure(data, position, limit, 1, self._path)
            behind = int(ends[-1, 0])
            if partials:
                yield _partial_entry(scope, data[position:behind], len(ends), index, behind)
            else:
                yield EntryRange(starts=ends[:0], ends=ends[:0], behind=behind)
            position, index = behind, index + len(ends)

    def _emit_element(self, program: Program) -> None:
        assert self._entry.value is not None
        if self._entry.kind is StateKind.MAP:
            map_serializer(self._entry).emit_entry(program)
        else:
            self._entry.value.emit(program)


def _has_elements(entry: Entry) -> bool:
    return entry.kind in (StateKind.LIST, StateKind.MAP)


def _partial_entry(
    scope: NDArray[np.uint8], elements: NDArray[np.uint8], count: int, index: int, behind: int
) -> EntryRange:
    number = np.frombuffer(_COUNT.pack(count), dtype=np.uint8)
    partial = np.concatenate([scope, number, elements])
    starts, ends = (np.array([[place]], dtype=np.int64) for place in (0, len(partial)))
    return EntryRange(
        starts=starts, ends=ends, behind=behind, partial=PartialEntry(data=partial, first_index=index)
    )
