"""Sessions on a Spark Connect server, by gRPC: this process runs no Java.

A query has a session for itself, and the next query reuses it. On the server, a session has Python workers of its own that
have loaded the code we send: that takes some 4 s for the first query of a session, and these processes stay on the executors
when the session has ended. So sessions are never closed while there are queries to come.

Sessions end with their server, and the server ends a session that is idle for an hour. So a session is checked before it is
reused, and left if it is gone.
"""

from __future__ import annotations

import atexit
import contextlib
import re
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from service.base.errors import EngineUnavailableError
from service.query.engines.spark.packages import write_packages
from service.query.engines.spark.sessions import (
    DUCKDB_GOES_ON,
    MEANING,
    Sessions,
    SparkSettings,
    check_reachable,
    quiet,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import RetryPolicy

_INSTALL = "pip install 'savepointdb[connect]'"
_MOST_ENDED = 256
_RETRIES = 6
_ASKED = "spark.sql.session.timeZone"
_SPLITS = re.compile(r"splits=(?:Some\()?(?P<count>\d+)")


class ConnectSessions(Sessions):
    """Sessions on one server, as many as queries ever ran at a time."""

    def __init__(self, settings: SparkSettings, directory: Path) -> None:
        super().__init__(settings, directory)
        self._open: list[SparkSession] = []
        self._idle: list[SparkSession] = []
        self._is_closed = False
        self._running: dict[str, SparkSession] = {}
        self._tasks: dict[str, dict[str, tuple[int, int]]] = {}
        self._parallelism = 1

    def new(self) -> SparkSession:
        """Implement `Sessions.new`.

        Raises:
            EngineUnavailableError: the server does not answer, or the client's packages are not installed.
        """
        while True:
            with self._lock:
                session = self._idle.pop() if self._idle else None
            if session is None:
                return self._made()
            if _is_there(session):
                return session
            self._leave([session])

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at a time, as the server said when the last session was made."""
        return self._parallelism

    @contextlib.contextmanager
    def tagged(self, session: SparkSession, tag: str) -> Iterator[None]:
        """Implement `Sessions.tagged`; another query may reuse the session afterwards."""
        with self._lock:
            self._running[tag] = session
            self._tasks[tag] = {}
            for ended in list(self._tasks)[:-_MOST_ENDED]:
                if ended not in self._running:
                    del self._tasks[ended]
        session.addTag(tag)
        session.registerProgressHandler(self._counter(tag))
        try:
            yield
        finally:
            session.clearProgressHandlers()
            session.removeTag(tag)
            with self._lock:
                del self._running[tag]
                self._idle.append(session)

    def cancel(self, tag: str) -> None:
        """Implement `Sessions.cancel`; waits for the server's answer."""
        with self._lock:
            session = self._running.get(tag)
        if session is not None:
            with contextlib.suppress(Exception):
                session.interruptTag(tag)

    def tasks(self, tag: str) -> tuple[int, int]:
        """Implement `Sessions.tasks`, with the counts that the server sent last."""
        with self._lock:
            counts = list(self._tasks.get(tag, {}).values())
        return sum(done for done, _ in counts), sum(total for _, total in counts)

    def running(self, tag: str) -> int:
        """Implement `Sessions.running`: the server does not say it."""
        return 0

    def forget(self) -> None:
        """Implement `Sessions.forget`: leave all idle sessions."""
        with self._lock:
            sessions, self._idle = self._idle, []
            self.has_duckdb = True
        self._leave(sessions)

    def close(self) -> None:
        """Implement `Sessions.close`: leave all sessions, also those of queries."""
        with self._lock:
            self._is_closed = True
            self._idle = []
            sessions = list(self._open)
        self._leave(sessions)
        atexit.unregister(self.close)

    def _counter(self, tag: str) -> Any:
        """Return a handler that pyspark calls with the stages of an operation."""

        def count(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
            total = sum(stage.num_tasks for stage in stages or ())
            if total:
                completed = sum(stage.num_completed_tasks for stage in stages)
                with self._lock:
                    self._tasks[tag][operation_id or ""] = completed, total

        return count

    def _made(self) -> SparkSession:
        try:
            from pyspark.sql.connect.session import SparkSession as ConnectSession
        except (ImportError, SystemExit) as error:  # pyspark exits a Python that runs no file
            raise EngineUnavailableError(
                "what Spark Connect needs is not installed",
                hint=f"{_INSTALL}; or {DUCKDB_GOES_ON}",
                detail=str(error),
            ) from error
        quiet()
        check_reachable(self._settings.remote)
        try:
            # Not by its builder, which also sets the session that other parts of the program use by default.
            session = cast("SparkSession", ConnectSession(self._settings.remote))
        except Exception as error:  # an address that pyspark cannot parse
            raise self._unavailable(error) from error
        self._opened(session)
        try:
            session.client.set_retry_policies([_while_reachable(self._settings.remote)])
            for name, value in (dict(self._settings.options) | MEANING).items():
                session.conf.set(name, value)
            with self._lock:
                if not self._archive.exists():
                    write_packages(self._archive)
            session.addArtifacts(str(self._archive), pyfile=True)
            self._parallelism = _parallelism(session)
        except Exception as error:  # gRPC's errors and pyspark's
            self._leave([session])
            raise self._unavailable(error) from error
        return session

    def _opened(self, session: SparkSession) -> None:
        """Note a session to be left at the end: an open one keeps Python from ending."""
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._open.append(session)
        if is_closed:
            _leave([session])
            raise EngineUnavailableError("the engine is closed")
        atexit.register(self.close)

    def _leave(self, sessions: list[SparkSession]) -> None:
        _leave(sessions)
        with self._lock:
            self._open = [session for session in self._open if session not in sessions]

    def _unavailable(self, error: Exception) -> EngineUnavailableError:
        place = self._settings.address
        detail = str(error).replace(self._settings.remote, place)  # the address may have a token
        return EngineUnavailableError(f"Spark does not answer at {place}", hint=DUCKDB_GOES_ON, detail=detail)


def _while_reachable(address: str) -> RetryPolicy:
    """Return a policy that retries while the server listens.

    pyspark's own policy retries for ten minutes, but a server that is gone has lost the sessions and their queries.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    class WhileReachable(DefaultPolicy):
        def can_retry(self, e: BaseException) -> bool:
            if not super().can_retry(e):
                return False
            try:
                check_reachable(address)
            except EngineUnavailableError:
                return False
            return True

    return WhileReachable(max_retries=_RETRIES, backoff_multiplier=2)


def _parallelism(session: SparkSession) -> int:
    """Return the number of tasks that run at a time: only the splits of Spark's own `range` show it to a client."""
    found = _SPLITS.search(str(session.sql("EXPLAIN SELECT * FROM range(0, 1)").collect()[0][0]))
    return int(found["count"]) if found is not None else 1


def _is_there(session: SparkSession) -> bool:
    try:
        return bool(session.conf.get(_ASKED) == MEANING[_ASKED])
    except Exception:  # gRPC's errors and pyspark's
        return False


def _leave(sessions: Iterable[SparkSession]) -> None:
    """End sessions, each in a thread with a time limit: the server may not answer."""
    for act, patience_s in _LEAVING:
        threads = [threading.Thread(target=act, args=(session,), daemon=True) for session in sessions]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + patience_s
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _stop(session: SparkSession) -> None:
    with contextlib.suppress(Exception):
        session.stop()


def _close(session: SparkSession) -> None:
    with contextlib.suppress(Exception):
        session.client.close()


_LEAVING = ((_stop, 5.0), (_close, 15.0))
