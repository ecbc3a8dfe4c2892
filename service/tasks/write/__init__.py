"""The door for writing: a script of SQL statements → a new savepoint. SELECT's door (`service.query.sql`) stays read-only.

    request.py     what is written, and how: every option with its default and its help
    errors.py      the errors of the writers, as users see them
    statements/    the text → statements
    composition.py  SELECTs made of parts of a script
    changes.py     statements that change the same thing, and what they share: what has changed in the states of a savepoint
    rows.py        changes of rows of states
    merging.py     which clause of a MERGE each row takes
    timers.py      rows that are added to `timers`
    layers.py      the rows that a statement changes, as the writers take them
    samples.py     some of the rows that a statement changes
    verification.py reads changed states back
    alterations.py changes of whole states: they go, or get other names and types
    creating.py    new states
    operators.py   changes of whole operators
    offsets.py     changes of `source_offsets`, and `rewind_kafka`
    localfiles.py  files of this machine that a script or a query names in FROM
    classes.py     what the classes of the job forbid, and no savepoint says
    script.py      what the statements so far have changed; each statement sees what the earlier ones did
    writing.py     a script → a preview, or a new savepoint that was read back
    serving/       the writes of clients, each in a process of its own
    progress.py    the size of a new savepoint while it is written

The values of an UPDATE are computed by a SELECT of its expressions, so they pass the same checks as any query.
"""
