"""The door for writing: a script of SQL statements → a new savepoint. SELECT's door (`service.query.sql`) stays read-only.

    errors.py      the errors of the writers, as users see them
    statements/    the text → statements
    composition.py  SELECTs made of parts of a script
    changedstates.py what has changed in the states of a savepoint
    family.py      statements that change the same thing, and what they share
    kafka.py       the arguments of `rewind_kafka`, and the two halves of a source
    offsets.py     the family of `source_offsets`
    merging.py     which clause of a MERGE each row takes
    rows.py        the family of rows of states
    timers.py      rows that are added to `timers`
    layers.py      the rows that a statement changes, as the writers take them
    samples.py     some of the rows that a statement changes
    verification.py reads changed states back
    operators.py   the family of whole operators
    creating.py    the family of new states
    localfiles.py  files of this machine that a script or a query names in FROM
    alterations.py the family of whole states: they go, or get other names and types
    classes/       what the classes of the job forbid, and no savepoint says
    draft.py       what the statements so far have changed; each statement sees what the earlier ones did
    writing.py     a draft → a preview, or a new savepoint that was read back
    serving/       the writes of clients, each in a process of its own
    report.py      a preview → values that are JSON
    progress.py    the size of a new savepoint while it is written

The values of an UPDATE are computed by a SELECT of its expressions, so they pass the same checks as any query.
"""
