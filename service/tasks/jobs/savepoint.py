"""One savepoint of a running job: asked for, watched, and found.

| step | request |
|---|---|
| ask | POST `/jobs/:id/savepoints` `{"formatType", "triggerId", "cancel-job": false, "target-directory"}` |
| watch | GET `/jobs/:id/savepoints/:triggerId`; GET `/jobs/:id/checkpoints` says how many subtasks have done their part |
| find | `location` of the last answer |

We choose the `triggerId` (since Flink 1.15), so that an answer that is lost on its way is found by it, and nothing is asked for
twice. The job goes on.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from catalog import connect
from readers import ReaderError
from service.base.errors import FlinkError, FlinkUnavailableError, InvalidRequestError, SavepointFailedError
from service.query.encode import printable
from service.tasks.jobs.answers import IN_PROGRESS, RUNNING, JobSummary, checkpoints_in, jobs_in, savepoint_in
from service.tasks.jobs.client import RestClient, endpoints_of
from service.tasks.jobs.jobs import Places
from service.tasks.task import Context, Exits, Task, TaskRequest, option

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_ID_PREFIX = re.compile(r"[0-9a-f]{6,32}")
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointRequest(TaskRequest):
    """A savepoint to take."""

    job: str = option("running job: its id, a prefix of the id, or its name", argument=True)
    format: str = option(
        "Format of the savepoint: canonical for any state backend, native for the job's backend. native is faster.",
        default="canonical",
        choices=("canonical", "native"),
    )
    wait: bool = option(
        "Wait until the savepoint is there, and print where it is.", default=False, only_cli=True
    )


@dataclass(frozen=True, kw_only=True)
class SavepointOutcome:
    """A savepoint that Flink takes, or has taken.

    Attributes:
        id: of the request.
        cluster: label of the cluster.
        job_id, job_name: of the job.
        path, flink_path: where the savepoint is, as we and as Flink see it; None if nobody has waited.
    """

    id: str
    cluster: str
    job_id: str
    job_name: str
    path: str | None = None
    flink_path: str | None = None
    exit_code = 0

    def to_dict(self) -> dict[str, Any]:
        """See `Outcome`."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`."""
        yield printable(self.path or self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerProgress:
    """How far a savepoint is.

    Attributes:
        acknowledged, subtasks: how many subtasks have done their part, and how many there are; 0 while Flink does not say.
        path: where it is, as Flink sees it.
        failure: why there is none.
    """

    acknowledged: int = 0
    subtasks: int = 0
    path: str | None = None
    failure: str | None = None


class Trigger:
    """Asks for one savepoint, once.

    Args:
        client: asks the cluster.
        job_id: of a job that runs.
        form: canonical or native.
        directory: below which Flink writes it, as Flink sees it; empty for Flink's own.

    Attributes:
        id: of the request: Flink and we call it so.
    """

    def __init__(self, client: RestClient, job_id: str, form: str, directory: str = "") -> None:
        self.id = uuid.uuid4().hex
        self._client = client
        self._job_id = job_id
        self._form = form
        self._directory = directory

    def ask(self) -> None:
        """Ask for the savepoint.

        Raises:
            FlinkError: Flink does not answer, or refuses.
        """
        body: dict[str, Any] = {
            "formatType": self._form.upper(),
            "triggerId": self.id,
            "cancel-job": False,
        }
        if self._directory:
            body["target-directory"] = self._directory
        try:
            self._client.post(f"/jobs/{self._job_id}/savepoints", body)
        except FlinkUnavailableError as error:
            # Perhaps only its answer was lost.
            try:
                self.look()
            except FlinkError:
                raise error from None

    def look(self) -> TriggerProgress:
        """Return how far the savepoint is.

        Raises:
            FlinkError: Flink does not answer, or does not know of it.
        """
        answer = savepoint_in(self._client.get(f"/jobs/{self._job_id}/savepoints/{self.id}"))
        if answer.is_completed:
            return TriggerProgress(path=answer.path, failure=answer.failure)
        found = checkpoints_in(self._client.get(f"/jobs/{self._job_id}/checkpoints")).checkpoints
        # Flink takes one savepoint of a job at a time, as far as we ask for them.
        open_ = [one for one in found if one.kind == "SAVEPOINT" and one.status == IN_PROGRESS]
        if not open_:
            return TriggerProgress()
        newest = max(open_, key=lambda one: one.number)
        return TriggerProgress(acknowledged=newest.acknowledged, subtasks=newest.subtasks)

    def looks(self, timeout_s: float, pauses: Callable[[float], bool | None]) -> Iterator[TriggerProgress]:
        """Yield how far the savepoint is, again and again; the last one has its path.

        Args:
            timeout_s: seconds after which nobody waits any more.
            pauses: waits for some seconds; True ends the looks, without a path.

        Raises:
            SavepointFailedError: Flink made none.
            FlinkError: Flink does not answer as it should, or not in time.
        """
        deadline, pause_s = time.monotonic() + timeout_s, _FIRST_PAUSE_S
        while not pauses(pause_s):
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)
            try:
                progress = self.look()
            except FlinkUnavailableError:
                # A cluster may be away for a moment; it goes on meanwhile.
                if time.monotonic() >= deadline:
                    raise
                continue
            if progress.failure is not None:
                raise SavepointFailedError(f"Flink made no savepoint: {progress.failure}")
            yield progress
            if progress.path is not None:
                return
            if time.monotonic() >= deadline:
                raise FlinkError(f"expected a savepoint within {timeout_s:g} s; Flink may still make it")


def run(request: SavepointRequest, context: Context) -> SavepointOutcome:
    """Let Flink take a savepoint, and wait for it if told to.

    Raises:
        InvalidRequestError: no cluster is named, or not one running job is called so.
        FlinkError: Flink does not answer, refuses, or makes no savepoint.
    """
    flink = context.settings.flink
    clients = [RestClient(endpoint, flink.timeout_s) for endpoint in endpoints_of(context.settings)]
    if not clients:
        raise InvalidRequestError(
            "expected --flink, the address of Flink's REST API, such as http://jobmanager:8081"
        )
    client, job = _job(clients, request.job)
    trigger = Trigger(client, job.job_id, request.format, flink.savepoint_directory)
    places = Places.of(context.settings)
    trigger.ask()
    progress = TriggerProgress()
    context.progress(lambda: f"savepoint of {job.name}" + _counted(progress))
    for looked in trigger.looks(flink.savepoint_timeout_s, time.sleep) if request.wait else ():
        progress = looked
    path = None if progress.path is None else places.here(progress.path)
    context.warn(
        "Flink takes the savepoint; --wait would wait for it" if path is None else _opened(path, context)
    )
    return SavepointOutcome(
        id=trigger.id,
        cluster=client.endpoint.label,
        job_id=job.job_id,
        job_name=job.name,
        path=path,
        flink_path=progress.path,
    )


def _job(clients: list[RestClient], wanted: str) -> tuple[RestClient, JobSummary]:
    """Return the running job of an id, the beginning of an id, or a name."""
    jobs = [(client, job) for client in clients for job in jobs_in(client.get("/jobs/overview"))]
    running = [(client, job) for client, job in jobs if job.state == RUNNING]
    found = [one for one in running if one[1].job_id == wanted.casefold()]
    found = found or [one for one in running if one[1].name == wanted]
    if not found and _ID_PREFIX.fullmatch(wanted.casefold()):
        found = [one for one in running if one[1].job_id.startswith(wanted.casefold())]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{job.job_id} ({printable(job.name)})" for _, job in (found or running)[:_MOST_NAMED])
    if found:
        raise InvalidRequestError(f"expected one job, found several called {wanted}: {known}; give an id")
    other = next((job for _, job in jobs if wanted.casefold() == job.job_id or wanted == job.name), None)
    if other is not None:
        raise InvalidRequestError(f"expected a job that runs, found {wanted} {other.state}")
    raise InvalidRequestError(
        f"expected the id or the name of a running job, found {wanted}; there are {known or 'none'}"
    )


def _counted(progress: TriggerProgress) -> str:
    return f": {progress.acknowledged} of {progress.subtasks} subtasks" if progress.subtasks else ""


def _opened(path: str, context: Context) -> str:
    """Open the savepoint, and say what it holds, or why it cannot be opened from here."""
    why = "no savepoint can be seen there from here"
    try:
        if database := connect(path, options=context.storage).newest:
            return f"checkpoint {database.checkpoint_id}, {len(database.savepoint.operators)} operators"
    except ReaderError as error:
        why = f"it cannot be opened from here: {error}"
    return f"{why}; --flink-path-map OLD=NEW says where it is"


TASK = Task(
    request=SavepointRequest, run=run, exits=Exits(invalid=2), has_source=False, makes=True, asks_flink=True
)
