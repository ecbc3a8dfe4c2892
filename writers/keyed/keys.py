"""The composite keys of entries as one column, to find those that are there already.

Flink takes the last of two entries with one key, without an error: so a key that is added must be new. Keys are equal where their
bytes are, as in RocksDB.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import kernel, load_le_i8, load_u1, store_1
from writers.keyed.assembly import copy_bytes
from writers.keyed.segments import KEY_BYTES, EntrySegments


@kernel
def _gather(table: int, count: int, skipped: int, output: int) -> int:
    """Copy keys one after the other; the mark of the last entry of a state is no part of its key."""
    position = 0
    for entry in range(count):
        field = entry * 32
        size = load_le_i8(table, field + 8) - skipped
        copy_bytes(load_le_i8(table, field) + skipped, output + position, size)
        if size > 0 and skipped == 0:
            store_1(output, position, load_u1(output, position) & 0x7F)
        position += size
    return position


def key_column(entries: EntrySegments, skipped: int = 0) -> pa.LargeBinaryArray:
    """Return the composite key of each entry, without some bytes at its begin."""
    table = np.ascontiguousarray(entries.table)
    sizes = table[:, KEY_BYTES] - skipped
    offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    output: NDArray[np.uint8] = np.empty(max(int(offsets[-1]), 1), dtype=np.uint8)
    _gather(table, len(table), skipped, output)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(table), [None, pa.py_buffer(offsets), pa.py_buffer(output)]
    )


class NewKeys:
    """The keys of entries that are added to a key group.

    Args:
        entries: those that are added.
    """

    def __init__(self, entries: EntrySegments) -> None:
        self._keys = key_column(entries)
        self._sizes = np.unique(entries.table[:, KEY_BYTES])

    def repeated(self) -> int | None:
        """Return the number of the first entry whose key an earlier one has; None if there is none."""
        firsts = pc.index_in(self._keys, self._keys).to_numpy()
        later = np.flatnonzero(firsts != np.arange(len(firsts)))
        return int(later[0]) if len(later) else None

    def found(self, entries: EntrySegments) -> NDArray[np.int64]:
        """Return which of the new keys each entry has, int64 (entries,); -1 where it has none."""
        numbers: NDArray[np.int64] = np.full(len(entries), -1, dtype=np.int64)
        alike = np.flatnonzero(np.isin(entries.table[:, KEY_BYTES], self._sizes))
        if len(alike):
            keys = key_column(entries.take(alike))
            numbers[alike] = pc.index_in(keys, value_set=self._keys).fill_null(-1).to_numpy()
        return numbers
