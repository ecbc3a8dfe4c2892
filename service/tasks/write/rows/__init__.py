"""Changes of rows of states, each a layer that later statements see and the writers write.

tables.py      UPDATE, DELETE, INSERT and MERGE of the table of a state, and of tables that show several
keys.py        DELETE KEY and RENAME KEY
found.py       what a statement has found to change in a state; rows that get another key
merging.py     which clause of a MERGE each row takes
expected.py    how many rows of the tables of `--expect` a script changes
layers.py      the rows that a statement changes: as the writers take them, as samples, and read back
"""
