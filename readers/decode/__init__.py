"""Page → Arrow columns.

In: a `Page` (a buffer and where the entries stand in it) and a `Program` (how one entry is laid out).
Out: `pyarrow.RecordBatch`es.

Reading order:

    program.py   the instructions, and the builder that serializers emit them with
    machine.py   the interpreter: one compiled function over flat arrays
    columns.py   the arenas it fills, and how they become Arrow arrays without a copy
    page.py      what a state-file format hands over
    decoder.py   the loop around the interpreter: batches, growth, Python leaves, errors
    loads.py     big- and little-endian loads from a byte array
"""
