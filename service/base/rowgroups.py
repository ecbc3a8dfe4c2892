"""Batches → row groups of Parquet, and how their columns are written. Imports nothing of the house: executors of Spark use it, too.

Parquet's options are fixed before the first row, so the first batches stand for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

_MAY_REPEAT = (pa.types.is_primitive, pa.types.is_string, pa.types.is_binary, pa.types.is_decimal)
# A column gets a dictionary if each value stands in so many rows on average: with fewer the dictionary costs more than it saves.
_REPEATED = 10
_SHORT_BYTES = 256


def row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema, group_bytes: int) -> Iterator[pa.Table]:
    """Group batches to tables. Each row group adds to the footer, which stays in memory to the end, so groups are not small."""
    waiting: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        size_bytes += batch.nbytes
        del batch
        if size_bytes >= group_bytes:
            yield pa.Table.from_batches(popped(waiting), schema)
            size_bytes = 0
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def popped(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches and remove them from the list, so that a large one is not kept while the next one is read."""
    while batches:
        yield batches.pop(0)


def leaves(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[tuple[str, pa.Array]]:
    """Return Parquet's columns of batches, with Parquet's names."""
    return [
        leaf for batch in batches for leaf in chain.from_iterable(map(_leaves, schema.names, batch.columns))
    ]


def repeating(found: Iterable[tuple[str, pa.Array]]) -> list[str]:
    """Return the leaves whose values repeat.

    For other leaves, such as keys, a dictionary only costs: with dictionaries for all, an export of 18 million rows of four
    states took a quarter more processor time, reading included, and 141 MB instead of 71 MB.
    """
    some = ((name, array) for name, array in found if _is_short(array))
    return [name for name, array in some if _REPEATED * pc.count_distinct(array).as_py() <= len(array)]


def short(found: Iterable[tuple[str, pa.Array]]) -> list[str]:
    """Return the leaves that get statistics: for them Arrow copies a text six times, and in the end drops long text."""
    return [name for name, array in found if _is_short(array)]


def _is_short(array: pa.Array) -> bool:
    return bool(array.nbytes <= _SHORT_BYTES * max(len(array), 1))


def _leaves(name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if pa.types.is_struct(array.type):
        for field, child in zip(array.type, array.flatten(), strict=True):
            yield from _leaves(f"{name}.{field.name}", child)
    elif pa.types.is_map(array.type):
        yield from _leaves(f"{name}.key_value.key", array.keys)
        yield from _leaves(f"{name}.key_value.value", array.items)
    elif pa.types.is_list(array.type):
        yield from _leaves(f"{name}.list.element", array.flatten())
    elif any(test(array.type) for test in _MAY_REPEAT):
        yield name, array
