"""What the process of a check gets, as a pickle, and what it sends back, as JSON.

The service reads what comes back without trust: the process read what a client sent.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import orjson

from service.base.errors import QueryError
from service.base.settings import Settings
from service.query.engines.workers.channel import End
from service.query.serving.elsewhere import KnownDatabase
from service.tasks.check.findings import Findings
from service.tasks.check.running import CheckRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedJar:
    """A jar that a client sent.

    Attributes:
        path: where it is.
        name: as the client calls it.
    """

    path: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTask:
    """One check.

    Attributes:
        database: the savepoint.
        against: savepoints of the new job.
        jar: the jar of the new job; None if there is none.
        request: how the savepoint would be restored.
        settings: how files are reached.
        memory_bytes: memory that the process may take.
    """

    database: KnownDatabase
    against: tuple[KnownDatabase, ...]
    jar: UploadedJar | None
    request: CheckRequest
    settings: Settings
    memory_bytes: int

    def content(self) -> bytes:
        """Return the task for its process."""
        return pickle.dumps(self)

    @classmethod
    def of(cls, content: bytes) -> CheckTask:
        """Return the task; only the process of a check calls this, with what its service sent."""
        task: CheckTask = pickle.loads(content)
        return task


def answer_content(answer: Findings | QueryError) -> bytes:
    """Return the answer of a process."""
    if isinstance(answer, QueryError):
        return b"E" + End(is_worn=False, error=answer).content()
    return b"F" + orjson.dumps(answer.to_dict())


def report_of(content: bytes) -> dict[str, Any]:
    """Return the report in an answer.

    Raises:
        QueryError: the check failed.
        ValueError: it is no answer.
    """
    kind, rest = content[:1], bytearray(content[1:])
    if kind == b"E":
        error = End.of(rest).error
        if error is not None:
            raise error
    if kind != b"F":
        raise ValueError("expected the answer of a check")
    report: dict[str, Any] = orjson.loads(rest)
    return report
