"""`/api/jobs`: the databases by the jobs that wrote them."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from catalog import Catalog, Job
from service.base.principal import Principal
from service.doors.http.api.state import ServiceState, State, Visible
from service.doors.http.api.triggers import LiveEntry, live_entry
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES
from service.query.running.request import sendable

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
