"""The columns as the machine sees them: fields of the table, and items that it appends to the arena.

See `readers/decode/columns.py` for the fields and buffers. The subroutines `put…` and `close…` append one item, or return
True if a column is full: what the entry has written by then does not matter, as the decoder cuts it off.
"""

from __future__ import annotations

from readers.compiled.routines import subroutine
from readers.decode import instructions as op
from readers.decode.columns import (
    CAPACITY,
    DATA,
    DATA_CAPACITY,
    DATA_LENGTH,
    FIELDS,
    FIXED,
    LAYOUT,
    LENGTH,
    LIST,
    NEXT,
    NULLS,
    VALIDITY,
    VALUES,
    VARIABLE,
    WIDTH,
)
from readers.decode.loads import load_le_i8, load_u1, store_1, store_2, store_4, store_8
from readers.decode.machine.code import target


@subroutine
def get_field(table: int, column: int, field: int) -> int:
    """Return a field of a column."""
    return load_le_i8(table, (column * FIELDS + field) * 8)


@subroutine
def set_field(table: int, column: int, field: int, value: int) -> None:
    """Set a field of a column."""
    store_8(table, (column * FIELDS + field) * 8, value)


@subroutine
def put8(table: int, memory: int, column: int, value: int) -> bool:
    """Append a value to a FIXED column of 8 bytes."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    store_8(memory, get_field(table, column, VALUES) + length * 8, value)
    set_field(table, column, LENGTH, length + 1)
    return False


@subroutine
def put4(table: int, memory: int, column: int, value: int) -> bool:
    """Append a value to a FIXED column of 4 bytes."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    store_4(memory, get_field(table, column, VALUES) + length * 4, value)
    set_field(table, column, LENGTH, length + 1)
    return False


@subroutine
def put2(table: int, memory: int, column: int, value: int) -> bool:
    """Append a value to a FIXED column of 2 bytes."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    store_2(memory, get_field(table, column, VALUES) + length * 2, value)
    set_field(table, column, LENGTH, length + 1)
    return False


@subroutine
def put1(table: int, memory: int, column: int, value: int) -> bool:
    """Append a value to a FIXED column of 1 byte."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    store_1(memory, get_field(table, column, VALUES) + length, value)
    set_field(table, column, LENGTH, length + 1)
    return False


@subroutine
def put_items(table: int, column: int, count: int) -> bool:
    """Append items without values: to a STRUCT, or to the child of a list, whose values are written on their own."""
    length = get_field(table, column, LENGTH) + count
    if length > get_field(table, column, CAPACITY):
        # The decoder gives more room to columns that are full to the last item.
        set_field(table, column, LENGTH, get_field(table, column, CAPACITY))
        return True
    set_field(table, column, LENGTH, length)
    return False


@subroutine
def close_variable(table: int, memory: int, column: int, data_length: int) -> bool:
    """Append the item of a VARIABLE column whose data, already written, ends at `data_length`."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    set_field(table, column, DATA_LENGTH, data_length)
    store_4(memory, get_field(table, column, VALUES) + (length + 1) * 4, data_length)
    set_field(table, column, LENGTH, length + 1)
    return False


@subroutine
def put_bytes(table: int, memory: int, column: int, source: int, start: int, count: int) -> bool:
    """Append `source[start:start + count]` to a VARIABLE column."""
    used = get_field(table, column, DATA_LENGTH)
    if used + count > get_field(table, column, DATA_CAPACITY):
        return True
    base = get_field(table, column, DATA) + used
    for index in range(count):
        store_1(memory, base + index, load_u1(source, start + index))
    return close_variable(table, memory, column, used + count)


@subroutine
def put_constant(table: int, memory: int, column: int, pool: int, targets: int, entry: int) -> bool:
    """Append the text of an entry of a table of constants."""
    offset = target(targets, entry + op.ENTRY_OFFSET)
    return put_bytes(table, memory, column, pool, offset, target(targets, entry + op.ENTRY_BYTES))


@subroutine
def put_nulls(table: int, memory: int, column: int) -> bool:
    """Append null to `column` and to all columns below it that have as many items."""
    # Arrow wants an item in every child of a struct. A null list has no elements: the columns below it are passed over.
    current = column
    end = get_field(table, column, NEXT)
    while current < end:
        length = get_field(table, current, LENGTH)
        if length >= get_field(table, current, CAPACITY):
            return True
        layout = get_field(table, current, LAYOUT)
        following = current + 1
        if layout == FIXED:
            width = get_field(table, current, WIDTH)
            base = get_field(table, current, VALUES) + length * width
            # The arena is not cleared: files and answers must not carry what its memory held before.
            for index in range(width):
                store_1(memory, base + index, 0)
        elif layout == VARIABLE:
            end_offset = get_field(table, current, VALUES) + (length + 1) * 4
            store_4(memory, end_offset, get_field(table, current, DATA_LENGTH))
        elif layout == LIST:
            end_offset = get_field(table, current, VALUES) + (length + 1) * 4
            store_4(memory, end_offset, get_field(table, current + 1, LENGTH))
            following = get_field(table, current, NEXT)
        store_1(memory, get_field(table, current, VALIDITY) + length, 0)
        set_field(table, current, LENGTH, length + 1)
        set_field(table, current, NULLS, get_field(table, current, NULLS) + 1)
        current = following
    return False


@subroutine
def close_list(table: int, memory: int, column: int) -> bool:
    """Append the item of a LIST column whose elements, already appended to its child, end here."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    store_4(memory, get_field(table, column, VALUES) + (length + 1) * 4, get_field(table, column + 1, LENGTH))
    set_field(table, column, LENGTH, length + 1)
    return False
