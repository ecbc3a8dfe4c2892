"""The rows of a key as people read them: a namespace, the place in a map or a list, and the value, as JSON text."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

import readers

_TEXT = pa.string()
ENTRIES = pa.schema([("namespace", _TEXT), ("map_key", _TEXT), ("list_index", pa.int32()), ("value", _TEXT)])


def entries_of(batch: pa.RecordBatch, value: str, json_columns: Collection[str] = ()) -> pa.RecordBatch:
    """Return the rows of states as entries.

    Args:
        batch: the rows; a column that they do not have is null.
        value: the column with the value.
        json_columns: columns whose texts are JSON already.
    """

    def column(name: str) -> pa.Array:
        if name not in batch.schema.names:
            return pa.nulls(batch.num_rows, _TEXT)
        return batch.column(name) if name in json_columns else readers.json_text(batch.column(name))

    def namespace() -> pa.Array:
        # SQL's operators store of a window its end, in milliseconds.
        if "namespace" in batch.schema.names and pa.types.is_int64(batch.schema.field("namespace").type):
            return readers.json_text(batch.column("namespace").cast(pa.timestamp("ms")))
        return column("namespace")

    has_index = "list_index" in batch.schema.names
    index = batch.column("list_index") if has_index else pa.nulls(batch.num_rows, pa.int32())
    return pa.RecordBatch.from_arrays([namespace(), column("map_key"), index, column(value)], schema=ENTRIES)
