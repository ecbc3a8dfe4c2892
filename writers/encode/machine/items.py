"""The columns as the machine sees them, and items taken from them.

A row of the table is a column, int64 of shape (columns, FIELDS); the fields are the constants below. Each column has a
cursor, the number of its next item in Arrow's buffers: items are taken in the order in which the decoding machine
appends them, so no item is ever looked up.
"""

from __future__ import annotations

from readers import load_le_i4, load_le_i8, load_u1, store_8, subroutine

CURSOR = 0
VALUES = 1  # address of the values, bits or int32 offsets
VALIDITY = 2  # address of the bitmap; 0 if no item is null
DATA = 3  # address of the data of a VARIABLE column
DATA_END = 4  # bytes of the data
NEXT = 5  # the first column behind this one's subtree
LAYOUT = 6
FIELDS = 7

FIXED = 0
VARIABLE = 1
LIST = 2
STRUCT = 3
BITS = 4  # booleans


@subroutine
def get_field(table: int, column: int, field: int) -> int:
    """Return a field of a column."""
    return load_le_i8(table, (column * FIELDS + field) * 8)


@subroutine
def set_field(table: int, column: int, field: int, value: int) -> None:
    """Set a field of a column."""
    store_8(table, (column * FIELDS + field) * 8, value)


@subroutine
def is_null(table: int, column: int) -> bool:
    """Return whether the next item is null."""
    validity = get_field(table, column, VALIDITY)
    if validity == 0:
        return False
    cursor = get_field(table, column, CURSOR)
    return load_u1(validity, cursor >> 3) >> (cursor & 7) & 1 == 0


@subroutine
def advance(table: int, column: int) -> int:
    """Take the next item of one column; return its number."""
    cursor = get_field(table, column, CURSOR)
    set_field(table, column, CURSOR, cursor + 1)
    return cursor


@subroutine
def skip_item(table: int, column: int) -> None:
    """Take the next item of a column and of all columns below it that have as many items; it is null."""
    # A null list has no elements: see `columns.py`, which removes those that Arrow allows.
    current = column
    end = get_field(table, column, NEXT)
    while current < end:
        set_field(table, current, CURSOR, get_field(table, current, CURSOR) + 1)
        if get_field(table, current, LAYOUT) == LIST:
            current = get_field(table, current, NEXT)
        else:
            current += 1


@subroutine
def text_bounds(table: int, column: int) -> tuple[int, int]:
    """Return where the next item of a VARIABLE or LIST column begins and ends in its data or child."""
    offsets = get_field(table, column, VALUES)
    cursor = get_field(table, column, CURSOR)
    return load_le_i4(offsets, cursor * 4), load_le_i4(offsets, cursor * 4 + 4)


@subroutine
def byte_of(table: int, column: int) -> int:
    """Return the next item of a column of booleans or of one byte."""
    cursor = get_field(table, column, CURSOR)
    values = get_field(table, column, VALUES)
    if get_field(table, column, LAYOUT) == BITS:
        return load_u1(values, cursor >> 3) >> (cursor & 7) & 1
    return load_u1(values, cursor)
