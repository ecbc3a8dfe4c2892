"""The names that Flink's own State Catalog (FLIP-599) gives to what a savepoint holds, as views of our tables.

| there | here |
|---|---|
| `metadata` | `operators`, with hyphens in the names of its columns |
| `uid_<uid>_keyed`, `id_<32 hex digits>_keyed` | the wide table of the operator's states without windows |
| `uid_<uid>_windowed` | the wide table of its states of windows |
| `uid_<uid>_<state>_keyed_flat`, `…_windowed_flat` | `<operator>__<state>` of a list or a map |
| `uid_<uid>_<state>_list`, `…_union`, `…_broadcast` | `<operator>__<state>` of operator state |

A database has them beside its own tables, for those who ask for them by these names.

In reading order:

    columns.py  how a column comes from one of ours
    renamed.py  a table with other columns and another name
    tables.py   which tables there are, and what they show
"""
