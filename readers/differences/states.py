"""The rows of two states that may differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from readers.formats.differing import DifferingPages
from readers.formats.source import Selection
from readers.keygroups import key_group_chunks
from readers.rows import is_row
from readers.states import State, StatePart

# So many bytes of both sides are compared at once: enough that each batch costs little, few enough for memory.
_COMPARED_BYTES = 16 << 20

Batches = Callable[[], Iterator[pa.RecordBatch]]
"""Returns rows, each time from their beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedState:
    """One of two states that are compared.

    Attributes:
        state: the state.
        selection: the entries to compare; without key groups or keys all.
        columns: names of its columns that the rows have.
    """

    state: State
    selection: Selection
    columns: tuple[str, ...]

    def rows(self, part: StatePart, groups: frozenset[int] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part in some key groups."""
        return part.read(self.columns, self.state.schema, replace(self.selection, key_groups=groups))

    def rows_of(self, part: StatePart, pages: DifferingPages, *, is_before: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some entries of a part."""
        return part.rows_of(pages.before if is_before else pages.after, self.columns, self.state.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRows:
    """Rows that may differ; all rows of both sides that have one identity are in the same ones.

    Attributes:
        before, after: the rows of either side.
        equal_rows: how many rows of both sides were left out, because they are equal; None where that was not counted.
    """

    before: Batches
    after: Batches
    equal_rows: int | None = 0


def differing_rows(before: ComparedState, after: ComparedState) -> Iterator[DifferingRows]:
    """Yield the rows of two states that may differ, some key groups at a time.

    Raises:
        ReaderError: a file is missing or contradicts its format; iterating the rows raises it, too.
    """
    before.state.check(before.selection)
    after.state.check(after.selection)
    if before.state.max_parallelism != after.state.max_parallelism:
        # A key has another key group then.
        yield _whole(before, after)
        return
    old, new = _parts_of_groups(before), _parts_of_groups(after)
    if old is None or new is None:
        yield _whole(before, after)
        return
    pairs = _pairs(old, new)
    left = sorted((old.keys() | new.keys()).difference(*pairs.values()))
    for pair, groups in pairs.items():
        pages = _differing(before, after, pair, groups)
        if pages is None:
            left += groups
        else:
            yield from _decoded(before, after, pair, pages)
    sizes = (
        (group, sum(side[group].size_bytes for side in (old, new) if group in side)) for group in sorted(left)
    )
    for groups, _ in key_group_chunks(sizes, _COMPARED_BYTES):
        yield _of_groups(before, after, groups, old, new)


@dataclass(frozen=True, slots=True)
class _Holders:
    """The parts of a state that hold a key group, and about how many bytes it has."""

    parts: tuple[int, ...]
    size_bytes: int


def bytes_decide(before: StatePart, after: StatePart) -> bool:
    """Return whether entries with equal bytes are equal rows, so that `Source.differing` may leave them out."""
    entry = before.entry
    if entry.is_assumed or (before.source.keeps_old_bytes and entry.older is not None):
        # How such an entry is read depends on its neighbours.
        return False
    return before.entry == after.entry


def _parts_of_groups(compared: ComparedState) -> dict[int, _Holders] | None:
    """Return the key groups of a state that are compared; None where a part does not tell which it has."""
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, part in enumerate(compared.state.parts):
        sizes = part.source.key_group_bytes(part.name)
        if sizes is None:
            return None
        for group, size_bytes in sizes:
            if compared.selection.wants(group):
                found[group].append((number, size_bytes))
    return {
        group: _Holders(tuple(number for number, _ in parts), sum(size for _, size in parts))
        for group, parts in found.items()
    }


def _pairs(old: Mapping[int, _Holders], new: Mapping[int, _Holders]) -> dict[tuple[int, int], frozenset[int]]:
    """Return the key groups that one part of either side holds alone, by these two parts."""
    found: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    for group in old.keys() & new.keys():
        if len(old[group].parts) == len(new[group].parts) == 1:
            found[old[group].parts[0], new[group].parts[0]].add(group)
    return {pair: frozenset(found[pair]) for pair in sorted(found)}


def _differing(
    before: ComparedState, after: ComparedState, pair: tuple[int, int], groups: frozenset[int]
) -> Iterator[DifferingPages] | None:
    """Return the entries of two parts that may differ; None if only their rows tell."""
    old, new = before.state.parts[pair[0]], after.state.parts[pair[1]]
    # A few keys are looked up, which reads less than a comparison.
    if before.selection.keys is not None or not bytes_decide(old, new):
        return None
    if old.source.has_bytes_of(new.source):
        return iter((DifferingPages(before=(), after=(), equal_entries=None),))

    def account(size_bytes: int) -> None:
        before.selection.account(size_bytes)

    selection = Selection(key_groups=groups, account=account)
    return old.source.differing(old.name, new.source, new.name, selection)


def _decoded(
    before: ComparedState, after: ComparedState, pair: tuple[int, int], found: Iterable[DifferingPages]
) -> Iterator[DifferingRows]:
    """Yield the rows of entries that may differ."""
    old, new = before.state.parts[pair[0]], after.state.parts[pair[1]]

    def rows(pages: DifferingPages, *, is_before: bool) -> Batches:
        compared, part = (before, old) if is_before else (after, new)
        return lambda: compared.rows_of(part, pages, is_before=is_before)

    is_counted = is_row(old.entry, old.source.columns(old.entry))
    for pages in found:
        yield DifferingRows(
            before=rows(pages, is_before=True),
            after=rows(pages, is_before=False),
            equal_rows=pages.equal_entries if is_counted or not pages.equal_entries else None,
        )


def _of_groups(
    before: ComparedState,
    after: ComparedState,
    groups: frozenset[int],
    old: Mapping[int, _Holders],
    new: Mapping[int, _Holders],
) -> DifferingRows:
    """Return all rows of some key groups."""

    def rows(compared: ComparedState, holders: Mapping[int, _Holders]) -> Batches:
        numbers = sorted({number for group in groups if group in holders for number in holders[group].parts})
        parts = [compared.state.parts[number] for number in numbers]
        return lambda: chain.from_iterable(compared.rows(part, groups) for part in parts)

    return DifferingRows(before=rows(before, old), after=rows(after, new))


def _whole(before: ComparedState, after: ComparedState) -> DifferingRows:
    """Return all rows of both states."""

    def rows(compared: ComparedState) -> Batches:
        groups = compared.selection.key_groups
        return lambda: chain.from_iterable(compared.rows(part, groups) for part in compared.state.parts)

    return DifferingRows(before=rows(before), after=rows(after))
