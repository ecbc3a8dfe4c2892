"""A savepoint that a job cannot restore, or would restore with other values → one with equal values that it restores.

    plan.py          the states that are written anew, with their new types; those that are left, with the reasons
    conversion.py    a plan → a preview, or a new savepoint that was read back
    verification.py  reads converted states back
    running.py       all of it, as the command and Python ask for it
    report.py        lines for people, and values that are JSON

It writes as scripts do, by `ALTER TABLE … TYPE` of whole values: `service.tasks.write` has the statements.
"""
