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

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from readers.errors import MissingFileError
from readers.formats.rocksdb.database import files_of
from readers.formats.rocksdb.instance import RocksInstance
from readers.formats.rocksdb.sst import (
    DataFile,
    Entries,
    KeptFiles,
    KeptRanges,
    NotReadHereError,
    SstDatabase,
    differing,
    written_keys,
)
from readers.storage.filesystems import storage_errors
from readers.storage.sameness import file_identity

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
_COMPARED_BYTES = 1 << 20
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
    kept = KeptRanges(account)
    one = _Side(before, KeptFiles(before.files(), "before", kept))
    other = _Side(after, KeptFiles(after.files(), "after", kept))
    try:
        comparison = _Comparison(one, other, families, account)
        for first, behind in ranges:
            yield from comparison.in_range(first, behind)
    finally:
        one.files.close()
        other.files.close()


@dataclass(slots=True)
class _Side:
    """An instance, and its files as this comparison reads them."""

    instance: RocksInstance
    files: KeptFiles
    database: SstDatabase

    def __init__(self, instance: RocksInstance, files: KeptFiles) -> None:
        self.instance = instance
        self.files = files
        self.database = SstDatabase(files, instance.path)

    def identity(self, file: DataFile) -> Hashable:
        """Return the identity of the file of a table.

        Raises:
            ReaderError: it is missing.
        """
        handle = files_of(self.instance.handle).get(file.name)
        if handle is None:
            raise MissingFileError("expected a file of the handle, found none of this name", path=file.name)
        return file_identity(self.instance.location, handle)

    def whole(
        self, family: str, first: bytes, behind: bytes | None, account: Callable[[int], None]
    ) -> Iterator[Entries]:
        """Yield all entries of a range."""
        for data, starts, ends in self.instance.database().entries(family, first, behind):
            account(len(data))
            yield data, starts, ends


class _Comparison:
    """The comparison of one column family of two instances."""

    def __init__(self, one: _Side, other: _Side, families: Families, account: Callable[[int], None]) -> None:
        self._one = one
        self._other = other
        self._families = families
        self._account = account
        self._shared: dict[str, str] | None = None

    def in_range(self, first: bytes, behind: bytes | None) -> Iterator[DifferingEntries]:
        """Yield the entries that differ in a range of keys."""
        rest = first
        try:
            with storage_errors(self._one.instance.path):
                for found in self._of_few(first, behind):
                    yield found
                    rest = max(rest, _behind_last(found.before), _behind_last(found.after))
                return
        except NotReadHereError:
            pass
        yield from self._of_all(rest, behind)

    def _of_all(self, first: bytes, behind: bytes | None) -> Iterator[DifferingEntries]:
        one = self._one.whole(self._families[0], first, behind, self._account)
        other = self._other.whole(self._families[1], first, behind, self._account)
        for found in differing(one, other):
            yield DifferingEntries(before=found.left, after=found.right, equal=found.equal)

    def _of_few(self, first: bytes, behind: bytes | None) -> Iterator[DifferingEntries]:
        """Yield the entries that differ, of the keys that have entries in tables that are not shared.

        Raises:
            NotReadHereError: both sides have to be read whole from the last entry on; those until then are right and complete.
        """
        one, other = self._one.database, self._other.database
        shared = self._shared_tables()
        tables = one.tables(self._families[0], first, behind), other.tables(self._families[1], first, behind)
        same = frozenset(shared.values()), frozenset(shared)
        own = [
            [table for table in side if table.name not in names]
            for side, names in zip(tables, same, strict=True)
        ]
        size_bytes = sum(table.size_bytes for side in tables for table in side)
        own_bytes = sum(table.size_bytes for side in own for table in side)
        if _LEAST_SHARE * (size_bytes - own_bytes) < size_bytes:
            raise NotReadHereError("tables that are hardly shared")
        runs = one.runs(own[0], first, behind) + other.runs(own[1], first, behind)
        for keys in written_keys(runs, first, behind, _MAX_KEYS):
            least, end = keys[0], keys[len(keys) - 1] + b"\0"
            for found in differing(
                one.entries(self._families[0], least, end, few=True, keys=keys),
                other.entries(self._families[1], least, end, few=True, keys=keys),
            ):
                yield DifferingEntries(before=found.left, after=found.right, equal=None)
        yield DifferingEntries(before=_NONE, after=_NONE, equal=None)

    def _shared_tables(self) -> dict[str, str]:
        """Return the names of the tables of `after` that `before` has too, each with its name there."""
        if self._shared is None:
            before = self._one.database.tables(self._families[0], b"", None)
            known = {_facts(file): file for file in before}
            pairs = [
                (file, known[_facts(file)])
                for file in self._other.database.tables(self._families[1], b"", None)
                if _facts(file) in known
            ]
            are_same = self._one.files.each(self._is_same, pairs)
            self._shared = {
                file.name: twin.name for (file, twin), is_same in zip(pairs, are_same, strict=True) if is_same
            }
            self._other.files.share(self._shared, self._one.files)
        return self._shared

    def _is_same(self, pair: tuple[DataFile, DataFile]) -> bool:
        theirs, ours = pair
        if self._one.identity(ours) == self._other.identity(theirs):
            return True
        are_local = self._one.files.is_local and self._other.files.is_local
        return are_local and self._has_same_bytes(theirs, ours)

    def _has_same_bytes(self, theirs: DataFile, ours: DataFile) -> bool:
        """Compare two tables, from their ends on: there is what tells one table from another."""
        one, other = self._one.files.opened(ours.name), self._other.files.opened(theirs.name)
        buffers = np.empty((2, _COMPARED_BYTES), dtype=np.uint8)
        try:
            if one.size_bytes != other.size_bytes:
                return False
            end = one.size_bytes
            while end > 0:
                length = min(_COMPARED_BYTES, end)
                end -= length
                for file, buffer in ((one, buffers[0]), (other, buffers[1])):
                    self._account(file.read_into(buffer[:length], end))
                if not np.array_equal(buffers[0, :length], buffers[1, :length]):
                    return False
            return True
        finally:
            one.close()
            other.close()


def _facts(file: DataFile) -> tuple[int, bytes, bytes, int]:
    """Return what two MANIFESTs record alike of the same table."""
    return file.size_bytes, file.smallest, file.largest, file.largest_sequence


def _behind_last(page: Entries) -> bytes:
    """Return the least key that is greater than the last one of a page; the least of all if it is empty."""
    data, starts, ends = page
    return data[starts[-1, 0] : ends[-1, 0]].tobytes() + b"\0" if len(starts) else b""


_NONE: Entries = (np.empty(0, np.uint8), np.empty((0, 2), np.int64), np.empty((0, 2), np.int64))
