"""The heap layout of Flink 1.2: the states of a key group by namespace.

Header version 1 has this layout. It is that of `layout.py`, except for the bytes behind the id of a state:

| bytes | meaning |
|---|---|
| u1 | 0: the state has no entries in this key group |
| i4 n, n × (namespace, i4 m, m × (key, value)) | else |

An entry has two segments: its namespace, which it shares with others, then key and value.

Flink: StateTableByKeyGroupReaders$StateTableByKeyGroupReaderV1 (1.3), HeapKeyedStateBackend#writeStateTableForKeyGroup (1.2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import Decoder, walker
from readers.errors import CorruptDataError, UnsupportedSerializerError
from readers.formats.entry import Entry, EntryLayout
from readers.formats.heap.entries import CUT_ENTRIES, WINDOW_BYTES
from readers.formats.heap.layout import (
    Cut,
    emit_key_and_value,
    emit_namespace_alone,
    is_plain,
    require_sized,
    undivided,
)

LAST_HEADER_VERSION = 1
_NAMESPACE_BYTES = 4  # the least that a namespace takes: the count of its entries


class HeapMapsKeyGroupReader:
    """Finds the entries of states in the key groups of one stream; belongs to one thread.

    Args:
        entries: the serializers of the states' entries, in the order of the state ids.
        path: the file, for errors.

    Attributes:
        release: see `HeapKeyGroupReader`.
    """

    def __init__(self, entries: Sequence[Entry], path: str) -> None:
        self._entries = entries
        self._walkers: dict[int, tuple[Decoder, Decoder]] = {}
        self._path = path
        self.release: Callable[[int, int], None] = lambda _start, _end: None

    def cuts(
        self, data: NDArray[np.uint8], position: int, limit: int, wanted: int, key_group: int
    ) -> Iterator[Cut]:
        """Find the entries of a state, some megabytes at a time; see `HeapKeyGroupReader.cuts`."""
        if is_plain(self._entries[wanted]):
            cursor, _ = self._find(data, position, limit, wanted, key_group)
            if cursor.boolean():
                yield from self._cuts(data, cursor, wanted)
        else:
            yield self.cut(data, position, limit, wanted, key_group)

    def cut(self, data: NDArray[np.uint8], position: int, limit: int, wanted: int, key_group: int) -> Cut:
        """Find the entries of a state; see `HeapKeyGroupReader.cut`.

        Raises:
            CorruptDataError: the bytes contradict the layout.
            UnsupportedSerializerError: a state before this one cannot be walked, or this one cannot and others follow.
        """
        cursor, is_last = self._find(data, position, limit, wanted, key_group)
        start = cursor.position
        cuts = [_nothing()]
        try:
            if cursor.boolean():
                cuts += self._cuts(data, cursor, wanted)
        except UnsupportedSerializerError:
            # Only the last state has a certain end without a walk: that of the key group. `gaps.py` knows the newer layout only.
            if is_last:
                return undivided(start, limit)
            raise
        return _joined(cuts)

    def count(self, data: NDArray[np.uint8], position: int, limit: int, wanted: int, key_group: int) -> int:
        """Count the entries that `cuts` finds; the layout records their number by namespace only."""
        return sum(len(cut.starts) for cut in self.cuts(data, position, limit, wanted, key_group))

    def _find(
        self, data: NDArray[np.uint8], position: int, limit: int, wanted: int, key_group: int
    ) -> tuple[Cursor, bool]:
        """Return a cursor behind the id of a state, and whether the state is the last one of the key group."""
        cursor = Cursor(data, path=self._path, position=position, end=limit)
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
                for _ in self._cuts(data, cursor, state):
                    pass
        raise CorruptDataError(
            f"expected state {wanted} in key group {key_group}, found {len(self._entries)} others",
            path=self._path,
            position=cursor.position,
        )

    def _cuts(self, data: NDArray[np.uint8], cursor: Cursor, state: int) -> Iterator[Cut]:
        """Yield the entries of a state that has some; the cursor is at its namespaces, and moves behind them."""
        namespaces, entries = self._walker(state)
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
                    self.release(begun, cursor.position)
                    found, rows, begun = [], 0, cursor.position
        if found:
            yield _joined(found)
            self.release(begun, cursor.position)

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
