"""Runs: statements that run in this process, for one caller. The command line, Python and the writes need no more.

In: a `QueryRequest`. Out: a `Run`: columns, Arrow batches, and how it went. `service.query.serving` puts many of them behind slots.

    session.py    plans statements over a catalog, chooses their engines, and starts their runs
    request.py    what is asked
    run.py        a plan on its engine: rows, progress, state, cancel, deadline; what keys look like, for errors about keys
    results.py    rows that nobody has read yet
    group.py      the runs of one call, which end together; the first rows of an answer, for reports
    origin.py     which checkpoints an answer comes from
"""
