"""All savepoints that clients of a service ask for: starts them, watches each in a thread, and remembers those that ended.

A job has one at a time. When Flink says that a savepoint is there, the catalog looks at its roots, and the savepoint is a database.
A savepoint outside of the roots is not opened, whatever path Flink says: the roots decide what is served.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from catalog import Catalog, Job
from readers import ReaderError, given_location
from service.base import errors
from service.base.principal import Identity, Principal
from service.base.settings import Settings
from service.query.running.run import QueryState
from service.tasks.jobs.answers import RUNNING
from service.tasks.jobs.clusters import Clusters
from service.tasks.jobs.jobs import LiveJob, place_of
from service.tasks.jobs.savepoint import Trigger

_RETRY_AFTER_S = 10
# A checkpoint that is finished may come to a mounted folder a little later.
_LOOKS_FOR_IT = 5
_REMEMBERED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointRecord:
    """A savepoint that a client has asked for.

    Attributes:
        id: of the request.
        job: name of the job in the catalog.
        job_id: of Flink.
        cluster: label of the cluster.
        format: canonical or native.
        owner: the user who asked.
        state: running, finished or failed.
        acknowledged, subtasks: how many subtasks have done their part, and how many there are.
        database: name of the savepoint, once it is there.
        error: why there is none, or why it cannot be opened.
        created_at: when it was asked for.
        elapsed_ms: how long it has taken so far, or took.
    """

    id: str
    job: str
    job_id: str
    cluster: str
    format: str
    owner: Identity
    state: QueryState = QueryState.RUNNING
    acknowledged: int = 0
    subtasks: int = 0
    database: str | None = None
    error: errors.QueryError | None = None
    created_at: datetime
    elapsed_ms: float = 0.0

    def seen_by(self, caller: Principal) -> SavepointRecord:
        """Return it without what a user may not see."""
        is_hidden = self.database is not None and not caller.sees(self.database)
        return replace(self, database=None) if is_hidden else self


class Triggers:
    """All savepoints that clients ask for. Safe to share between threads.

    Args:
        settings: whether clients may, how many at a time, and where savepoints go.
        clusters: the clusters.
        catalog: where the savepoints appear.
    """

    def __init__(self, settings: Settings, clusters: Clusters, catalog: Catalog) -> None:
        self._settings = settings.flink
        self._clusters = clusters
        self._catalog = catalog
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._open: dict[str, SavepointRecord] = {}
        self._past: OrderedDict[str, SavepointRecord] = OrderedDict()
        self._observers: list[Callable[[SavepointRecord], None]] = []

    @property
    def are_allowed(self) -> bool:
        """True if the service lets clients ask at all."""
        return self._settings.savepoints

    def live(self, job: Job, caller: Principal) -> LiveJob | None:
        """Return what a cluster says of a job, and what a user who sees the job may do; None if no cluster knows it."""
        live = self._clusters.live(job)
        if live is None:
            return None
        return replace(
            live,
            error=self._clusters.error_of(live.label) or live.error,
            may_savepoint=self.are_allowed and _may_trigger(job, live, caller),
        )

    def start(self, job: Job, form: str, caller: Principal) -> SavepointRecord:
        """Ask Flink for a savepoint of a job, and watch it.

        Raises:
            ForbiddenError: the service lets nobody, or not this user.
            ConflictError: no cluster runs the job, or a savepoint of it is open already.
            TooManySavepointsError: too many are open.
            FlinkError: Flink does not answer, or refuses.
        """
        if not self.are_allowed:
            raise errors.ForbiddenError(
                "this service triggers no savepoints",
                hint="its owner can allow it with the setting flink_savepoints",
            )
        live = self._clusters.live(job)
        if not _may_trigger(job, live, caller):
            raise errors.ForbiddenError(
                f"expected a user who may trigger savepoints of {job.name!r}",
                hint="a grant such as savepoints:prod/* allows it",
            )
        if live is None or live.state != RUNNING or live.error is not None:
            state = "no cluster that runs it" if live is None else live.error or f"it {live.state}"
            hint = "GET /api/flink lists the jobs whose checkpoints are called otherwise here: --flink-path-map maps their paths"
            raise errors.ConflictError(
                f"expected a job that runs, found {state}",
                code="JOB_NOT_RUNNING",
                hint=hint if live is None else None,
            )
        trigger = Trigger(
            self._clusters.client_of(live.label), live.job_id, form, self._settings.savepoint_directory
        )
        record = SavepointRecord(
            id=trigger.id,
            job=job.name,
            job_id=live.job_id,
            cluster=live.label,
            format=form,
            owner=caller.identity,
            created_at=datetime.now(UTC),
        )
        with self._lock:
            self._check(record)
            self._open[record.id] = record
        try:
            trigger.ask()
        except BaseException:
            with self._lock:
                del self._open[record.id]
            raise
        threading.Thread(
            target=self._follow, args=(trigger, record), name=f"savepoint {record.id}", daemon=True
        ).start()
        return record

    def find(self, trigger_id: str, job: Job, caller: Principal) -> SavepointRecord:
        """Return a savepoint of a job, as far as it is now, as a user sees it.

        Raises:
            SavepointNotFoundError: no savepoint of this job has this id.
        """
        with self._lock:
            found = self._open.get(trigger_id) or self._past.get(trigger_id)
        if found is None or found.job != job.name:
            raise errors.SavepointNotFoundError("there is no such savepoint of this job")
        return found.seen_by(caller)

    def records(self, job: Job, caller: Principal) -> list[SavepointRecord]:
        """Return the savepoints of a job that are open or remembered, as a user sees them, the latest first."""
        with self._lock:
            records = [*self._open.values(), *self._past.values()]
        found = [one.seen_by(caller) for one in records if one.job == job.name]
        return sorted(found, key=lambda one: one.created_at, reverse=True)

    @property
    def open(self) -> int:
        """How many have not ended."""
        return len(self._open)

    def add_observer(self, observer: Callable[[SavepointRecord], None]) -> None:
        """Call the observer with each savepoint that has ended, from any thread; it must be quick and raise nothing."""
        self._observers.append(observer)

    def close(self) -> None:
        """Watch no more; Flink finishes what it was asked for."""
        self._ended.set()

    def _check(self, record: SavepointRecord) -> None:
        if self._ended.is_set():
            raise errors.ServiceEndingError("the service is about to end", hint="try again soon")
        of_job = [
            one for one in self._open.values() if (one.cluster, one.job_id) == (record.cluster, record.job_id)
        ]
        if of_job:
            raise errors.ConflictError(
                "expected a job without an open savepoint, found that Flink makes one", code="SAVEPOINT_OPEN"
            )
        if len(self._open) >= max(1, self._settings.open_savepoints):
            raise errors.TooManySavepointsError("too many savepoints are open", retry_after_s=_RETRY_AFTER_S)

    def _follow(self, trigger: Trigger, record: SavepointRecord) -> None:
        """Watch a savepoint until it has ended, and let it be a database."""
        begun = time.monotonic()
        error: errors.QueryError | None = None
        database = None
        try:
            path = self._awaited(trigger, record.id)
            database = self._found(path)
        except errors.QueryError as failure:
            error = failure
        except Exception as failure:  # a record must not stay open, whatever a library raises
            error = errors.QueryError("the service failed; its log says why", detail=repr(failure))
        with self._lock:
            ended = replace(
                self._open.pop(record.id),
                state=QueryState.FINISHED if error is None else QueryState.FAILED,
                database=database,
                error=error,
                elapsed_ms=(time.monotonic() - begun) * 1000,
            )
            self._past[record.id] = ended
            while len(self._past) > _REMEMBERED:
                self._past.popitem(last=False)
        for observer in self._observers:
            observer(ended)

    def _awaited(self, trigger: Trigger, trigger_id: str) -> str:
        """Return the path of a savepoint, as Flink sees it, when it is there.

        Raises:
            SavepointFailedError: Flink made none.
            FlinkError: Flink does not answer as it should, or not in time.
        """
        begun = time.monotonic()
        for progress in trigger.looks(self._settings.savepoint_timeout_s, self._ended.wait):
            if progress.path is not None:
                return progress.path
            with self._lock:
                self._open[trigger_id] = replace(
                    self._open[trigger_id],
                    acknowledged=progress.acknowledged,
                    subtasks=progress.subtasks,
                    elapsed_ms=(time.monotonic() - begun) * 1000,
                )
        raise errors.ServiceEndingError("the service is about to end; Flink may still make the savepoint")

    def _found(self, recorded: str) -> str:
        """Return the name of the database at a path of Flink.

        Raises:
            SavepointFailedError: it is not below a root, or cannot be seen there.
        """
        path = self._clusters.places.here(recorded)
        name = given_location(path)[0].name
        if not self._clusters.places.is_served(path):
            raise errors.SavepointFailedError(
                f"Flink made the savepoint {name!r:.200}, but in no folder that is served",
                hint="serve its folder with --root; --flink-path-map OLD=NEW if it is called otherwise here",
                detail=f"Flink made the savepoint {path}, but in no folder that is served",
            )
        for _ in range(_LOOKS_FOR_IT):
            with suppress(ReaderError, OSError):
                self._catalog.refresh()
            for database in self._catalog.known():
                if place_of(database.path) == place_of(path):
                    return database.name
            if self._ended.wait(1):
                break
        raise errors.SavepointFailedError(
            f"Flink made the savepoint {name!r:.200}, but it cannot be seen where it should be",
            detail=f"expected a savepoint at {path}, found none",
        )


def _may_trigger(job: Job, live: LiveJob | None, caller: Principal) -> bool:
    """Return whether a grant of the caller is for a database of a job; of a live one, for a database that the cluster knows.

    Others are in a job by their names, which users who write savepoints choose.
    """
    known = [one for one in job.databases if live is None or live.has_made(place_of(one.path))]
    return any(caller.may_trigger(one.name) for one in known)
