"""The encoding machine: runs a program over rows of columns and writes the bytes of their entries.

It is the mirror of `readers.decode.machine`: what that appends to a column, this takes from one. One kernel, `execute`,
dispatches on the instructions.

    execute.py    the dispatch loop
    items.py      the columns as the machine sees them, and items taken from them
    registers.py  what the machine keeps when it stops
    statuses.py   why it stops, and the error messages
    frames.py     the stack of lists, masks and binary regions
    cases.py      which case of a switch, which constant of a table, a row is
    text.py       UTF-8 → strings of three encodings
    numbers.py    128-bit and decimal numbers → two's complement
    temporal.py   days and nanoseconds → calendars

To add an instruction: a branch in `execute.py`. If it needs more than 16 bytes, it asks for the room before it writes or takes
anything: where there is too little, the machine stops, the encoder gives it more, and the same instruction runs again.
"""
