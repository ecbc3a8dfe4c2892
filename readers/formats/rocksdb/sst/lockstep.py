"""Two sequences of pages in the order of their keys → the entries that differ, of both.

Keys and values are compared as bytes, and nothing is decoded. An entry differs if the other side lacks its key, or has another value.
Pages of both sides come in pairs: all entries of a key are in the same pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i8, store_8
from readers.formats.rocksdb.sst.scan import PAGE_BYTES, PAGE_ENTRIES, Entries
from readers.formats.rocksdb.sst.words import SLACK_BYTES, compare_bytes, copy_words

# The fields of a walk: where it is on both sides, and how many entries that differ it has found.
_LEFT, _RIGHT, _LEFT_FOUND, _RIGHT_FOUND = range(4)

_ROW_BYTES = 16


@subroutine
def _compare(
    left: int, left_starts: int, left_ends: int, right: int, right_starts: int, right_ends: int, segment: int
) -> int:
    start = load_le_i8(left_starts, segment * 8)
    other = load_le_i8(right_starts, segment * 8)
    compared: int = compare_bytes(
        left + start,
        load_le_i8(left_ends, segment * 8) - start,
        right + other,
        load_le_i8(right_ends, segment * 8) - other,
    )
    return compared


@kernel
def walk_pages(
    walk: int,
    left: int,
    left_starts: int,
    left_ends: int,
    left_count: int,
    left_found: int,
    right: int,
    right_starts: int,
    right_ends: int,
    right_count: int,
    right_found: int,
) -> None:
    """Walk two pages until one ends, and store the numbers of the entries that differ.

    Args:
        walk: the fields of the walk, int64.
        left, right: buffers, with slack behind.
        left_starts, left_ends, right_starts, right_ends: int64 (entries, 2).
        left_count, right_count: how many entries there are; the other page is walked to its end if one is 0.
        left_found, right_found: memory for as many numbers, int64.
    """
    one = load_le_i8(walk, _LEFT * 8)
    other = load_le_i8(walk, _RIGHT * 8)
    left_number = load_le_i8(walk, _LEFT_FOUND * 8)
    right_number = load_le_i8(walk, _RIGHT_FOUND * 8)
    while one < left_count or other < right_count:
        compared = 0
        if left_count == 0:
            compared = 1
        elif right_count == 0:
            compared = -1
        elif one >= left_count or other >= right_count:
            break
        else:
            at = one * _ROW_BYTES
            there = other * _ROW_BYTES
            compared = _compare(
                left, left_starts + at, left_ends + at, right, right_starts + there, right_ends + there, 0
            )
            if compared == 0:
                one += 1
                other += 1
                if (
                    _compare(
                        left,
                        left_starts + at,
                        left_ends + at,
                        right,
                        right_starts + there,
                        right_ends + there,
                        1,
                    )
                    != 0
                ):
                    store_8(left_found, left_number * 8, one - 1)
                    store_8(right_found, right_number * 8, other - 1)
                    left_number += 1
                    right_number += 1
        if compared < 0:
            store_8(left_found, left_number * 8, one)
            left_number += 1
            one += 1
        elif compared > 0:
            store_8(right_found, right_number * 8, other)
            right_number += 1
            other += 1
    store_8(walk, _LEFT * 8, one)
    store_8(walk, _RIGHT * 8, other)
    store_8(walk, _LEFT_FOUND * 8, left_number)
    store_8(walk, _RIGHT_FOUND * 8, right_number)


@kernel
def gather_entries(
    data: int, starts: int, ends: int, found: int, count: int, target: int, to_starts: int, to_ends: int
) -> None:
    """Copy entries into a new page: the buffers with slack behind, the bounds int64 (entries, 2)."""
    position = 0
    for number in range(count):
        row = load_le_i8(found, number * 8) * _ROW_BYTES
        for segment in (0, 8):
            start = load_le_i8(starts, row + segment)
            length = load_le_i8(ends, row + segment) - start
            copy_words(target + position, data + start, length)
            store_8(to_starts, number * _ROW_BYTES + segment, position)
            position += length
            store_8(to_ends, number * _ROW_BYTES + segment, position)


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingEntries:
    """Entries that differ.

    Attributes:
        left, right: the entries of either side, with keys of the same range.
        equal: how many entries of both sides were equal since the last ones.
    """

    left: Entries
    right: Entries
    equal: int


def differing(left: Iterator[Entries], right: Iterator[Entries]) -> Iterator[DifferingEntries]:
    """Yield the entries that differ.

    Args:
        left, right: pages of entries in the order of their keys, each with `SLACK_BYTES` behind its buffer.
    """
    one, other = _Side(left), _Side(right)
    equal = 0
    while one.load() | other.load():
        walk = np.array([one.position, other.position, 0, 0], dtype=np.int64)
        found = np.empty(len(one), dtype=np.int64), np.empty(len(other), dtype=np.int64)
        walk_pages(walk, *one.entries, found[0], *other.entries, found[1])
        equal += int(walk[_LEFT] - walk[_LEFT_FOUND]) - one.position
        one.position, other.position = int(walk[_LEFT]), int(walk[_RIGHT])
        one.take(found[0][: walk[_LEFT_FOUND]])
        other.take(found[1][: walk[_RIGHT_FOUND]])
        if one.is_full or other.is_full:
            yield DifferingEntries(left=one.taken(), right=other.taken(), equal=equal)
            equal = 0
    if one.has_taken or other.has_taken or equal:
        yield DifferingEntries(left=one.taken(), right=other.taken(), equal=equal)


class _Side:
    """One side of a walk: its current page, and the entries that were taken out of pages."""

    def __init__(self, pages: Iterator[Entries]) -> None:
        self._pages = pages
        self._page = _EMPTY
        self.position = 0
        self._taken: list[Entries] = []
        self._bytes = 0
        self._count = 0

    def __len__(self) -> int:
        return len(self._page[1])

    def load(self) -> bool:
        """Go on to the next page if the current one was walked to its end; return whether there are entries left."""
        while self.position >= len(self):
            page = next(self._pages, None)
            self._page, self.position = _EMPTY if page is None else page, 0
            if page is None:
                return False
        return True

    @property
    def entries(self) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], int]:
        """Buffer, starts and ends, and the number of entries."""
        return *self._page, len(self)

    def take(self, found: NDArray[np.int64]) -> None:
        """Copy the entries of these numbers out of the current page."""
        if not len(found):
            return
        data, starts, ends = self._page
        length = int((ends[found] - starts[found]).sum())
        target = np.empty(length + SLACK_BYTES, dtype=np.uint8)
        bounds = np.empty((2, len(found), 2), dtype=np.int64)
        gather_entries(data, starts, ends, found, len(found), target, bounds[0], bounds[1])
        self._taken.append((target[:length], bounds[0], bounds[1]))
        self._bytes += length
        self._count += len(found)

    @property
    def has_taken(self) -> bool:
        """True if entries were taken."""
        return bool(self._taken)

    @property
    def is_full(self) -> bool:
        """True if the taken entries are as many as a page has."""
        return self._bytes >= PAGE_BYTES or self._count >= PAGE_ENTRIES

    def taken(self) -> Entries:
        """Return the taken entries as one page, and forget them."""
        pages, self._taken, self._bytes, self._count = self._taken, [], 0, 0
        if len(pages) == 1:
            return pages[0]
        shifts = np.cumsum([0, *(len(data) for data, _, _ in pages)])
        return (
            np.concatenate([data for data, _, _ in pages] or [_EMPTY[0]]),
            np.concatenate([starts + shifts[at] for at, (_, starts, _) in enumerate(pages)] or [_EMPTY[1]]),
            np.concatenate([ends + shifts[at] for at, (_, _, ends) in enumerate(pages)] or [_EMPTY[2]]),
        )


_EMPTY: Entries = (np.empty(0, np.uint8), np.empty((0, 2), np.int64), np.empty((0, 2), np.int64))
