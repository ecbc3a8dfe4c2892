"""Numbers of any length as texts that are equal where the numbers are.

A BigDecimal or BigInteger is text in a column. Many texts are one number (`1E+3`, `+1000`, `01000.0`): a script has any of them, and
readers show one.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pyarrow as pa

from readers import ColumnTree, Program, Serializer
from readers import instructions as op


def comparable_numbers(serializer: Serializer, array: pa.Array) -> pa.Array:
    """Return values with one text for each BigDecimal and BigInteger among them that are the same number.

    Args:
        serializer: of the values.
        array: of the type of its column.
    """
    tree = ColumnTree(pa.struct([pa.field("value", serializer.arrow())]))
    program = Program(tree)
    with program.field(0, "value"):
        serializer.emit(program)
    code = program.finish()
    is_number = (code.instructions[:, op.OPCODE] == op.BIG_DECIMAL) | (
        code.instructions[:, op.OPCODE] == op.BIG_INTEGER
    )
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
