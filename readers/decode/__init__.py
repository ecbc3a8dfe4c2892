"""Page → Arrow columns.

In: a `Page` (a buffer and the positions of the entries in it) and a `Program` (the layout of one entry).
Out: `pyarrow.RecordBatch`es.

Reading order:

    instructions.py  the instruction set: opcodes, operands, and the bytes that each reads
    program.py       the builder that serializers emit instructions with
    columns.py       the arenas that the machine fills, how they become Arrow arrays, and the values that these cannot hold, as text
    machine/         the interpreter: one compiled function over flat arrays
    decoder.py       `Page`, from a state-file format, and the loop around the interpreter: batches, growth, Python leaves, errors
    versions.py      entries of two versions of a layout in one page
    dictionaries.py  texts → dictionaries, for engines that gain by them
    loads.py         loads and stores at an address, for compiled code
"""
