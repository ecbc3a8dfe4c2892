"""`/api/jobs`: the databases by the jobs that wrote them, and the timeline of a key.

The timeline asks one query a state, with the limits of all queries.
"""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from catalog import Catalog, Job
from service.base.principal import Principal
from service.base.process.waiting import found_in_thread
from service.doors.http.api.state import ServiceState, State, Visible
from service.doors.http.api.tasks import TaskBody, context_of, request_of, with_options
from service.doors.http.api.triggers import LiveEntry, live_entry
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES
from service.query.running.group import QueryGroup
from service.query.running.origin import sendable
from service.query.serving.query import ended_on_disconnect
from service.tasks.history.timeline import HistoryRequest, run

router = APIRouter(prefix="/api/jobs", tags=["catalog"], responses=FAILURES)


class JobEntry(BaseModel):
    """The savepoints and checkpoints of a job."""

    name: str = Field(
        description="unique; `GET /api/jobs/{job}` also takes the id, or a title that one job has"
    )
    title: str = Field(description="the name for people: the folder of the checkpoints")
    label: str = Field(description="label of the root that they are under")
    job_id: str | None = Field(
        description="the id that Flink gave to the job, if a path or a cluster says it"
    )
    job_name: str | None = Field(description="the name that the cluster of Flink has for the job")
    state: str | None = Field(description="the state of the job in the cluster of Flink, such as RUNNING")
    history: str = Field(description="the schema with the tables of all its checkpoints")
    databases: list[str] = Field(description="the newest first")
    lineage: list[str] = Field(
        description="digests of the ids of the operators, the newest first; jobs that share one have the same operators. "
        "Known where `_metadata` was read: `GET /api/databases` reads all"
    )
    live: LiveEntry | None = Field(description="what a cluster of Flink says; null if none knows the job")


class JobList(BaseModel):
    """All jobs."""

    jobs: list[JobEntry]


@router.get("")
def list_jobs(catalog: Visible, service: State, caller: Caller) -> JobList:
    """List the jobs of all databases by their paths; reads no file, and waits for no cluster."""
    return JobList(jobs=[_entry(job, catalog, service, caller) for job in catalog.jobs()])


@router.get("/{job}")
def describe_job(job: str, catalog: Visible, service: State, caller: Caller) -> JobEntry:
    """Return a job."""
    return _entry(catalog.job(job), catalog, service, caller)


@with_options(HistoryRequest, without=("job",))
class TimelineBody(TaskBody):
    """A key as a user writes it."""

    timeout_s: float | None = Field(None, gt=0, description="seconds that each state may take")


class EntryOfKey(BaseModel):
    """An entry of a key."""

    namespace: str | None = Field(description="JSON text")
    map_key: str | None = Field(description="JSON text")
    list_index: int | None
    value: str | None = Field(description="JSON text")


class PointEntry(BaseModel):
    """What a state has of the key in one checkpoint."""

    database: str
    checkpoint_id: int | None
    created_at: datetime | None
    rows: list[EntryOfKey]
    changed: bool = Field(description="whether the rows differ from those of the checkpoint before")
    error: str | None = Field(description="why the checkpoint cannot be read")


class TimelineEntry(BaseModel):
    """What a state has of the key in all checkpoints."""

    operator: str
    state: str
    kind: str
    table_name: str = Field(description="the table in the history of the job")
    is_cut: bool = Field(description="whether the key has more rows than these")
    points: list[PointEntry] = Field(description="the oldest checkpoint first")


class TimelineAnswer(BaseModel):
    """The timelines of a key."""

    job: str
    key: str
    states: list[TimelineEntry] = Field(
        description="of the states that may have the key, whether or not they do"
    )


@router.post("/{job}/timeline")
async def read_timeline(
    job: str, body: TimelineBody, request: Request, service: State, caller: Caller
) -> TimelineAnswer:
    """Return what each state of a job has of a key in all its checkpoints."""
    group = QueryGroup(service.queries.start)
    asked = request_of(HistoryRequest, body, job=job)
    source = request.headers.get("user-agent", "")
    context = context_of(service, caller, source, group, timeout_s=body.timeout_s)
    async with ended_on_disconnect(request):
        timelines = await found_in_thread(lambda: run(asked, context), group.cancel)
    return TimelineAnswer.model_validate(timelines.to_dict())


def _entry(job: Job, catalog: Catalog, service: ServiceState, caller: Principal) -> JobEntry:
    facts = catalog.facts_of(job)
    lineages = (database.lineage for database in job.databases)
    return JobEntry(
        name=sendable(job.name),
        title=sendable(job.title),
        label=sendable(job.label),
        job_id=job.job_id,
        job_name=None if facts is None else facts.name,
        state=None if facts is None else facts.state,
        history=sendable(job.history),
        databases=[sendable(database.name) for database in job.databases],
        lineage=list(dict.fromkeys(one for one in lineages if one is not None)),
        live=live_entry(job, service, caller),
    )
