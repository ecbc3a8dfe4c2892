"""What decoding loses: why bytes that were decoded and encoded again may differ, or cannot be encoded.

| loss | bytes | encoded |
|---|---|---|
| OBJECT | objects of Kryo and Java, Protobuf, recursive Avro types: columns show text | refused; `StatePart.entries` keeps them |
| HIDDEN | a field that the class no longer has | refused |
| BEYOND | a value that its column cannot hold: the column has NULL, `_out_of_range` its text | refused |
| UNPAIRED | half of a surrogate pair, or bytes that are no text: U+FFFD in the column | U+FFFD |
| UNDER_NULL | bytes behind the flag of a map value that is null: the heap backend writes them | the flag alone |
| RESERVED | a null DECIMAL or TIMESTAMP of a binary row with or without room behind the slots | as `reserves_nulls` says |
| SCALE | a BigDecimal with a negative scale (`1E+3`): the column has plain digits | scale 0 |
| BIG_CONSTANT | a BigInteger 0, 1 or 10 written with its digits | Flink's constants |
| DIGITS | the nanoseconds of a TIMESTAMP(4) to (6) below a microsecond | 0 |
| CASE | a null side of an Either or of a union; two constants of a Scala enumeration with one name | the first that fits |
| GAPS | bytes of a binary row that no field uses: the row has more fields than its serializer | none |
| BLOCKS | an Avro array in several blocks | one block |

Flink itself writes what is encoded, so a reader of either takes the same value from both. Bytes that are compared (keys)
are written by Flink in one way only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from readers import NO_COLUMN, Code, ColumnTree
from readers import instructions as op

OBJECT = (
    "an object of Kryo, Java, Protobuf or a recursive Avro type: a column shows text of it, not its bytes"
)
HIDDEN = "a field that the class no longer has: no column shows its bytes"

_STRUCTURE = frozenset(
    {op.END, op.EXPECT_END, op.SEGMENT, op.SKIP, op.KEY_GROUP, op.MARK, op.LENGTH_SUFFIX, op.JUMP}
)


def refusals(tree: ColumnTree, code: Code) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield path and reason of each field of a program that cannot be encoded."""
    for instruction, path in zip(code.instructions.tolist(), code.paths, strict=True):
        if instruction[op.OPCODE] in _STRUCTURE:
            continue
        if instruction[op.COLUMN] == NO_COLUMN:
            yield path, HIDDEN
        elif instruction[op.OPCODE] == op.PYTHON and not pa.types.is_binary(
            tree.types[instruction[op.COLUMN]]
        ):
            yield path, OBJECT


# Instructions whose values can be written in more than one way, of which Flink writes another.
_SEVERAL_WAYS = {
    op.ROW: "a binary row with bytes that none of its fields uses, or nulls with and without room",
    op.BLOCKS: "an Avro array in several blocks",
    op.BIG_INTEGER: "a BigInteger 0, 1 or 10 written with its digits",
    op.BIG_DECIMAL: "a BigDecimal with a negative scale, or 0, 1 or 10 written with its digits",
    op.SWITCH: "a null side of an Either or of a union",
    op.SWITCH_I4: "a null branch of a union, or two constants of one name",
    op.TIMESTAMP_DATA: "the nanoseconds of a TIMESTAMP(4) to (6) below a microsecond",
}


def equal_values_loss(code: Code) -> str:
    """Return the reason why other bytes than were found have the same values; empty if none is known."""
    opcodes = set(code.instructions[:, op.OPCODE].tolist())
    return next((reason for opcode, reason in _SEVERAL_WAYS.items() if opcode in opcodes), "")
