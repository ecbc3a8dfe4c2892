"""The tables of a statement, as DuckDB reads them: Arrow's datasets, whose rows the execution that is attached reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from catalog import Scan
from readers import KEY_GROUP, SUBTASK, dictionary_schema, with_dictionaries
from service.query.sql.plan import TableReference

# `COUNT(*)` reads the first column of the dataset: no value is decoded for these.
_CHEAPEST = (SUBTASK, KEY_GROUP)


class ScanReader(Protocol):
    """Opens and reads the scans of a session's tables: the execution."""

    def scan(self, reference: TableReference, columns: list[str], condition: pc.Expression | None) -> Scan:
        """Open the scan of a table, with a condition that DuckDB pushes down."""

    def batches_of(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a scan."""

    def fail(self, error: Exception) -> None:
        """Keep an error of a scan."""


class TableDataset(dataset.InMemoryDataset):  # type: ignore[misc]  # pyarrow has no types
    """A table as DuckDB reads it, by the execution that is attached."""

    def __init__(self, schema: pa.Schema) -> None:
        cheapest = [name for name in _CHEAPEST if name in schema.names]
        others = [name for name in schema.names if name not in cheapest]
        ordered = pa.schema([schema.field(name) for name in (*cheapest, *others)])
        # To DuckDB texts are dictionaries: of their values where these repeat. The types of its columns are the same.
        super().__init__(dictionary_schema(ordered).empty_table())
        self._attached: tuple[TableReference, ScanReader] | None = None

    def attach(self, reference: TableReference, reader: ScanReader) -> None:
        """Have this execution read the table, by this reference: another text has other conditions."""
        self._attached = reference, reader

    def detach(self) -> None:
        """Release the execution."""
        self._attached = None

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> _Scanner:
        """Open a scan; DuckDB calls this, with None for all columns in the dataset's order."""
        if self._attached is None:
            raise RuntimeError("expected an execution that reads the table, found none")
        reference, reader = self._attached
        try:
            names = list(self.schema.names if columns is None else columns)
            return _Scanner(reader, reader.scan(reference, names, filter))
        except Exception as error:
            reader.fail(error)
            raise


class _Scanner:
    """The part of a scanner that DuckDB needs: Arrow's own scanner reads 16 batches ahead."""

    def __init__(self, reader: ScanReader, scan: Scan) -> None:
        self.projected_schema = dictionary_schema(scan.schema)
        self._reader = reader
        self._scan = scan

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows, which are read as DuckDB takes them."""
        schema = self.projected_schema
        batches = (with_dictionaries(batch, schema) for batch in self._reader.batches_of(self._scan))
        return pa.RecordBatchReader.from_batches(schema, batches)
