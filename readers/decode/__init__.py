"""Page → Arrow columns.

In: a `Page` (a buffer and the positions of the entries in it) and a `Program` (the layout of one entry).
Out: `pyarrow.RecordBatch`es.

Reading order:

    instructions.py  the instruction set: opcodes, operands, and the bytes that each reads
    program.py       the builder that serializers emit instructions with
    columns.py       the arenas that the machine fills, and how they become Arrow arrays without a copy
    machine/         the interpreter: one compiled function over flat arrays
    page.py          the input, from a state-file format
    decoder.py       the loop around the interpreter: batches, growth, Python leaves, errors
    outliers.py      values that their columns cannot hold, as text
    versions.py      entries of two versions of a layout in one page
    dictionaries.py  texts → dictionaries, for engines that gain by them
    loads.py         loads and stores at an address, for compiled code
"""
