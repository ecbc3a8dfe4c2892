"""Reads the files of one RocksDB or ForSt instance: incremental checkpoints and native savepoints.

Two instances are compared without reading the tables that both have. Incremental checkpoints share tables. A key that stands in shared
tables alone has the same entries on both sides, in the same order: the sequence number of an entry is part of its key. So only keys
that have an entry in a table of one side alone can differ:

    1. the tables of both that are not shared  →  the keys with an entry there, also deletions and operands; some thousand at once
    2. each instance, of these keys            →  their entries: of shared tables only the blocks that may hold such a key
    3. the two sides                           →  the entries that differ, by their bytes (`sst/lockstep.py`)

Other keys of the blocks of step 2 come without what stands in other blocks, but the same on both sides, so they drop out in step 3.
A range tombstone that touches the range, and all else that our reader of tables leaves to RocksDB, makes both sides be read whole;
so does a pair of instances that shares little.

Two tables are shared if they are the same file, or local files with the same bytes. The level of a table does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from readers.decode.decoder import Page
from readers.errors import ReaderError
from readers.formats import composite
from readers.formats.composite import FilesSource
from readers.formats.entry import StateKind
from readers.formats.opener import Opener, OpeningContext
from readers.formats.rocksdb.database import RocksInstance, is_forst, manifest_files, options_files
from readers.formats.rocksdb.sst.files import KeptFiles, KeptRanges
from readers.formats.rocksdb.sst.lockstep import differing
from readers.formats.rocksdb.sst.manifest import DataFile, NotReadHereError
from readers.formats.rocksdb.sst.scan import Entries, TableShare, written_keys
from readers.formats.source import DifferingPages, Selection, Source, StateName, StateSize, Tally
from readers.formats.streams import header_of, header_outline, is_small, keyed_entries, small_or_header
from readers.headers import KeyedHeader, StoredHeader, read_keyed_header
from readers.keygroups import key_group_bytes
from readers.metadata import IncrementalRemoteKeyedStateHandle, StreamStateHandle
from readers.metainfo import BackendStateType
from readers.serializers.base import Serializer
from readers.storage.filesystems import storage_errors
from readers.storage.location import Ranges, SavepointLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingEntries:
    """Entries that differ between two instances.

    Attributes:
        before, after: those of either side, with keys of the same range.
        equal: how many equal entries were left out since the last ones; None if they were not read.
    """

    before: Entries
    after: Entries
    equal: int | None


Families = tuple[str, str]
"""The names of the column family that is compared, before and after."""

# Of keys that may differ: their entries are held in memory, and each set of them costs a look into every table.
_MAX_KEYS = 1 << 13
# If less than a quarter of the bytes is shared, to look for keys first costs more than it saves.
_LEAST_SHARE = 4


class _Comparison:
    """The comparison of one column family of two instances."""

    def __init__(
        self, before: RocksInstance, after: RocksInstance, families: Families, account: Callable[[int], None]
    ) -> None:
        self._before = before
        self._after = after
        self._families = families
        self._account = account
        self._kept = KeptRanges(account)

    def in_range(self, first: bytes, behind: bytes | None) -> Iterator[DifferingEntries]:
        """Yield the entries that differ in a range of keys."""
        rest = first
        try:
            with storage_errors(self._before.path):
                for found in self._of_few(first, behind):
                    yield found
                    rest = max(rest, _behind_last(found.before), _behind_last(found.after))
                return
        except NotReadHereError:
            pass
        yield from self._of_all(rest, behind)

    def _of_all(self, first: bytes, behind: bytes | None) -> Iterator[DifferingEntries]:
        one = self._before.database().entries(self._families[0], first, behind)
        other = self._after.database().entries(self._families[1], first, behind)
        for found in differing(self._counted(one), self._counted(other)):
            yield DifferingEntries(before=found.left, after=found.right, equal=found.equal)

    def _counted(self, pages: Iterator[Entries]) -> Iterator[Entries]:
        for page in pages:
            self._account(len(page[0]))
            yield page

    def _of_few(self, first: bytes, behind: bytes | None) -> Iterator[DifferingEntries]:
        """Yield the entries that differ, of the keys that have entries in tables that are not shared.

        Raises:
            NotReadHereError: both sides have to be read whole from the last entry on; those until then are right and complete.
        """
        old, new = self._before.database(), self._after.database()
        tables = (
            old.tables.tables(self._families[0], first, behind),
            new.tables.tables(self._families[1], first, behind),
        )
        shared = self._shared(*tables)
        own = (
            [table for table in tables[0] if table.name not in shared.values()],
            [table for table in tables[1] if table.name not in shared],
        )
        size_bytes = sum(table.size_bytes for side in tables for table in side)
        own_bytes = sum(table.size_bytes for side in own for table in side)
        if _LEAST_SHARE * (size_bytes - own_bytes) < size_bytes:
            raise NotReadHereError("tables that are hardly shared")
        files = KeptFiles(old.files, "before", self._kept)
        one = old.tables.through(files)
        other = new.tables.through(KeptFiles(new.files, "after", self._kept, shared, files))
        runs = one.runs(own[0], first, behind) + other.runs(own[1], first, behind)
        for keys in written_keys(runs, first, behind, _MAX_KEYS):
            least, end = keys[0], keys[len(keys) - 1] + b"\0"
            for found in differing(
                one.entries(self._families[0], least, end, few=True, keys=keys),
                other.entries(self._families[1], least, end, few=True, keys=keys),
            ):
                yield DifferingEntries(before=found.left, after=found.right, equal=None)
        yield DifferingEntries(before=_NONE, after=_NONE, equal=None)

    def _shared(self, before: list[DataFile], after: list[DataFile]) -> dict[str, str]:
        """Return the names of the tables of `after` that `before` has too, each with its name there."""
        known = {_facts(table): table.name for table in before}
        pairs = [(table.name, known[_facts(table)]) for table in after if _facts(table) in known]

        def is_same(pair: tuple[str, str]) -> bool:
            return self._before.has_same(pair[1], self._after, pair[0], self._account)

        are_same = self._before.database().files.each(is_same, pairs)
        return dict(pair for pair, same in zip(pairs, are_same, strict=True) if same)


def _facts(table: DataFile) -> tuple[int, bytes, bytes, int]:
    """Return what two MANIFESTs record alike of the same table."""
    return table.size_bytes, table.smallest, table.largest, table.largest_sequence


def _behind_last(page: Entries) -> bytes:
    """Return the least key that is greater than the last one of a page; the least of all if it is empty."""
    data, starts, ends = page
    return data[starts[-1, 0] : ends[-1, 0]].tobytes() + b"\0" if len(starts) else b""


_NONE: Entries = (np.empty(0, np.uint8), np.empty((0, 2), np.int64), np.empty((0, 2), np.int64))


@dataclass(frozen=True, kw_only=True, eq=False)
class RocksSource(FilesSource):
    """The files of one RocksDB or ForSt instance.

    Attributes:
        location: opens the files.
        header: the KeyedBackendSerializationProxy, which is a stream of its own.
        instance: the files as a database.
    """

    handle: IncrementalRemoteKeyedStateHandle
    location: SavepointLocation
    header: KeyedHeader
    instance: RocksInstance

    is_ordered = True
    # One thread writes all entries, with the very serializers that write the snapshots.
    describes_all = True

    @cached_property
    def backend(self) -> str:  # type: ignore[override]  # read from a file, so not of the class
        """`forst` or `rocksdb`."""
        # ForSt's snapshots have the same class of handle as RocksDB's, but only ForSt registers state V2.
        if any(state.kind is BackendStateType.KEY_VALUE_V2 for state in self.header.states):
            return "forst"
        try:
            is_of_forst = is_forst(self.location, self.handle)
        except ReaderError:
            # The name of the backend is for show: a missing OPTIONS file must not hide the states.
            is_of_forst = False
        return "forst" if is_of_forst else "rocksdb"

    def stored_header(self) -> StoredHeader:
        stream = self.location.open_stream(self.handle.meta_state_handle)
        return StoredHeader(data=stream.read(0, stream.size_bytes), header=self.header)

    @property
    def key_serializer(self) -> Serializer:
        return self.header.key_serializer

    @property
    def is_near(self) -> bool:
        return self.instance.is_local()

    def damage(self) -> ReaderError | None:
        return self._damage

    @cached_property
    def _damage(self) -> ReaderError | None:
        return self.instance.missing()

    @cached_property
    def _family_bytes(self) -> dict[str, int] | None:
        width = key_group_bytes(self.max_parallelism)
        groups = self.key_group_range
        return self.instance.family_bytes(
            groups.start.to_bytes(width, "big"), (groups.end + 1).to_bytes(width, "big")
        )

    @property
    def walk_bytes(self) -> int:
        return 0

    def own_size(self, state: StateName, share: float) -> StateSize:
        known = self._family_bytes
        return super().own_size(state, share) if known is None else StateSize(known.get(state.name, 0))

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        return self._pages(state, selection)

    def counts(self, state: StateName, selection: Selection) -> Iterator[tuple[int, int]]:
        for page in self._pages(state, selection, keys_only=True):
            yield from page.counts()

    def tallies(self, states: Sequence[StateName], selection: Selection) -> Iterator[Tally]:
        groups = range(self.key_group_range.start, self.key_group_range.end + 1)
        width = key_group_bytes(self.max_parallelism)
        bounds = [group.to_bytes(width, "big") for group in (*groups, groups.stop)]
        for state in states:
            tables = self.instance.database().shares(state.name, bounds)
            if tables is None:
                for group, size in self.key_group_bytes(state):
                    yield Tally(
                        state=state,
                        key_group=group,
                        entries=None,
                        size_bytes=size // max(1, len(self.entries)),
                        is_estimate=True,
                        origin="metadata",
                    )
                continue
            yield from self._tallied(state, tables)

    def _tallied(self, state: StateName, tables: list[TableShare]) -> Iterator[Tally]:
        """Yield what the properties of tables say: a deletion hides, as a rule, one older entry."""
        stored = sum(one.table.entries for one in tables)
        deleted = min(2 * sum(one.table.deletions for one in tables), stored)
        live = (stored - deleted) / max(stored, 1)
        for one in tables:
            table = one.table
            # Rounded from the first key group on, so that the numbers of all key groups add up to those of the table.
            taken = before = (0, 0, 0)
            part = 0.0
            for number, share in one.shares:
                part += share
                taken = (
                    round(table.entries * part),
                    round(table.entries * part * live),
                    round(table.size_bytes * part),
                )
                entries, kept, size = (new - old for new, old in zip(taken, before, strict=True))
                before = taken
                yield Tally(
                    state=state,
                    key_group=self.key_group_range.start + number,
                    entries=kept,
                    size_bytes=size,
                    is_estimate=True,
                    origin="sst properties",
                    stored=entries,
                    deleted=entries - kept,
                )

    def plain_bytes(self, state: StateName) -> int | None:
        tables = self.instance.database().shares(state.name, ())
        return None if tables is None else sum(one.table.plain_bytes for one in tables)

    @property
    def tallied_bytes(self) -> int:
        return 0

    def _pages(self, state: StateName, selection: Selection, *, keys_only: bool = False) -> Iterator[Page]:
        width = key_group_bytes(self.max_parallelism)
        for first, behind in self._ranges(state, selection, width):
            for data, starts, ends in self.instance.database().entries(
                state.name, first, behind, keys_only=keys_only
            ):
                selection.account(len(data))
                yield self._page(data, starts, ends, width)

    def differing(
        self, state: StateName, other: Source, other_state: StateName, selection: Selection
    ) -> Iterator[DifferingPages] | None:
        if not isinstance(other, RocksSource) or other.max_parallelism != self.max_parallelism:
            return None
        return self._differing(state, other, other_state, selection)

    def _differing(
        self, state: StateName, other: RocksSource, other_state: StateName, selection: Selection
    ) -> Iterator[DifferingPages]:
        width = key_group_bytes(self.max_parallelism)
        theirs = other.key_group_range
        common = frozenset(filter(selection.wants, range(theirs.start, theirs.end + 1)))
        families = state.name, other_state.name
        ranges = self._ranges(state, Selection(key_groups=common), width)
        comparison = _Comparison(self.instance, other.instance, families, selection.account)
        for first, behind in ranges:
            for found in comparison.in_range(first, behind):
                yield DifferingPages(
                    before=(self._page(*found.before, width),),
                    after=(other._page(*found.after, width),),
                    equal_entries=found.equal,
                )

    def _page(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], width: int
    ) -> Page:
        groups = _key_groups(data, starts[:, 0], width)
        return Page.of(data, (starts, ends), groups, self.subtask, self.path)

    def _ranges(
        self, state: StateName, selection: Selection, width: int
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the ranges of RocksDB keys to read: those of the selected keys, else those of the selected key groups.

        The ranges ascend, so that the entries of a key group follow each other: the replay of a changelog relies on it.
        """
        entry = self.entries[state]
        if selection.keys is not None and entry.kind is not StateKind.TIMER:
            prefixes = [
                composite.encode_key_prefix(entry, key, group, self.max_parallelism)
                for group, key in selection.keys
                if group in self.key_group_range
            ]
            if None not in prefixes:
                found = sorted({prefix for prefix in prefixes if prefix is not None})
                yield from ((prefix, _successor(prefix)) for prefix in found)
                return
        # After a rescaling the files may hold key groups of other subtasks: those outside the handle's range are left out.
        groups = list(
            filter(selection.wants, range(self.key_group_range.start, self.key_group_range.end + 1))
        )
        for first, last in _consecutive(groups):
            yield first.to_bytes(width, "big"), _successor(last.to_bytes(width, "big"))

    def close(self) -> None:
        self.instance.close()


class RocksOpener(Opener[IncrementalRemoteKeyedStateHandle]):
    """Opens the files of a RocksDB or ForSt instance."""

    family = StateKind.VALUE
    sources = (RocksSource,)

    def open(self, handle: IncrementalRemoteKeyedStateHandle, context: OpeningContext) -> Source:
        path = handle.meta_state_handle.path or "_metadata"
        stream = context.location.open_stream(handle.meta_state_handle)
        size = stream.size_bytes
        header = header_of(stream.span(0, size), path, size, read_keyed_header)
        return RocksSource(
            subtask=context.subtask,
            path=path,
            size_bytes=handle.size_bytes,
            entries=dict(keyed_entries(header)),
            max_parallelism=context.max_parallelism,
            handle=handle,
            location=context.location,
            header=header,
            instance=RocksInstance(context.location, handle, path),
        )

    def outline(self, handle: IncrementalRemoteKeyedStateHandle, context: OpeningContext) -> bytes | None:
        return header_outline(context.location.open_stream(handle.meta_state_handle), None)

    def first_ranges(
        self, handle: IncrementalRemoteKeyedStateHandle, *, first: bool, few: bool
    ) -> Iterator[tuple[StreamStateHandle, Ranges]]:
        yield handle.meta_state_handle, small_or_header(handle.meta_state_handle, None)
        # The OPTIONS file distinguishes ForSt from RocksDB, in the same way for all subtasks.
        streams = list(options_files(handle)) if first else []
        if few:
            streams += filter(is_small, manifest_files(handle))
        yield from ((stream, small_or_header(stream, None)) for stream in streams)


def _key_groups(data: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> NDArray[np.int32]:
    groups = data[starts].astype(np.int32)
    return groups if width == 1 else groups << 8 | data[starts + 1].astype(np.int32)


def _successor(prefix: bytes) -> bytes | None:
    """Return the smallest bytes above all that begin with `prefix`; None if there are none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def _consecutive(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of each sequence of consecutive numbers."""
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = last = number
        elif number == last + 1:
            last = number
        else:
            yield first, last
            first = last = number
    if first is not None and last is not None:
        yield first, last
