"""DuckDB in processes of its own: one query a process at a time, so that none can hurt another or the server.

    messages.py   what crosses: tasks one way, columns, rows, progress and errors the other
    channel.py    frames over a socket
    forkserver.py the process that has all modules loaded and the decoding machine compiled, and forks workers
    forks.py      the same from the server's side
    worker.py     what a worker does
    limits.py     how much a worker may take
    pool.py       the workers: warm ones wait, lost ones are replaced
    engine.py     WorkerEngine: an `Engine` to the rest of the service

The server plans: it parses, checks and resolves. A worker gets the plan as a pickle, over a socket that the two have
inherited; what it sends back is JSON and Arrow, for it ran what a client wrote. Its memory is limited by the kernel
(`RLIMIT_DATA`, which does not count mapped savepoints), so that what no setting of DuckDB holds ends in DuckDB's own
error; one that does not hear a cancel is killed. When the server dies, the kernel kills them all.
"""

from service.engines.workers.engine import WorkerEngine

__all__ = ["WorkerEngine"]
