"""`/api/jobs`: the databases by the jobs that wrote them, and savepoints of running jobs that Flink takes for a client.

`/api/flink`: the clusters that the service follows.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Response
from pydantic import AliasPath, BaseModel, BeforeValidator, Field
from starlette.status import HTTP_202_ACCEPTED

from catalog import Catalog, Job
from service.base.principal import Principal
from service.doors.http.api.answers import Milliseconds
from service.doors.http.api.state import ServiceState, State, Visible
from service.doors.http.api.tasks import TaskBody
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES, ErrorBody
from service.doors.served import request_of, with_options
from service.query.running.request import sendable
from service.query.running.run import QueryState
from service.tasks.jobs.savepoint import SavepointRequest
from service.tasks.jobs.triggers import SavepointRecord

router = APIRouter(responses=FAILURES)

# Paths may have bytes that are no characters.
Sendable = Annotated[str, BeforeValidator(sendable)]


class CheckpointCounts(BaseModel):
    """How many checkpoints a job has made since it was started."""

    completed: int
    failed: int
    in_progress: int


class LiveEntry(BaseModel):
    """What a cluster of Flink says of a job."""

    state: str = Field(description="Flink's word, such as RUNNING")
    url_label: str = Field(validation_alias="label", description="label of the cluster")
    last_seen_at: datetime = Field(description="when the cluster said so")
    error: str | None = Field(
        default=None, description="why the cluster says no more; the savepoints are served all the same"
    )
    started_at: datetime | None = None
    checkpoints: CheckpointCounts
    failure: str | None = Field(default=None, description="why the last checkpoint that failed did")
    may_savepoint: bool = Field(description="whether this user may have savepoints of the job taken, now")


class JobEntry(BaseModel):
    """The savepoints and checkpoints of a job."""

    name: Sendable = Field(
        description="unique; `GET /api/jobs/{job}` also takes the id, or a title that one job has"
    )
    title: Sendable = Field(description="the name for people: the folder of the checkpoints")
    label: Sendable = Field(description="label of the root that they are under")
    job_id: str | None = Field(
        description="the id that Flink gave to the job, if a path or a cluster says it"
    )
    job_name: str | None = Field(description="the name that the cluster of Flink has for the job")
    state: str | None = Field(description="the state of the job in the cluster of Flink, such as RUNNING")
    history: Sendable = Field(description="the schema with the tables of all its checkpoints")
    databases: list[Sendable] = Field(description="the newest first")
    lineage: list[str] = Field(
        description="digests of the ids of the operators, the newest first; jobs that share one have the same operators. "
        "Known where `_metadata` was read: `GET /api/databases` reads all"
    )
    live: LiveEntry | None = Field(description="what a cluster of Flink says; null if none knows the job")


class JobList(BaseModel):
    """All jobs."""

    jobs: list[JobEntry]


@with_options(SavepointRequest, without=("job",))
class SavepointOrder(TaskBody):
    """A savepoint to take."""


class SavepointStatus(BaseModel):
    """A savepoint that was asked for, and how far it is."""

    id: str
    job: str
    format: Literal["canonical", "native"]
    status: QueryState = Field(validation_alias="state", description="running, finished or failed")
    acknowledged: int = Field(description="subtasks that have done their part")
    subtasks: int = Field(description="0 while Flink does not say")
    database: str | None = Field(default=None, description="name of the savepoint, once it is there")
    error: ErrorBody | None = None
    user: str = Field(validation_alias=AliasPath("owner", "name"))
    created_at: datetime
    elapsed_ms: Milliseconds


class SavepointList(BaseModel):
    """Savepoints of a job that were asked for, the latest first."""

    savepoints: list[SavepointStatus]


class UnservedEntry(BaseModel):
    """A job whose checkpoints the service does not see."""

    job_id: str
    job_name: str = Field(validation_alias="name")
    state: str
    path: str = Field(description="of a checkpoint, after the path map")


class ClusterEntry(BaseModel):
    """A cluster of Flink that the service follows."""

    label: str
    version: str | None = Field(description="of Flink; null before its first answer")
    last_seen_at: datetime | None = Field(description="when it answered last")
    error: str | None = Field(description="why it does not answer; null if it does")
    elsewhere: list[UnservedEntry] = Field(
        validation_alias="jobs",
        description="jobs whose checkpoints are under no folder that is served; only for users who see all databases",
    )


class ClusterList(BaseModel):
    """All clusters."""

    clusters: list[ClusterEntry]


@router.get("/api/jobs", tags=["catalog"], response_model=JobList)
def list_jobs(catalog: Visible, service: State, caller: Caller) -> dict[str, Any]:
    """List the jobs of all databases by their paths; reads no file, and waits for no cluster."""
    return {"jobs": [_entry(job, catalog, service, caller) for job in catalog.jobs()]}


@router.get("/api/jobs/{job}", tags=["catalog"], response_model=JobEntry)
def describe_job(job: str, catalog: Visible, service: State, caller: Caller) -> dict[str, Any]:
    """Return a job."""
    return _entry(catalog.job(job), catalog, service, caller)


@router.get("/api/flink", tags=["live jobs"], response_model=ClusterList)
async def list_clusters(service: State, caller: Caller) -> dict[str, Any]:
    """List the clusters of Flink that the service follows, without their addresses."""
    has_served = service.clusters.places.has_served
    clusters = [
        replace(
            status,
            jobs=tuple(job for job in status.jobs if caller.sees_everything and not has_served(job.paths)),
        )
        for status in service.clusters.statuses
    ]
    return {"clusters": clusters}


@router.post(
    "/api/jobs/{job}/savepoints",
    tags=["live jobs"],
    status_code=HTTP_202_ACCEPTED,
    response_model=SavepointStatus,
)
async def take_savepoint(
    job: str, order: SavepointOrder, response: Response, service: State, catalog: Visible, caller: Caller
) -> SavepointRecord:
    """Let Flink take a savepoint of a running job, which goes on. Needs a grant such as `savepoints:prod/*`."""
    # The catalog may look at its roots, and Flink takes its time.
    found = await to_thread.run_sync(catalog.job, job)
    asked = request_of(SavepointRequest, order, job=job)
    record = await to_thread.run_sync(service.triggers.start, found, asked.format, caller)
    response.headers["Location"] = f"/api/jobs/{found.name}/savepoints/{record.id}"
    return record


@router.get("/api/jobs/{job}/savepoints", tags=["live jobs"], response_model=SavepointList)
def list_taken_savepoints(job: str, service: State, catalog: Visible, caller: Caller) -> dict[str, Any]:
    """List the savepoints of a job that clients have asked for."""
    return {"savepoints": service.triggers.records(catalog.job(job), caller)}


@router.get("/api/jobs/{job}/savepoints/{savepoint_id}", tags=["live jobs"], response_model=SavepointStatus)
def describe_taken_savepoint(
    job: str, savepoint_id: str, service: State, catalog: Visible, caller: Caller
) -> SavepointRecord:
    """Return the progress of a triggered savepoint, and its database once it exists."""
    return service.triggers.find(savepoint_id, catalog.job(job), caller)


def _entry(job: Job, catalog: Catalog, service: ServiceState, caller: Principal) -> dict[str, Any]:
    """Return the facts of a `JobEntry`."""
    facts = catalog.facts_of(job)
    lineages = (database.lineage for database in job.databases)
    return {
        "name": job.name,
        "title": job.title,
        "label": job.label,
        "job_id": job.job_id,
        "job_name": None if facts is None else facts.name,
        "state": None if facts is None else facts.state,
        "history": job.history,
        "databases": [database.name for database in job.databases],
        "lineage": list(dict.fromkeys(one for one in lineages if one is not None)),
        "live": service.triggers.live(job, caller),
    }
