"""Operator state: list, union and broadcast states with other elements.

A touched subtask gets a stream of its own: the header of the source's, the bytes of the states that stay, and those of the states that
change. `readers.formats.operatorstate` describes the layout.

    stream.py      one subtask's stream: where each state is in it, and the stream with other elements
    elements.py    elements and changes of a state → its new elements
    connectors.py  values of connectors → bytes; the states that stay as they are
    offsets.py     the edit of positions of sources: numbers in elements
    rewrite.py     the edit: the changed states of one operator
"""
