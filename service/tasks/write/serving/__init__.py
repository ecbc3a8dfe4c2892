"""The savepoints that clients of the service write: each write is a process of its own, from its request to its end.

    targets.py   write roots → where a new savepoint may be, and its name in the catalog
    task.py      what the process of a write gets, and what it sends back
    process.py   the process of a write
    writes.py    `Write`: one write from start to end; `Writes`: starts them, finds them by id, remembers those that ended
    compilation.py  compiles what writes need, once, before the first of them

The service checks a request, and the process does all the rest: it reads the savepoint and runs the script, so neither can hurt the
service. The kernel limits its memory. When the service dies, however it dies, the process removes what it has written so far.
"""
