"""The heap layout of Flink 1.2: the states of a key group by namespace.

As in `heap.py`, but for what stands behind the id of a state:

| bytes | meaning |
|---|---|
| u1 | 0: the state has nothing in this key group |
| i4 n, n × (namespace, i4 m, m × (key, value)) | else |

An entry has two segments: its namespace, which it shares with others, and key and value. Header version 1 has this layout.
Flink: StateTableByKeyGroupReaders$StateTableByKeyGroupReaderV1 (1.3), HeapKeyedStateBackend#writeStateTableForKeyGroup (1.2)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import Decoder, walker
from readers.errors import CorruptDataError, UnsupportedSerializerError
from readers.formats.entry import Entry, EntryLayout
from readers.formats.heap import Cut, emit_key_and_value, emit_namespace_alone, require_sized, undivided

LAST_HEADER_VERSION = 1
_NAMESPACE_BYTES = 4  # the least that a namespace takes: the count of its entries


class HeapMapsWalker:
    """Finds the entries of states in the key groups of one stream; belongs to one thread.

    Args:
        entries: what the entries of the states are made of, in the order of their ids.
        path: the file, for errors.
    """

    def __init__(self, entries: Sequence[Entry], path: str) -> None:
        self._entries = entries
        self._walkers: dict[int, tuple[Decoder, Decoder]] = {}
        self._path = path

    def cuts(
        self, data: NDArray[np.uint8], position: int, limit: int, wanted: int, key_group: int
    ) -> Iterator[Cut]:
        """As `heap.HeapWalker.cuts`; here all of it is one."""
        yield self.cut(data, position, limit, wanted, key_group)

    def cut(self, data: NDArray[np.uint8], position: int, limit: int, wanted: int, key_group: int) -> Cut:
        """As `heap.HeapWalker.cut`.

        Raises:
            CorruptDataError: the bytes contradict the layout.
            UnsupportedSerializerError: a state before this one cannot be walked, or this one cannot and others follow.
        """
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
            start = cursor.position
            try:
                found = self._state(data, cursor, state) if cursor.boolean() else _nothing()
            except UnsupportedSerializerError:
                if state == wanted and not unseen:
                    return undivided(start, limit)
                raise
            if state == wanted:
                return found
        raise CorruptDataError(
            f"expected state {wanted} in key group {key_group}, found {len(self._entries)} others",
            path=self._path,
            position=cursor.position,
        )

    def count(self, data: NDArray[np.uint8], position: int, limit: int, wanted: int, key_group: int) -> int:
        """How many entries `cut` finds."""
        return len(self.cut(data, position, limit, wanted, key_group).starts)

    def _state(self, data: NDArray[np.uint8], cursor: Cursor, state: int) -> Cut:
        namespaces, entries = self._walker(state)
        starts, ends = [_nothing().starts], [_nothing().ends]
        for _ in range(cursor.count("namespaces", _NAMESPACE_BYTES)):
            first, behind = namespaces.measure(data, cursor.position, cursor.end, 1, self._path)
            cursor.position = int(behind[0, 0])
            count = cursor.count("entries of a namespace")
            if not count:
                continue
            begin, end = entries.measure(data, cursor.position, cursor.end, count, self._path)
            cursor.position = int(end[-1, 0])
            starts.append(np.hstack([np.repeat(first, count, axis=0), begin]))
            ends.append(np.hstack([np.repeat(behind, count, axis=0), end]))
        return Cut(starts=np.concatenate(starts), ends=np.concatenate(ends))

    def _walker(self, state: int) -> tuple[Decoder, Decoder]:
        if state not in self._walkers:
            entry, layout = self._entries[state], EntryLayout({})
            require_sized(entry)
            self._walkers[state] = (
                walker(lambda program: emit_namespace_alone(program, layout, entry)),
                walker(lambda program: emit_key_and_value(program, layout, entry)),
            )
        return self._walkers[state]


def _nothing() -> Cut:
    empty: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
    return Cut(starts=empty, ends=empty)
