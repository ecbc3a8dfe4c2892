"""The entries that differ between two RocksDB instances, without reading the tables that both have.

Incremental checkpoints share tables. A key that stands in shared tables alone has the same entries on both sides, in the same order:
the sequence number of an entry is part of its key. So only keys that have an entry in a table of one side alone can differ:

    1. the tables of both that are not shared  →  the keys with an entry there, also deletions and operands; some thousand at once
    2. each instance, of these keys            →  their entries: of shared tables only the blocks that may hold such a key
    3. the two sides                           →  the entries that differ, by their bytes (`sst/lockstep.py`)

Other keys of the blocks of step 2 come without what stands in other blocks, but the same on both sides, so they drop out in step 3.
A range tombstone that touches the range, and all else that our reader of tables leaves to RocksDB, makes both sides be read whole;
so does a pair of instances that shares little.

Two tables are shared if they are the same file, or local files with the same bytes. The level of a table does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from readers.formats.rocksdb.instance import RocksInstance
from readers.formats.rocksdb.sst import (
    DataFile,
    Entries,
    KeptFiles,
    KeptRanges,
    NotReadHereError,
    differing,
    written_keys,
)
from readers.storage.filesystems import storage_errors

KeyRange = tuple[bytes, bytes | None]


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


def differing_entries(
    before: RocksInstance,
    after: RocksInstance,
    families: Families,
    ranges: Iterable[KeyRange],
    account: Callable[[int], None],
) -> Iterator[DifferingEntries]:
    """Yield the entries that differ.

    Args:
        before, after: the instances.
        families: the names of the column family, before and after.
        ranges: first key and key behind the last of what is compared; ascending.
        account: called with the number of bytes that are read.

    Raises:
        ReaderError: a file is missing or contradicts its format.
    """
    comparison = _Comparison(before, after, families, account)
    for first, behind in ranges:
        yield from comparison.in_range(first, behind)


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
