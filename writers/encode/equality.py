"""Numbers of any length as texts that are equal where the numbers are.

A BigDecimal or BigInteger is text in a column. Many texts are one number (`1E+3`, `+1000`, `01000.0`): a script has any of them, and
readers show one.

Entries that were encoded beside the bytes that they were read from.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import Code, ColumnTree, Page, Program, Serializer
from readers import instructions as op


def value_program(serializer: Serializer) -> tuple[ColumnTree, Code]:
    """Return the program of single values of a serializer, and its columns: `value`."""
    tree = ColumnTree(pa.struct([pa.field("value", serializer.arrow())]))
    program = Program(tree)
    with program.field(0, "value"):
        serializer.emit(program)
    return tree, program.finish()


def comparable_numbers(serializer: Serializer, array: pa.Array) -> pa.Array:
    """Return values with one text for each BigDecimal and BigInteger among them that are the same number.

    Args:
        serializer: of the values.
        array: of the type of its column.
    """
    tree, code = value_program(serializer)
    is_number = np.isin(code.instructions[:, op.OPCODE], [op.BIG_DECIMAL, op.BIG_INTEGER])
    numbers = frozenset(code.instructions[is_number, op.COLUMN].tolist())
    return _comparable(tree, numbers, tree.children[0][0], array)


def _comparable(tree: ColumnTree, numbers: frozenset[int], column: int, array: pa.Array) -> pa.Array:
    if column in numbers:
        return _texts(array)
    if numbers.isdisjoint(range(column, tree.next[column])):
        return array
    children = tree.children[column]
    below = partial(_comparable, tree, numbers)
    kind = array.type
    if pa.types.is_struct(kind):
        fields = [below(child, array.field(number)) for number, child in enumerate(children)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind):
        items = [
            below(child, values)
            for child, values in zip(tree.children[children[0]], (array.keys, array.items), strict=True)
        ]
        return pa.MapArray.from_arrays(array.offsets, *items, type=kind, mask=array.is_null())
    return pa.ListArray.from_arrays(
        array.offsets, below(children[0], array.values), type=kind, mask=array.is_null()
    )


def _texts(array: pa.Array) -> pa.Array:
    known = array.dictionary_encode()
    texts = [None if text is None else _text(Decimal(text)) for text in known.dictionary.to_pylist()]
    return pa.array(texts, array.type).take(known.indices)


def _text(number: Decimal) -> str:
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits))
    kept = text.rstrip("0")
    # Leading zeros are no digits of a Decimal, except those of zero itself.
    return f"{'-' * sign}{kept}e{int(exponent) + len(text) - len(kept)}" if kept else "0"


# Canonical files mark the last entry of a state in the first bit of its key group, which is no part of the entry.
KEY_GROUP_BITS = 0x7F


def same_entries(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    page: Page,
    *,
    has_key_group: bool,
) -> NDArray[np.bool_]:
    """Return which entries have the bytes of the entries of a page; bool (entries,).

    Args:
        data: the encoded bytes.
        starts, ends: int64 (entries, segments), in them; as many entries as the page has.
        page: the bytes that were read.
        has_key_group: whether the first segment begins with the key group.
    """
    sizes = page.ends - page.starts
    same: NDArray[np.bool_] = (sizes == ends - starts).all(axis=1)
    for segment in range(sizes.shape[1]):
        rows = np.flatnonzero(same)
        counts = sizes[rows, segment]
        owners = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = page.data[page.starts[rows, segment][owners] + within]
        encoded = data[starts[rows, segment][owners] + within]
        if has_key_group and segment == 0:
            found = np.where(within == 0, found & KEY_GROUP_BITS, found)
        same[rows[owners[found != encoded]]] = False
    return same
