"""The entries of a source, key group by key group, as canonical entries; the order in a state is that of `_row`.

| source | entries |
|---|---|
| canonical | those of the file; a state that nobody changes is carried as one piece of bytes |
| RocksDB, changelog | canonical entries already: nothing is decoded |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from readers import BackendStateType, Page, Selection, Source, StateName, StoredHeader
from writers.errors import RefusedEditError

_KEYED_VERSION = 6  # of headers that Flink restores since 1.17
# So many states are read side by side, each with some pages in memory; more are read key group by key group.
_MOST_SIDE_BY_SIDE = 32


class Carrier(ABC):
    """Carries the entries of one source.

    Args:
        source: the source.
        header: its header.

    Attributes:
        names: of the states, in the order of their ids.
    """

    def __init__(self, source: Source, header: StoredHeader) -> None:
        self.source = source
        self.names = state_names(header)

    @property
    def groups(self) -> Iterator[int]:
        """The key groups that may have entries, in the order in which they can be carried."""
        groups = self.source.key_group_range
        assert groups is not None
        return iter(range(groups.start, groups.end + 1))

    @abstractmethod
    def states(self, group: int) -> Iterator[tuple[int, Iterator[Page]]]:
        """Yield the id of each state with its entries in a key group, before the next is asked for."""


class SideBySide(Carrier):
    """Reads all states at the same time, each from the first key group to the last."""

    def __init__(self, source: Source, header: StoredHeader) -> None:
        super().__init__(source, header)
        self._read = [_StatePages(source, name) for name in self.names]

    def states(self, group: int) -> Iterator[tuple[int, Iterator[Page]]]:
        for state, pages in enumerate(self._read):
            yield state, pages.of(group)


class GroupByGroup(Carrier):
    """Reads each state of each key group by itself."""

    def states(self, group: int) -> Iterator[tuple[int, Iterator[Page]]]:
        selection = Selection(key_groups=frozenset({group}))
        for state, name in enumerate(self.names):
            yield state, self.source.pages(name, selection)


class _StatePages:
    """The pages of one state, cut at key groups that ascend."""

    def __init__(self, source: Source, name: StateName) -> None:
        self._pages = source.pages(name, Selection())
        self._page: Page | None = None
        self._position = 0

    def of(self, group: int) -> Iterator[Page]:
        """Yield the entries of a key group: of the first one that was not asked for, or of a later one."""
        while True:
            page = self._page
            if page is None or self._position == len(page):
                page = self._page = next(self._pages, None)
                self._position = 0
                if page is None:
                    return
            groups = page.key_groups
            first = self._position + int(np.searchsorted(groups[self._position :], group, side="left"))
            behind = first + int(np.searchsorted(groups[first:], group, side="right"))
            self._position = behind
            if behind > first:
                yield page.slice(first, behind)
            if behind < len(page):
                return


def carrier_of(source: Source, header: StoredHeader) -> Carrier:
    """Return the carrier of a source.

    Raises:
        RefusedEditError: its entries are not canonical.
    """
    if not source.is_composite:
        raise RefusedEditError(
            f"keyed state of the {source.backend} backend in its own layout cannot be written yet: take a canonical savepoint"
        )
    if source.backend == "rocksdb" and len(state_names(header)) <= _MOST_SIDE_BY_SIDE:
        return SideBySide(source, header)
    return GroupByGroup(source, header)


def state_names(header: StoredHeader) -> list[StateName]:
    """Return the names of the states of a header, in the order of their ids."""
    return [
        StateName(name=state.name, timers=state.kind is BackendStateType.PRIORITY_QUEUE)
        for state in header.header.states
    ]


def check_carried(source: Source, header: StoredHeader | None) -> StoredHeader:
    """Return the header of a source whose states can be written as canonical key groups.

    Raises:
        RefusedEditError: Flink would not restore it, or it is not proven that it would.
    """
    if header is None:
        raise RefusedEditError(f"keyed state of the {source.backend} backend cannot be written yet")
    if source.backend == "forst" or any(
        state.kind is BackendStateType.KEY_VALUE_V2 for state in header.header.states
    ):
        raise RefusedEditError(
            f"{source.path}: keyed state of ForSt, or of state V2, cannot be written: its restore is not proven"
        )
    if header.header.version != _KEYED_VERSION:
        raise RefusedEditError(
            f"{source.path}: expected keyed state as Flink 1.8 and later write it (header version {_KEYED_VERSION}), "
            f"found version {header.header.version}: let a later Flink take a new savepoint"
        )
    names = state_names(header)
    if len(set(names)) < len(names):
        raise RefusedEditError(f"{source.path}: expected states of different names, found two of one name")
    return header
