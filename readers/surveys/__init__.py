"""What one pass over the entries of states tells of their keys, in bounded memory; no value is decoded.

In: a state, or all keyed states of an operator. Out: how many keys it has, the largest ones, keys that only timers have.

In reading order:

    keytable.py   the table of keys: entries and bytes of each, in compiled code
    needles.py    many byte strings, looked for at once, in compiled code
    survey.py     a part of a state, and the whole of it: distinct keys, the largest keys, times of updates
"""
