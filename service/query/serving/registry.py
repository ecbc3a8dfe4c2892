"""All queries: starts them, finds them by id, ends those that are late or abandoned, remembers those that ended.

    with queries.start(QueryRequest(sql="SELECT …")) as query:
        for batch in query.batches():
            …

Queries of all protocols wait for the same slots (`service.query.serving.slots`). The user of a query finds it by its id until the
answer is read, and its record after that. The deadline counts from `start` until the last row is found. One thread checks
all queries while there are any.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from catalog import Catalog
from service.base import machine
from service.base.errors import (
    ConflictError,
    QueryError,
    QueryNotFoundError,
    ServiceEndingError,
    TooManyQueriesError,
)
from service.base.principal import Identity, Principal, Source
from service.base.settings import Settings
from service.query.engines.engine import Engine
from service.query.running.request import QueryRequest, may_read
from service.query.running.run import CHECK_EVERY_S, QueryState
from service.query.running.session import Session
from service.query.serving.query import History, Query, QueryRecord, refused_record, stalled
from service.query.serving.results import Spool, SpooledResults
from service.query.serving.slots import SlotLimits, Slots
from service.query.serving.starts import QueryThreads

# A client that pauses for less than this is not idle, however many queries wait for their clients.
_MAY_STALL_S = 2.0
_RETRY_AFTER_S = 5
_RUNNING_A_CORE = 4
_LEAST_RUNNING = 8


class Queries(Session):
    """All queries of a service. Safe to share between threads.

    Args:
        catalog: the databases that they read.
        engines: by name; the local one among them.
        settings: their limits.
        idle_s: seconds that threads wait for the next query; 0 for none, so that no thread is left when no query is.

    Attributes:
        spool: the files with answers of slow clients.
        is_ending: True if no more queries are taken.
    """

    def __init__(
        self, catalog: Catalog, engines: Mapping[str, Engine], settings: Settings, idle_s: float = 0.0
    ) -> None:
        super().__init__(catalog, engines, settings)
        self._limits = slot_limits(settings)
        self._slots = Slots(self._limits)
        self.spool = Spool(settings.storage.temp_directory, settings.queries.spool_total_bytes)
        self._history = History(settings.queries.history_length)
        self.is_ending = False
        self._observers: list[Callable[[Query], None]] = []
        self._open: dict[str, Query] = {}
        self._watch: threading.Thread | None = None
        self._idle_s = idle_s
        self._threads = QueryThreads(idle_s)
        self._none_is_open = threading.Event()

    def start(self, request: QueryRequest) -> Query:
        """Plan a query and let it wait for a slot.

        Raises:
            QueryError: the statement means nothing or is not allowed, or too many queries wait.
        """
        if self.is_ending:
            raise _ending()
        timeout_s = self._timeout_s(request)
        self.check_room(request.owner)
        try:
            prepared = self._prepared(request, timeout_s)
        except QueryError as error:
            self._history.add(refused_record(request, error))
            raise
        limits = self._settings.queries
        query = Query(
            request,
            prepared,
            SpooledResults(limits.result_buffer_bytes, self.spool.file(limits.spool_bytes)),
            is_large=prepared.size_bytes > self._settings.slots.large_scan_bytes,
            stall_timeout_s=self._settings.server.stall_timeout_s,
            slots=self._slots,
            threads=self._threads,
            keeper=self,
        )
        self._keep(query)
        try:
            query.start()
        except BaseException:
            self.closed(query)
            raise
        return query

    def check_room(self, user: Identity) -> None:
        """Check that one more query of this user may wait.

        Raises:
            TooManyQueriesError: too many queries wait, or too many answers are unread.
        """
        self._slots.check_room(user)
        limit = self._limits.running + self._limits.queued + self._limits.stalled
        with self._lock:
            count = len(self._open)
        if count >= limit:
            raise TooManyQueriesError("too many answers wait to be read", retry_after_s=_RETRY_AFTER_S)

    def find(self, query_id: str, caller: Principal) -> Query | None:
        """Return a query of this user whose answer is unread; None if the answer was read or dropped.

        Raises:
            QueryNotFoundError: the id is unknown, or another user's, or the query read what the caller may not see.
        """
        with self._lock:
            query = self._open.get(query_id)
        if query is not None and _is_for(caller, query):
            return query
        self._remembered(query_id, caller)
        return None

    def take(self, query_id: str, caller: Principal) -> Query | None:
        """Find a query and reserve its answer for the caller.

        Returns:
            None if the answer was read or dropped.

        Raises:
            QueryNotFoundError: the id is unknown, or another user's, or the query read what the caller may not see.
            ConflictError: another client reads the answer.
        """
        query = self.find(query_id, caller)
        if query is not None and not query.attendance.claim():
            raise ConflictError("somebody reads the result already")
        return query

    def record(self, query_id: str, caller: Principal) -> QueryRecord:
        """Return the record of a query of this user: as it is now, or as it was when it ended.

        Raises:
            QueryNotFoundError: the id is unknown, or another user's, or the query read what the caller may not see.
        """
        query = self.find(query_id, caller)
        if query is None:
            return self._remembered(query_id, caller)
        with query.attendance.attended():
            return query.record

    def find_any(self, query_id: str, caller: Principal) -> tuple[Query | None, QueryRecord]:
        """Return a query of this user, or of anybody if the user is its operator; None for the query if its answer was read or dropped.

        Raises:
            QueryNotFoundError: the id is unknown, or the query is neither the user's nor one that the user operates.
        """
        with self._lock:
            query = self._open.get(query_id)
        record = query.record if query is not None else self._history.find(query_id)
        if record is None or not (_is_for(caller, record) or self._operates(caller, record)):
            raise QueryNotFoundError("there is no such query")
        return query, record

    def may_operate(self, caller: Principal) -> bool:
        """Return whether this user is an operator: sees the queries of others that read some databases, and may end them."""
        # Behind --allow-anonymous somebody else decides who comes: the service does not know who they are.
        is_anybody = caller.source is Source.NOBODY and self._settings.auth.allow_anonymous
        return caller.is_operator and not is_anybody

    def all_records(self, caller: Principal) -> Sequence[QueryRecord]:
        """Return the records of everybody's queries that this user operates, the latest first, and the user's own."""
        return [
            record for record in self._records() if _is_for(caller, record) or self._operates(caller, record)
        ]

    def records(self, caller: Principal) -> Sequence[QueryRecord]:
        """Return the records of all queries of this user, the latest first."""
        return [record for record in self._records() if _is_for(caller, record)]

    def ended(self, query: Query) -> None:
        """Remember a query that has ended; its answer may still be unread."""
        self._history.add(query.record)
        for observer in self._observers:
            observer(query)

    def add_observer(self, observer: Callable[[Query], None]) -> None:
        """Call the observer with every query that ends, from any thread; it must be quick and raise nothing."""
        self._observers.append(observer)

    def open_states(self) -> list[QueryState]:
        """Return the states of all queries whose answer is unread."""
        with self._lock:
            return [query.state for query in self._open.values()]

    @property
    def blocked(self) -> int:
        """Number of queries that wait until their clients read."""
        with self._lock:
            return sum(query.is_blocked for query in self._open.values())

    def closed(self, query: Query) -> None:
        """Forget a query: its answer was read, or nobody wants it."""
        with self._lock:
            self._open.pop(query.id, None)
            if self._open or self._idle_s:
                return
            watch = self._end_watch()
        # The watching thread closes abandoned queries itself.
        if watch is not None and watch is not threading.current_thread():
            watch.join()

    def _end_watch(self) -> threading.Thread | None:
        """Let the watching thread end, and return it."""
        self._none_is_open.set()
        watch, self._watch = self._watch, None
        return watch

    def drain(self, grace_s: float) -> None:
        """Take no more queries, let the open ones end, and cancel those that take longer.

        Args:
            grace_s: seconds that they may still take, unread answers included.
        """
        self.is_ending = True
        deadline = time.monotonic() + grace_s
        while self._open and time.monotonic() < deadline:
            time.sleep(CHECK_EVERY_S)
        with self._lock:
            left = list(self._open.values())
        for query in left:
            query.cancel(_ending())

    def _end(self) -> None:
        super()._end()
        self._threads.close()
        with self._lock:
            watch = self._end_watch()
        if watch is not None:
            watch.join()

    def _keep(self, query: Query) -> None:
        with self._lock:
            self._open[query.id] = query
            self._runs.add(query)
            if self._watch is None:
                self._none_is_open = threading.Event()
                self._watch = threading.Thread(
                    target=self._check_all, args=(self._none_is_open,), name="queries", daemon=True
                )
                self._watch.start()

    def _check_all(self, stop: threading.Event) -> None:
        asked = time.monotonic()
        while not stop.wait(CHECK_EVERY_S):
            now = time.monotonic()
            with self._lock:
                queries = list(self._open.values())
            for query in queries:
                query.check(now)
            if queries:
                asked = now
            elif now - asked > self._idle_s and self._ends_watch():
                return
            end_stalled(queries, self._limits.stalled, now)

    def _operates(self, caller: Principal, record: QueryRecord) -> bool:
        return self.may_operate(caller) and caller.operates([origin.name for origin in record.origins])

    def _records(self) -> Iterator[QueryRecord]:
        with self._lock:
            running = [query for query in self._open.values() if not query.state.has_ended]
        # A query may end between the two looks, and be in both.
        live = [query.record for query in reversed(running)]
        known = {record.id for record in live}
        yield from live
        yield from (record for record in self._history.records() if record.id not in known)

    def _ends_watch(self) -> bool:
        """End the watch, from its own thread; return False if a query has come."""
        with self._lock:
            if self._open:
                return False
            self._end_watch()
        return True

    def _remembered(self, query_id: str, caller: Principal) -> QueryRecord:
        record = self._history.find(query_id)
        if record is None or not _is_for(caller, record):
            raise QueryNotFoundError("there is no such query")
        return record


def end_stalled(queries: Sequence[Query], limit: int, now: float) -> None:
    """Cancel idle queries until at most `limit` of them hold a worker.

    The users with most blocked queries lose the query that was idle for longest. A client that reads a little now and then is
    not idle.
    """
    blocked = [query for query in queries if query.is_blocked]
    while len(blocked) > limit:
        count = Counter(query.owner for query in blocked)
        most = max(count.values())
        longest = max(
            (query for query in blocked if count[query.owner] == most), key=lambda query: query.stalled_s(now)
        )
        if longest.stalled_s(now) < _MAY_STALL_S:
            return
        blocked.remove(longest)
        longest.cancel(stalled(longest.stalled_s(now)))


def _is_for(caller: Principal, query: Query | QueryRecord) -> bool:
    """Return whether a query is the caller's, and read only savepoints that the caller may still see."""
    return query.owner == caller.identity and may_read(caller, query.origins)


def _ending() -> ServiceEndingError:
    return ServiceEndingError("the service is about to end", hint="try again soon")


def slot_limits(settings: Settings) -> SlotLimits:
    """Return the limits of the slots; what the settings leave open follows from the cores of the machine."""
    cores = settings.duckdb.threads or machine.cores()
    running = settings.slots.max_running or max(_LEAST_RUNNING, _RUNNING_A_CORE * cores)
    return SlotLimits(
        running=running,
        running_per_user=settings.slots.max_running_per_user or max(1, running // 2),
        queued=settings.slots.max_queued,
        queued_per_user=settings.slots.max_queued_per_user,
        stalled=settings.slots.max_stalled,
    )
