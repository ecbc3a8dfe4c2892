"""The local engine in processes of its own: a process runs one query at a time, so no query can hurt another or the server.

    channel.py     frames over a socket: tasks to a worker; columns, rows, progress and errors from it
    forks.py       the server's side of the fork server
    worker.py      runs tasks in a worker process; the fork server, which has loaded all modules and forks workers
    pool.py        the workers: warm ones wait, lost ones are replaced; their memory and number where the settings leave them open
    engine.py      WorkerEngine: an `Engine` to the rest of the service

The server plans: it parses, checks and resolves. A worker gets the plan as a pickle, over a socket that the two have
inherited. It sends back JSON and Arrow, which the server reads without trust, for the worker ran what a client wrote.
The kernel limits its memory (`RLIMIT_DATA`, which does not count mapped savepoints), so an allocation beyond the engine's
own limit ends in the engine's error. The pool kills a worker that does not react to a cancel. When the server dies, the
kernel kills all workers.
"""

from service.query.engines.workers.engine import COMPILING, WorkerEngine

__all__ = ["COMPILING", "WorkerEngine"]
