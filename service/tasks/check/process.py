"""One check of a client, in a process of its own: what the process gets, as a pickle, what it does, and what it sends back, as JSON.

A jar and a savepoint may be hostile: what they cost is limited here, by the kernel, and ends with the process. The service reads what
comes back without trust.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import orjson

from doctor import Against, SavepointAgainst, against_of
from service.base.errors import QueryError, query_error_of
from service.base.settings import Settings
from service.query.engines.workers.channel import End
from service.query.engines.workers.worker import limit_memory, yield_to_the_server
from service.query.serving.elsewhere import KnownDatabase
from service.tasks.check.findings import Findings
from service.tasks.check.running import CheckRequest, findings_on, with_script

_SPARE_S = 5


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldFindings:
    """The findings of another process, as it tells them.

    Attributes:
        report: see `Outcome.to_dict`.
        shown: see `Outcome.lines`.
        short: as agents read it.
        exit_code: see `Outcome`.
    """

    report: dict[str, Any]
    shown: list[str]
    short: dict[str, Any]
    exit_code: int

    def to_dict(self) -> dict[str, Any]:
        """See `Outcome`."""
        return self.report

    def brief(self) -> dict[str, Any]:
        """See `Findings`."""
        return self.short

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`."""
        return iter(self.shown)


def answer_content(answer: Findings | QueryError) -> bytes:
    """Return the answer of a process."""
    if isinstance(answer, QueryError):
        return b"E" + End(is_worn=False, error=answer).content()
    told = ToldFindings(
        report=answer.to_dict(),
        shown=list(answer.lines(None)),
        short=answer.brief(),
        exit_code=answer.exit_code,
    )
    return b"F" + orjson.dumps(told)


def told_findings(content: bytes) -> ToldFindings:
    """Return the findings in an answer.

    Raises:
        QueryError: the check failed.
        TypeError, ValueError: it is no answer.
    """
    kind, rest = content[:1], bytearray(content[1:])
    if kind == b"E":
        error = End.of(rest).error
        if error is not None:
            raise error
    if kind != b"F":
        raise ValueError("expected the answer of a check")
    return ToldFindings(**orjson.loads(rest))


def main() -> NoReturn:
    """Run the check that the service sends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield_to_the_server()
    # What a library prints is no answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    task: CheckTask = pickle.load(sys.stdin.buffer)
    seconds = int(task.settings.checks.timeout_s) + _SPARE_S
    # The service ends a check that takes long; one whose service is gone ends by itself.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    limit_memory(task.memory_bytes)
    with os.fdopen(answers, "wb") as out:
        out.write(answer_content(_answer(task)))
    os._exit(0)


def _answer(task: CheckTask) -> Findings | QueryError:
    try:
        return _findings(task)
    except Exception as error:  # the service raises it where the check is waited for
        failure = query_error_of(error)
        failure.__cause__ = failure.__cause__ or (None if failure is error else error)
        return failure


def _findings(task: CheckTask) -> Findings:
    database = task.database.opened()
    known: list[Against] = [SavepointAgainst(one.opened().savepoint) for one in task.against]
    names = [one.name for one in task.against]
    if task.jar is not None:
        known += against_of([task.jar.path])
        names.append(task.jar.name)
    found = with_script(findings_on(database.savepoint, known, task.request, database.uids), database)
    # Clients know databases by their names; paths are of this machine.
    reports = (replace(report, savepoint=database.name, against=tuple(names)) for report in found.reports)
    return replace(found, reports=tuple(reports))
