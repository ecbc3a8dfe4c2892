"""States that no job has written: rows → entries of key groups, or elements of subtasks.

In reading order:

    states.py     a new state: its kind and its types, named or of its columns; rows → columns of entries
    grouping.py   entries of many batches → the bytes of each key group; the loops that run as machine code
    spool.py      the entries of a state on disk, by key group
    likeness.py   a state like another one, and the entries of that as they are
    operators.py  new operator states and new operators, the savepoint without any, and whether a new one has all entries
"""
