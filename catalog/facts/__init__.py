"""The rows of the tables that tell facts of a whole savepoint.

Modules:

    statemeta.py     StateMeta, operators, files, source_offsets: what is in a savepoint
    restorecheck.py  restore_check, required_classes: what its restore needs, and what becomes of it
"""
