"""The encoding machine: runs a program over rows of columns and writes the bytes of their entries.

It is the mirror of `readers.decode.machine`: what that appends to a column, this takes from one. One kernel, `execute`,
dispatches on the instructions.

    execute.py  the dispatch loop
    state.py    what it works on: columns, cases, the stack, registers, and why it stops
    values.py   texts, large numbers and dates → bytes

To add an instruction: a branch in `execute.py`. If it needs more than 16 bytes, it asks for the room before it writes or takes
anything: where there is too little, the machine stops, the encoder gives it more, and the same instruction runs again.
"""
