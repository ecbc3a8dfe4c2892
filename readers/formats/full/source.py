"""Reads the full layout (`full/layout.py`): canonical savepoints of all backends, and full checkpoints of RocksDB.

The first entries of a state are found in a few kilobytes: key groups are walked as far as these reach, and an entry that they cut is
left out. What differs between the key groups of two canonical savepoints is remembered, and collected until it is worth decoding.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.cursor import Cursor
from readers.decode.decoder import Page
from readers.errors import CorruptDataError
from readers.formats import composite
from readers.formats.composite import CompositeSource
from readers.formats.entry import StateKind
from readers.formats.full import layout as full
from readers.formats.full import lockstep
from readers.formats.full.layout import (
    END_OF_KEY_GROUP,
    LENGTHS_BYTES,
    MARK_BYTES,
    META_FOLLOWS,
    PAGE_ENTRIES,
    LookupTarget,
    Search,
    in_rounds,
)
from readers.formats.full.lockstep import Found, Positions, bounds, copied
from readers.formats.opener import Opener, OpeningContext
from readers.formats.snappy import UnpackedWindows
from readers.formats.source import (
    Beginning,
    DifferingPages,
    PagesAnew,
    Selection,
    Source,
    StateName,
    StateRun,
    StoredGroup,
    StoredGroups,
    Tally,
)
from readers.formats.streams import (
    KeyedStreamSource,
    KeyGroupBody,
    first_offset,
    header_outline,
    small_or_header,
)
from readers.keygroups import key_group_bytes
from readers.metadata import KeyGroupsSavepointStateHandle, StreamStateHandle
from readers.serializers.primitives import VoidNamespaceSerializer
from readers.storage.filesystems import StreamWindows, Windows
from readers.storage.location import Ranges

_LENGTH_BYTES = 4


def first_entries(data: bytes, wanted: int, path: str) -> tuple[list[tuple[bytes, bytes]], bool]:
    """Return keys and values of a state at the start of a key group, and whether the end of the key group was reached.

    Args:
        data: the key group, or the start of it.
        wanted: the id of the state.
        path: the file, for errors.

    Raises:
        CorruptDataError: a length is negative.
    """
    entries: list[tuple[bytes, bytes]] = []
    state, position = int.from_bytes(data[:MARK_BYTES], "big"), MARK_BYTES
    while state != END_OF_KEY_GROUP:
        bounds = _bounds(data, position, path)
        if bounds is None:
            return entries, False
        key_end, value_end = bounds
        key = data[position + _LENGTH_BYTES : key_end]
        if state == wanted:
            # The flag is no part of the key.
            plain = bytes([key[0] & ~META_FOLLOWS]) + key[1:]
            entries.append((plain, data[key_end + _LENGTH_BYTES : value_end]))
        position = value_end
        if key[0] & META_FOLLOWS:
            if position + MARK_BYTES > len(data):
                return entries, False
            state = int.from_bytes(data[position : position + MARK_BYTES], "big")
            position += MARK_BYTES
    return entries, True


def _bounds(data: bytes, position: int, path: str) -> tuple[int, int] | None:
    """Return where the key and the value of an entry end; None if the data end before."""
    if position + LENGTHS_BYTES > len(data):
        return None
    key_end = position + _LENGTH_BYTES + _length(data, position, 1, path)
    if key_end + _LENGTH_BYTES > len(data):
        return None
    value_end = key_end + _LENGTH_BYTES + _length(data, key_end, 0, path)
    return None if value_end > len(data) else (key_end, value_end)


def _length(data: bytes, position: int, least: int, path: str) -> int:
    length = int.from_bytes(data[position : position + _LENGTH_BYTES], "big", signed=True)
    if length < least:
        raise CorruptDataError(
            f"expected an entry of a key group, found a length of {length}", path=path, position=position
        )
    return length


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

    def add(self, side: KeyGroupBody, positions: Positions) -> None:
        """Add entries of a key group."""
        starts, ends = bounds(side.data, positions)
        if int((ends[:, 1] - starts[:, 0]).sum()) > _MOST_COPIED_BYTES:
            self._large.append(Page.of(side.data, (starts, ends), side.key_group, self._subtask, side.path))
            return
        data = copied(side.data, starts, ends)
        self._bytes.append(data)
        self._starts.append(starts + self.size_bytes)
        self._ends.append(ends + self.size_bytes)
        self._groups.append(np.full(len(positions), side.key_group, dtype=np.int32))
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

    def add(self, before: KeyGroupBody, after: KeyGroupBody, found: Found) -> Iterator[DifferingPages]:
        """Add what differs in a key group; yield what has come together."""
        self._equal += found.equal
        changed = found.changed_before, found.changed_after
        for old, new in (changed, (found.removed, _NONE), (_NONE, found.added)):
            for start in range(0, max(len(old), len(new)), PAGE_ENTRIES):
                for entries, side, positions in ((self._old, before, old), (self._new, after, new)):
                    chosen = positions[start : start + PAGE_ENTRIES]
                    if len(chosen):
                        entries.add(side, chosen)
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


# Up to so many key groups are searched by windows, at the same time; more are read as a scan reads them.
_MOST_SEARCHES = 16
# A scan over a network fetches key groups of so many bytes up to the end of their state; smaller ones are fetched whole, some together.
_LARGE_GROUP_BYTES = 2 << 20
# It fetches so many of these ahead, and a little more of each than was needed of the last one.
_AHEAD_BYTES = 32 << 20
_MORE = 1.05
_SEVERAL_ENTRIES_A_KEY = frozenset({StateKind.MAP, StateKind.TIMER})


@dataclass(frozen=True, kw_only=True, eq=False)
class FullSource(KeyedStreamSource, CompositeSource):
    """Keyed state in the full layout; keys can be looked up."""

    absent = 0

    @property
    def walk_bytes(self) -> int:
        return super().walk_bytes if self.header.compressed else self.size_bytes

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        if selection.keys is not None:
            yield from self._looked_up(self._targets(state, selection.keys), selection)
            return
        if self._is_fetched_in_part(selection):
            for _, pages in self._fetched_in_part(state, selection):
                yield from pages
            return
        for body in self._bodies(selection, state):
            yield from self._group_pages(body, state)

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        if selection.keys is not None:
            yield from super().counts(state, selection)
            return
        number = self._id_of(state)
        if self._is_fetched_in_part(selection):
            for key_group, pages in self._fetched_in_part(state, selection):
                yield key_group, sum(map(len, pages))
            return
        for body in self._bodies(selection, state):
            yield body.key_group, full.count_key_group(body, number, self._ranges[body.key_group])

    def tallies(self, states: Sequence[StateName], selection: Selection) -> Iterator[Tally]:
        numbers = [(self._id_of(state), state) for state in states]
        for body in self._bodies(selection):
            ranges = self._ranges[body.key_group]
            for number, state in numbers:
                # The first walk finds where all states are, so that the others walk their own entries only.
                count = full.count_key_group(body, number, ranges)
                if ranges.is_known:
                    size = sum(end - begin for owner, begin, end in ranges.all() if owner == number)
                else:
                    cuts = full.cut_key_group(body, number, ranges)
                    size = sum(
                        int((ends - starts).sum()) + full.LENGTHS_BYTES * len(ends)
                        for starts, ends, _ in cuts
                    )
                if count:
                    yield Tally(state=state, key_group=body.key_group, entries=count, size_bytes=size)

    def beginning(self, state: StateName, most_bytes: int) -> Beginning:
        # A compressed key group is one piece, and how large it gets is not known before.
        if not self.is_near or self.header.compressed:
            return Beginning()
        entries: list[tuple[bytes, bytes]] = []
        left, is_whole, number = most_bytes, True, self._id_of(state)
        for _, start, end in self._known_regions:
            size = min(end - start, left)
            if size < MARK_BYTES:
                is_whole = False
                break
            left -= size
            found, is_end = first_entries(self.stream.read(start, size), number, self.path)
            entries += found
            is_whole = is_whole and is_end
        return Beginning(entries=tuple(entries), bytes_read=most_bytes - left, is_whole=is_whole)

    def differing(
        self, state: StateName, other: Source, other_state: StateName, selection: Selection
    ) -> Iterator[DifferingPages] | None:
        if not isinstance(other, FullSource) or self.max_parallelism != other.max_parallelism:
            return None
        groups, others = ([one[0] for one in side._chosen(selection)] for side in (self, other))
        # Flink writes key groups in ascending order; who has written others does not gain.
        return self._differing(state, other, other_state, selection) if groups == others else None

    def _differing(
        self, state: StateName, other: FullSource, other_state: StateName, selection: Selection
    ) -> Iterator[DifferingPages]:
        """Yield the entries that differ, some key groups together: of most only a few do."""
        collected = Pages(self.subtask, other.subtask)
        states = self._id_of(state), other._id_of(other_state)
        selection = self._without_equal(other, states, selection, collected)
        for old, new in zip(self._bodies(selection), other._bodies(selection), strict=True):
            found = self._compared(other, old, new, states)
            if found is not None:
                yield from collected.add(old, new, found)
                continue
            # A file whose states alternate: no writer of Flink makes one.
            alone = Selection(key_groups=frozenset({old.key_group}))
            yield DifferingPages(
                before=PagesAnew(partial(self.pages, state, alone)),
                after=PagesAnew(partial(other.pages, other_state, alone)),
            )
        yield from collected.rest()

    def _without_equal(
        self, other: FullSource, states: tuple[int, int], selection: Selection, collected: Pages
    ) -> Selection:
        """Return the selection without key groups that are known to be equal: they are not read again."""
        known = self._comparisons.groups if self._comparisons.other is other else {}
        chosen = [region[0] for region in self._chosen(selection)]
        equal = {
            group for group in chosen if group in known and not known[group].get(states, lockstep.NOTHING)
        }
        for group in equal:
            collected.add_equal(known[group].get(states, lockstep.NOTHING))
        return replace(selection, key_groups=frozenset(chosen) - equal)

    def _compared(
        self, other: FullSource, before: KeyGroupBody, after: KeyGroupBody, states: tuple[int, int]
    ) -> lockstep.Found | None:
        """Return what differs in a state of a key group; None if its states alternate.

        The first question about a key group compares all of its states in one walk; the others find the answer here.
        """
        known, key_group = self._comparisons, before.key_group
        if known.other is not other:
            known = self.__dict__["_comparisons"] = Comparisons(other)
        if key_group in known.groups:
            return known.groups[key_group].get(states, lockstep.NOTHING)
        ranges, others = self._ranges[key_group], other._ranges[key_group]
        if not ranges.is_known or not others.is_known:
            found = lockstep.compare_groups(
                before, after, lambda one, two: self._name(one) == other._name(two)
            )
            if found is not None:
                ranges.keep(found.before, len(found.before))
                others.keep(found.after, len(found.after))
                known.keep(key_group, found.states)
                return found.states.get(states, lockstep.NOTHING)
        runs = []
        for side, own, number in ((before, ranges, states[0]), (after, others, states[1])):
            if full.runs_of(side, own) is None:
                return None
            runs.append([begin for begin, _ in own.of(number)])
        return lockstep.compare_runs(before, after, *runs)

    @cached_property
    def _comparisons(self) -> Comparisons:
        """What was found by comparing key groups with those of another source, the last one."""
        return Comparisons(None)

    def _name(self, number: int) -> StateName | None:
        """Return the name of a state; None for ids that the header does not have."""
        return self._names[number] if number < len(self._names) else None

    def _group_pages(self, body: KeyGroupBody, state: StateName) -> Iterator[Page]:
        """Yield the entries of a state in a key group."""
        ranges, number = self._ranges[body.key_group], self._id_of(state)
        if not self.header.compressed:
            self._prepare(body, number, ranges)
        for starts, ends, _ in full.cut_key_group(body, number, ranges):
            yield self._page(body, (starts, ends))

    def _prepare(self, body: KeyGroupBody, state: int, ranges: full.StateRanges) -> None:
        """Map the pages that a walk over a state reads."""
        parts = ranges.of(state) if ranges.is_known else ((body.first, body.last),)
        for start, end in parts:
            self.stream.prepare(start, end - start)

    def stored_groups(self) -> StoredGroups:
        return FullGroups(self)

    def plain_group(self, key_group: int) -> StoredGroup | None:
        """Return a key group as `StoredGroups.group` does."""
        region = self.regions[key_group]
        body = self._body(self.stream.span(*region[1:]), *region)
        runs = full.runs_of(replace(body, release=lambda _start, _end: None), self._ranges[key_group])
        if runs is None:
            return None
        return StoredGroup(
            data=body.data,
            runs=tuple(StateRun(state=state, start=start, end=end) for state, start, end in runs),
            pages=partial(self._group_pages, body),
            release=body.release,
        )

    def _targets(self, state: StateName, keys: tuple[tuple[int, Any], ...]) -> dict[int, LookupTarget]:
        """Return what to look up in each key group: all entries of the state if the bytes of one of its keys are not known."""
        entry, width = self.entries[state], key_group_bytes(self.max_parallelism)
        encoded: defaultdict[int, set[bytes | None]] = defaultdict(set)
        for key_group, key in keys:
            prefix = composite.encode_key_prefix(entry, key, key_group, self.max_parallelism)
            # All composite keys of a key group begin with its number: the search skips it.
            encoded[key_group].add(None if prefix is None else prefix[width:])
        return {
            key_group: self._target(
                state, () if None in found else sorted(key for key in found if key is not None)
            )
            for key_group, found in encoded.items()
        }

    def _target(self, state: StateName, keys: Iterable[bytes] = ()) -> LookupTarget:
        """Return what to look up: some keys of a state, or all of its entries."""
        entry = self.entries[state]
        # With at most one entry a key, a search ends when it has found every key.
        is_single = entry.kind not in _SEVERAL_ENTRIES_A_KEY and isinstance(
            entry.namespace, VoidNamespaceSerializer
        )
        width = key_group_bytes(self.max_parallelism)
        return LookupTarget(state=self._id_of(state), width=width, keys=tuple(keys), is_single=is_single)

    def _looked_up(self, targets: dict[int, LookupTarget], selection: Selection) -> Iterator[Page]:
        regions = [
            region for region in self._known_regions if region[0] in targets and selection.wants(region[0])
        ]
        for group_windows in self._windows(regions):
            searches = {
                key_group: Search(windows, targets[key_group], self._ranges[key_group], selection.account)
                for key_group, windows in group_windows.items()
            }
            for key_group, (data, starts, ends) in in_rounds(searches):
                path = group_windows[key_group].path
                yield Page.of(data, (starts, ends), key_group, self.subtask, path)

    def _windows(self, regions: list[tuple[int, int, int]]) -> Iterator[dict[int, Windows]]:
        """Yield key groups that are searched at the same time, with their bytes: few as windows, many one by one."""
        if len(regions) <= _MOST_SEARCHES:
            yield {region[0]: self._plain(self.stream.windows(*region[1:])) for region in regions}
            return
        spans = self.stream.spans([region[1:] for region in regions])
        for (key_group, start, end), span in zip(regions, spans, strict=True):
            yield {key_group: self._plain(StreamWindows(self.stream, span, start, end))}

    def _plain(self, windows: Windows) -> Windows:
        return UnpackedWindows(windows) if self.header.compressed else windows

    def _part(self, region: tuple[int, int, int], state: StateName | None) -> tuple[int, int]:
        key_group, start, end = region
        # Whoever decompresses needs all of it.
        if state is None or self.header.compressed or not self._ranges[key_group].is_known:
            return start, end
        own = list(self._ranges[key_group].of(self._id_of(state)))
        return (own[0][0], own[-1][1]) if own else (start, start)

    def _is_fetched_in_part(self, selection: Selection) -> bool:
        """Return whether a scan fetches of each key group no more than up to the end of its state."""
        if self.is_near or self.header.compressed:
            return False
        chosen = self._chosen(selection)
        return sum(end - start for _, start, end in chosen) >= _LARGE_GROUP_BYTES * max(len(chosen), 1)

    def _fetched_in_part(
        self, state: StateName, selection: Selection
    ) -> Iterator[tuple[int, Iterator[Page]]]:
        """Yield key groups with their entries of a state. Like a lookup, it reads nothing behind these."""
        target, waiting = self._target(state), deque[tuple[int, int, int, Search]]()
        ahead_bytes = 0
        try:
            for region in (*self._chosen(selection), None):
                if region is not None:
                    key_group, start, end = region
                    search = self._search(region, target)
                    if not search.is_over:
                        search.ask()
                    waiting.append((key_group, start, end, search))
                    ahead_bytes += end - start
                while waiting and (
                    region is None or ahead_bytes > _AHEAD_BYTES or len(waiting) > _MOST_SEARCHES
                ):
                    key_group, start, end, search = waiting.popleft()
                    selection.account(end - start)
                    yield key_group, self._searched(search, key_group)
                    ahead_bytes -= end - start
                    self._shares[state] = (search.position - start) / (end - start)
        finally:
            for *_, search in waiting:
                search.close()

    def _search(self, region: tuple[int, int, int], target: LookupTarget) -> Search:
        """Begin to look for all entries of a state; they are expected to end where they did in the last key group."""
        key_group, start, end = region
        windows, ranges = self.stream.windows(start, end), self._ranges[key_group]
        share = min(_MORE * self._shares.get(self._names[target.state], 0), 1)
        expected = max(
            (behind for _, behind in ranges.of(target.state)), default=start + int((end - start) * share)
        )
        return Search(windows, target, ranges, lambda _: None, expected)

    @cached_property
    def _shares(self) -> dict[StateName, float]:
        """The part of a key group up to the end of a state, in the last one that was fetched in part."""
        return {}

    def _searched(self, search: Search, key_group: int) -> Iterator[Page]:
        for _, (data, starts, ends) in in_rounds({key_group: search}):
            yield Page.of(data, (starts, ends), key_group, self.subtask, self.path)

    @cached_property
    def _ranges(self) -> defaultdict[int, full.StateRanges]:
        """Positions at which states begin in each key group, as far as scans and lookups have found them."""
        return defaultdict(full.StateRanges)

    def _beginning(self, span: NDArray[np.uint8], key_group: int, start: int, end: int) -> Cursor:
        return Cursor(span, path=self.path, position=start, end=end)


class FullGroups(StoredGroups):
    """The key groups of a source, as its stream has them."""

    def __init__(self, source: FullSource) -> None:
        self._source = source

    @property
    def delegate(self) -> StreamStateHandle:
        return self._source.handle.delegate

    @cached_property
    def regions(self) -> dict[int, tuple[int, int]]:
        return {group: (start, end) for group, (_, start, end) in self._source.regions.items()}

    def group(self, key_group: int) -> StoredGroup | None:
        return self._source.plain_group(key_group)


class FullOpener(Opener[KeyGroupsSavepointStateHandle]):
    """Opens the key groups of a canonical savepoint."""

    family = StateKind.VALUE
    sources = (FullSource,)

    def open(self, handle: KeyGroupsSavepointStateHandle, context: OpeningContext) -> Source:
        stream = context.location.open_stream(handle.delegate)
        return FullSource.open(context.subtask, handle, stream, context.max_parallelism)

    def outline(self, handle: KeyGroupsSavepointStateHandle, context: OpeningContext) -> bytes | None:
        stream = context.location.open_stream(handle.delegate)
        return header_outline(stream, first_offset(handle.offsets))

    def first_ranges(
        self, handle: KeyGroupsSavepointStateHandle, *, first: bool, few: bool
    ) -> Iterator[tuple[StreamStateHandle, Ranges]]:
        yield handle.delegate, small_or_header(handle.delegate, first_offset(handle.offsets))
