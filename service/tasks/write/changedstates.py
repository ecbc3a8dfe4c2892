"""What a script has changed in the states of a savepoint: shared by all families."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from catalog import PlannedTable, Scan, Table
from catalog.changedtables import StateKey, TableChanges
from catalog.scan import FactsSplit
from writers import AddedRows, RemovedRows, Spool, StateChanges, UpdatedRows

_MEMORY_BYTES = 32 << 20


class ChangedStates:
    """The changes of each state so far.

    Args:
        directory: for rows that memory does not hold.

    Attributes:
        spool: keeps the rows of statements.
        emptied: states without any row of the savepoint.
        names: the new names of states that have others.
        retyped: states whose values have other types, after the changes of their rows.
        now_ms: the time of the write: what it changes has been accessed then.
    """

    def __init__(self, directory: Path) -> None:
        self.spool = Spool(directory)
        self._directory = directory
        self._files = 0
        self.emptied: set[StateKey] = set()
        self.names: dict[StateKey, str] = {}
        self.retyped: set[StateKey] = set()
        self._changes: dict[StateKey, StateChanges] = {}
        self.now_ms = time.time_ns() // 1_000_000

    @property
    def table_changes(self) -> TableChanges:
        """The changes so far; later statements do not change what is returned."""
        return TableChanges(changes=dict(self._changes), emptied=frozenset(self.emptied))

    def of(self, key: StateKey) -> StateChanges:
        """Return the changes of a state; without layers if it has none."""
        return self._changes.get(key) or StateChanges(now_ms=self.now_ms)

    def add(self, key: StateKey, *layers: UpdatedRows | RemovedRows | AddedRows) -> None:
        """Add the changes of a statement to those of a state; layers without rows change nothing."""
        for layer in layers:
            if not layer.rows.num_rows:
                continue
            before = self.of(key)
            joined = self.spool.joined(before.layers[-1], layer) if before.layers else None
            kept = (*before.layers, layer) if joined is None else (*before.layers[:-1], joined)
            self._changes[key] = replace(before, layers=kept)

    def empty(self, key: StateKey) -> None:
        """Remove all rows of a state."""
        self.forget(key)
        self.emptied.add(key)

    def forget(self, key: StateKey) -> None:
        """Forget the changes of a state: it goes."""
        self._changes.pop(key, None)

    def stored(self, reader: pa.RecordBatchReader, names: Sequence[str], number: str | None = None) -> Table:
        """Return the rows of a reader as a table that can be read several times.

        Args:
            reader: the rows.
            names: of the columns of the table.
            number: of one more column, which numbers the rows; None for none.
        """
        fields = [column.with_name(name) for column, name in zip(reader.schema, names, strict=True)]
        schema = pa.schema(fields if number is None else [*fields, pa.field(number, pa.int64())])
        batches = (
            pa.RecordBatch.from_arrays([*batch.columns, *extra], schema=schema)
            for batch, extra in _numbered(reader, is_wanted=number is not None)
        )
        held: list[pa.RecordBatch] = []
        size_bytes = 0
        for batch in batches:
            held.append(batch)
            size_bytes += batch.nbytes
            if size_bytes > _MEMORY_BYTES:
                held = self._mapped(schema, itertools.chain(held, batches))
        splits = tuple(map(FactsSplit, held))
        return PlannedTable("rows", "rows of a query", Scan(schema=schema, splits=splits))

    def _mapped(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Write batches to a file, and return them as a map of it."""
        path = self._directory / f"rows-{self._files}.arrow"
        self._files += 1
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        found: list[pa.RecordBatch] = pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_batches()
        return found


def _numbered(
    batches: Iterable[pa.RecordBatch], *, is_wanted: bool
) -> Iterator[tuple[pa.RecordBatch, list[pa.Array]]]:
    """Yield batches, each with the numbers of its rows if they are wanted."""
    first = 0
    for batch in batches:
        yield batch, [pa.array(np.arange(first, first + batch.num_rows))] if is_wanted else []
        first += batch.num_rows
