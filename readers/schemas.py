"""The names of columns that hold no value of a state, and schemas from a list of columns as SQL writes them."""

from __future__ import annotations

import pyarrow as pa

KEY_GROUP = "_key_group"
SUBTASK = "_subtask"
ROW = "_row"
"""The number of a row in its key group, or in the operator state of its subtask, in the order in which they are read."""

UNDECODED = "_undecoded"
"""Column with the bytes of values whose class the savepoint does not describe; the value is null."""

OUT_OF_RANGE = "_out_of_range"
"""Column with JSON text of the values that their own columns cannot hold; those are null."""


_TYPES = {
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "instant": pa.timestamp("us", "UTC"),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "text": pa.string(),
    "timestamp": pa.timestamp("ms"),
}


def schema_of(columns: str, **types: pa.DataType) -> pa.Schema:
    """Return the schema of columns as SQL lists them, such as `name, size_bytes bigint, hosts text[]`.

    Args:
        columns: names, each with its type behind it; one without a type is a text.
        types: types that are not in `_TYPES`, by name.
    """
    known = _TYPES | types
    pairs = (column.split() for column in columns.split(","))
    return pa.schema([(name, _type_of(kind[0] if kind else "text", known)) for name, *kind in pairs])


def struct_of(fields: str, **types: pa.DataType) -> pa.StructType:
    """Return the struct of fields; see `schema_of`."""
    return pa.struct(list(schema_of(fields, **types)))


def _type_of(name: str, known: dict[str, pa.DataType]) -> pa.DataType:
    return pa.list_(known[name[:-2]]) if name.endswith("[]") else known[name]
