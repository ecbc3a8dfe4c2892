"""What differs between the key groups of two canonical savepoints, remembered and collected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from readers.decode.page import Page
from readers.formats.differing import DifferingPages
from readers.formats.full.layout import PAGE_ENTRIES
from readers.formats.full.lockstep import Found, Positions, Side, bounds

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


@dataclass(slots=True)
class Pages:
    """Entries that differ, collected until they are worth decoding: of most key groups only a few are.

    Args:
        before, after: indexes of the subtasks of either side.
    """

    before: int
    after: int
    _old: list[tuple[Side, Positions, int]] = field(default_factory=list)
    _new: list[tuple[Side, Positions, int]] = field(default_factory=list)
    _entries: int = 0
    _equal: int = 0

    def add(self, key_group: int, before: Side, after: Side, found: Found) -> Iterator[DifferingPages]:
        """Add what differs in a key group; yield what has come together."""
        self._equal += found.equal
        for start in range(0, len(found.changed_before), PAGE_ENTRIES):
            end = start + PAGE_ENTRIES
            yield from self._keep(
                key_group, (before, found.changed_before[start:end]), (after, found.changed_after[start:end])
            )
        for start in range(0, len(found.removed), PAGE_ENTRIES):
            yield from self._keep(key_group, (before, found.removed[start : start + PAGE_ENTRIES]), None)
        for start in range(0, len(found.added), PAGE_ENTRIES):
            yield from self._keep(key_group, None, (after, found.added[start : start + PAGE_ENTRIES]))

    def add_equal(self, found: Found) -> None:
        """Count the entries of a key group of which all are equal."""
        self._equal += found.equal

    def rest(self) -> Iterator[DifferingPages]:
        """Yield what was collected and not yielded yet."""
        if self._entries or self._equal:
            yield DifferingPages(
                before=tuple(_pages(self._old, self.before)),
                after=tuple(_pages(self._new, self.after)),
                equal_entries=self._equal,
            )
        self._old, self._new, self._entries, self._equal = [], [], 0, 0

    def _keep(
        self, key_group: int, old: tuple[Side, Positions] | None, new: tuple[Side, Positions] | None
    ) -> Iterator[DifferingPages]:
        for kept, found in ((self._old, old), (self._new, new)):
            if found is not None:
                kept.append((*found, key_group))
                self._entries += len(found[1])
        if self._entries >= PAGE_ENTRIES:
            yield from self.rest()


def _pages(found: list[tuple[Side, Positions, int]], subtask: int) -> Iterator[Page]:
    """Yield a page for each buffer."""
    for _, pieces in groupby(found, key=lambda piece: id(piece[0].data)):
        own = list(pieces)
        side = own[0][0]
        positions = np.concatenate([piece[1] for piece in own])
        starts, ends = bounds(side.data, positions)
        groups = np.repeat(
            np.array([piece[2] for piece in own], dtype=np.int32), [len(piece[1]) for piece in own]
        )
        yield Page(
            data=side.data, starts=starts, ends=ends, key_groups=groups, subtask=subtask, path=side.path
        )
