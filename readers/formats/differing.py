"""`DifferingPages`: entries of one state that may differ between two sources. The seam between formats and `readers.differences`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from readers.decode.page import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingPages:
    """Entries of one state that may differ between two sources.

    All entries of both sides that have the same key, namespace and map key are in the same ones, or in none: then both sides
    have the same bytes. Entries with equal bytes may be here, too: nobody relies on their absence.

    Attributes:
        before, after: the entries of either side, in the layout of its source; they may be iterated several times.
        equal_entries: how many entries with equal bytes on both sides were left out since the last pages; None if they were not
            read.
    """

    before: Iterable[Page]
    after: Iterable[Page]
    equal_entries: int | None = 0


@dataclass(frozen=True, slots=True)
class PagesAnew:
    """Pages that are made each time they are iterated, as they would take much memory together.

    Attributes:
        make: makes them.
    """

    make: Callable[[], Iterator[Page]]

    def __iter__(self) -> Iterator[Page]:
        return self.make()


class CollectedPages:
    """Entries that may differ, collected until they are worth decoding: of most key groups only a few do."""

    def __init__(self) -> None:
        self._before: list[Page] = []
        self._after: list[Page] = []
        self._equal: int | None = 0

    def add(
        self, before: Iterable[Page], after: Iterable[Page], equal_entries: int | None
    ) -> Iterator[DifferingPages]:
        """Add entries of whole key groups, and yield what has come together."""
        self._before += before
        self._after += after
        self._equal = None if self._equal is None or equal_entries is None else self._equal + equal_entries
        if sum(map(len, (*self._before, *self._after))) >= _WORTH_DECODING:
            yield from self.rest()

    def rest(self) -> Iterator[DifferingPages]:
        """Yield what is left."""
        if self._before or self._after or self._equal != 0:
            yield DifferingPages(
                before=tuple(self._before), after=tuple(self._after), equal_entries=self._equal
            )
        self._before, self._after, self._equal = [], [], 0


_WORTH_DECODING = 1 << 15  # entries
