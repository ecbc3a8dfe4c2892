"""The answers of Flink's REST API that we ask for, as values. Members that we do not need are not looked at.

| request | value |
|---|---|
| `/config` | the version of Flink |
| `/jobs/overview` | `JobSummary` of each job |
| `/jobs/:id/checkpoints` | `JobCheckpoints` |
| `/jobs/:id/plan` | operator ids with names and uids (`readers`) |
| `/jobs/:id/savepoints/:id` | `SavepointAnswer` |

Flink: JobsOverviewHeaders, CheckpointingStatisticsHeaders, SavepointStatusHeaders (1.20 and 2.x alike, as far as they are read).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from service.base.errors import without_folders
from service.tasks.jobs.document import Document, readable

RUNNING = "RUNNING"
ENDED = frozenset({"FINISHED", "CANCELED", "FAILED"})
STATES = ENDED | {
    RUNNING,
    *("INITIALIZING", "CREATED", "FAILING", "CANCELLING", "RESTARTING", "SUSPENDED", "RECONCILING"),
}
COMPLETED, IN_PROGRESS = "COMPLETED", "IN_PROGRESS"
_FAILED = "FAILED"
_DISCARDED = "DISCARDED"
_CHECKPOINT, _SAVEPOINT = "CHECKPOINT", "SAVEPOINT"
_NOT_ADDRESSABLE = "<"
_CAUSE = re.compile(r"^Caused by: (.*)$", re.MULTILINE)
_LONGEST_CAUSE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """A job of a cluster.

    Attributes:
        job_id: 32 hexadecimal digits.
        name: of the job.
        state: Flink's word, such as `RUNNING`.
        started_at: when it was started.
        modified_at: when its state changed last.
    """

    job_id: str
    name: str
    state: str
    started_at: datetime | None
    modified_at: datetime | None

    @property
    def has_ended(self) -> bool:
        """True if the job makes no more checkpoints."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAnswer:
    """A checkpoint or savepoint of a job.

    Attributes:
        number: its number.
        kind: `CHECKPOINT` or `SAVEPOINT`.
        status: `COMPLETED`, `IN_PROGRESS`, `FAILED`, or `DISCARDED` for one that Flink has deleted.
        triggered_at: when it was begun.
        acknowledged, subtasks: how many subtasks have done their part, and how many there are.
        path: where it is, as Flink sees it; None if it is nowhere, or not yet.
        failure: why it failed.
    """

    number: int
    kind: str
    status: str
    triggered_at: datetime | None
    acknowledged: int
    subtasks: int
    path: str | None
    failure: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCheckpoints:
    """The checkpoints of a job.

    Attributes:
        completed, failed, in_progress: how many, since the job was started.
        checkpoints: those that Flink remembers: ten, unless it is told otherwise.
    """

    completed: int = 0
    failed: int = 0
    in_progress: int = 0
    checkpoints: tuple[CheckpointAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointAnswer:
    """The end of a savepoint that was asked for, or its absence.

    Attributes:
        is_completed: whether it has ended, well or not.
        path: where it is, as Flink sees it.
        failure: why there is none.
    """

    is_completed: bool
    path: str | None = None
    failure: str | None = None


def version_in(document: Document) -> str:
    """Return the version of Flink."""
    return document.text("flink-version")


def jobs_in(document: Document) -> list[JobSummary]:
    """Return the jobs of a cluster: first those that have not ended, and of them the newest."""
    jobs = [
        JobSummary(
            job_id=job.identifier("jid"),
            name=job.text("name"),
            state=job.word("state"),
            started_at=job.moment("start-time"),
            modified_at=job.moment("last-modification"),
        )
        for job in document.members("jobs")
    ]
    return sorted(
        jobs, key=lambda job: (job.has_ended, -(job.started_at.timestamp() if job.started_at else 0))
    )


def checkpoints_in(document: Document) -> JobCheckpoints:
    """Return the checkpoints of a job, each once."""
    counts = document.member("counts")
    found = {one.number: one for one in map(_checkpoint, document.members("history"))}
    latest = document.optional_member("latest")
    # The last savepoint may be older than all that the history remembers.
    for name in ("completed", "savepoint"):
        one = None if latest is None else latest.optional_member(name)
        if one is not None:
            found.setdefault(one.number("id"), _checkpoint(one))
    return JobCheckpoints(
        completed=counts.number("completed"),
        failed=counts.number("failed"),
        in_progress=counts.number("in_progress"),
        checkpoints=tuple(found.values()),
    )


def savepoint_in(document: Document) -> SavepointAnswer:
    """Return what became of a savepoint."""
    if document.member("status").word("id") != COMPLETED:
        return SavepointAnswer(is_completed=False)
    operation = document.member("operation")
    cause = operation.optional_member("failure-cause")
    if cause is not None:
        return SavepointAnswer(is_completed=True, failure=_cause(cause))
    return SavepointAnswer(is_completed=True, path=operation.path("location"))


def _checkpoint(document: Document) -> CheckpointAnswer:
    status = document.word("status")
    is_completed = status == COMPLETED
    path = document.path("external_path") if is_completed else None
    return CheckpointAnswer(
        number=document.number("id"),
        kind=_SAVEPOINT if document.flag("is_savepoint") else _CHECKPOINT,
        status=_DISCARDED if is_completed and document.flag("discarded", default=False) else status,
        triggered_at=document.moment("trigger_timestamp"),
        acknowledged=document.number("num_acknowledged_subtasks"),
        subtasks=document.number("num_subtasks"),
        # `<checkpoint-not-externally-addressable>`
        path=None if path is None or path.startswith(_NOT_ADDRESSABLE) else path,
        failure=document.optional_text("failure_message") if status == _FAILED else None,
    )


def _cause(cause: Document) -> str:
    """Return the innermost cause of a failure, which says more than those around it."""
    trace = cause.content("stack-trace")
    lines = _CAUSE.findall(trace) if isinstance(trace, str) else []
    text = (
        lines[-1]
        if lines
        else str(trace).partition("\n")[0]
        if isinstance(trace, str)
        else cause.text("class")
    )
    return readable(without_folders(text), _LONGEST_CAUSE)
