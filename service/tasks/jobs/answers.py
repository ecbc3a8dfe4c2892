"""The answers of Flink's REST API that we ask for, as values.

A `Document` is an answer in JSON, checked member by member: nothing of it is believed before its type and its range are. Every error
names the request, the member, what was expected and what was found. Members that we do not need are not looked at.

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
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from service.base.errors import FlinkAnswerError, without_folders

_LONGEST_TEXT = 1000
_LONGEST_PATH = 4096
_MOST_MEMBERS = 100_000
_LARGEST = (1 << 63) - 1
_LAST_MS = 253_402_300_799_999  # the end of the year 9999
_ID = re.compile(r"[0-9a-f]{32}")
_WORD = re.compile(r"[A-Z][A-Z_]{0,39}")
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


class Document:
    """An object of an answer.

    Args:
        content: parsed JSON.
        where: the request, and the members that lead to the object.

    Raises:
        FlinkAnswerError: it is no object.
    """

    def __init__(self, content: Any, where: str) -> None:
        self._where = where
        if not isinstance(content, dict):
            raise self._unexpected("an object", content)
        self._content = content

    def text(self, name: str) -> str:
        """Return a text, without characters that nobody can read, cut after a thousand."""
        value = self._content.get(name)
        if not isinstance(value, str):
            raise self._unexpected(f"a text {name}", value)
        return readable(value, _LONGEST_TEXT)

    def optional_text(self, name: str) -> str | None:
        """Return a text; None for null, and where there is none."""
        return None if self._content.get(name) is None else self.text(name)

    def identifier(self, name: str) -> str:
        """Return an id of Flink: 32 hexadecimal digits. It becomes a part of further requests."""
        value = self._content.get(name)
        if not isinstance(value, str) or _ID.fullmatch(value) is None:
            raise self._unexpected(f"32 hexadecimal digits as {name}", value)
        return value

    def word(self, name: str) -> str:
        """Return a word of Flink, such as `RUNNING`; other versions may have other words."""
        value = self._content.get(name)
        if not isinstance(value, str) or _WORD.fullmatch(value) is None:
            raise self._unexpected(f"a word in capitals as {name}", value)
        return value

    def path(self, name: str) -> str:
        """Return the path of a file, which is not cut; it is compared with ours, and never opened by itself."""
        value = self._content.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_PATH or not value.isprintable():
            raise self._unexpected(f"a path {name}", value)
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return a flag."""
        value = self._content.get(name, default)
        if not isinstance(value, bool):
            raise self._unexpected(f"true or false as {name}", value)
        return value

    def number(self, name: str) -> int:
        """Return an integer of 64 bits."""
        value = self._content.get(name)
        # Python's `bool` is an `int`.
        if not isinstance(value, int) or isinstance(value, bool) or not -_LARGEST <= value <= _LARGEST:
            raise self._unexpected(f"an integer {name}", value)
        return value

    def moment(self, name: str) -> datetime | None:
        """Return the time of milliseconds since 1970; None for -1, which Flink writes for a time that is not there yet."""
        milliseconds = self.number(name)
        if milliseconds < 0:
            return None
        if milliseconds > _LAST_MS:
            raise self._unexpected(f"milliseconds since 1970 as {name}", milliseconds)
        return datetime.fromtimestamp(milliseconds / 1000, UTC)

    def member(self, name: str) -> Document:
        """Return an object below."""
        return Document(self._content.get(name), f"{self._where}: {name}")

    def optional_member(self, name: str) -> Document | None:
        """Return an object below; None for null, and where there is none."""
        return None if self._content.get(name) is None else self.member(name)

    def members(self, name: str) -> Iterator[Document]:
        """Yield the objects of a list."""
        found = self._content.get(name)
        if not isinstance(found, list):
            raise self._unexpected(f"a list {name}", found)
        if len(found) > _MOST_MEMBERS:
            raise self._unexpected(f"at most {_MOST_MEMBERS} {name}", len(found))
        return (Document(one, f"{self._where}: {name}[{index}]") for index, one in enumerate(found))

    def content(self, name: str) -> Any:
        """Return a member as it is, for a reader that checks it."""
        return self._content.get(name)

    def _unexpected(self, expected: str, found: Any) -> FlinkAnswerError:
        kind = "nothing" if found is None else _KINDS.get(type(found), type(found).__name__)
        shown = f" {found!r:.60}" if isinstance(found, (str, int)) and not isinstance(found, bool) else ""
        return FlinkAnswerError(f"{self._where}: expected {expected}, found {kind}{shown}")


def readable(text: str, longest: int) -> str:
    """Return the beginning of a text of Flink without what no log, terminal or JSON can show."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:longest])


_KINDS: dict[type[Any], str] = {
    str: "the text",
    int: "the number",
    bool: "a flag",
    float: "a number with a fraction",
    list: "a list",
    dict: "an object",
}


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
