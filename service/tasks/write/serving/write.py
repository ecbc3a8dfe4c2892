"""One write from start to end: it waits for its turn, runs in a process of its own, and keeps its report.

A thread runs it when its turn has come: the thread starts the process, and reads what it sends. `Writes` (`serving.registry`)
starts writes and gives them their turns.
"""

from __future__ import annotations

import copy
import logging
import pickle
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

import orjson

from catalog import Database
from readers import TemporaryFolder
from service.base.errors import (
    EngineUnavailableError,
    QueryCancelledError,
    QueryError,
    QueryTimeoutError,
    WorkerLostError,
    query_error_of,
)
from service.base.principal import Identity
from service.base.settings import Settings
from service.query.engines.engine import task_folder
from service.query.engines.workers.channel import Channel, ChannelClosedError, End, Frame
from service.query.engines.workers.forks import start_process
from service.query.running.run import Lifecycle, QueryState
from service.query.serving.elsewhere import KnownDatabase
from service.tasks.write.request import WriteRequest
from service.tasks.write.serving.targets import Target
from service.tasks.write.serving.task import Phase, WriteProgress, WriteTask
from writers import remove_unfinished

logger = logging.getLogger("savepointdb")
# A process that has not removed what it wrote this long after a cancel is killed.
_PATIENCE_S = 10.0
# Characters of a script that its record keeps.
_LISTED_SQL = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """A write as a client asks for it, checked.

    Attributes:
        request: what to write; its target is None for a dry run.
        databases: the source, and the others that the script may read.
        target: where; None for a dry run.
        kinds: the kinds of the script's statements, for logs.
        owner: the user who asks.
        client: the client, as it calls itself.
        is_checked: whether a dry run says what a restore would do.
    """

    request: WriteRequest
    databases: tuple[Database, ...]
    target: Target | None
    kinds: tuple[str, ...]
    owner: Identity
    client: str = ""
    is_checked: bool = False

    @property
    def source(self) -> str | None:
        """The name of the savepoint to write from; None if the new one is made from nothing."""
        return self.request.database


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRecord:
    """A write at one moment; after its end, as it was then.

    Attributes:
        id: its id.
        order: what was asked, with the beginning of a long script, and without the databases: records are kept.
        state: its state.
        created: seconds since the epoch.
        queued_ms: milliseconds that it waited for its turn.
        elapsed_ms: milliseconds from its start to its end, or until this moment.
        progress: how far it is.
        report: what it does, or did (`service.tasks.write.writing.Written`); None before that is known.
        error: why it failed; None if it did not.
    """

    id: str
    order: WriteOrder
    state: QueryState
    created: float
    queued_ms: float
    elapsed_ms: float
    progress: WriteProgress
    report: dict[str, Any] | None
    error: QueryError | None


class Write:
    """A write.

    Args:
        order: what was asked.
        settings: limits.
        memory_bytes: memory that its process may take.
        published: looks for the new savepoint, before clients hear of the end.
        ended: hears of its end.
    """

    def __init__(
        self,
        order: WriteOrder,
        settings: Settings,
        memory_bytes: int,
        *,
        published: Callable[[], None],
        ended: Callable[[Write], None],
    ) -> None:
        self.id = secrets.token_hex(16)
        self.order = order
        self.created = time.time()
        self._settings = settings
        self._memory_bytes = memory_bytes
        self._published = published
        self._ended = ended
        self._timeout_s = settings.writes.timeout_s
        self._lifecycle = Lifecycle(time.monotonic(), self._timeout_s)
        self._progress = WriteProgress()
        self._report: dict[str, Any] | None = None
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._thread = threading.Thread(target=self._run, name=f"write-{self.id}", daemon=True)
        self._timer = threading.Timer(min(self._timeout_s, threading.TIMEOUT_MAX), self._time_out)
        self._timer.daemon = True

    @property
    def state(self) -> QueryState:
        """The state of its life."""
        return self._lifecycle.state

    @property
    def record(self) -> WriteRecord:
        """The write as it is now."""
        request = replace(self.order.request, sql=self.order.request.sql[:_LISTED_SQL])
        return WriteRecord(
            id=self.id,
            order=replace(self.order, request=request, databases=()),
            state=self._lifecycle.state,
            created=self.created,
            queued_ms=self._lifecycle.queued_ms,
            elapsed_ms=self._lifecycle.elapsed_ms,
            progress=self._progress,
            report=self._report,
            error=copy.copy(self._lifecycle.error),
        )

    def enter(self) -> None:
        """Wait for its turn; its time runs from now on."""
        self._timer.start()

    def begin(self) -> bool:
        """Run, now that its turn has come; return False if it has ended."""
        return self._lifecycle.grant(self._thread.start)

    def cancel(self, error: QueryError | None = None) -> None:
        """End it, from any thread; `join` waits until nothing of it is left.

        Args:
            error: QueryCancelledError if None.
        """
        before = self._lifecycle.cancel(error or QueryCancelledError("the write was cancelled"))
        if before is QueryState.QUEUED:
            self._timer.cancel()
            self._ended(self)
        elif before is QueryState.RUNNING:
            with self._lock:
                self._tell()

    def join(self) -> None:
        """Wait for its end."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _tell(self) -> None:
        """Ask the process to end, and kill it if it does not."""
        if self._channel is None or self._process is None:
            return
        with suppress(ChannelClosedError):
            self._channel.send(Frame.CANCEL)
        killing = threading.Timer(_PATIENCE_S, self._process.kill)
        killing.daemon = True
        killing.start()

    def _time_out(self) -> None:
        self.cancel(
            QueryTimeoutError(
                f"the write was not done within {self._timeout_s:g} s; nothing is left of it",
                hint="the setting write_timeout_s gives it more time",
            )
        )

    def _run(self) -> None:
        error: QueryError | None = None
        try:
            self._report = self._written()
            if self.order.target is not None:
                self._published()
        except (
            Exception
        ) as failure:  # what the process sends may be anything, and nobody waits for this thread
            # The reason of a cancel, where there is one: the process knows only that it was cancelled.
            error = self._lifecycle.failure or query_error_of(failure)
            if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
                logger.exception("write %s: %s", self.id, error.detail)
        self._timer.cancel()
        self._lifecycle.end(error)
        self._ended(self)

    def _written(self) -> dict[str, Any]:
        """Run the process and return its report.

        Raises:
            QueryError: it failed, was cancelled, or its process was lost.
        """
        with closing(task_folder(self._settings.storage.temp_directory)) as spill:
            process, channel = self._start()
            try:
                channel.send(Frame.RUN, pickle.dumps(self._task(spill)))
                return self._received(channel)
            except ChannelClosedError as error:
                process.kill()
                process.wait()
                self._remove_half()
                code = process.returncode
                name = f" by {signal.Signals(-code).name}" if code < 0 else ""
                raise WorkerLostError(
                    f"the process of the write ended{name}; nothing is left of it", hint="try again"
                ) from error
            finally:
                with self._lock:
                    self._channel = None
                channel.close()
                # It has sent its last frame, and has nothing left to do.
                process.kill()
                process.wait()

    def _start(self) -> tuple[subprocess.Popen[bytes], Channel]:
        own, inherited = socket.socketpair()
        with inherited:
            try:
                process = start_process("service.tasks.write.serving.process", inherited.fileno())
            except OSError as error:
                own.close()
                raise EngineUnavailableError(
                    f"expected a process for the write: {error.strerror}", hint="try again"
                ) from error
        channel = Channel(own)
        with self._lock:
            self._process, self._channel = process, channel
            if self._lifecycle.failure is not None:
                self._tell()
        return process, channel

    def _task(self, spill: TemporaryFolder) -> WriteTask:
        return WriteTask(
            databases=tuple(map(KnownDatabase.of, self.order.databases)),
            request=self.order.request,
            settings=self._settings.replaced({"temp_directory": spill.path}),
            memory_bytes=self._memory_bytes,
            is_checked=self.order.is_checked,
        )

    def _received(self, channel: Channel) -> dict[str, Any]:
        while True:
            frame, content = channel.receive()
            if frame is Frame.PROGRESS:
                self._progress = WriteProgress.of(content)
            elif frame is Frame.ERROR:
                raise End.of(content).error or QueryCancelledError("the write was cancelled")
            else:
                report: dict[str, Any] = orjson.loads(content)
                return report

    def _remove_half(self) -> None:
        """Remove what a process that was killed has left: a directory that it made, without `_metadata`."""
        target = self.order.target
        # Before this phase nothing was made; after it, the directory of another would have been an error.
        if target is None or self._progress.phase is not Phase.WRITING:
            return
        remove_unfinished(target.path)
