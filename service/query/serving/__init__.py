"""Queries: each waits for a slot, runs on an engine, and keeps its answer until a client has read it.

In: a `QueryRequest`, from any protocol or from the command line. Out: a `Query`: columns, Arrow batches, a record of how it went.

    registry.py    all queries: starts them, finds them by id, ends those that are late or abandoned
    request.py     what a client asks
    query.py       one query from start to end
    lifecycle.py   its state, its deadline, and why it ends
    attendance.py  its clients: they wait for it, or have left it alone
    runner.py      its way through an engine
    threads.py     the threads that run queries
    starts.py      starts queries for a loop, in a few threads
    keyhints.py    what keys look like, for errors about keys
    results.py     rows that no client has read yet
    spool.py       the same in files, for slow clients
    waiting.py     clients that wait without a thread
    slots.py       which query runs next
    group.py       the queries of one call, which end together
    history.py     the queries that have ended
    origin.py      which checkpoints an answer comes from
    elsewhere.py   a database for another process
    firstrows.py   the first rows of an answer, for reports
"""
