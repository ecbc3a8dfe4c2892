"""`savepointdb convert`: write states anew that a new Flink, or a new job, would not restore with equal values."""

from __future__ import annotations

import json
import os
from argparse import Namespace

from doctor import DoctorError, against_of, flink_version
from service.base.errors import InvalidRequestError
from service.base.settings import path_map_of, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.outcome import FAILED, OK, WrongUsageError, ended
from service.doors.cli.progress import ProgressLine
from service.doors.cli.sources import catalog_of, storage_options
from service.query.encode import printable
from service.tasks.check.written import check_lines
from service.tasks.convert.plan import Plan
from service.tasks.convert.report import lines_of, report_of
from service.tasks.convert.running import convert
from writers import FilesMode


def main(options: Namespace) -> int:
    """Convert, or show what would be converted; return the exit code: 1 if states are left that need it."""
    left: list[str] = []

    def run(options: Namespace) -> None:
        left.extend(one.state_name for one in _convert(options).left)

    code = ended(run, options)
    return FAILED if code == OK and left else code


def _convert(options: Namespace) -> Plan:
    if not options.dry_run and not options.to:
        raise WrongUsageError("expected --to DIR, the directory of the new savepoint, or --dry-run")
    try:
        flink = flink_version(options.flink)
    except DoctorError as error:
        raise WrongUsageError(f"--flink: {error}") from error
    log_compilation()
    settings = settings_of(vars(options), os.environ)
    database = catalog_of([options.savepoint], options).default
    if database is None:
        raise InvalidRequestError(
            "expected one savepoint to convert, found several", hint="name its own directory"
        )
    against = against_of(
        options.against or (),
        path_map=path_map_of(vars(options), settings),
        options=storage_options(settings),
    )
    state = ""

    def note(name: str) -> None:
        nonlocal state
        state = name

    with ProgressLine(lambda: f"converting {printable(state)}"):
        target = None if options.dry_run else options.to
        done = convert(database.savepoint, against, flink, target, FilesMode(options.files), note)
    if options.json:
        report = report_of(done)
        print(json.dumps({"target": done.target, "dry_run": options.dry_run, **report}, indent=2))
        return done.plan
    for line in lines_of(done.plan, done.summary):
        print(printable(line))
    if done.summary is not None:
        print("nothing was written: --dry-run" if done.target is None else f"written: {done.target}")
        for line in check_lines(done.check, done.target):
            print(printable(line))
    return done.plan
