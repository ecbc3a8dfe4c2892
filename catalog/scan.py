"""`Scan` and `Split`: what an engine reads. The seam between the catalog and the engines.

A scan is a table's columns and conditions; its splits are small and picklable, and each reads a part of the
rows as `pyarrow.RecordBatch`es. A split that travels to another process opens the savepoint there, once a
process.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from catalog.references import SavepointReference
from readers import ReadCounter


class ScanCounter(ReadCounter):
    """Also how many bytes of the cache were read. A pickled copy counts on its own, from 0."""

    def __init__(self) -> None:
        super().__init__()
        self._cache_lock = threading.Lock()
        self._bytes_cached = 0

    def add_cached(self, bytes_read: int) -> None:
        """So many bytes of the cache were read."""
        with self._cache_lock:
            self._bytes_cached += bytes_read

    @property
    def bytes_cached(self) -> int:
        """Bytes of the cache read so far."""
        return self._bytes_cached

    def __reduce__(self) -> tuple[type[ScanCounter], tuple[()]]:
        return (ScanCounter, ())


class Split(ABC):
    """A part of a scan; picklable.

    Attributes:
        size_bytes: about how many bytes of the savepoint it reads.
        cached_bytes: about how many bytes of the cache it reads in place of these.
    """

    size_bytes: int
    cached_bytes: int = 0

    @property
    def origin_bytes(self) -> int:
        """About how many bytes of the savepoint it reads where there is no cache."""
        return self.size_bytes

    @property
    def order(self) -> tuple[int, int]:
        """(part of its state, first key group): sorted by it, splits of different states stand beside those of the same keys."""
        return 0, 0

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        """The key groups whose rows it has; none where rows have no key."""
        return frozenset()

    def through(self, savepoint: SavepointReference) -> Split:
        """The same of the savepoint itself, opened so: for another machine, where there is no cache."""
        return self

    @abstractmethod
    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        """Its rows; the bytes read are added to `counter`.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of a table, read when asked for.

    Attributes:
        schema: the columns that `to_reader` gives.
        parts: the splits; their columns are those of the scan and those of the expression.
        expression: the exact condition; None for all rows of the splits.
        counter: counts the bytes read, also while a scan is running.
        completed: to be called with the seconds it took when all splits were read to their end.
    """

    schema: pa.Schema
    parts: tuple[Split, ...]
    expression: pc.Expression | None
    counter: ScanCounter
    completed: Callable[[float], None] = field(default=lambda _: None, compare=False)

    def splits(self) -> Sequence[Split]:
        """The parts of the scan. They prune but do not filter: `filtered` does."""
        return self.parts

    @property
    def bytes_total(self) -> int:
        """About how many bytes the whole scan reads."""
        return sum(split.size_bytes for split in self.parts)

    @property
    def cached_bytes_total(self) -> int:
        """About how many bytes of the cache the whole scan reads."""
        return sum(split.cached_bytes for split in self.parts)

    @property
    def key_groups(self) -> frozenset[int]:
        """The key groups that it reads."""
        return frozenset[int]().union(*(split.wanted_key_groups for split in self.parts))

    @property
    def is_cached(self) -> bool:
        """Whether any of it comes from the cache."""
        return any(split.cached_bytes for split in self.parts)

    @property
    def bytes_read(self) -> int:
        """Bytes of the savepoint read so far."""
        return self.counter.bytes_read

    @property
    def bytes_cached(self) -> int:
        """Bytes of the cache read so far."""
        return self.counter.bytes_cached

    def filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a split's batch that the scan's expression keeps, with the scan's columns."""
        if self.expression is not None:
            batch = batch.filter(self.expression)
        return batch if batch.schema.names == self.schema.names else batch.select(self.schema.names)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of one of its splits, filtered; none of the batches is empty."""
        # Neither keeps a batch beside the next one.
        return filter(_has_rows, map(self.filtered, split.read(self.counter)))

    def to_reader(self) -> pa.RecordBatchReader:
        """All rows, split after split; what is not asked for is not read."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """All rows, in memory."""
        return self.to_reader().read_all()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for split in self.parts:
            yield from self.read(split)


def _has_rows(batch: pa.RecordBatch) -> bool:
    return bool(batch.num_rows)
