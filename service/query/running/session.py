"""`Session`: plans statements over a catalog, chooses their engines, and runs them, for one caller.

with closing(Session(catalog, engines, settings)) as session, session.start(QueryRequest(sql="SELECT …")) as run:
    for batch in run.batches():
        …
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace

from catalog import Catalog, CatalogError
from readers import ReaderError
from service.base.errors import InvalidRequestError, ScanLimitExceededError, query_error_of
from service.base.process import machine
from service.base.settings import Settings
from service.query.engines.choose import choose, choose_for_work
from service.query.engines.engine import Engine
from service.query.engines.registry import AUTO, Role, engines_of, local_engine, work_choices
from service.query.running.origin import Origin
from service.query.running.request import QueryRequest
from service.query.running.results import ResultBuffer
from service.query.running.run import Prepared, Run
from service.query.sql.plan import explanation_of


class Session:
    """Statements over a catalog. Safe to share between threads.

    Args:
        catalog: the databases that they read.
        engines: by name; the local one among them. They are closed with the session.
        settings: their limits.

    Attributes:
        catalog: the databases that they read.
    """

    def __init__(self, catalog: Catalog, engines: Mapping[str, Engine], settings: Settings) -> None:
        self.catalog = catalog
        self._engines = engines
        self._settings = settings
        # Who reads by scans alone, or writes, may have none.
        self._local = engines.get(local_engine().name)
        self._scan = next((engines.get(engine.name) for engine in engines_of(Role.SCAN)), None)
        self._memory_bytes = machine.memory_bytes()
        self._lock = threading.Lock()
        self._runs: weakref.WeakSet[Run] = weakref.WeakSet()
        # The garbage collector may close what is being closed by the same thread.
        self._closing = threading.RLock()
        self._is_closed = False
        # An engine that is still open when the interpreter ends complains on standard error.
        atexit.register(self.close)

    def start(self, request: QueryRequest) -> Run:
        """Plan a statement and run it.

        Raises:
            QueryError: the statement means nothing or is not allowed.
        """
        prepared = self._prepared(request, self._timeout_s(request))
        run = Run(request, prepared, ResultBuffer(self._settings.queries.result_buffer_bytes))
        with self._lock:
            self._runs.add(run)
        run.start()
        return run

    def worker(self, name: str, size_bytes: int) -> Engine | None:
        """Return the engine that does the work of a write; None for this process.

        Args:
            name: what the request names: one of `work_choices`.
            size_bytes: bytes that are read to make the state that changes.

        Raises:
            InvalidRequestError: there is no such engine.
        """
        if name not in work_choices():
            raise InvalidRequestError(
                f"expected an engine, found {name!r:.100}", hint=f"engines are {', '.join(work_choices())}"
            )
        if name == AUTO:
            return choose_for_work(size_bytes, self._engines, self._memory_bytes)
        return self._engines.get(name)

    def close(self) -> None:
        """End all that runs and close the engines; where another thread does, wait for it.

        The interpreter must not end while a thread closes an engine: it would abort the process.
        """
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            self._end()
            for engine in self._engines.values():
                engine.close()
        atexit.unregister(self.close)

    def _end(self) -> None:
        with self._lock:
            left: list[Run] = list(self._runs)
        # All are cancelled before the first is waited for.
        for run in left:
            run.cancel()
        for run in left:
            run.close()

    def _timeout_s(self, request: QueryRequest) -> float:
        """Return how long a statement may take.

        Raises:
            InvalidRequestError: the request has limits or an engine that there are not.
        """
        if request.max_rows is not None and request.max_rows < 0:
            raise InvalidRequestError(f"expected max_rows of 0 or more, found {request.max_rows}")
        timeout_s = self._settings.queries.timeout_s if request.timeout_s is None else request.timeout_s
        if not timeout_s > 0:
            raise InvalidRequestError(f"expected timeout_s above 0, found {timeout_s}")
        if request.engine not in (AUTO, *self._engines):
            raise InvalidRequestError(
                f"expected an engine, found {request.engine!r}",
                hint=f"engines are {', '.join([AUTO, *self._engines])}",
            )
        return min(timeout_s, self._settings.queries.max_timeout_s)

    def _prepared(self, request: QueryRequest, timeout_s: float) -> Prepared:
        """Plan a statement, and choose its engine.

        Raises:
            QueryError: the statement means nothing or is not allowed.
        """
        # Before planning: the headers of a large savepoint take their time, too.
        started = time.monotonic()
        try:
            visible = (request.catalog or self.catalog).visible(request.principal.sees)
            limits = self._settings.queries
            plan = request.plan(
                visible, limits.max_sql_bytes, limits.compat, may_be_short=self._scan is not None
            )
            if (request.explain or request.describe) and not plan.prefix:
                plan = replace(plan, prefix="EXPLAIN" if request.explain else "DESCRIBE")
            size_bytes = plan.size_bytes
            origins = tuple(map(Origin.of, plan.databases))
            explanation = explanation_of(plan) if plan.prefix.startswith("EXPLAIN") else None
        except (CatalogError, ReaderError) as error:
            raise query_error_of(error) from error
        self._check_scan(size_bytes, request)
        if request.engine == AUTO:
            choice = choose(plan, size_bytes, self._engines, self._memory_bytes)
            engine, reason = self._engines[choice.engine], choice.reason
        else:
            engine, reason = self._engines[request.engine], "the request names it"
        is_replaceable = request.engine == AUTO and engine not in (self._local, self._scan)
        return Prepared(
            plan=plan if engine is self._scan else plan.in_full(),
            size_bytes=size_bytes,
            origins=origins,
            explanation=explanation,
            engine=engine,
            engine_reason=reason,
            fallback=self._local if is_replaceable else None,
            started=started,
            timeout_s=timeout_s,
        )

    def _check_scan(self, size_bytes: int, request: QueryRequest) -> None:
        limits = (self._settings.queries.max_scan_bytes or None, request.max_bytes)
        limit = min((limit for limit in limits if limit is not None), default=None)
        if limit is not None and size_bytes > limit:
            raise ScanLimitExceededError(
                f"expected a query that reads at most {limit} bytes, found one of {size_bytes}",
                hint="ask for single keys, or for fewer tables",
            )
