"""The entries of a source, key group by key group, as canonical entries; the order in a state is that of `_row`.

| source | entries |
|---|---|
| canonical | those of the file; a state that nobody changes is carried as one piece of bytes |
| RocksDB, changelog | canonical entries already: nothing is decoded |
| hashmap, its own layout | decoded, and encoded again |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from readers import (
    BackendStateType,
    ComposedSource,
    Page,
    Selection,
    Source,
    StateName,
    StatePart,
    StoredHeader,
)
from writers.errors import RefusedEditError
from writers.keyed.composition import Composer

_KEYED_VERSION = 6  # of headers that Flink restores since 1.17
# States are read side by side, each with some pages in memory; many states of a large source are read key group by key group, which
# takes longer.
_MOST_SIDE_BY_SIDE = 32
_LARGE_SOURCE_BYTES = 256 << 20


class Carrier(ABC):
    """Carries the entries of one source.

    Args:
        source: the source.
        header: its header.
        max_parallelism: number of key groups of the operator.
    """

    def __init__(self, source: Source, header: StoredHeader, max_parallelism: int) -> None:
        self._source = source
        self._names = state_names(header)
        self._composers = (
            {} if source.is_composite else dict(_composers(source, self._names, max_parallelism))
        )

    @property
    def groups(self) -> Iterator[int]:
        """The key groups that may have entries, in the order in which they can be carried."""
        groups = self._source.key_group_range
        assert groups is not None
        return iter(range(groups.start, groups.end + 1))

    @abstractmethod
    def states(self, group: int) -> Iterator[tuple[int, Iterator[Page]]]:
        """Yield the id of each state with its entries in a key group, before the next is asked for."""

    def pages(self, state: int, selection: Selection) -> Iterator[Page]:
        """Yield the entries of a state, by its id."""
        name = self._names[state]
        pages = self._source.pages(name, selection)
        composer = self._composers.get(name)
        return pages if composer is None else composer.composed(pages)


class SideBySide(Carrier):
    """Reads all states at the same time, each from the first key group to the last, in the order of the source."""

    def __init__(self, source: Source, header: StoredHeader, max_parallelism: int) -> None:
        super().__init__(source, header, max_parallelism)
        self._order = (
            [group for group, _ in source.key_group_bytes(self._names[0]) or ()] if self._names else []
        )
        places: NDArray[np.int64] = np.zeros(max(self._order, default=0) + 1, dtype=np.int64)
        places[self._order] = np.arange(len(self._order))
        self._read = [
            _StatePages(self.pages(state, Selection()), places) for state in range(len(self._names))
        ]

    @property
    def groups(self) -> Iterator[int]:
        return iter(self._order)

    def states(self, group: int) -> Iterator[tuple[int, Iterator[Page]]]:
        for state, pages in enumerate(self._read):
            yield state, pages.of(group)


class GroupByGroup(Carrier):
    """Reads each state of each key group by itself."""

    def states(self, group: int) -> Iterator[tuple[int, Iterator[Page]]]:
        selection = Selection(key_groups=frozenset({group}))
        for state in range(len(self._names)):
            yield state, self.pages(state, selection)


class _StatePages:
    """The pages of one state, cut at key groups.

    Args:
        pages: the pages.
        places: the place of each key group in the order of the pages.
    """

    def __init__(self, pages: Iterator[Page], places: NDArray[np.int64]) -> None:
        self._pages = pages
        self._places = places
        self._page: Page | None = None
        self._position = 0

    def of(self, group: int) -> Iterator[Page]:
        """Yield the entries of a key group: of the first one that was not asked for, or of a later one."""
        place = int(self._places[group])
        while True:
            page = self._page
            if page is None or self._position == len(page):
                page = self._page = next(self._pages, None)
                self._position = 0
                if page is None:
                    return
            places = self._places[page.key_groups[self._position :]]
            first, behind = np.searchsorted(places, [place, place + 1]) + self._position
            self._position = int(behind)
            if behind > first:
                yield page.slice(int(first), int(behind))
            if behind < len(page):
                return


def carrier_of(source: Source, header: StoredHeader, max_parallelism: int) -> Carrier:
    """Return the carrier of a source."""
    # A changelog yields the key groups of its base first, and then those that only changes have.
    is_ordered = source.backend in {"rocksdb", "hashmap"}
    is_small = len(state_names(header)) <= _MOST_SIDE_BY_SIDE or source.size_bytes <= _LARGE_SOURCE_BYTES
    carrier = SideBySide if is_ordered and is_small else GroupByGroup
    return carrier(source, header, max_parallelism)


def composed_part(source: Source, name: StateName, max_parallelism: int) -> StatePart:
    """Return a state in the layout of canonical entries, for entries that the writer has already."""
    composed = ComposedSource(
        subtask=source.subtask,
        path=source.path,
        size_bytes=source.size_bytes,
        entries=source.entries,
        max_parallelism=max_parallelism,
    )
    return StatePart(source=composed, name=name, entry=source.entries[name])


def _composers(
    source: Source, names: list[StateName], max_parallelism: int
) -> Iterator[tuple[StateName, Composer]]:
    for name in names:
        part = StatePart(source=source, name=name, entry=source.entries[name])
        yield name, Composer(part, composed_part(source, name, max_parallelism))


def key_block(header: StoredHeader) -> bytes:
    """Return the snapshot of the keys' serializer."""
    start, end = header.header.key_block
    return header.data[start:end]


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
    if any(state.kind is BackendStateType.KEY_VALUE_V2 for state in header.header.states):
        raise RefusedEditError(
            f"{source.path}: keyed state of state V2 cannot be written: its restore is not proven"
        )
    if header.header.version != _KEYED_VERSION:
        raise RefusedEditError(
            f"{source.path}: expected keyed state as Flink 1.8 and later write it (header version {_KEYED_VERSION}), "
            f"found version {header.header.version}: let a later Flink take a new savepoint"
        )
    names = state_names(header)
    opaque = [
        name.name for name in names if source.backend == "changelog" and source.entries[name].is_raw("key")
    ]
    if opaque:
        raise RefusedEditError(
            f"{source.path}: expected changes whose keys are decoded, found those of state {opaque[0]}: take a canonical savepoint"
        )
    if len(set(names)) < len(names):
        raise RefusedEditError(f"{source.path}: expected states of different names, found two of one name")
    return header
