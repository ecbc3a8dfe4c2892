"""`Scan` and `Split`: what an engine reads. The seam between the catalog and the engines.

A scan is a table's columns and conditions; its splits are small and picklable, and each reads a part of the
rows as `pyarrow.RecordBatch`es. A split that travels to another process opens the savepoint there, once a
process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from readers.storage import ReadCounter


class Split(ABC):
    """A part of a scan; picklable.

    Attributes:
        size_bytes: about how many bytes it reads.
    """

    size_bytes: int

    @abstractmethod
    def read(self, counter: ReadCounter | None = None) -> Iterator[pa.RecordBatch]:
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
    """

    schema: pa.Schema
    parts: tuple[Split, ...]
    expression: pc.Expression | None
    counter: ReadCounter

    def splits(self) -> Sequence[Split]:
        """The parts of the scan. They prune but do not filter: `filtered` does."""
        return self.parts

    @property
    def bytes_total(self) -> int:
        """About how many bytes the whole scan reads."""
        return sum(split.size_bytes for split in self.parts)

    @property
    def bytes_read(self) -> int:
        """Bytes read so far."""
        return self.counter.bytes_read

    def filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a split's batch that the scan's expression keeps, with the scan's columns."""
        if self.expression is not None:
            batch = batch.filter(self.expression)
        return batch if batch.schema.names == self.schema.names else batch.select(self.schema.names)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of one of its splits, filtered; none of the batches is empty."""
        for batch in split.read(self.counter):
            kept = self.filtered(batch)
            if kept.num_rows:
                yield kept

    def to_reader(self) -> pa.RecordBatchReader:
        """All rows, split after split; what is not asked for is not read."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """All rows, in memory."""
        return self.to_reader().read_all()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for split in self.parts:
            yield from self.read(split)
