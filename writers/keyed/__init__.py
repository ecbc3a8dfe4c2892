"""Keyed state, written whole as canonical key groups: what changes is encoded, all else keeps its bytes.

In: the sources of an operator, and what changes in its states. Out: a file for each subtask, in the layout that every backend
restores (`readers/formats/full/layout.py`). At most one page of a state is in memory at a time, beside what changes in a key group.

    assembly.py    entries → key groups of a file; new keys, and new states
    sampling.py    keys that stay: by their values, in every state and timer
    masking.py     rows with masks in place of entries
    carry.py       the states of a source, whatever their layout, as canonical entries: also under other names, of other types
    values.py      the entries that statements changed: rows → entries, with the checks that nothing is lost
    windows.py     states that a subtask gets late; windows that are left without a timer
    resharding.py  other key groups, or other subtasks
    rewrite.py     the edit, and the file of each subtask
"""
