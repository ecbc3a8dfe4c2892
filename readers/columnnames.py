"""The names of columns that hold no value of a state; `readers.rows` says what they hold."""

KEY_GROUP = "_key_group"
SUBTASK = "_subtask"
ROW = "_row"
"""The number of a row in its key group, or in the operator state of its subtask, in the order in which they are read."""

UNDECODED = "_undecoded"
"""Column with the bytes of values whose class the savepoint does not describe; the value is null."""

OUT_OF_RANGE = "_out_of_range"
"""Column with JSON text of the values that their own columns cannot hold; those are null."""
