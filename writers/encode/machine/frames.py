"""The stack of the machine: a frame for each list, mask and binary region around the bytes that are being written, int64.

| opened by | uses |
|---|---|
| LIST DELIMITED BLOCKS | FRAME_LOOP FRAME_LEFT |
| MASKED_LIST | FRAME_LOOP FRAME_LEFT FRAME_COUNT FRAME_MASK |
| MASK | FRAME_MASK |
| BINARY, BINARY_SLOT, BINARY_KEYS, BINARY_VALUES | FRAME_REGION FRAME_PATCH FRAME_SLOTS FRAME_KIND |
| ARRAY | the frame of its region, with FRAME_LOOP, FRAME_LEFT and FRAME_COUNT; FRAME_SLOTS moves from element to element |
"""

from __future__ import annotations

from readers import load_le_i8, store_8, subroutine

FRAME_LOOP = 0  # the first instruction of the element
FRAME_LEFT = 1  # elements left, with the one that is being written
FRAME_MASK = 2  # where the mask begins
FRAME_REGION = 2  # where the region begins
FRAME_COUNT = 3  # elements of the list
FRAME_SLOTS = 4  # where the slots of the row, or the slot of the element, begin
FRAME_PATCH = 5  # where the size of the region is written when it is known
FRAME_KIND = 6  # the opcode that opened the region
FRAME_WORDS = 7


@subroutine
def frame(stack: int, top: int, index: int) -> int:
    """Return a word of frame `top`."""
    return load_le_i8(stack, (top * FRAME_WORDS + index) * 8)


@subroutine
def set_frame(stack: int, top: int, index: int, value: int) -> None:
    """Set a word of frame `top`."""
    store_8(stack, (top * FRAME_WORDS + index) * 8, value)
