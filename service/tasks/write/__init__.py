"""The door for writing: a script of SQL statements → a new savepoint. SELECT's door (`service.query.sql`) stays read-only.

    request.py     what is written, and how: every option with its default and its help; the errors, as users see them
    statements/    the text → statements
    changes.py     statements that change the same thing, and what they share: SELECTs, what has changed, what the job's classes forbid
    rows/          changes of rows of states
    alterations.py changes of whole operators and states: they go, or get other names and types
    copying.py     operators of other savepoints
    creating.py    new states
    offsets.py     changes of `source_offsets`, and `rewind_kafka`
    masks.py       a file of masks → the edits that write masked rows
    localfiles.py  files of this machine that a script or a query names in FROM
    writing.py     a script, whose statements see what the earlier ones did → a preview, or a new savepoint that was read back
    serving/       the writes of clients, each in a process of its own

The values of an UPDATE are computed by a SELECT of its expressions, so they pass the same checks as any query.
"""
