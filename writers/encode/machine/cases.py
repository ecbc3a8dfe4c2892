"""Which case of a switch, and which constant of a table, the next items are.

The tables of cases are made by `writers/encode/cases.py`: an alternative is `tag, instruction, tests`, and tests are
their number and as many times `column, kind, offset, bytes`.
"""

from __future__ import annotations

from readers import instructions as op
from readers import load_le_i8, load_u1, subroutine
from writers.encode.machine.items import DATA, get_field, is_null, text_bounds

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
