"""Two states, mostly the same state of two savepoints, compared: the rows that differ.

In: two `ComparedState`s. Out: `DifferingRows`, some key groups at a time: rows of either side of which all that have one identity
are together, so that whoever joins them sees all of them. What is equal on both sides is left out by its bytes where a format
can tell, before anything is decoded; else it is decoded, and the join finds it equal. The result is the same.

The seam for a format is one method, `Source.differing(state, other, other_state, selection)`. It yields `DifferingPages`: entries
of both sides that may differ, never one of two entries that share key, namespace and map key. It may leave out entries with the
same bytes on both sides, whole blocks and files among them. It returns None if it knows no way for this other source. It is called
only where `bytes_decide(…)`: both sides lay entries out alike, by equal serializers, so that equal bytes are equal rows, and every
selected key group is in this source and in the other one.

In reading order:

    states.py   the rows of two states that may differ
    hashes.py   rows → 128 bits each, by which equal rows are found
    matching.py hashes → which rows belong together
"""
