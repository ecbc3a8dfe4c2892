"""The decoding machine: runs a program over the entries of a page and fills column arenas.

One kernel, `execute`, dispatches on the instructions; all other modules hold the subroutines and names that it uses.
Numba compiles the constants of these modules into it, so that a name costs nothing.

    execute.py    the dispatch loop, and the loops of walkers
    blocks.py     entries that are laid out alike, a block at a time
    registers.py  what the machine reads and keeps beside columns: program, registers, why it stops, stack
    columns.py    items appended to columns: numbers, bytes, decimals, dates and times
    text.py       strings of three encodings → UTF-8

To add an instruction:

1. `decode/instructions.py`: its opcode, a row in the table of bytes and operands, and names for operands it does not
   share with others.
2. `decode/program.py`: a method of `Program` that emits it; `least` is the number of bytes that it reads at least.
3. `execute.py`: a branch. Compare every length with `limit - position` before it is used; do nothing but check and step
   over the bytes if `column` is -1; leave with FULL if a column is full: the decoder gives it more room
   and decodes the entry again.
   An instruction that most entries of common states have may get a branch in `blocks.py`, too.
4. `registers.py`, if it can fail in a new way: a code and its message.
5. A serializer that emits it, with test vectors: the tests of serializers run each value with and without columns, and
   `tests/readers/compiled` runs the machine by Python as well and compares.

The tables in `compiled/kernel.py` and in `pyproject.toml` (mypy) need a line only for a new module.
"""
