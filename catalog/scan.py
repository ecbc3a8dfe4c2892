"""The conditions of a query that save reading: "this column is one of these values", "this column is not less than".

A `Predicate` prunes, it does not filter: the rows of a scan may include others, unless the scan has the exact expression, too.

`Scan` and `Split`: what an engine reads. The seam between the catalog and the engines.

A table plans a scan once (`Table.plan`): all its columns, and the splits that a predicate leaves. An engine narrows it to the
columns and the condition of a query, which plans nothing again. Splits are small and picklable, and each reads a part of the
rows as `pyarrow.RecordBatch`es. In another process a split opens the savepoint there, once a process.

The splits of scans, and how they make a table's rows from a state's.

| split | reads |
|---|---|
| StateSplit | key groups of one part of a state |
| CachedSplit | the same from the cache, or from the savepoint once the entry is evicted or damaged |
| FactsSplit | rows that it holds |

Splits are pickled for every task: they hold references, numbers and outputs, and no open file.
"""

from __future__ import annotations

import pickle
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

import readers
from catalog.cache.states import CacheFile, CacheUse, entry_footer
from catalog.references import SavepointReference, StateReference, masked_errors
from readers import SUBTASK, ReadCounter, ReaderError, SavepointGoneError


@dataclass(frozen=True, slots=True)
class Range:
    """Values between two bounds, which belong to it.

    Attributes:
        least: None for no bound.
        greatest: None for no bound.
    """

    least: Any = None
    greatest: Any = None

    def __contains__(self, value: Any) -> bool:
        if value is None:
            return False
        return (self.least is None or self.least <= value) and (
            self.greatest is None or value <= self.greatest
        )

    def within(self, other: Range) -> Range:
        """Return the values that are also in another range."""
        leasts = [one.least for one in (self, other) if one.least is not None]
        greatests = [one.greatest for one in (self, other) if one.greatest is not None]
        return Range(max(leasts, default=None), min(greatests, default=None))


@dataclass(frozen=True, slots=True)
class Predicate:
    """Conditions on columns, combined by AND.

    Attributes:
        values: column name → the values of which the column must have one.
        ranges: column name → the range in which its value must be; only of the columns that tell checkpoints apart.
    """

    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)

    def of(self, column: str) -> tuple[Any, ...] | None:
        """Return the values that a column may have; None for any."""
        return self.values.get(column)

    def and_(self, column: str, values: tuple[Any, ...]) -> Predicate:
        """Return the predicate that also wants `column` to be one of `values`."""
        known = self.values.get(column)
        both = values if known is None else tuple(value for value in known if value in values)
        return replace(self, values={**self.values, column: both})

    def admits(self, facts: Mapping[str, Any]) -> bool:
        """Return whether rows with these values in some columns may be wanted."""
        return all(facts[column] in values for column, values in self.values.items() if column in facts)


ANYTHING = Predicate()


class ScanCounter(ReadCounter):
    """Counts bytes of the savepoint and of the cache, and keeps the errors of splits that may be partial.

    A pickled copy counts on its own, from 0.
    """

    def __init__(self) -> None:
        super().__init__()
        self._cache_lock = threading.Lock()
        self._bytes_cached = 0
        self._failures: list[ReaderError] = []
        self._check: Callable[[], None] | None = None

    def on_check(self, check: Callable[[], None]) -> None:
        """Have `check` call this, which raises an error if nobody wants the rows any more."""
        self._check = check

    def check(self) -> None:
        """Raise an error if nobody wants the rows any more: for splits that read much before they have a row."""
        if self._check is not None:
            self._check()

    def add_cached(self, bytes_read: int) -> None:
        """Add bytes that were read from the cache."""
        # Threads of one scan share a counter.
        with self._cache_lock:
            self._bytes_cached += bytes_read

    @property
    def bytes_cached(self) -> int:
        """Bytes of the cache read so far."""
        return self._bytes_cached

    def add_failure(self, error: ReaderError) -> None:
        """Add the error that ended a split before its end."""
        with self._cache_lock:
            self._failures.append(error)

    @property
    def failures(self) -> tuple[ReaderError, ...]:
        """The errors that ended splits before their end, so far."""
        with self._cache_lock:
            return tuple(self._failures)

    def __reduce__(self) -> tuple[type[ScanCounter], tuple[()]]:
        return (ScanCounter, ())


class Split(ABC):
    """The rows of a scan that are read together; picklable.

    Attributes:
        size_bytes: about how many bytes of the savepoint it reads.
        cached_bytes: about how many bytes it reads from the cache instead.
    """

    size_bytes: int
    cached_bytes: int = 0

    @property
    def origin_bytes(self) -> int:
        """About how many bytes of the savepoint it reads without a cache."""
        return self.size_bytes

    @property
    def order(self) -> tuple[int, int]:
        """(part of its state, first key group): sorted by it, the splits of one key range stand together, of whatever state."""
        return 0, 0

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        """Key groups of its rows; empty where rows have no key."""
        return frozenset()

    def elsewhere(self) -> Split:
        """Return the split for another folder or machine: it opens its savepoints by absolute paths, and reads no cache."""
        return self

    def narrowed(self, columns: Sequence[str]) -> Split:
        """Return the split with these of its columns, or with more where that saves nothing."""
        return self

    @abstractmethod
    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        """Yield its rows; adds the bytes read to `counter`.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedSplit(Split):
    """A split whose rows are made from those of another one, batch by batch.

    Attributes:
        origin: the other one.
        size_bytes: about how many bytes of the savepoint it reads.
        cached_bytes: about how many bytes it reads from the cache instead.
    """

    origin: Split
    size_bytes: int
    cached_bytes: int = 0

    def over(self, origin: Split, **changes: Any) -> Self:
        """Return the same of another split, whose sizes it has."""
        sizes = {"size_bytes": origin.size_bytes, "cached_bytes": origin.cached_bytes}
        return replace(self, origin=origin, **sizes, **changes)

    @property
    def origin_bytes(self) -> int:
        return self.origin.origin_bytes

    @property
    def order(self) -> tuple[int, int]:
        return self.origin.order

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        return self.origin.wanted_key_groups


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of a table, read on demand; picklable.

    Attributes:
        schema: the columns that `to_reader` gives.
        splits: they prune but do not filter (`filtered` does); their columns are those of the scan and of the expression.
        expression: the exact condition; None for all rows of the splits.
        counter: counts the bytes read, also while a scan is running.
        cache_use: what the scan means to the cache; None without a cache.
        unread: the errors of the files that cannot be opened and may hold wanted rows; empty unless it may be partial.
        cached: a file of the cache that has all rows of the splits and no others, in columns of the same names and types;
            None if there is none.
    """

    schema: pa.Schema
    splits: tuple[Split, ...]
    expression: pc.Expression | None = None
    counter: ScanCounter = field(default_factory=ScanCounter)
    cache_use: CacheUse | None = None
    unread: tuple[ReaderError, ...] = ()
    cached: CacheFile | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A dataclass with slots would look its fields up for each pickle.
        return Scan, (
            self.schema, self.splits, self.expression, self.counter, self.cache_use, self.unread, self.cached,
        )  # fmt: skip

    def narrowed(self, columns: Sequence[str] | None = None, expression: pc.Expression | None = None) -> Scan:
        """Return a scan of the same splits with some columns and an exact condition; it has a counter of its own.

        Args:
            columns: of the scan; all if None.
            expression: over columns of the scan; the scan has none yet.
        """
        assert self.expression is None
        names = self.schema.names if columns is None else list(columns)
        # Arrow's expressions cannot be walked, but their text has the names of the columns that they read.
        text = "" if expression is None else str(expression)
        needed = [*names, *(name for name in self.schema.names if name in text and name not in names)]
        return Scan(
            schema=pa.schema([self.schema.field(name) for name in names]),
            splits=tuple(split.narrowed(needed) for split in self.splits),
            expression=expression,
            cache_use=self.cache_use,
            unread=self.unread,
        )

    def completed(self, elapsed_s: float) -> None:
        """Report that all splits were read to their end, in so many seconds."""
        # What came from the cache alone says nothing about what is worth an entry.
        if self.cache_use is not None and (self.bytes_total or self.bytes_read):
            self.cache_use.completed(elapsed_s)

    @property
    def incomplete(self) -> tuple[ReaderError, ...]:
        """The errors of all files of which rows are left out; those found while reading are known when it has ended."""
        return (*self.unread, *self.counter.failures)

    @property
    def bytes_total(self) -> int:
        """About how many bytes of the savepoint the whole scan reads."""
        return sum(split.size_bytes for split in self.splits)

    @property
    def cached_bytes_total(self) -> int:
        """About how many bytes of the cache the whole scan reads."""
        return sum(split.cached_bytes for split in self.splits)

    @property
    def key_groups(self) -> frozenset[int]:
        """Key groups that it reads."""
        return frozenset[int]().union(*(split.wanted_key_groups for split in self.splits))

    @property
    def is_cached(self) -> bool:
        """True if any of it comes from the cache."""
        return any(split.cached_bytes for split in self.splits)

    @property
    def bytes_read(self) -> int:
        """Bytes of the savepoint read so far."""
        return self.counter.bytes_read

    @property
    def bytes_cached(self) -> int:
        """Bytes of the cache read so far."""
        return self.counter.bytes_cached

    def filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a split's batch that meet the scan's expression, with the scan's columns."""
        if self.expression is not None:
            batch = batch.filter(self.expression)
        return batch if batch.schema.names == self.schema.names else batch.select(self.schema.names)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Return the filtered rows of one of its splits; none of the batches is empty."""
        # `filter` and `map`, not a generator: its frame would keep a batch while the next one is made.
        return filter(attrgetter("num_rows"), map(self.filtered, split.read(self.counter)))

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of all rows, split after split; nothing is read ahead."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """Return all rows, in memory."""
        return self.to_reader().read_all()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for split in self.splits:
            yield from self.read(split)


@dataclass(frozen=True, slots=True)
class Output:
    """How a column of a table comes from a state; null where neither `source` nor `constant` is set.

    Attributes:
        name: of the table's column.
        type: of the table's column.
        source: the state's column.
        constant: a value in place of a source.
        as_json: whether the source's values become JSON text.
        path: the names of the fields that lead from the source to the value.
    """

    name: str
    type: pa.DataType
    source: str | None = None
    constant: str | int | datetime | None = None
    as_json: bool = False
    path: tuple[str, ...] = ()

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column of the table from rows of the state."""
        if self.constant is not None:
            return pa.repeat(pa.scalar(self.constant, self.type), batch.num_rows)
        if self.source is None:
            return pa.nulls(batch.num_rows, self.type)
        array = batch.column(batch.schema.get_field_index(self.source))
        for name in self.path:
            array = pc.struct_field(array, name)
        return readers.json_text(array) if self.as_json else readers.conform(array, self.type)


# Tables whose references are kept as pickles, and as what these hold: a lookup would take longer for them than for its key.
_PACKED_TABLES = 256


@dataclass(frozen=True, slots=True)
class StateSplit(Split):
    """Some key groups of one part of a state.

    Attributes:
        reference: finds the state again in another process.
        part: the number of the part among those of the state.
        outputs: the table's columns.
        key_groups: to read; None for all.
        keys: the wanted keys with their key groups; None for all.
        size_bytes: about how many bytes it reads.
        exploded: a column of lists whose elements become rows; None if an entry is a row.
        may_be_partial: whether an error ends its rows, and goes to the counter.
    """

    reference: StateReference
    part: int
    outputs: tuple[Output, ...]
    key_groups: frozenset[int] | None
    keys: tuple[tuple[int, Any], ...] | None
    size_bytes: int
    exploded: str | None = None
    may_be_partial: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _split_of, (
            _packed(self.reference, self.outputs), self.part, self.key_groups, self.keys, self.size_bytes,
            self.exploded, self.may_be_partial,
        )  # fmt: skip

    def elsewhere(self) -> StateSplit:
        return replace(self, reference=self.reference.elsewhere())

    def narrowed(self, columns: Sequence[str]) -> StateSplit:
        outputs = {output.name: output for output in self.outputs}
        return replace(self, outputs=tuple(outputs[name] for name in columns))

    @property
    def order(self) -> tuple[int, int]:
        return self.part, min(self.wanted_key_groups, default=0)

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        return self.key_groups or frozenset()

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        # Without a counter nobody would learn of an error.
        if self.may_be_partial and counter is not None:
            return self._until_an_error(counter)
        return self._read(counter)

    def _read(self, counter: ScanCounter | None) -> Iterator[pa.RecordBatch]:
        state = self.reference.state()
        account = (counter or ScanCounter()).add
        selection = readers.Selection(key_groups=self.key_groups, keys=self.keys, account=account)
        # This process may be unable to open a file that the planning one could open.
        if not self.may_be_partial:
            state.check(selection)
        rows = state.parts[self.part].read(self.sources, state.schema, selection)
        if self.reference.savepoint.masks is not None:
            rows = _with_masked_errors(rows, self.reference.savepoint)
        return self.masked_rows(rows)

    def masked_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return rows of the table from batches of rows of the state, in no order that tells of a masked key."""
        masked = self.reference.masked
        if masked is None:
            return map(self.rows_of_table, batches)
        return map(masked.reordered, map(self.rows_of_table, masked.gathered(batches)))

    def _until_an_error(self, counter: ScanCounter) -> Iterator[pa.RecordBatch]:
        """Yield the rows before the first error; the counter gets the error."""
        try:
            yield from self._read(counter)
        except SavepointGoneError:
            # Nothing is damaged: Flink removed all of it.
            raise
        except ReaderError as error:
            counter.add_failure(error)

    @property
    def sources(self) -> set[str]:
        """Columns of the state that it needs."""
        sources = {output.source for output in self.outputs if output.source is not None}
        if self.exploded is not None:
            sources |= {self.exploded}
        masked = self.reference.masked
        return sources if masked is None else masked.needed(sources)

    def rows_of_table(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the table from rows of the state, with their masks."""
        masked = self.reference.masked
        if masked is not None:
            batch = masked.apply(batch)
        if self.exploded is not None:
            batch = _exploded(batch, self.exploded)
        schema = pa.schema([pa.field(output.name, output.type) for output in self.outputs])
        arrays = [output.array(batch) for output in self.outputs]
        # Without columns only the number of rows counts, which a batch without arrays would lose.
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


def _with_masked_errors(
    rows: Iterator[pa.RecordBatch], reference: SavepointReference
) -> Iterator[pa.RecordBatch]:
    with masked_errors(reference):
        yield from rows


@lru_cache(maxsize=_PACKED_TABLES)
def _packed(reference: StateReference, outputs: tuple[Output, ...]) -> bytes:
    """Return the pickle of what the splits of a table have in common."""
    return pickle.dumps((reference, outputs), pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=_PACKED_TABLES)
def _unpacked(content: bytes) -> tuple[StateReference, tuple[Output, ...]]:
    reference, outputs = pickle.loads(content)
    return reference, outputs


def _split_of(content: bytes, part: int, *own: Any) -> StateSplit:
    """Return a split from its pickle."""
    reference, outputs = _unpacked(content)
    return StateSplit(reference, part, outputs, *own)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSplit(DerivedSplit):
    """Some key groups of one part of a state, from the cache; from the savepoint if the file was evicted or changed after planning.

    Attributes:
        origin: the split of the savepoint that it replaces.
        file: the file.
        row_groups: of the file.
        cached_bytes: of the row groups.
    """

    origin: StateSplit
    file: CacheFile
    row_groups: tuple[int, ...]
    size_bytes: int = 0

    def elsewhere(self) -> StateSplit:
        return self.origin.elsewhere()

    def narrowed(self, columns: Sequence[str]) -> CachedSplit:
        return replace(self, origin=self.origin.narrowed(columns))

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        try:
            source = pa.OSFile(str(self.file.path))
            footer = entry_footer(self.file) if self.file.is_file_of(source.fileno()) else None
        except FileNotFoundError:
            # Another process has evicted the entry for room.
            footer = None
        if footer is None:
            yield from self.origin.read(counter)
            return
        with source, parquet.ParquetFile(source, metadata=footer) as file:
            # Parquet counts rows only with a column; the cheapest one is that of subtasks.
            names = sorted(self.origin.sources) or [SUBTASK]

            def batches() -> Iterator[pa.RecordBatch]:
                for number in self.row_groups:
                    rows = file.read_row_group(number, columns=names, use_threads=False)
                    if counter is not None:
                        counter.add_cached(_column_bytes(footer.row_group(number), names))
                    yield from rows.to_batches()

            yield from self.origin.masked_rows(batches())


@dataclass(frozen=True, slots=True)
class FactsSplit(Split):
    """Rows that it holds.

    Attributes:
        batch: the rows.
    """

    batch: pa.RecordBatch
    size_bytes: int = 0

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        yield self.batch


def _column_bytes(row_group: Any, names: Sequence[str]) -> int:
    """Return the bytes of some columns in a row group of a file."""
    columns = map(row_group.column, range(row_group.num_columns))
    return sum(
        column.total_compressed_size for column in columns if column.path_in_schema.partition(".")[0] in names
    )


def _exploded(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return one row for each element of the lists in a column, with its `list_index`."""
    lists = batch.column(batch.schema.get_field_index(name))
    parents = pc.list_parent_indices(lists)
    columns = {
        column: batch.column(index).take(parents)
        for index, column in enumerate(batch.schema.names)
        if column != name
    }
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_pylist()
    indexes = pa.array([index for length in lengths for index in range(length)], pa.int32())
    return pa.RecordBatch.from_pydict(columns | {name: pc.list_flatten(lists), "list_index": indexes})
