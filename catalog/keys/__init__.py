"""Keys as people write them: one parser for the command line, the page, the API and constants of SQL.

In reading order:

    conversion.py   one text → one value of a type
    notation.py     structs as people and Java write them: `(a,1)`, `{f0: a, f1: 1}`
    parsing.py      a text, or a value of Python → a key, or the reason why it is none
    keyedstates.py  the states of a database that have keys
"""

from catalog.keys.conversion import value_of_text
from catalog.keys.keyedstates import KeyedState, keyed_states, unread_operators
from catalog.keys.notation import ENTRIES, entries_of
from catalog.keys.parsing import Key, key_of, parse_key, shown_key

__all__ = [
    "ENTRIES",
    "Key",
    "KeyedState",
    "entries_of",
    "key_of",
    "keyed_states",
    "parse_key",
    "shown_key",
    "unread_operators",
    "value_of_text",
]
