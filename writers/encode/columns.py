"""Arrow arrays as the machine sees them: one table with the addresses of their buffers, nothing copied.

The machine takes items in order, so a column is its buffers and a cursor. What Arrow allows and the machine does not
expect is removed here: the elements of null lists. A value of a struct that is null may be anything; it is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import ColumnTree
from writers.encode.fitting import shown
from writers.encode.machine import items as machine


class Columns:
    """The columns of some rows.

    Args:
        tree: the columns of the program.
        arrays: the children of the root, of the types of the tree.

    Attributes:
        table: int64 (columns, FIELDS); see `machine/items.py`.
    """

    def __init__(self, tree: ColumnTree, arrays: Sequence[pa.Array]) -> None:
        self.tree = tree
        self.table: NDArray[np.int64] = np.zeros((len(tree.types), machine.FIELDS), dtype=np.int64)
        self._arrays: list[pa.Array | None] = [None] * len(tree.types)  # keeps the buffers alive
        self.table[:, machine.NEXT] = tree.next
        self.table[0, machine.LAYOUT] = machine.STRUCT
        for column, array in zip(tree.children[0], arrays, strict=True):
            self._add(column, array)

    def _add(self, column: int, array: pa.Array) -> None:
        entry = self.table[column]
        data_type = self.tree.types[column]
        children = self.tree.children[column]
        if pa.types.is_list(data_type) or pa.types.is_map(data_type):
            array = _without_hidden_elements(array)
        self._arrays[column] = array
        buffers = array.buffers()
        entry[machine.CURSOR] = array.offset
        if array.null_count:
            entry[machine.VALIDITY] = buffers[0].address
        if pa.types.is_struct(data_type):
            entry[machine.LAYOUT] = machine.STRUCT
            for index, child in enumerate(children):
                self._add(child, array.field(index))
            return
        # An array without items may lack its buffers; nothing is taken from it.
        entry[machine.VALUES] = buffers[1].address if buffers[1] is not None else 0
        if pa.types.is_list(data_type) or pa.types.is_map(data_type):
            entry[machine.LAYOUT] = machine.LIST
            values = array.values
            self._add(children[0], values)
            self._move(children[0], int(array.offsets[0].as_py()) if len(array) else 0)
        elif pa.types.is_string(data_type) or pa.types.is_binary(data_type):
            entry[machine.LAYOUT] = machine.VARIABLE
            if buffers[2] is not None:
                entry[machine.DATA], entry[machine.DATA_END] = buffers[2].address, buffers[2].size
        else:
            entry[machine.LAYOUT] = machine.BITS if pa.types.is_boolean(data_type) else machine.FIXED

    def _move(self, column: int, items: int) -> None:
        """Pass over the first items of a column and of those below it."""
        self.table[column, machine.CURSOR] += items
        if self.table[column, machine.LAYOUT] == machine.STRUCT:
            for child in self.tree.children[column]:
                self._move(child, items)
        elif self.table[column, machine.LAYOUT] == machine.LIST and items:
            array = self._arrays[column]
            assert array is not None
            child = self.tree.children[column][0]
            self._move(child, array.offsets[items].as_py() - array.offsets[0].as_py())

    def text(self, column: int) -> str:
        """Return the next item of a column as text, for an error."""
        array = self._arrays[column]
        if array is None:
            return "a row"
        index = int(self.table[column, machine.CURSOR]) - array.offset
        if not 0 <= index < len(array):
            return "no value"
        return shown(array[index])


def _without_hidden_elements(array: pa.Array) -> pa.Array:
    """Return a list or map array whose nulls have no elements."""
    if not array.null_count:
        return array
    offsets = np.asarray(array.offsets, dtype=np.int64)
    missing = np.asarray(array.is_null())
    counts = np.diff(offsets)
    if not counts[missing].any():
        return array
    shown = np.repeat(~missing, counts)
    elements = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    elements = elements.filter(pa.array(shown))
    counts[missing] = 0
    begins = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    mask = pa.array(missing)
    if pa.types.is_map(array.type):
        return pa.MapArray.from_arrays(
            begins, elements.field(0), elements.field(1), type=array.type, mask=mask
        )
    return pa.ListArray.from_arrays(begins, elements, type=array.type, mask=mask)
