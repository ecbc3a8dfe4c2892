"""What the machine works on: the statuses it stops with, its registers, its stack, the columns, the cases of switches. All int64.

The registers are what the machine keeps when it stops: STATUS says why. It goes on from them when it has been given more room.

The stack has a frame for each list, mask and binary region around the bytes that are being written:

| opened by | uses |
|---|---|
| LIST DELIMITED BLOCKS | LOOP LEFT |
| MASKED_LIST | LOOP LEFT COUNT MASK |
| MASK | MASK |
| BINARY, BINARY_SLOT, BINARY_KEYS, BINARY_VALUES | REGION PATCH SLOTS KIND |
| ARRAY | the frame of its region, with LOOP, LEFT and COUNT; SLOTS moves from element to element |

A row of the table of columns is a column, int64 of shape (columns, FIELDS); the fields are the constants below. Each column has a
cursor, the number of its next item in Arrow's buffers: items are taken in the order in which the decoding machine
appends them, so no item is ever looked up.

The tables of cases are made by `writers/encode/program.py`: an alternative is `tag, instruction, tests`, and tests are
their number and as many times `column, kind, offset, bytes`.
"""

from __future__ import annotations

from readers import instructions as op
from readers import load_le_i4, load_le_i8, load_u1, store_8, subroutine

DONE = 0  # all entries are encoded
FULL = 1  # the output has too little room for the instruction

NULL_VALUE = 10
NOT_NULL = 11
OUT_OF_RANGE = 12
WRONG_LENGTH = 13
NO_CONSTANT = 14
OTHER_CONSTANT = 15
NO_CASE = 16
BAD_TEXT = 17
TOO_LONG = 18
NOT_A_NUMBER = 19
LEAF = 20  # an object that only Python reads
HIDDEN = 21  # bytes that no column holds

# {value} is the value, {type} the column type, {detail} the register DETAIL.
MESSAGES = {
    NULL_VALUE: "expected a value of type {type}, found NULL, for which the serializer has no bytes",
    NOT_NULL: "expected NULL, found {value}: no bytes stand for a value here",
    OUT_OF_RANGE: "expected a value that the serializer can write, found {value} ({type})",
    WRONG_LENGTH: "expected {detail} bytes, found {value}",
    NO_CONSTANT: "expected one of the constants that the savepoint describes, found {value}",
    OTHER_CONSTANT: "expected the only value of this type, found {value}",
    NO_CASE: "expected a value of a class or case that the savepoint describes, found {value}",
    BAD_TEXT: "expected text in UTF-8, found {value}",
    TOO_LONG: "expected at most {detail} bytes, found more: {value}",
    NOT_A_NUMBER: "expected a decimal number, found {value}",
}


STATUS = 0  # why the machine stopped; before a run: FULL to go on at PC, DONE to begin entry ROW
ROW = 1  # the entry that it stopped in
PC = 2  # the number of the instruction
POSITION = 3  # where the next byte goes
SEGMENT = 4  # the segment that is being written
TOP = 5  # the frame in use, -1 for none
MARKED = 6  # the position of the last MARK
ROOM = 7  # the bytes that the instruction needs, if the output is full
COLUMN = 8  # the column of the value that is an error
DETAIL = 9  # a number for the error message
REGISTERS = 10


@subroutine
def register(registers: int, number: int) -> int:
    """Return a register."""
    return load_le_i8(registers, number * 8)


@subroutine
def set_register(registers: int, number: int, value: int) -> None:
    """Set a register."""
    store_8(registers, number * 8, value)


LOOP = 0  # the first instruction of the element
LEFT = 1  # elements left, with the one that is being written
MASK = 2  # where the mask begins
REGION = 2  # where the region begins
COUNT = 3  # elements of the list
SLOTS = 4  # where the slots of the row, or the slot of the element, begin
PATCH = 5  # where the size of the region is written when it is known
KIND = 6  # the opcode that opened the region
WORDS = 7


@subroutine
def frame(stack: int, top: int, index: int) -> int:
    """Return a word of frame `top`."""
    return load_le_i8(stack, (top * WORDS + index) * 8)


@subroutine
def set_frame(stack: int, top: int, index: int, value: int) -> None:
    """Set a word of frame `top`."""
    store_8(stack, (top * WORDS + index) * 8, value)


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
    # A null list has no elements: see `Columns`, which removes those that Arrow allows.
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


CASE_TAG = 0  # what the switch writes: the tag, or the number of the class
CASE_TARGET = 1  # the instruction to go on with
CASE_TESTS = 2  # index of its tests
CASE_WORDS = 3

TEST_COLUMN = 0
TEST_KIND = 1
TEST_OFFSET = 2  # of the text in the pool
TEST_BYTES = 3
TEST_WORDS = 4

IS_NULL = 0
IS_PRESENT = 1
IS_TEXT = 2


@subroutine
def is_text(table: int, column: int, pool: int, offset: int, size: int) -> bool:
    """Return whether the next item of a column of text is one that the pool has."""
    if is_null(table, column):
        return False
    start, end = text_bounds(table, column)
    if end - start != size:
        return False
    data = get_field(table, column, DATA)
    same = True
    for index in range(size):
        same = same and load_u1(data, start + index) == load_u1(pool, offset + index)
    return same


@subroutine
def find_case(table: int, cases: int, pool: int, first: int, count: int) -> int:
    """Return the index in `cases` of the first alternative whose tests the next items pass; -1 if there is none."""
    for number in range(count):
        case = first + number * CASE_WORDS
        at = load_le_i8(cases, (case + CASE_TESTS) * 8)
        left = load_le_i8(cases, at * 8)
        at += 1
        while left > 0:
            column = load_le_i8(cases, (at + TEST_COLUMN) * 8)
            kind = load_le_i8(cases, (at + TEST_KIND) * 8)
            if kind == IS_TEXT:
                offset = load_le_i8(cases, (at + TEST_OFFSET) * 8)
                size = load_le_i8(cases, (at + TEST_BYTES) * 8)
                if not is_text(table, column, pool, offset, size):
                    break
            elif is_null(table, column) != (kind == IS_NULL):
                break
            at += TEST_WORDS
            left -= 1
        if left == 0:
            return case
    return -1


@subroutine
def find_constant(table: int, column: int, pool: int, targets: int, first: int, count: int) -> int:
    """Return the number in a table of constants of the next item, a text; -1 if it is none of them."""
    for number in range(count):
        entry = first + op.CONSTANT_WORDS * number
        offset = load_le_i8(targets, (entry + op.ENTRY_OFFSET) * 8)
        size = load_le_i8(targets, (entry + op.ENTRY_BYTES) * 8)
        if is_text(table, column, pool, offset, size):
            return number
    return -1
