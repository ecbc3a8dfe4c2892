"""The registers: what the machine keeps when it stops, int64. It goes on from them when it has been given more room."""

from __future__ import annotations

from readers import load_le_i8, store_8, subroutine

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
