"""The process of a check: reads its task from standard input, writes its answer to standard output, and ends.

A jar and a savepoint may be hostile: what they cost is limited here, by the kernel, and ends with the process.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from dataclasses import replace
from typing import NoReturn

from doctor import Against, SavepointAgainst, against_of
from service.base.errors import QueryError, query_error_of
from service.query.engines.workers.worker import limit_memory, yield_to_the_server
from service.tasks.check.findings import Findings
from service.tasks.check.running import findings_on
from service.tasks.check.task import CheckTask, answer_content

_SPARE_S = 5


def main() -> NoReturn:
    """Run the check that the service sends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield_to_the_server()
    # What a library prints is no answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    task = CheckTask.of(sys.stdin.buffer.read())
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
    found = findings_on(database.savepoint, known, task.request, database.uids)
    # Clients know databases by their names; paths are of this machine.
    reports = (replace(report, savepoint=database.name, against=tuple(names)) for report in found.reports)
    return replace(found, reports=tuple(reports))
