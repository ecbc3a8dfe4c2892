"""What differs between two savepoints, as a whole: counts and samples of every state, offsets, sizes.

In: two databases. Out: a `Comparison`. It is made from the rows of `diff('before', 'after')`, a query like any other, so that limits,
deadlines, slots, progress and cancellation are those of queries. The differing rows themselves are `diff('before', 'after', 'table')`.

    comparison.py  the statement; its rows → `Comparison`; → JSON
    running.py     what is asked; the query, and what it finds
    text.py        a `Comparison` → lines for people
    keys.py        the rows of one key that differ, over all states
"""

from service.tasks.diff.comparison import Comparison, StateComparison, comparison_of, summary_statement
from service.tasks.diff.keys import KEY_SCHEMA, compared_key
from service.tasks.diff.text import text_lines

__all__ = [
    "KEY_SCHEMA",
    "Comparison",
    "StateComparison",
    "compared_key",
    "comparison_of",
    "summary_statement",
    "text_lines",
]
