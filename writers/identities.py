"""Columns → which rows are equal, as Java's `equals` sees their values: of any type, without a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_ITEM_BYTES = 8
_NULL = -1


def identities(columns: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Return a number for each row, int64 (rows,): equal rows have the same, from 0 on.

    Nulls are equal to each other; so are all NaN; 0.0 and -0.0 are not.
    """
    numbers = _numbers(columns[0])
    for column in columns[1:]:
        numbers = _paired(numbers, _numbers(column))
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)


def differing(olds: Sequence[pa.Array], news: Sequence[pa.Array]) -> pa.Array:
    """Return whether any of the values of a row is another one; nulls and NaN as `identities` sees them.

    Args:
        olds: columns; at least one.
        news: as many columns, of the same types and lengths.
    """
    numbers = identities([pa.concat_arrays(pair) for pair in zip(olds, news, strict=True)])
    length = len(olds[0])
    return pa.array(numbers[:length] != numbers[length:])


def _numbers(array: pa.Array) -> NDArray[np.int64]:
    """Return a number for each value, -1 for null."""
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), _NULL, dtype=np.int64)
    if pa.types.is_dictionary(kind):
        return _numbers(array.dictionary_decode())
    if pa.types.is_struct(kind):
        return _struct_numbers(array)
    if pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_large_list(kind):
        return _list_numbers(array)
    if pa.types.is_floating(kind):
        array = _bits(array)
    indices = array.dictionary_encode().indices
    return np.asarray(indices.cast(pa.int64()).fill_null(_NULL))


def _struct_numbers(array: pa.StructArray) -> NDArray[np.int64]:
    missing = np.asarray(array.is_null())
    numbers = np.zeros(len(array), dtype=np.int64)
    for child in array.flatten():
        numbers = _paired(numbers, _numbers(child))
    return np.where(missing, _NULL, numbers)


def _list_numbers(array: pa.Array) -> NDArray[np.int64]:
    """Return the numbers of lists or maps: a list is the bytes of its elements' numbers."""
    offsets = np.asarray(array.offsets, dtype=np.int64)
    values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    items = np.ascontiguousarray(_numbers(values))
    bounds = (offsets - offsets[0]) * _ITEM_BYTES
    lists = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(array), [None, pa.py_buffer(bounds), pa.py_buffer(items)]
    )
    numbers = _numbers(lists)
    return np.where(np.asarray(array.is_null()), _NULL, numbers)


def _bits(array: pa.Array) -> pa.Array:
    """Return numbers by their bits: Java tells 0.0 from -0.0, and takes every NaN for one."""
    known = array.cast(pa.float64()).fill_null(0.0)
    numbers = np.array(known)
    numbers[np.isnan(numbers)] = np.nan
    return pc.if_else(array.is_null(), pa.scalar(None, pa.int64()), pa.array(numbers.view(np.int64)))


def _paired(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each pair of numbers, below the number of rows."""
    if not len(first):
        return first
    pairs: NDArray[np.int64] = (first + 1) * (int(second.max()) + 2) + second + 1
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64)
