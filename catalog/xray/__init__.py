"""The tables that look into the state of a savepoint: how much, where, and what nobody needs any more.

Modules:

    reference.py     an operator, found again in another process; the errors of files that cannot be read
    sizes.py         xray: entries and bytes by operator, state, subtask and key group; reads what files record
    keys.py          xray_keys, xray_largest, xray_orphan_timers: what one pass over the entries tells of keys
"""
