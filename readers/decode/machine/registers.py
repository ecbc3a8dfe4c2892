"""The registers: what the machine keeps when it stops, int64.

The machine has no other state. It goes on from the registers after a Python leaf, and the error message comes from
them; `statuses.py` lists why it stops.
"""

from __future__ import annotations

from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i8, store_8

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
