"""Keyed state, written whole as canonical key groups: what changes is encoded, all else keeps its bytes.

In: the sources of an operator, and what changes in its states. Out: a file for each subtask, in the layout that every backend
restores (`readers/formats/full/layout.py`). At most one page of a state is in memory at a time, beside what changes in a key group.

    segments.py    entries as the addresses of their bytes
    assembly.py    entries → key groups of a file
    composition.py entries of the hashmap backend's own layout → canonical entries
    carry.py       the entries of a source, whatever its layout, as canonical entries
    entries.py     entries ↔ rows, with the checks that nothing is lost
    keys.py        the keys of new entries, and whether they are new
    values.py      the entries that statements changed, where a row is one
    lists.py       those of lists, where a row is an element
    late.py        states that a subtask gets, as other subtasks have them
    windows.py     windows that are left without a timer
    added.py       states that an operator gets
    altered.py     states that go, or get other names or types
    resharding.py  other key groups, or other subtasks
    rewrite.py     the edit, and the file of each subtask
"""
