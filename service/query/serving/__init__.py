"""The queries of a service: runs that wait for a slot, and keep their answers until a client has read them.

In: a `QueryRequest`, from any protocol. Out: a `Query`: a `Run` with an owner, clients and a record of how it went.

    registry.py    all queries: starts them, finds them by id, ends those that are late or abandoned
    query.py       one query from start to end, and its clients: they wait for it, or have left it alone, or wait without a thread; the
                   queries that have ended
    starts.py      the threads that run queries; starts queries for a loop, in a few of them
    results.py     rows that no client has read yet, in memory and behind it in files
    slots.py       which query runs next
    elsewhere.py   a database for another process
"""
