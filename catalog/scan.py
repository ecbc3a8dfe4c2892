"""`Scan` and `Split`: what an engine reads. The seam between the catalog and the engines.

A table plans a scan once (`Table.plan`): all its columns, and the splits that a predicate leaves. An engine narrows it to the
columns and the condition of a query, which plans nothing again. Splits are small and picklable, and each reads a part of the
rows as `pyarrow.RecordBatch`es. In another process a split opens the savepoint there, once a process.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.cache.states import CacheFile, CacheUse
from readers import ReadCounter, ReaderError


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
            self.schema,
            self.splits,
            self.expression,
            self.counter,
            self.cache_use,
            self.unread,
            self.cached,
        )

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
        return filter(_has_rows, map(self.filtered, split.read(self.counter)))

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of all rows, split after split; nothing is read ahead."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """Return all rows, in memory."""
        return self.to_reader().read_all()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for split in self.splits:
            yield from self.read(split)


def _has_rows(batch: pa.RecordBatch) -> bool:
    return bool(batch.num_rows)
