"""The process of a write: runs one script, then ends.

Its only argument is a socket that it inherited, with the frames of `serving.task`. The main thread runs the script; one thread
listens, and one reports. A write ends early by SIGTERM, which the process sends to itself: the main thread then unwinds, and what it
has written so far is removed. So it ends when the service cancels it, when the service is gone, and when the disk gets full.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import resource
import signal
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import orjson

from catalog import Catalog
from readers import METADATA_FILE_NAME, check_lost_pages, load_machine, survive_lost_pages
from service.base.errors import LimitExceededError, QueryCancelledError, QueryError, query_error_of
from service.base.settings import UNLIMITED, Settings
from service.query.engines.registry import open_engines
from service.query.engines.workers.channel import Channel, ChannelClosedError, End, Frame
from service.query.engines.workers.worker import limit_memory, yield_to_the_server
from service.query.running.session import Session
from service.tasks.task import Context
from service.tasks.write.serving.task import Phase, WriteProgress, WriteTask
from service.tasks.write.writing import TargetSize, Writing, with_new_source

_REPORT_S = 0.1
# A process that cannot unwind is ended by the kernel.
_UNWIND_S = 20
_PREVIEW = "preview"


class _StoppedError(BaseException):
    """The write is to end. No handler of errors takes it for one."""


class WriteProcess:
    """The write of this process.

    Args:
        channel: the channel to the service.
        task: what to write.
    """

    def __init__(self, channel: Channel, task: WriteTask) -> None:
        self._channel = channel
        self._task = task
        self._lock = threading.Lock()
        self._progress = WriteProgress()
        self._reason: QueryError = QueryCancelledError("the write was cancelled")
        self._has_ended = threading.Event()

    def run(self) -> None:
        """Write, and send the report or the error."""
        signal.signal(signal.SIGTERM, _stop)
        for target in (self._listen, self._report):
            threading.Thread(target=target, name=target.__name__, daemon=True).start()
        frame, content = Frame.END, b""
        try:
            content = orjson.dumps(self._written())
        except _StoppedError:
            frame, content = Frame.ERROR, End(is_worn=False, error=self._reason).content()
        except Exception as error:  # the service raises it where the write is waited for
            failure = query_error_of(error)
            failure.__cause__ = failure.__cause__ or (None if failure is error else error)
            frame, content = Frame.ERROR, End(is_worn=False, error=failure).content()
        self._has_ended.set()
        with suppress(ChannelClosedError):
            self._channel.send(frame, content)

    def _written(self) -> dict[str, Any]:
        task = self._task
        settings = task.settings.replaced(UNLIMITED)
        # Rooms that know no settings put temporary files there, too: the service removes them, and they are counted.
        tempfile.tempdir = settings.storage.temp_directory
        load_machine()
        self._advance(phase=Phase.READING)
        with tempfile.TemporaryDirectory() as folder, self._prepared(settings) as writing:
            target = task.request.target
            if target is None:
                made = Path(folder, _PREVIEW)
                report = (writing.write(made) if task.is_checked else writing.preview).report()
                check_lost_pages()
                return report
            self._advance(phase=Phase.WRITING)
            try:
                written = writing.write(target)
            except _StoppedError:
                # Too late: Flink may have found it already.
                if not os.path.exists(os.path.join(target, METADATA_FILE_NAME)):
                    raise
                written = writing.preview
            size = TargetSize.of(target)
            self._advance(files=size.files, bytes_written=size.bytes_written)
            return written.report()

    @contextmanager
    def _prepared(self, settings: Settings) -> Iterator[Writing]:
        request = self._task.request
        catalog = Catalog.of(database.opened() for database in self._task.databases)
        with ExitStack() as opened:
            if request.database is None:
                catalog, name = opened.enter_context(with_new_source(catalog, request.flink))
                request = replace(request, database=name)
            queries = opened.enter_context(
                closing(Session(catalog, open_engines(settings, later=True), settings))
            )
            context = Context(
                catalog=catalog, settings=settings, start=queries.start, is_alone=True, worker=queries.worker
            )

            def on_statement(done: int, count: int) -> None:
                self._advance(statements_done=done, statements=count)

            yield opened.enter_context(closing(Writing(request, context, on_statement)))

    def _advance(self, **fields: Any) -> None:
        with self._lock:
            self._progress = replace(self._progress, **fields)
            self._send()

    def _send(self) -> None:
        with suppress(ChannelClosedError):
            self._channel.send(Frame.PROGRESS, orjson.dumps(self._progress), wait=False)

    def _listen(self) -> None:
        with suppress(ChannelClosedError):
            while self._channel.receive()[0] is not Frame.CANCEL:
                pass
        self._end(self._reason)

    def _report(self) -> None:
        """Measure what is on the disk and send that, until it is more than allowed or the disk is nearly full."""
        while not self._has_ended.wait(_REPORT_S):
            failure = self._excess_of_temporary()
            if self._task.request.target is not None and self._progress.phase is Phase.WRITING:
                size = TargetSize.of(self._task.request.target)
                self._advance(files=size.files, bytes_written=size.bytes_written)
                failure = failure or self._excess(self._task.request.target, size)
            if failure is not None:
                self._end(failure)
                return

    def _excess_of_temporary(self) -> QueryError | None:
        most = self._task.settings.writes.size_bytes
        if most and temporary_bytes(self._task.settings.storage.temp_directory) > most:
            return LimitExceededError(
                f"expected temporary files of at most {most} bytes, found more; nothing is left of the write",
                hint="the rows that a script changes are kept in them: let it change fewer, or raise max_write_bytes",
            )
        return None

    def _excess(self, target: str, size: TargetSize) -> QueryError | None:
        limits = self._task.settings.writes
        if limits.size_bytes and size.bytes_written > limits.size_bytes:
            return LimitExceededError(
                f"expected a write of at most {limits.size_bytes} bytes, found one of more; nothing is left of it",
                hint="files=link copies nothing where the file system has links",
            )
        found = os.statvfs(os.path.dirname(target))
        if found.f_bavail * found.f_frsize < limits.free_bytes:
            return LimitExceededError(
                f"expected {limits.free_bytes} bytes of free disk, found {found.f_bavail * found.f_frsize}; "
                "nothing is left of the write"
            )
        return None

    def _end(self, reason: QueryError) -> None:
        if not self._has_ended.is_set():
            self._reason = reason
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def main() -> NoReturn:
    """Run the write that the service sends over the inherited socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A core file would hold values of savepoints.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    yield_to_the_server()
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    try:
        frame, content = channel.receive()
    except ChannelClosedError:
        os._exit(0)
    if frame is not Frame.RUN:  # it was cancelled before it began
        os._exit(0)
    task: WriteTask = pickle.loads(content)  # what its service sent
    if task.memory_bytes:
        limit_memory(task.memory_bytes)
    survive_lost_pages()
    WriteProcess(channel, task).run()
    # Taking modules apart at exit takes longer than all that is left.
    os._exit(0)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(_UNWIND_S)
    raise _StoppedError


def temporary_bytes(folder: str) -> int:
    """Return the bytes of the temporary files of this process: those in its folder, and those without a name."""
    return TargetSize.of(folder).bytes_written + _unnamed_bytes()


def _unnamed_bytes() -> int:
    """Return the bytes of open files that have no name and may be written; 0 on systems without `/proc`."""
    try:
        descriptors = os.listdir("/proc/self/fd")
    except OSError:
        return 0
    found: dict[tuple[int, int], int] = {}
    for name in descriptors:
        try:
            status = os.fstat(int(name))
            # A file of the source that was removed meanwhile is open for reading alone.
            may_be_written = fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
            if stat.S_ISREG(status.st_mode) and not status.st_nlink and may_be_written:
                found[status.st_dev, status.st_ino] = status.st_size
        except OSError:
            continue  # it was closed
    return sum(found.values())
