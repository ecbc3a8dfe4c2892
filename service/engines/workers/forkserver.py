"""The process that workers are forked from: all modules are loaded, the decoding machine is compiled, nothing is open.

`service.engines.workers.forks` starts it with two inherited descriptors as its arguments, CONTROL and LIFELINE. A forked worker is ready
in some 30 ms and shares what is loaded. It has one thread when it forks, and inherits nothing of the server but these:

| descriptor | what |
|---|---|
| CONTROL | a socket: requests of the server, one at a time, each answered by a number |
| LIFELINE | a pipe, never written to: when its other end is closed, for the server is gone, the kernel kills them all |

| request | what | answer |
|---|---|---|
| `f` and a socket | fork a worker that serves this socket | its process id |
| `r` and a process id | kill the worker if it lives, and reap it | its exit code, negative for a signal |

Workers that died wait to be reaped, so their process ids are not given to others while the server knows them.
"""

from __future__ import annotations

import fcntl
import gc
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable

from readers import warm
from service.engines.registry import local_engine
from service.engines.workers.channel import FORK, NUMBER, Channel
from service.engines.workers.worker import Worker, yield_to_the_server


def main() -> None:
    """Serve the server until it is gone."""
    control = socket.socket(fileno=int(sys.argv[1]))
    end_with(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield_to_the_server()
    settings, memory_bytes = pickle.load(sys.stdin.buffer)  # from the server, which started this process
    # Loaded before the first fork: all workers share the pages of its modules.
    open_engine = local_engine().load()
    warm()
    gc.collect()
    gc.freeze()
    gc.enable()

    def work(connection: socket.socket) -> None:
        control.close()
        Worker(Channel(connection), settings, memory_bytes, open_engine).run()

    control.sendall(NUMBER.pack(os.getpid()))
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not request:
            return
        if request == FORK:
            with socket.socket(fileno=descriptors[0]) as connection:
                answer = _fork(connection, work)
        else:
            answer = _reap(NUMBER.unpack(control.recv(NUMBER.size, socket.MSG_WAITALL))[0])
        control.sendall(NUMBER.pack(answer))


def end_with(lifeline: int) -> None:
    """Let the kernel kill this process and those it forks when the other end of a pipe is closed."""
    os.setpgid(0, 0)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(
            lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK
        )


def _fork(connection: socket.socket, work: Callable[[socket.socket], None]) -> int:
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        work(connection)
        status = 0
    finally:
        os._exit(status)


def _reap(process: int) -> int:
    try:
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
    except OSError:
        return 0
    return os.waitstatus_to_exitcode(status)
