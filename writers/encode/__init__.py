"""Rows → entries: the programs that serializers emit, run from columns to bytes.

A serializer declares its layout once (`Serializer.emit`). The decoding machine reads bytes into columns by that program;
the machine here takes the columns apart into the same bytes. There is no second description of any type.

In: Arrow arrays of the column types that the program fills. Out: one buffer, and where each segment (key, value) of each
entry begins in it.

* **Order.** The decoder appends items to a column in the order of the bytes, so the encoder takes them in that order: a
  column is its Arrow buffers and a cursor, and nothing is looked up or copied before.
* **Structure.** A list takes its count from the offsets, a null flag or a mask bit its value from the validity. A switch
  takes the first case that the columns fit: what a case fills the columns with is derived from its instructions.
* **Sizes that stand before their bytes** (binary rows, arrays, maps) are left open and filled in when they are known.
* **Room.** Each instruction asks for the room that it needs before it writes or takes anything. Where there is too little
  the machine stops, the encoder gives it more, and the instruction runs again.
* **Ranges.** A value that its type cannot hold is an error with row, column, value and type. Nothing wraps, nothing is cut.
* **Losses.** What decoding does not keep is listed in `fitting.py`, with what is written in its place.

Reading order:

    encoder.py  the loop around the machine: its table of columns, growth, errors
    program.py  the readers' program, made ready for this direction
    machine/    the interpreter: one compiled function over flat arrays
    fitting.py  which values fit a type, which are equal, what decoding loses
"""
