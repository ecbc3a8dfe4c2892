"""The stack: a frame for each list, mask and binary region that the machine is in, of FRAME_WORDS int64.

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
from readers.decode.loads import load_le_i8, store_8

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
