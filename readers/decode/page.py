"""`Page`: a buffer and the positions of entries of one state in it. The seam between state-file formats and value types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def first_byte(self) -> int | None:
        """Where its first entry begins; None if it has none."""
        return int(self.starts[0, 0]) if len(self) else None

    def slice(self, start: int, stop: int) -> Page:
        """Return entries `start` to `stop`, without a copy."""
        return Page(
            data=self.data,
            starts=self.starts[start:stop],
            ends=self.ends[start:stop],
            key_groups=self.key_groups[start:stop],
            subtask=self.subtask,
            path=self.path,
            indexes=None if self.indexes is None else self.indexes[start:stop],
            undivided=self.undivided,
            first_index=self.first_index,
        )

    def counts(self) -> Iterator[tuple[int, int]]:
        """Yield each key group and its number of entries."""
        groups, numbers = np.unique(self.key_groups, return_counts=True)
        yield from zip(groups.tolist(), numbers.tolist(), strict=True)
