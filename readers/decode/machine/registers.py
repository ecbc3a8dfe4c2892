"""What the machine reads and keeps beside columns, all int64: its program, its registers and its stack.

The words of the program are those of `readers/decode/instructions.py`. The registers are what the machine keeps when it stops: it
goes on from them after a Python leaf, and the error message comes from them. STATUS says why it stopped; MESSAGES says what the
errors among its codes mean. The stack has a frame for each list, mask and binary region that the machine is in, of FRAME_WORDS words:

| frame of | words |
|---|---|
| LIST, ELEMENTS | FRAME_LOOP FRAME_LEFT |
| BLOCKS | FRAME_LOOP FRAME_LEFT FRAME_COUNT |
| MASKED_LIST | FRAME_LOOP FRAME_LEFT FRAME_COUNT FRAME_MASK |
| DELIMITED | FRAME_LOOP |
| MASK | FRAME_MASK |
| BINARY, BINARY_SLOT, BINARY_KEYS, BINARY_VALUES | FRAME_REGION FRAME_POSITION FRAME_LIMIT FRAME_SLOTS |
| ARRAY | the frame of its region, with FRAME_LOOP and FRAME_LEFT; FRAME_SLOTS moves from element to element |
"""

from __future__ import annotations

from readers.compiled.routines import subroutine
from readers.decode import instructions as op
from readers.decode.loads import load_le_i8, store_8


@subroutine
def word(instructions: int, pc: int, index: int) -> int:
    """Return a word of instruction `pc`, by its name in `instructions.py`."""
    return load_le_i8(instructions, (pc * op.WORDS + index) * 8)


@subroutine
def target(targets: int, index: int) -> int:
    """Return a word of the tables; see `Code.targets`."""
    return load_le_i8(targets, index * 8)


STATUS = 0  # why the machine stopped; before a run: CALL to go on at PC, DONE to begin entry ROW
ROW = 1  # the entry that it stopped in
PC = 2  # the number of the instruction
POSITION = 3  # in the page's bytes
LIMIT = 4  # the end of the segment or region around POSITION
TOP = 5  # the frame in use, -1 for none
MARKED = 6  # the position of the last MARK
DETAIL_A = 7  # numbers for the error message
DETAIL_B = 8
KEPT = 9  # the elements that ELEMENTS reads; ALL_ELEMENTS before it is known how many can be read
READ = 10  # the elements that ELEMENTS has read
REGISTERS = 11

ALL_ELEMENTS = 2**31 - 1


@subroutine
def register(registers: int, number: int) -> int:
    """Return a register."""
    return load_le_i8(registers, number * 8)


@subroutine
def set_register(registers: int, number: int, value: int) -> None:
    """Set a register."""
    store_8(registers, number * 8, value)


FRAME_LOOP = 0  # the first instruction of the element
FRAME_LEFT = 1  # elements left, with the one that is being read
FRAME_MASK = 2  # where the mask begins
FRAME_REGION = 2  # where the region begins
FRAME_POSITION = 3  # where to go on behind the region,
FRAME_LIMIT = 4  # and the limit there
FRAME_COUNT = 5  # elements of the list; of BLOCKS: of the blocks so far
FRAME_SLOTS = 5  # where the slots of the row, or the slot of the element, begin
FRAME_WORDS = 6


@subroutine
def frame(stack: int, top: int, index: int) -> int:
    """Return a word of frame `top`."""
    return load_le_i8(stack, (top * FRAME_WORDS + index) * 8)


@subroutine
def set_frame(stack: int, top: int, index: int, value: int) -> None:
    """Set a word of frame `top`."""
    store_8(stack, (top * FRAME_WORDS + index) * 8, value)


DONE = 0  # all entries are decoded
FULL = 1  # an arena is full; entry ROW is not finished
CALL = 2  # a Python leaf is to be read: instruction PC at POSITION

TOO_SHORT = 10
TRAILING = 11
BAD_FLAG = 12
BAD_TAG = 13
BAD_CLASS = 14
BAD_COUNT = 15
BAD_DELIMITER = 16
BAD_INDEX = 17
BAD_TEXT = 18  # not modified UTF-8, or a varint too long
BAD_SUFFIX = 19
OUT_OF_RANGE = 20  # a date or time beyond its column: the decoder sets it aside and goes on; else an error
BAD_DATE = 21

# {a} and {b} are the registers DETAIL_A and DETAIL_B.
MESSAGES = {
    TOO_SHORT: "expected {a} bytes, found {b} left",
    TRAILING: "expected the end of the entry, found {a} bytes more",
    BAD_FLAG: "expected a flag 0 or 1, found {a}",
    BAD_TAG: "expected a known tag, found {a}",
    BAD_CLASS: "expected the name of a known class, found another of {a} bytes",
    BAD_COUNT: "expected a count or length, found {a} with {b} bytes left",
    BAD_DELIMITER: "expected the list delimiter 44, found {a}",
    BAD_INDEX: "expected an index of {b} enum constants, found {a}",
    BAD_TEXT: "expected text, found bytes that are none",
    BAD_SUFFIX: "expected the length {b} behind the key, found {a}",
    OUT_OF_RANGE: "the value does not fit its column type exactly ({a})",
    BAD_DATE: "expected a date or time, found {a}",
}
