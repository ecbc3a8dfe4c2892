"""Workers, which run tasks one after the other until the server is gone, and the fork server that makes them.

A worker has three threads: the main one runs the engine, one listens for frames, because a cancel comes while the engine runs,
and reads scans itself, and one reports progress.

The fork server is a process that has loaded all modules and compiled the decoder, and forks workers.
`service.query.engines.workers.forks` starts it with two inherited descriptors as its arguments, CONTROL and LIFELINE. A forked
worker is ready in some 30 ms and shares the pages of the modules. The fork server has one thread when it forks, opens nothing,
and inherits nothing of the server but these:

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

import contextlib
import fcntl
import gc
import os
import pickle
import queue
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from itertools import chain
from typing import NoReturn

import orjson
import pyarrow as pa

from catalog import Scan
from catalog.cache.states import StateCache
from readers import compile_all, warm
from service.base.errors import QueryCancelledError, QueryError, query_error_of
from service.base.settings import Settings
from service.query.encode.formats import Column
from service.query.engines.engine import Engine, Execution, Progress, ScanExecution, ScanWork
from service.query.engines.registry import local_engine
from service.query.engines.workers.channel import (
    FORK,
    NUMBER,
    Answer,
    Channel,
    ChannelClosedError,
    End,
    Frame,
    batch_content,
    plan_of,
    small_batches,
)
from service.query.sql.plan import Plan
from service.query.sql.text import load_dialect

_REPORT_S = 0.1
# An answer that is sent in one frame; the server keeps it as it is.
_SMALL_BYTES = 64 << 10
# A worker that has grown by this much, or by an eighth of its memory, is replaced: the allocators return little.
_WORN_BYTES = 256 << 20
_WORN_PART = 8
_OOM_SCORE = "500"
_NICE = 5
_STATM_BYTES, _PAGE_BYTES = 256, resource.getpagesize()


class Worker:
    """The worker of this process.

    Args:
        channel: the channel to the server.
        settings: limits of the engine.
        memory_bytes: memory that this process may take beyond what it has; 0 for no limit.
        open_engine: opens the engine that runs the tasks.
    """

    def __init__(
        self,
        channel: Channel,
        settings: Settings,
        memory_bytes: int,
        open_engine: Callable[[Settings], Engine],
    ) -> None:
        self._channel = channel
        self._settings = settings
        self._memory = OwnMemory()
        if memory_bytes:
            limit_memory(memory_bytes)
        spill = os.path.join(settings.storage.temp_directory, str(os.getpid()))
        os.mkdir(spill)  # the server removes it: this process may be killed
        self._engine = open_engine(settings.replaced({"temp_directory": spill}))
        growth = min(_WORN_BYTES, memory_bytes // _WORN_PART) if memory_bytes else _WORN_BYTES
        self._worn_bytes = self._memory.data_bytes + growth
        self._tasks: queue.SimpleQueue[bytearray | None] = queue.SimpleQueue()
        self._caches: set[StateCache] = set()
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._execution: Execution | None = None
        self._is_running = threading.Event()

    def run(self) -> None:
        """Run tasks until the server retires this worker or is gone."""
        for target in (self._listen, self._report):
            threading.Thread(target=target, name=target.__name__, daemon=True).start()
        while (content := self._tasks.get()) is not None:
            self._perform(Frame.RUN, content)
        for cache in self._caches:
            cache.flush()

    def _perform(self, frame: Frame, content: bytearray) -> None:
        failure: QueryError | None = None
        try:
            if frame is Frame.READ:
                if self._read(pickle.loads(content)):
                    return
            else:
                self._channel.send(Frame.PROGRESS, orjson.dumps(Progress()))
                self._answer(plan_of(content))
        except ChannelClosedError:
            os._exit(0)
        except Exception as error:  # the server raises it where the answer is read
            failure = query_error_of(error)
            failure.__cause__ = failure.__cause__ or (None if failure is error else error)
        self._finish(failure)

    def _answer(self, plan: Plan) -> None:
        for reference in plan.tables:
            self._begin(reference.scan)
        execution = self._engine.execution(plan)
        self._start(execution)
        try:
            reader = execution.open()
            self._send(execution.columns, reader.schema, reader)
        finally:
            self._stop(execution)

    def _read(self, work: ScanWork) -> bool:
        """Answer a short statement; return whether that was all, in one frame, because the rows are few."""
        self._begin(work.scan)
        execution = ScanExecution(work)
        with self._lock:
            self._execution = execution
        rows = execution.rows()
        first, second = next(rows, None), next(rows, None)
        is_small = second is None and (first is None or first.nbytes <= _SMALL_BYTES)
        if not is_small:
            self._start(execution)
            try:
                self._send(execution.columns, work.schema, chain(filter(None, (first, second)), rows))
            finally:
                self._stop(execution)
            return False
        with self._lock:
            self._execution = None
            self._is_cancelled = False
        answer = Answer(
            columns=execution.columns,
            progress=execution.progress,
            is_worn=self._memory.data_bytes > self._worn_bytes,
            rows=batch_content(work.schema, first),
        )
        self._channel.send(Frame.ANSWER, answer.content())
        return True

    def _begin(self, scan: Scan) -> None:
        if scan.cache_use is not None:
            scan.cache_use.begin()
            self._caches.add(scan.cache_use.cache)

    def _start(self, execution: Execution) -> None:
        with self._lock:
            self._execution = execution
            is_cancelled = self._is_cancelled
        if is_cancelled:
            raise _cancelled()
        self._is_running.set()

    def _send(
        self, columns: tuple[Column, ...], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> None:
        self._channel.send(Frame.COLUMNS, orjson.dumps(columns))
        self._channel.send(Frame.BATCH, batch_content(schema, None))
        for batch in batches:
            for rows in small_batches(batch, self._settings.queries.max_row_bytes):
                self._channel.send(Frame.BATCH, batch_content(schema, rows))

    def _stop(self, execution: Execution) -> None:
        self._is_running.clear()
        execution.close()
        self._channel.send(Frame.PROGRESS, orjson.dumps(execution.progress))

    def _finish(self, failure: QueryError | None) -> None:
        with self._lock:
            self._execution = None
            self._is_cancelled = False
        end = End(is_worn=self._memory.data_bytes > self._worn_bytes, error=failure)
        self._channel.send(Frame.END if failure is None else Frame.ERROR, end.content())

    def _listen(self) -> None:
        while True:
            try:
                frame, content = self._channel.receive()
            except ChannelClosedError:
                os._exit(0)
            if frame in (Frame.RUN, Frame.READ):
                with self._lock:
                    self._is_cancelled = False
                if frame is Frame.READ:
                    # In this thread: to wake the other takes a part of the time. The server kills a worker that hears no cancel.
                    self._perform(frame, content)
                else:
                    self._tasks.put(content)
            elif frame is Frame.RETIRE:
                self._tasks.put(None)
            elif frame is Frame.CANCEL:
                self._cancel()

    def _cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            execution = self._execution
        if execution is not None:
            execution.cancel(_cancelled())

    def _report(self) -> None:
        """Send progress; cancel again what was cancelled, because an engine may miss a cancel while it starts."""
        sent: Progress | None = None
        while True:
            self._is_running.wait()
            # Under the lock, because no PROGRESS may follow the END of its query: the next query would get it.
            with self._lock:
                execution, is_cancelled = self._execution, self._is_cancelled
                progress = sent if execution is None else execution.progress
                if progress is not None and progress != sent:
                    sent = progress
                    with contextlib.suppress(ChannelClosedError):
                        self._channel.send(Frame.PROGRESS, orjson.dumps(progress), wait=False)
            # Only this one: meanwhile it may have ended, and the next one begun.
            if is_cancelled and execution is not None:
                execution.cancel(_cancelled())
            time.sleep(_REPORT_S)


def _cancelled() -> QueryCancelledError:
    return QueryCancelledError("the query was cancelled")


def yield_to_the_server() -> None:
    """Give the server priority over this process, and have the kernel kill this process first if memory runs out."""
    os.nice(_NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_OOM_SCORE)


class OwnMemory:
    """The memory of this process, as `/proc` has it; make it in the process itself, for a fork would get that of its parent."""

    def __init__(self) -> None:
        self._file: int | None = None
        # To open it takes longer than to read it, and each answer asks.
        with contextlib.suppress(OSError):
            self._file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    @property
    def data_bytes(self) -> int:
        """The private memory that this process has allocated, used or not; 0 on systems without `/proc`."""
        if self._file is None:
            return 0
        return int(os.pread(self._file, _STATM_BYTES, 0).split()[5]) * _PAGE_BYTES

    def close(self) -> None:
        """Close the file in `/proc`."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def limit_memory(memory_bytes: int) -> None:
    """Limit private writable memory (`RLIMIT_DATA`). Mapped files do not count: a savepoint may be larger than memory."""
    memory = OwnMemory()
    limit = memory.data_bytes + memory_bytes
    memory.close()
    # A core file of a worker would hold values of savepoints.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


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
