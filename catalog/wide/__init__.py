"""The wide table of an operator, `<operator>__wide`: a row for each key and namespace, a column for each keyed state.

In: the keyed states of one operator. Out: a `Table` that every engine reads as it reads others (`catalog.views`).

| column | is |
|---|---|
| key | the key, in the common type of all states, else as JSON text |
| namespace | the same; only where a state of the operator has namespaces, such as windows |
| one for each keyed state, named like its own table | its value; a LIST of its elements; a MAP of its entries; NULL if the key has none |
| _undecoded | the states of whose value of this key only the bytes are known: they stand in the states' own tables |
| _out_of_range | JSON text of the values that their columns cannot hold |
| _key_group | of the key |

A key that any of the states has is a row, whichever columns a query names: of a state that no column shows only the keys are read.
The states are joined some key groups at a time, so that only these are in memory.

In reading order:

    columns.py  how a column comes from a state
    joining.py  rows of several states → rows of the wide table
"""
