"""The server's side of the fork server: starts it, asks it for workers, ends it and its workers."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import POLLIN, poll
from time import monotonic

from readers import TemporaryFolder
from service.base.errors import EngineUnavailableError
from service.base.settings import Settings
from service.query.engines.workers.channel import FORK, NUMBER, REAP, Channel, ChannelClosedError, Frame

_END_S = 5.0
_RECEIVED_BYTES = 1 << 20
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(eq=False, slots=True, kw_only=True)
class WorkerProcess:
    """A worker.

    Attributes:
        number: its process id.
        connection: the socket to the worker.
        channel: the frames on the socket.
        forks: the fork server that forked the worker.
        since: time at which it began to wait or to run its task.
        cpu_before_s: its processor time when that was first measured after `since`; None before.
        nice: how much its priority was lowered, 0 for not; nothing raises the priority again.
    """

    number: int
    connection: socket.socket
    channel: Channel
    forks: ForkServer
    since: float = field(default_factory=monotonic)
    cpu_before_s: float | None = None
    nice: int = 0

    @property
    def has_died(self) -> bool:
        """True if the worker ended while it waited: a worker that waits sends nothing, so only its end can be read."""
        # Of no query: what one sends behind its end must not answer the next one.
        if self.channel.has_unread:
            return True
        waiting = poll()  # `select` takes no descriptors beyond 1023
        waiting.register(self.connection, POLLIN)
        return bool(waiting.poll(0))

    def kill(self) -> None:
        """End the worker at once, whatever it does; `reap` must follow."""
        with suppress(OSError):
            os.kill(self.number, signal.SIGKILL)

    def begin(self) -> None:
        """Note that the worker gets a task: its times count from now."""
        self.since = monotonic()
        self.cpu_before_s = None

    def cpu_s(self) -> float:
        """Return the processor time since the first call after `begin`; 0 on systems without `/proc`."""
        try:
            fields = Path(f"/proc/{self.number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            return 0.0
        now = (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND
        if self.cpu_before_s is None:
            self.cpu_before_s = now
        return now - self.cpu_before_s

    def slow_down(self, nice: int) -> None:
        """Lower the priority of the worker. Without root, no process can raise it again."""
        if nice <= self.nice:
            return
        self.nice = nice
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{self.number}/task"):  # on Linux each thread has a priority
                known = os.getpriority(os.PRIO_PROCESS, int(thread))
                os.setpriority(os.PRIO_PROCESS, int(thread), max(nice, known))

    def retire(self) -> None:
        """Have the worker write what it has for the cache, and end."""
        with suppress(ChannelClosedError):
            self.channel.send(Frame.RETIRE)

    def reap(self) -> int:
        """End the worker and release it; return its exit code, negative for a signal."""
        self.kill()
        self._wait()
        self.channel.close()
        return self.forks.reap(self.number)

    def _wait(self) -> None:
        """Wait until the worker has ended: one with much memory takes a while, and the fork server waits while it reaps."""
        with suppress(OSError):
            self.connection.settimeout(_END_S)
            while self.connection.recv(_RECEIVED_BYTES):
                pass


class ForkServer:
    """A fork server, which starts. Safe to share between threads.

    Args:
        settings: settings of the engines in its workers.
        memory_bytes: memory that a worker may take; 0 for no limit.

    Raises:
        EngineUnavailableError: the system starts no process.
    """

    def __init__(self, settings: Settings, memory_bytes: int) -> None:
        self._lock = threading.Lock()
        self._spill = TemporaryFolder(settings.storage.temp_directory)
        self._control, control = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        try:
            self._process = start_process(
                "service.query.engines.workers.worker", control.fileno(), lifeline, stdin=subprocess.PIPE
            )
        except OSError as error:
            self._control.close()
            os.close(self._lifeline)
            self._spill.close()
            raise _unavailable() from error
        finally:
            control.close()
            os.close(lifeline)
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as file:
            pickle.dump((settings.replaced({"temp_directory": self._spill.path}), memory_bytes), file)

    def wait_until_ready(self) -> None:
        """Wait until it can fork: a second, or longer if it has to compile the decoder.

        Raises:
            EngineUnavailableError: it did not start, or was killed.
        """
        self._answer()

    def kill(self) -> None:
        """End it at once, while it starts; `close` must follow."""
        self._process.kill()

    @property
    def has_died(self) -> bool:
        """True if the fork server ended; its workers may live on."""
        return self._process.poll() is not None

    def fork(self) -> WorkerProcess:
        """Fork a worker.

        Raises:
            EngineUnavailableError: the fork server has ended.
        """
        connection, inherited = socket.socketpair()
        try:
            with inherited, self._lock:
                with suppress(OSError):
                    socket.send_fds(self._control, [FORK], [inherited.fileno()])
                number = self._answer()
        except EngineUnavailableError:
            connection.close()
            raise
        return WorkerProcess(number=number, connection=connection, channel=Channel(connection), forks=self)

    def reap(self, number: int) -> int:
        """Kill a worker if it lives, and release it; return its exit code, negative for a signal, 0 if unknown."""
        code = 0
        with suppress(EngineUnavailableError, OSError), self._lock:
            self._control.sendall(REAP + NUMBER.pack(number))
            code = self._answer()
        shutil.rmtree(Path(self._spill.path, str(number)), ignore_errors=True)
        return code

    def close(self) -> None:
        """End the fork server and all its workers."""
        self._control.close()
        os.close(self._lifeline)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._spill.close()

    def _answer(self) -> int:
        try:
            content = self._control.recv(NUMBER.size, socket.MSG_WAITALL)
        except OSError:
            content = b""
        if len(content) < NUMBER.size:
            raise _unavailable()
        return int(NUMBER.unpack(content)[0])


def _unavailable() -> EngineUnavailableError:
    return EngineUnavailableError("no process can be started for the query", hint="try again")


def start_process(
    module: str, *descriptors: int, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Start a process of Python that runs the function `main` of a module.

    Args:
        module: the module.
        *descriptors: that it inherits; their numbers are its arguments.
        stdin, stdout: as for `subprocess`.

    Raises:
        OSError: the system starts none.
    """
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(module), *map(str, descriptors)],
        stdin=stdin,
        stdout=stdout,
        pass_fds=descriptors,
        env=os.environ | _ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


# Loads the modules without pandas and without garbage collection, which take longer than all the rest.
_PROGRAM = """
import gc
gc.disable()
from service.base.machine import load_without_pandas
load_without_pandas()
import {0} as module
gc.enable()
module.main()
"""
_ENVIRONMENT = {
    # A fork copies one thread: threads that a library starts when it is loaded are missing in the workers.
    "OPENBLAS_NUM_THREADS": "1",
    # Other pools reserve a gigabyte of addresses, which counts for `RLIMIT_DATA`.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # An arena for each thread keeps the memory that the thread once had.
    "MALLOC_ARENA_MAX": "2",
}
