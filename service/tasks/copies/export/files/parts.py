"""Splits of a table → its Parquet files: a file for each part, or for each key group of a part.

A part is a task of a thread here, or of an executor of Spark. What it holds of rows is a row group at most.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from catalog import Scan, Split
from catalog.scan import ScanCounter
from readers import KEY_GROUP, OUT_OF_RANGE, UNDECODED
from service.base.rowgroups import leaves, popped, repeating, row_groups, short
from service.tasks.copies.export.files.conversion import Conversion
from service.tasks.copies.export.files.destinations import Destination

_GROUP_BYTES = 32 << 20
_LARGEST_PART_BYTES = 256 << 20
_LEAST_PART_BYTES = 16 << 20
# Flink: KeyGroupRangeAssignment#UPPER_BOUND_MAX_PARALLELISM
_MOST_KEY_GROUPS = 1 << 15
# Operator state has no sizes, and one split for each subtask.
_MOST_SPLITS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file of an exported table.

    Attributes:
        path: below the folder of the export.
        rows: in it.
        bytes: of the file.
        sha256: of its bytes, in hexadecimal digits.
        key_group: of all its rows, in a partitioned table; None in others.
        key_groups: of its rows in other tables, as (first, last); empty where they are not known.
    """

    path: str
    rows: int
    bytes: int
    sha256: str
    key_group: int | None = None
    key_groups: tuple[tuple[int, int], ...] = ()

    @property
    def all_key_groups(self) -> frozenset[int]:
        """The key groups of its rows; empty where they are not known."""
        if self.key_group is not None:
            return frozenset((self.key_group,))
        return frozenset(group for first, last in self.key_groups for group in range(first, last + 1))

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that are JSON."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> ExportedFile:
        """Return what `to_dict` has made a dictionary of."""
        groups = tuple((int(first), int(last)) for first, last in found.get("key_groups", ()))
        if not all(0 <= first <= last < _MOST_KEY_GROUPS for first, last in groups):
            raise ValueError(f"expected key groups, found {groups!r:.100}")
        return cls(**{**found, "key_groups": groups})


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """The files of a part, and what of its rows has columns of their own for what no column holds.

    Attributes:
        files: the files; empty if the part has no rows.
        undecoded: rows of which some bytes are not decoded.
        out_of_range: rows with a value that its column cannot hold.
    """

    files: tuple[ExportedFile, ...] = ()
    undecoded: int = 0
    out_of_range: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWriter:
    """Writes the parts of a table. Can be pickled.

    Attributes:
        destination: of the export.
        folder: of the table's files, below it.
        prefix: of the names of files.
        conversion: of the rows.
        partition: the name in the folders of key groups, as in `key_group=5`; None for no such folders.
        key_groups: of the rows that are written; None for all.
    """

    destination: Destination
    folder: str
    prefix: str
    conversion: Conversion
    partition: str | None = None
    key_groups: frozenset[int] | None = None

    def write(
        self,
        number: int,
        splits: Sequence[Split],
        counter: ScanCounter | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> WrittenPart:
        """Write a part.

        Args:
            number: of the part; names of files have it.
            splits: its rows.
            counter: counts the bytes that are read.
            check: raises an error if nobody wants the files any more.

        Raises:
            ReaderError: a split cannot be read, or a value is beyond its column.
            TargetError: a file cannot be written.
        """
        tally = _Tally()
        read = (batch for split in splits for batch in _checked(split.read(counter), check))
        batches = (batch for batch in map(self._wanted, read) if batch.num_rows)
        rows = map(self.conversion.of, map(tally.counted, batches))
        if self.partition is None:
            files = list(self._files(f"{self.prefix}-{number:05}", rows, None))
            files = [replace(file, key_groups=self._key_groups_of(splits)) for file in files]
        else:
            names = (f"{self.prefix}-{number:05}-{run:05}" for run in itertools.count())
            files = [file for group, own in _runs(rows) for file in self._files(next(names), own, group)]
        return WrittenPart(files=tuple(files), undecoded=tally.undecoded, out_of_range=tally.out_of_range)

    def write_empty(self) -> ExportedFile:
        """Write a file without rows, which has the columns of a table that has no other file."""
        schema = self.conversion.written
        empty = pa.RecordBatch.from_arrays([pa.array([], column.type) for column in schema], schema=schema)
        return self._file(f"{self.prefix}-00000", [empty], [], None)

    def _wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the wanted key groups: a split of a cache may have more."""
        if self.key_groups is None:
            return batch
        return batch.filter(pc.field(KEY_GROUP).isin(sorted(self.key_groups)))

    def _key_groups_of(self, splits: Sequence[Split]) -> tuple[tuple[int, int], ...]:
        """Return the key groups of the rows of splits, as (first, last); empty where a split does not tell."""
        own = [split.wanted_key_groups for split in splits]
        if not all(own):
            return ()
        groups = np.array(sorted(frozenset[int]().union(*own) & (self.key_groups or frozenset().union(*own))))
        runs = np.split(groups, np.flatnonzero(np.diff(groups) != 1) + 1)
        return tuple((int(run[0]), int(run[-1])) for run in runs if len(run))

    def _files(self, name: str, rows: Iterator[pa.RecordBatch], group: int | None) -> Iterator[ExportedFile]:
        first = list(itertools.islice(rows, 1))
        if first:
            yield self._file(name, rows, first, group)

    def _file(
        self, name: str, rows: Iterable[pa.RecordBatch], first: list[pa.RecordBatch], group: int | None
    ) -> ExportedFile:
        folder = self.folder if group is None else f"{self.folder}/{self.partition}={group}"
        path = f"{folder}/{name}.parquet"
        schema = self.conversion.written
        found = leaves(schema, first)
        count = 0
        with self.destination.create(path) as file:
            with parquet.ParquetWriter(
                file,
                schema,
                compression="zstd",
                use_dictionary=repeating(found),
                write_statistics=short(found),
                memory_pool=pa.system_memory_pool(),  # Arrow's own pool keeps freed memory
            ) as writer:
                del found
                for table in row_groups(itertools.chain(popped(first), rows), schema, _GROUP_BYTES):
                    writer.write_table(table)
                    count += table.num_rows
                    del table  # freed before the next group is read
            size_bytes, digest = file.size_bytes, file.digest
        return ExportedFile(path=path, rows=count, bytes=size_bytes, sha256=digest, key_group=group)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWork:
    """A part that another process writes: see `writers.parcel_of`.

    Attributes:
        writer: of its table.
        number: of the part.
        splits: its rows.
    """

    writer: PartWriter
    number: int
    splits: tuple[Split, ...]

    def do(self, _target: object) -> WrittenPart:
        """Write the part."""
        return self.writer.write(self.number, self.splits)


def parts_of(scan: Scan, workers: int, *, small: bool = False) -> list[tuple[Split, ...]]:
    """Return the splits of a scan in parts of about equal bytes: enough for all workers, and none very large or very small.

    Args:
        scan: of all rows of a table.
        workers: how many parts are written at the same time.
        small: True for no larger parts than must be.
    """
    total = sum(split.origin_bytes for split in scan.splits)
    most = (
        _LEAST_PART_BYTES
        if small
        else min(_LARGEST_PART_BYTES, max(_LEAST_PART_BYTES, -(-total // (2 * workers))))
    )
    parts: list[tuple[Split, ...]] = []
    part: list[Split] = []
    size_bytes = 0
    for split in scan.splits:
        if part and (size_bytes + split.origin_bytes > most or len(part) == _MOST_SPLITS):
            parts.append(tuple(part))
            part, size_bytes = [], 0
        part.append(split)
        size_bytes += split.origin_bytes
    return [*parts, tuple(part)] if part else parts


class _Tally:
    """Counts the rows with something that no column holds."""

    def __init__(self) -> None:
        self.undecoded = self.out_of_range = 0

    def counted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.undecoded += _present(batch, UNDECODED)
        self.out_of_range += _present(batch, OUT_OF_RANGE)
        return batch


def _present(batch: pa.RecordBatch, name: str) -> int:
    index = batch.schema.get_field_index(name)
    return 0 if index < 0 else batch.num_rows - int(batch.column(index).null_count)


def _checked(batches: Iterator[pa.RecordBatch], check: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        check()
        yield batch
        del batch  # freed before the next one is read


def _runs(rows: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Yield each key group with its rows, as they come: a state is stored by key groups, so one file is open at a time."""
    pieces = (piece for batch in rows for piece in _pieces(batch))
    for group, own in itertools.groupby(pieces, key=lambda piece: piece[0]):
        yield group, (batch for _, batch in own)


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    groups = batch.column(batch.schema.get_field_index(KEY_GROUP))
    ends = pc.run_end_encode(groups)
    start = 0
    for end, group in zip(ends.run_ends.to_pylist(), ends.values.to_pylist(), strict=True):
        yield int(group), batch.slice(start, end - start)
        start = end
