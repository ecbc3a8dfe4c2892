"""The splits of scans, and how they make a table's rows from a state's.

| split | reads |
|---|---|
| StateSplit | key groups of one part of a state |
| CachedSplit | the same from the cache, or from the savepoint once the entry is evicted or damaged |
| FactsSplit | rows that it holds |

Splits are pickled for every task: they hold references, numbers and outputs, and no open file.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

import readers
from catalog.cache.states import CacheFile, entry_footer
from catalog.references import StateReference
from catalog.scan import ScanCounter, Split
from readers import SUBTASK, ReaderError, SavepointGoneError


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
            _packed(self.reference, self.outputs),
            self.part,
            self.key_groups,
            self.keys,
            self.size_bytes,
            self.exploded,
            self.may_be_partial,
        )

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
        return map(self.rows_of_table, rows)

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
        return sources if self.exploded is None else sources | {self.exploded}

    def rows_of_table(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the table from rows of the state."""
        if self.exploded is not None:
            batch = _exploded(batch, self.exploded)
        schema = pa.schema([pa.field(output.name, output.type) for output in self.outputs])
        arrays = [output.array(batch) for output in self.outputs]
        # Without columns only the number of rows counts, which a batch without arrays would lose.
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


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


@dataclass(frozen=True, slots=True)
class CachedSplit(Split):
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
    cached_bytes: int
    size_bytes: int = 0

    @property
    def origin_bytes(self) -> int:
        return self.origin.size_bytes

    @property
    def wanted_key_groups(self) -> frozenset[int]:
        return self.origin.wanted_key_groups

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
            for number in self.row_groups:
                rows = file.read_row_group(number, columns=names, use_threads=False)
                if counter is not None:
                    counter.add_cached(_column_bytes(footer.row_group(number), names))
                yield from map(self.origin.rows_of_table, rows.to_batches())


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
