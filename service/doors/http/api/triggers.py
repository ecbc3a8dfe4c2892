"""`/api/jobs/{job}/savepoints`: savepoints that Flink takes for a client; `/api/flink`: the clusters that the service follows."""

from __future__ import annotations

from datetime import datetime

from anyio import to_thread
from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.status import HTTP_202_ACCEPTED

from catalog import Job
from service.base.principal import Principal
from service.doors.http.api.state import ServiceState, State, Visible
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES, ErrorBody, error_body
from service.query.running.run import QueryState
from service.tasks.jobs.jobs import LiveJob
from service.tasks.jobs.poller import ClusterStatus
from service.tasks.jobs.trigger import SavepointFormat
from service.tasks.jobs.triggers import SavepointRecord

router = APIRouter(tags=["live jobs"], responses=FAILURES)


class CheckpointCounts(BaseModel):
    """How many checkpoints a job has made since it was started."""

    completed: int
    failed: int
    in_progress: int


class LiveEntry(BaseModel):
    """What a cluster of Flink says of a job."""

    state: str = Field(description="Flink's word, such as RUNNING")
    url_label: str = Field(description="label of the cluster")
    last_seen_at: datetime = Field(description="when the cluster said so")
    error: str | None = Field(
        default=None, description="why the cluster says no more; the savepoints are served all the same"
    )
    started_at: datetime | None = None
    checkpoints: CheckpointCounts
    failure: str | None = Field(default=None, description="why the last checkpoint that failed did")
    may_savepoint: bool = Field(description="whether this user may have savepoints of the job taken, now")


class SavepointOrder(BaseModel):
    """A savepoint to take."""

    # A misspelt option must not be ignored.
    model_config = ConfigDict(extra="forbid")

    format: SavepointFormat = Field(
        default=SavepointFormat.CANONICAL,
        description="canonical: for any state backend; native: in the format of the job's backend, which is faster",
    )


class SavepointStatus(BaseModel):
    """A savepoint that was asked for, and how far it is."""

    id: str
    job: str
    format: SavepointFormat
    status: QueryState = Field(description="running, finished or failed")
    acknowledged: int = Field(description="subtasks that have done their part")
    subtasks: int = Field(description="0 while Flink does not say")
    database: str | None = Field(default=None, description="name of the savepoint, once it is there")
    error: ErrorBody | None = None
    user: str
    created_at: datetime
    elapsed_ms: float


class SavepointList(BaseModel):
    """Savepoints of a job that were asked for, the latest first."""

    savepoints: list[SavepointStatus]


class UnservedEntry(BaseModel):
    """A job whose checkpoints the service does not see."""

    job_id: str
    job_name: str
    state: str
    path: str = Field(description="of a checkpoint, after the path map")


class ClusterEntry(BaseModel):
    """A cluster of Flink that the service follows."""

    label: str
    version: str | None = Field(description="of Flink; null before its first answer")
    last_seen_at: datetime | None = Field(description="when it answered last")
    error: str | None = Field(description="why it does not answer; null if it does")
    elsewhere: list[UnservedEntry] = Field(
        description="jobs whose checkpoints are under no folder that is served; only for users who see all databases"
    )


class ClusterList(BaseModel):
    """All clusters."""

    clusters: list[ClusterEntry]


@router.get("/api/flink")
async def list_clusters(service: State, caller: Caller) -> ClusterList:
    """List the clusters of Flink that the service follows, without their addresses."""
    return ClusterList(
        clusters=[
            ClusterEntry(
                label=status.label,
                version=status.version,
                last_seen_at=status.last_seen_at,
                error=status.error,
                elsewhere=_elsewhere(status, service) if caller.sees_everything else [],
            )
            for status in service.clusters.statuses
        ]
    )


@router.post("/api/jobs/{job}/savepoints", status_code=HTTP_202_ACCEPTED)
async def take_savepoint(
    job: str, order: SavepointOrder, response: Response, service: State, catalog: Visible, caller: Caller
) -> SavepointStatus:
    """Let Flink take a savepoint of a running job, which goes on. Needs a grant such as `savepoints:prod/*`."""
    # The catalog may look at its roots, and Flink takes its time.
    found = await to_thread.run_sync(catalog.job, job)
    record = await to_thread.run_sync(service.triggers.start, found, order.format, caller)
    response.headers["Location"] = f"/api/jobs/{found.name}/savepoints/{record.id}"
    return _status(record, caller)


@router.get("/api/jobs/{job}/savepoints")
def list_taken_savepoints(job: str, service: State, catalog: Visible, caller: Caller) -> SavepointList:
    """List the savepoints of a job that clients have asked for."""
    records = service.triggers.records(catalog.job(job))
    return SavepointList(savepoints=[_status(record, caller) for record in records])


@router.get("/api/jobs/{job}/savepoints/{savepoint_id}")
def describe_taken_savepoint(
    job: str, savepoint_id: str, service: State, catalog: Visible, caller: Caller
) -> SavepointStatus:
    """Return how far a savepoint is that a client has asked for, and its database once it is there."""
    return _status(service.triggers.find(savepoint_id, catalog.job(job)), caller)


def _elsewhere(status: ClusterStatus, service: ServiceState) -> list[UnservedEntry]:
    return [
        UnservedEntry(job_id=job.job_id, job_name=job.name, state=job.state, path=max(job.paths))
        for job in status.jobs
        if not service.clusters.places.has_served(job.paths)
    ]


def live_entry(job: Job, service: ServiceState, caller: Principal) -> LiveEntry | None:
    """Return what a cluster says of a job; None if no cluster knows it."""
    live = service.clusters.live(job)
    return None if live is None else _live(live, job, service, caller)


def _live(live: LiveJob, job: Job, service: ServiceState, caller: Principal) -> LiveEntry:
    return LiveEntry(
        state=live.state,
        url_label=live.label,
        last_seen_at=live.last_seen_at,
        error=service.clusters.error_of(live.label) or live.error,
        started_at=live.started_at,
        checkpoints=CheckpointCounts(
            completed=live.completed, failed=live.failed, in_progress=live.in_progress
        ),
        failure=live.failure,
        may_savepoint=service.triggers.may_ask(job, caller),
    )


def _status(record: SavepointRecord, caller: Principal) -> SavepointStatus:
    is_visible = record.database is not None and caller.sees(record.database)
    return SavepointStatus(
        id=record.id,
        job=record.job,
        format=record.form,
        status=record.state,
        acknowledged=record.acknowledged,
        subtasks=record.subtasks,
        database=record.database if is_visible else None,
        error=error_body(record.error) if record.error else None,
        user=record.owner.name,
        created_at=record.created_at,
        elapsed_ms=round(record.elapsed_ms, 3),
    )
