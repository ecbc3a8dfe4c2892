"""A savepoint that a job cannot restore, or would restore with other values → one with equal values that it restores.

    convert.py  the request, the outcome, and a plan → a preview, or a new savepoint that was read back
    plan.py     the states that are written anew, with their new types; those that are left, with the reasons

It writes as scripts do, by `ALTER TABLE … TYPE` of whole values: `service.tasks.write` has the statements.
"""
