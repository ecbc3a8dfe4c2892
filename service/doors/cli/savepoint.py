"""`savepointdb savepoint`: let a running Flink take a savepoint of a job, and wait until it is there."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from argparse import Namespace

from catalog import connect
from readers import ReaderError
from service.base.settings import Settings, settings_of
from service.doors.cli.output import ProgressLine, WrongUsageError, ended
from service.doors.cli.sources import storage_options
from service.query.encode import printable
from service.tasks.jobs.answers import RUNNING, JobSummary, jobs_in
from service.tasks.jobs.client import RestClient
from service.tasks.jobs.endpoint import endpoints_of
from service.tasks.jobs.places import Places
from service.tasks.jobs.trigger import SavepointFormat, Trigger, TriggerProgress

_ID_PREFIX = re.compile(r"[0-9a-f]{6,32}")
_MOST_NAMED = 10


def main(options: Namespace) -> int:
    """Ask for the savepoint, wait for it if told to, print where it is, and return the exit code."""
    return ended(_taken, options)


def _taken(options: Namespace) -> None:
    settings = settings_of(vars(options), os.environ)
    clients = [RestClient(endpoint, settings.flink.timeout_s) for endpoint in endpoints_of(settings)]
    if not clients:
        raise WrongUsageError(
            "expected --flink, the address of Flink's REST API, such as http://jobmanager:8081"
        )
    client, job = _job(clients, options.job)
    trigger = Trigger(client, job.job_id, SavepointFormat(options.format), settings.flink.savepoint_directory)
    places = Places.of(settings)
    trigger.ask()
    answer = {"id": trigger.id, "cluster": client.endpoint.label, "job_id": job.job_id, "job_name": job.name}
    if not options.wait:
        _show(answer, trigger.id, is_json=options.json)
        print("savepointdb: Flink takes the savepoint; --wait would wait for it", file=sys.stderr)
        return
    recorded = _awaited(trigger, job, settings.flink.savepoint_timeout_s)
    path = places.here(recorded)
    _show(answer | {"path": path, "flink_path": recorded}, path, is_json=options.json)
    print(f"savepointdb: {_opened(path, settings)}", file=sys.stderr)


def _job(clients: list[RestClient], wanted: str) -> tuple[RestClient, JobSummary]:
    """Return the running job of an id, the beginning of an id, or a name.

    Raises:
        WrongUsageError: no job, or several, are called so.
        FlinkError: a cluster does not answer.
    """
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
        raise WrongUsageError(f"expected one job, found several called {wanted}: {known}; give an id")
    other = next((job for _, job in jobs if wanted.casefold() == job.job_id or wanted == job.name), None)
    if other is not None:
        raise WrongUsageError(f"expected a job that runs, found {wanted} {other.state}")
    raise WrongUsageError(
        f"expected the id or the name of a running job, found {wanted}; there are {known or 'none'}"
    )


def _awaited(trigger: Trigger, job: JobSummary, timeout_s: float) -> str:
    """Return the path of the savepoint, as Flink sees it, when it is there.

    Raises:
        FlinkError: Flink made none, does not answer, or takes too long.
    """
    progress = TriggerProgress()
    with ProgressLine(lambda: f"savepoint of {printable(job.name)}{_counted(progress)}"):
        for progress in trigger.looks(timeout_s, _paused):
            if progress.path is not None:
                return progress.path
    raise AssertionError("expected the last look to have a path")


def _paused(seconds: float) -> bool:
    time.sleep(seconds)
    return True


def _counted(progress: TriggerProgress) -> str:
    return f": {progress.acknowledged} of {progress.subtasks} subtasks" if progress.subtasks else ""


def _show(answer: dict[str, str], line: str, *, is_json: bool) -> None:
    print(json.dumps(answer, indent=2) if is_json else printable(line), flush=True)


def _opened(path: str, settings: Settings) -> str:
    """Open the savepoint, and say what it holds, or why it cannot be opened from here."""
    try:
        database = connect(path, options=storage_options(settings)).newest
        if database is None:
            return "no savepoint can be seen there from here; --flink-path-map OLD=NEW says where it is"
        operators = database.savepoint.operators
    except ReaderError as error:
        return f"it cannot be opened from here: {error}; --flink-path-map OLD=NEW says where it is"
    return f"checkpoint {database.checkpoint_id}, {len(operators)} operators"
