"""What differs between the tables of two databases: a table of the rows, and a summary of all tables.

In: two databases and the name of a table of both, or of one. Out: a `Table` with a row for each stored entry that differs, which
every engine reads as it reads others.

| column | of the table of differences |
|---|---|
| change | `added`, `removed` or `changed` |
| the columns that say which entry it is | key, namespace, map_key, list_index, … in their common type, else as JSON text |
| every other column, `_before` and `_after` | in the types of either side |
| _key_group | of keyed state: after, or before where the entry was removed |

Two rows with the same identity are one changed row, unless they are equal. Elements of operator state have no identity, and timers are
nothing but identity: they are added or removed. Where they are stored, in which order and by which subtask is no difference.

In reading order:

    splits.py   columns, rows of both sides → rows that differ; the splits of states, and of tables of facts
    table.py    the tables; `diff_table`
    summary.py  the summary: a table with a row for each state; what no row says
    databases.py  two databases that are compared, and their tables
"""
