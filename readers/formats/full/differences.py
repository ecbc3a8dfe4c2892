"""What differs between the key groups of two canonical savepoints, remembered and collected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from readers.decode.page import Page
from readers.formats.differing import DifferingPages
from readers.formats.full.layout import PAGE_ENTRIES
from readers.formats.full.lockstep import Found, Positions, Side, bounds, copied

_MOST_COPIED_BYTES = 4 << 20
_MOST_KEPT = 1 << 12  # entries of a key group that differ, whose places are remembered


@dataclass(slots=True)
class Comparisons:
    """What differs from the key groups of one other source, as far as that is little.

    Attributes:
        other: the other source; None for none.
        groups: key group → ids of a state on either side → what differs.
    """

    other: object | None
    groups: dict[int, dict[tuple[int, int], Found]] = field(default_factory=dict)

    def keep(self, key_group: int, found: dict[tuple[int, int], Found]) -> None:
        """Keep what differs in a key group, if it takes little memory."""
        if sum(map(len, found.values())) <= _MOST_KEPT:
            self.groups[key_group] = found


class _Entries:
    """Entries of one side, collected.

    They are copied, unless they are large: to look at an entry of a mapped file again, after its pages were given back, brings 64
    KiB of the file into memory.
    """

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask
        self._clear()

    def _clear(self) -> None:
        self._large: list[Page] = []
        self._bytes: list[NDArray[np.uint8]] = []
        self._starts: list[Positions] = []
        self._ends: list[Positions] = []
        self._groups: list[NDArray[np.int32]] = []
        self._path = ""
        self.size_bytes = 0

    def add(self, side: Side, positions: Positions, key_group: int) -> None:
        """Add entries of a key group."""
        starts, ends = bounds(side.data, positions)
        if int((ends[:, 1] - starts[:, 0]).sum()) > _MOST_COPIED_BYTES:
            self._large.append(Page.of(side.data, (starts, ends), key_group, self._subtask, side.path))
            return
        data = copied(side.data, starts, ends)
        self._bytes.append(data)
        self._starts.append(starts + self.size_bytes)
        self._ends.append(ends + self.size_bytes)
        self._groups.append(np.full(len(positions), key_group, dtype=np.int32))
        self._path = f"{side.path}, entries that differ"
        self.size_bytes += len(data)

    def taken(self) -> tuple[Page, ...]:
        """Return what was collected, and begin anew."""
        pages = list(self._large)
        if self._bytes:
            found = np.concatenate(self._starts), np.concatenate(self._ends)
            groups = np.concatenate(self._groups)
            pages.append(Page.of(np.concatenate(self._bytes), found, groups, self._subtask, self._path))
        self._clear()
        return tuple(pages)


class Pages:
    """Entries that differ, collected until they are worth decoding: of most key groups only a few are.

    Args:
        before, after: indexes of the subtasks of either side.
    """

    def __init__(self, before: int, after: int) -> None:
        self._old = _Entries(before)
        self._new = _Entries(after)
        self._entries = 0
        self._equal = 0

    def add(self, key_group: int, before: Side, after: Side, found: Found) -> Iterator[DifferingPages]:
        """Add what differs in a key group; yield what has come together."""
        self._equal += found.equal
        changed = found.changed_before, found.changed_after
        for old, new in (changed, (found.removed, _NONE), (_NONE, found.added)):
            for start in range(0, max(len(old), len(new)), PAGE_ENTRIES):
                for entries, side, positions in ((self._old, before, old), (self._new, after, new)):
                    chosen = positions[start : start + PAGE_ENTRIES]
                    if len(chosen):
                        entries.add(side, chosen, key_group)
                        self._entries += len(chosen)
                if self._entries >= PAGE_ENTRIES or self._size_bytes > _MOST_COPIED_BYTES:
                    yield from self.rest()

    @property
    def _size_bytes(self) -> int:
        return self._old.size_bytes + self._new.size_bytes

    def add_equal(self, found: Found) -> None:
        """Count the entries of a key group of which all are equal."""
        self._equal += found.equal

    def rest(self) -> Iterator[DifferingPages]:
        """Yield what was collected and not yielded yet."""
        if self._entries or self._equal:
            yield DifferingPages(before=self._old.taken(), after=self._new.taken(), equal_entries=self._equal)
        self._entries = self._equal = 0


_NONE: Positions = np.empty(0, dtype=np.int64)
