"""States that no job has written: rows → entries of key groups, or elements of subtasks.

In reading order:

    types.py      column types → serializers, where no type is named
    states.py     a new state: its kind and its types; rows → columns of entries
    grouping.py   entries of many batches → the bytes of each key group; the loops that run as machine code
    spool.py      the entries of a state on disk, by key group
    elements.py   the elements of operator state
    streams.py    the stream of the operator state of a subtask
    edits.py      new states of new operators, and of those that the savepoint has
    empty.py      the savepoint that a new one is made from
    verification.py  whether a new savepoint has all entries
"""
