"""`Page`: a buffer and the positions of entries of one state in it. The seam between state-file formats and value types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Chosen = slice | NDArray[np.bool_] | NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Entries of one state.

    Attributes:
        data: uint8 buffer that all positions refer to.
        starts: int64, shape (entries, segments): the first byte of each segment of an entry. Canonical and RocksDB
            data have two segments (key bytes, value bytes), everything else one.
        ends: int64, same shape: the first byte behind each segment.
        key_groups: int32, shape (entries,); -1 where the state is not keyed.
        subtask: the subtask that wrote the state.
        path: the file, as the savepoint names it, for errors.
        indexes: int32, shape (entries,), the element index of operator list states; None elsewhere.
        undivided: True if an entry here is many entries whose ends are not known: one segment, shown as bytes.
        first_index: the index of the first element here, if the only entry has some elements of a longer list.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    key_groups: NDArray[np.int32]
    subtask: int
    path: str
    indexes: NDArray[np.int32] | None = None
    undivided: bool = False
    first_index: int = 0

    @classmethod
    def of(
        cls,
        data: NDArray[np.uint8],
        bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
        key_groups: NDArray[np.int32] | int,
        subtask: int,
        path: str,
    ) -> Page:
        """Return the page of entries with these starts and ends; of one key group if only its number is given."""
        starts, ends = bounds
        if isinstance(key_groups, int):
            key_groups = np.full(len(starts), key_groups, dtype=np.int32)
        return cls(data=data, starts=starts, ends=ends, key_groups=key_groups, subtask=subtask, path=path)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def first_byte(self) -> int | None:
        """Where its first entry begins; None if it has none."""
        return int(self.starts[0, 0]) if len(self) else None

    def slice(self, start: int, stop: int) -> Page:
        """Return entries `start` to `stop`, without a copy."""
        return self.only(slice(start, stop))

    def only(self, chosen: Chosen) -> Page:
        """Return some of the entries; a slice of them without a copy."""
        return replace(
            self,
            starts=np.ascontiguousarray(self.starts[chosen]),
            ends=np.ascontiguousarray(self.ends[chosen]),
            key_groups=np.ascontiguousarray(self.key_groups[chosen]),
            indexes=None if self.indexes is None else self.indexes[chosen],
        )

    def counts(self) -> Iterator[tuple[int, int]]:
        """Yield each key group and its number of entries."""
        groups, numbers = np.unique(self.key_groups, return_counts=True)
        yield from zip(groups.tolist(), numbers.tolist(), strict=True)
