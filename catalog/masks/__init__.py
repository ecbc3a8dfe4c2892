"""Masks: what stands in place of values that a reader may not see.

In: a file `masks.toml`, and rows of a table. Out: the same rows with other values, in the same types. Nothing here reads a savepoint.

    masks.py        the file: `Masks`, which gives the masks of the columns of a table
    columns.py      MaskedColumns: which column is covered by which rule; applies the rules to record batches
    patterns.py     names of columns in the file, and what they match
    rules.py        the rules: null, constant, hash, pseudonym, shuffle, bucket, truncate
    permutation.py  pseudonyms of texts and byte strings that keep their form, and keyed hashes, in machine code
    integers.py     those of integers
    lanes.py        the rounds of both, for eight values side by side, in vectors
    siphash.py      SipHash of one value
    characters.py   the classes of the characters of texts
"""
