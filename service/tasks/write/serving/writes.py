"""All writes of a service: starts them, finds them by id, remembers those that ended.

A write waits for its turn, runs in a process of its own, and keeps its report. A thread starts the process when its turn has come, and
reads what it sends.

Writes run in the order in which they came, so many at a time. The user who asked finds a write by its id as long as it runs and is
remembered.
"""

from __future__ import annotations

import atexit
import copy
import logging
import pickle
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

import orjson

from catalog import Catalog, Database
from readers import ReaderError, TemporaryFolder
from service.base import errors
from service.base.principal import Identity, Principal
from service.base.settings import Settings, bytes_of
from service.query.engines.engine import task_folder
from service.query.engines.workers.channel import Channel, ChannelClosedError, End, Frame
from service.query.engines.workers.forks import start_process
from service.query.engines.workers.pool import engine_settings, worker_memory_bytes
from service.query.running.run import Lifecycle, QueryState
from service.query.serving.elsewhere import KnownDatabase
from service.query.serving.registry import slot_limits
from service.tasks.write.request import WriteRequest
from service.tasks.write.serving.targets import Target, WriteRoot
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
    error: errors.QueryError | None


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

    def cancel(self, error: errors.QueryError | None = None) -> None:
        """End it, from any thread; `join` waits until nothing of it is left.

        Args:
            error: QueryCancelledError if None.
        """
        before = self._lifecycle.cancel(error or errors.QueryCancelledError("the write was cancelled"))
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
            errors.QueryTimeoutError(
                f"the write was not done within {self._timeout_s:g} s; nothing is left of it",
                hint="the setting write_timeout_s gives it more time",
            )
        )

    def _run(self) -> None:
        error: errors.QueryError | None = None
        try:
            self._report = self._written()
            if self.order.target is not None:
                self._published()
        except (
            Exception
        ) as failure:  # what the process sends may be anything, and nobody waits for this thread
            # The reason of a cancel, where there is one: the process knows only that it was cancelled.
            error = self._lifecycle.failure or errors.query_error_of(failure)
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
                raise errors.WorkerLostError(
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
                raise errors.EngineUnavailableError(
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
                raise End.of(content).error or errors.QueryCancelledError("the write was cancelled")
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


_RETRY_AFTER_S = 10
_LOOK_S = 0.1


class Writes:
    """All writes of a service. Safe to share between threads.

    Args:
        settings: their limits.
        catalog: where new savepoints appear.
        roots: the directories below which they may write; none if the service writes nothing.

    Attributes:
        roots: the same.
        is_ending: True if no more writes are taken.
    """

    def __init__(self, settings: Settings, catalog: Catalog, roots: Sequence[WriteRoot] = ()) -> None:
        self._catalog = catalog
        memory = settings.writes.memory
        self._memory_bytes = (
            bytes_of(memory) if memory else worker_memory_bytes(settings, slot_limits(settings).running)
        )
        self._settings = engine_settings(settings, self._memory_bytes)
        self.roots = tuple(roots)
        self.is_ending = False
        self._observers: list[Callable[[WriteRecord], None]] = []
        self._lock = threading.Lock()
        self._waiting: deque[Write] = deque()
        self._running: set[Write] = set()
        self._past: OrderedDict[str, WriteRecord] = OrderedDict()
        atexit.register(self.close)

    def start(self, order: WriteOrder) -> Write:
        """Let a write wait for its turn.

        Raises:
            ServiceEndingError: the service is about to end.
            TooManyWritesError: too many writes wait.
            ConflictError: another write makes the same target.
        """
        write = Write(order, self._settings, self._memory_bytes, published=self._published, ended=self._ended)
        with self._lock:
            self._check(order)
            self._waiting.append(write)
        write.enter()
        self._advance()
        return write

    def find(self, write_id: str, caller: Principal) -> WriteRecord:
        """Return the record of a write of this user: as it is now, or as it was when it ended.

        Raises:
            WriteNotFoundError: the id is unknown, or another user's, or the caller may not see its source any more.
        """
        return self._found(write_id, lambda record: _is_for(caller, record))

    def records(self, caller: Principal) -> list[WriteRecord]:
        """Return the records of all writes of this user, the latest first."""
        return self._records(lambda record: _is_for(caller, record))

    def all_records(self, operator: Principal) -> list[WriteRecord]:
        """Return the records of everybody's writes between databases that this user operates, the latest first, and the user's own."""
        return self._records(lambda record: _is_for(operator, record) or _operates(operator, record))

    def cancel(self, write_id: str, caller: Principal) -> None:
        """End a write of this user, and wait until nothing of it is left; nothing happens if it has ended.

        Raises:
            WriteNotFoundError: as `find` does.
        """
        self.find(write_id, caller)
        self._cancel(write_id, None)

    def kill(self, write_id: str, operator: Principal) -> WriteRecord | None:
        """End a write of anybody that this user operates, and wait until nothing of it is left.

        Returns:
            The write as it was; None if it had ended.

        Raises:
            WriteNotFoundError: the id is unknown, or the user does not operate its databases.
        """
        record = self._found(write_id, lambda record: _operates(operator, record))
        has_run = self._cancel(write_id, errors.QueryKilledError("an operator ended the write"))
        return record if has_run else None

    def _cancel(self, write_id: str, error: errors.QueryError | None) -> bool:
        write = self._open(write_id)
        if write is None:
            return False
        write.cancel(error)
        write.join()
        return True

    def _found(self, write_id: str, is_for: Callable[[WriteRecord], bool]) -> WriteRecord:
        write = self._open(write_id)
        with self._lock:
            found = write.record if write is not None else self._past.get(write_id)
        if found is None or not is_for(found):
            raise errors.WriteNotFoundError("there is no such write")
        return found

    def _records(self, is_for: Callable[[WriteRecord], bool]) -> list[WriteRecord]:
        with self._lock:
            found = [write.record for write in (*self._waiting, *self._running)]
            known = {record.id for record in found}
            found += [record for record in self._past.values() if record.id not in known]
        return sorted(filter(is_for, found), key=lambda one: one.created, reverse=True)

    def add_observer(self, observer: Callable[[WriteRecord], None]) -> None:
        """Call the observer with every write that ends, from any thread; it must be quick and raise nothing."""
        self._observers.append(observer)

    def open_states(self) -> list[QueryState]:
        """Return the states of all writes that have not ended."""
        with self._lock:
            return [write.state for write in (*self._waiting, *self._running)]

    def drain(self, deadline: float) -> None:
        """Take no more writes, let the open ones end, and cancel those that take longer.

        Args:
            deadline: by the monotonic clock.
        """
        self.is_ending = True
        while (self._waiting or self._running) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        self._cancel_all()

    def close(self) -> None:
        """End all writes, and wait until nothing of them is left."""
        atexit.unregister(self.close)
        self.is_ending = True
        self._cancel_all()

    def _cancel_all(self) -> None:
        with self._lock:
            left = [*self._waiting, *self._running]
        for write in left:
            write.cancel(_ending())
        for write in left:
            write.join()

    def _check(self, order: WriteOrder) -> None:
        if self.is_ending:
            raise _ending()
        if len(self._waiting) >= self._settings.writes.queued:
            raise errors.TooManyWritesError("too many writes wait", retry_after_s=_RETRY_AFTER_S)
        if order.is_checked and any(
            write.order.is_checked and write.order.owner == order.owner
            for write in (*self._waiting, *self._running)
        ):
            # Who only reads must not keep those who write from their turns.
            raise errors.TooManyWritesError("another preview of this user runs", retry_after_s=_RETRY_AFTER_S)
        taken = {write.order.target.path for write in (*self._waiting, *self._running) if write.order.target}
        if order.target is not None and order.target.path in taken:
            raise errors.ConflictError(
                "expected a new target, found that another write makes it", code="TARGET_EXISTS"
            )

    def _open(self, write_id: str) -> Write | None:
        with self._lock:
            return next((one for one in (*self._waiting, *self._running) if one.id == write_id), None)

    def _advance(self) -> None:
        """Give the next writes their turns."""
        with self._lock:
            while self._waiting and len(self._running) < max(1, self._settings.writes.running):
                write = self._waiting.popleft()
                # One that was cancelled while it waited has ended.
                if write.begin():
                    self._running.add(write)

    def _published(self) -> None:
        # The next look at the roots finds it, too.
        with suppress(ReaderError, OSError):
            self._catalog.refresh()

    def _ended(self, write: Write) -> None:
        record = write.record
        with self._lock:
            self._running.discard(write)
            if write in self._waiting:
                self._waiting.remove(write)
            self._past[record.id] = record
            while len(self._past) > self._settings.writes.history_length:
                self._past.popitem(last=False)
        for observer in self._observers:
            observer(record)
        self._advance()


def _is_for(caller: Principal, record: WriteRecord) -> bool:
    source = record.order.source
    return record.order.owner == caller.identity and (source is None or caller.sees(source))


def _operates(operator: Principal, record: WriteRecord) -> bool:
    order = record.order
    target = order.target.database if order.target else None
    return operator.operates([name for name in (order.source, target) if name is not None])


def _ending() -> errors.ServiceEndingError:
    return errors.ServiceEndingError("the service is about to end", hint="try again soon")
