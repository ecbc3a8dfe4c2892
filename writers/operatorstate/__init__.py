"""Operator state: list, union and broadcast states with other elements.

A touched subtask gets a stream of its own: the header of the source's, the bytes of the states that stay, and those of the states that
change. `readers.formats.operatorstate` describes the layout.

    connectors.py  values of connectors → bytes; the states that stay as they are
    elements.py    elements and changes of a state → its new elements; one subtask's stream with them
    rewrite.py     the edits: changed states of an operator, positions of sources, states that go or get other names
"""
