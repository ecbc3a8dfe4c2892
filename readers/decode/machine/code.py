"""The program as the machine reads it: words of its instructions, and targets. See `readers/decode/instructions.py`."""

from __future__ import annotations

from readers.compiled.routines import subroutine
from readers.decode import instructions as op
from readers.decode.loads import load_le_i8


@subroutine
def word(instructions: int, pc: int, index: int) -> int:
    """Return a word of instruction `pc`, by its name in `instructions.py`."""
    return load_le_i8(instructions, (pc * op.WORDS + index) * 8)


@subroutine
def target(targets: int, index: int) -> int:
    """Return a word of the tables; see `Code.targets`."""
    return load_le_i8(targets, index * 8)
