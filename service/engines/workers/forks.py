"""The fork server from the server's side: starts it, asks it for workers, ends it and what it forked."""

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

from service.engines.spill import SpillFolder
from service.engines.workers.channel import FORK, NUMBER, REAP, Channel, ChannelClosedError, Frame
from service.errors import EngineUnavailableError
from service.settings import Settings

_END_S = 5.0
_RECEIVED_BYTES = 1 << 20
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(eq=False, slots=True, kw_only=True)
class WorkerProcess:
    """A worker.

    Attributes:
        number: its process id.
        connection: to it.
        channel: the frames on it.
        forks: what it was forked by.
        since: since when it does what it does.
        cpu_before_s: its processor time when it was first looked at since then; None if it was not.
        nice: whether others go before it: how much it was slowed down for good, 0 if it was not.
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
        """Whether it ended while it had nothing to do: it sends nothing then."""
        waiting = poll()  # unlike select, of descriptors beyond 1023, too
        waiting.register(self.connection, POLLIN)
        return bool(waiting.poll(0))

    def kill(self) -> None:
        """End it at once, whatever it does; it is still to be reaped."""
        with suppress(OSError):
            os.kill(self.number, signal.SIGKILL)

    def begin(self) -> None:
        """It gets something else to do."""
        self.since = monotonic()
        self.cpu_before_s = None

    def cpu_s(self) -> float:
        """The processor time that it took for what it does, as far as it was looked at; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self.number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            return 0.0
        now = (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND
        if self.cpu_before_s is None:
            self.cpu_before_s = now
        return now - self.cpu_before_s

    def slow_down(self, nice: int) -> None:
        """Let others go before it: a process may say so of itself or be told, but never take it back."""
        if nice <= self.nice:
            return
        self.nice = nice
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{self.number}/task"):  # Linux has a priority for each
                known = os.getpriority(os.PRIO_PROCESS, int(thread))
                os.setpriority(os.PRIO_PROCESS, int(thread), max(nice, known))

    def retire(self) -> None:
        """Let it end when it has written what it keeps for others."""
        with suppress(ChannelClosedError):
            self.channel.send(Frame.RETIRE)

    def reap(self) -> int:
        """End it and let go of it: its exit code, negative for a signal."""
        self.kill()
        self._wait()
        self.channel.close()
        return self.forks.reap(self.number)

    def _wait(self) -> None:
        """Wait until it ended: one that held much takes its time to, and nobody else is forked while it is reaped."""
        with suppress(OSError):
            self.connection.settimeout(_END_S)
            while self.connection.recv(_RECEIVED_BYTES):
                pass


class ForkServer:
    """A running fork server. Safe to share between threads.

    Args:
        settings: of the engines of its workers.
        memory_bytes: that a worker may take; any where 0.

    Raises:
        EngineUnavailableError: it did not start.
    """

    def __init__(self, settings: Settings, memory_bytes: int) -> None:
        self._lock = threading.Lock()
        self._spill = SpillFolder(settings.storage.temp_directory)
        self._control, control = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        with control:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(control.fileno()), str(lifeline)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(control.fileno(), lifeline),
                env=os.environ | _ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        os.close(lifeline)
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as file:
            pickle.dump((settings.replaced({"temp_directory": self._spill.path}), memory_bytes), file)
        try:
            self._answer()
        except EngineUnavailableError:
            self.close()
            raise

    @property
    def has_died(self) -> bool:
        """Whether it forks no more; its workers may live."""
        return self._process.poll() is not None

    def fork(self) -> WorkerProcess:
        """A new worker.

        Raises:
            EngineUnavailableError: it died.
        """
        connection, inherited = socket.socketpair()
        with inherited, self._lock:
            with suppress(OSError):
                socket.send_fds(self._control, [FORK], [inherited.fileno()])
            number = self._answer()
        return WorkerProcess(number=number, connection=connection, channel=Channel(connection), forks=self)

    def reap(self, number: int) -> int:
        """Kill a worker if it lives, and let go of it: its exit code, negative for a signal; 0 if nobody knows."""
        code = 0
        with suppress(EngineUnavailableError, OSError), self._lock:
            self._control.sendall(REAP + NUMBER.pack(number))
            code = self._answer()
        shutil.rmtree(Path(self._spill.path, str(number)), ignore_errors=True)
        return code

    def close(self) -> None:
        """End it and all its workers."""
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
            raise EngineUnavailableError("no process can be started for the query", hint="try again")
        return int(NUMBER.unpack(content)[0])


# Loads what workers need, without pandas and without looking for garbage: both take longer than all else that it does.
_PROGRAM = """
import gc
gc.disable()
from service.process.arrow import load_without_pandas
load_without_pandas()
from service.engines.workers import forkserver
forkserver.main()
"""
_ENVIRONMENT = {
    # Threads that a library starts when it is loaded would not be there in a worker.
    "OPENBLAS_NUM_THREADS": "1",
    # Others take a gigabyte of addresses in advance, which counts as memory that is used.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # An arena for each thread keeps what the thread had once.
    "MALLOC_ARENA_MAX": "2",
}
