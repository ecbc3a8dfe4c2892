"""The stack of the machine: a frame for each list, mask and binary region around the bytes that are being written, int64.

| opened by | uses |
|---|---|
| LIST DELIMITED BLOCKS | LOOP LEFT |
| MASKED_LIST | LOOP LEFT COUNT MASK |
| MASK | MASK |
| BINARY, BINARY_SLOT, BINARY_KEYS, BINARY_VALUES | REGION PATCH SLOTS KIND |
| ARRAY | the frame of its region, with LOOP, LEFT and COUNT; SLOTS moves from element to element |
"""

from __future__ import annotations

from readers import load_le_i8, store_8, subroutine

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
