"""All writes of a service: starts them, finds them by id, remembers those that ended.

Writes run in the order in which they came, so many at a time. The user who asked finds a write by its id as long as it runs and is
remembered.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from catalog import Catalog
from readers import ReaderError
from service.base.errors import (
    ConflictError,
    QueryError,
    QueryKilledError,
    ServiceEndingError,
    TooManyWritesError,
    WriteNotFoundError,
)
from service.base.principal import Principal
from service.base.settings import Settings, bytes_of
from service.query.engines.workers.pool import engine_settings, worker_memory_bytes
from service.query.running.run import QueryState
from service.query.serving.registry import slot_limits
from service.tasks.write.serving.targets import WriteRoot
from service.tasks.write.serving.write import Write, WriteOrder, WriteRecord

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
        has_run = self._cancel(write_id, QueryKilledError("an operator ended the write"))
        return record if has_run else None

    def _cancel(self, write_id: str, error: QueryError | None) -> bool:
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
            raise WriteNotFoundError("there is no such write")
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
            raise TooManyWritesError("too many writes wait", retry_after_s=_RETRY_AFTER_S)
        if order.is_checked and any(
            write.order.is_checked and write.order.owner == order.owner
            for write in (*self._waiting, *self._running)
        ):
            # Who only reads must not keep those who write from their turns.
            raise TooManyWritesError("another preview of this user runs", retry_after_s=_RETRY_AFTER_S)
        taken = {write.order.target.path for write in (*self._waiting, *self._running) if write.order.target}
        if order.target is not None and order.target.path in taken:
            raise ConflictError(
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


def _ending() -> ServiceEndingError:
    return ServiceEndingError("the service is about to end", hint="try again soon")
