"""Runs: statements that run in this process, for one caller. The command line, Python and the writes need no more.

In: a `QueryRequest`. Out: a `Run`: columns, Arrow batches, and how it went. `service.query.serving` puts many of them behind slots.

    session.py    plans statements over a catalog, chooses their engines, and starts their runs; the runs of one call
    request.py    what is asked, and which checkpoints an answer comes from
    run.py        a plan on its engine: rows that nobody has read yet, progress, state, cancel, deadline; hints for errors about keys
"""
