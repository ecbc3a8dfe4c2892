"""What differs between two savepoints, as a whole: counts and samples of every state, offsets, sizes.

In: two databases. Out: a `Comparison`. It is made from the rows of `diff('before', 'after')`, a query like any other, so that limits,
deadlines, slots, progress and cancellation are those of queries. The differing rows themselves are `diff('before', 'after', 'table')`.

    comparison.py  the statement; its rows → `Comparison` → JSON, and lines for people; the rows of one key that differ
    running.py     what is asked; the query, and what it finds; the rows of a state
"""
