"""The fork server: a process that has loaded all modules and compiled the decoder, and forks workers.

`service.query.engines.workers.forks` starts it with two inherited descriptors as its arguments, CONTROL and LIFELINE. A forked
worker is ready in some 30 ms and shares the pages of the modules. The fork server has one thread when it forks, opens
nothing, and inherits nothing of the server but these:

| descriptor | meaning |
|---|---|
| CONTROL | a socket: requests of the server, one at a time, each answered by a number |
| LIFELINE | a pipe, never written to: its other end closes when the server dies; then the kernel kills all of them |

| request | meaning | answer |
|---|---|---|
| `f` and a socket | fork a worker that serves this socket | its process id |
| `r` and a process id | kill the worker if it lives, and reap it | its exit code, negative for a signal |

Dead workers stay zombies until the server reaps them, so the kernel gives their ids to no other process that the server
could kill by mistake.
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
from typing import NoReturn

from readers import compile_all, warm
from service.query.engines.registry import local_engine
from service.query.engines.workers.channel import FORK, NUMBER, Channel
from service.query.engines.workers.worker import Worker, yield_to_the_server
from service.query.sql.parser import load_dialect


def main() -> NoReturn:
    """Answer requests of the server until it is gone."""
    # Collecting garbage among the modules that are loaded takes longer than all the rest.
    gc.disable()
    control = socket.socket(fileno=int(sys.argv[1]))
    end_with(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield_to_the_server()
    settings, memory_bytes = pickle.load(sys.stdin.buffer)  # from the server, which started this process
    # Loaded before the first fork: all workers share the pages of its modules.
    open_engine = local_engine().load()
    load_dialect()
    # Here and not in the server, which answers meanwhile; takes long where nothing is compiled for this processor yet.
    compile_all()
    warm()
    # Frozen objects are not looked at by the collectors of the workers, so the pages that hold them stay shared.
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
            # Frozen objects are never freed: DuckDB's bindings would report theirs as leaks when the interpreter ends.
            os._exit(0)
        if request == FORK:
            with socket.socket(fileno=descriptors[0]) as connection:
                answer = _fork(connection, work)
        else:
            answer = _reap(NUMBER.unpack(control.recv(NUMBER.size, socket.MSG_WAITALL))[0])
        control.sendall(NUMBER.pack(answer))


def end_with(lifeline: int) -> None:
    """Have the kernel kill this process and those it forks when the other end of a pipe closes."""
    os.setpgid(0, 0)
    # Linux only: the end of a pipe signals its owner, here the process group (negative id), with SIGKILL in place of SIGIO.
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
        # Not `sys.exit`: a worker must not run the exit handlers of the fork server.
        os._exit(status)


def _reap(process: int) -> int:
    try:
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
    except OSError:
        return 0
    return os.waitstatus_to_exitcode(status)
