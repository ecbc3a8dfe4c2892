"""`savepointdb test`: rules over savepoints, once or over each new checkpoint."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import orjson

from catalog import Catalog, Database
from readers import ReaderError, load_machine
from service.base import settings
from service.base.errors import InvalidRequestError
from service.base.settings import UNLIMITED
from service.doors.cli.output import ProgressLine, WrongUsageError, ended, log_compilation, screen_width
from service.doors.cli.parser import QUERY_SETTINGS, add_names, add_no_cache
from service.doors.cli.sources import cache_of, catalog_of
from service.doors.cli.task import BY_PATH, add_options, request_of
from service.query.encode import printable
from service.query.engines.registry import open_engines
from service.query.running.session import Session
from service.tasks.task import JUDGED, Context
from service.tasks.time.test.rules import SUFFIXES, InvalidRulesError, Severity, standard_text
from service.tasks.time.test.running import KEPT, SavepointResult, Subject
from service.tasks.time.test.testing import (
    Brought,
    RunReport,
    Testing,
    TestRequest,
    junit_text,
    prepared,
    rules_of,
    savepoint_lines,
    subjects_of,
)
from service.tasks.time.test.watching import Notices, Watch, Webhook, WebhookError, webhook_of

_STDOUT = "-"
# Rules are files, and savepoints are paths.
_IN_FILES = BY_PATH | {"rules"}


def main(options: Namespace) -> int:
    """Test, show what was found, and return the exit code of `service.tasks.time.test.running`."""
    if options.print_standard:
        print(standard_text().rstrip())
        return KEPT
    return ended(_tested, options, replace(JUDGED, unexpected=JUDGED.failed))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; those of the request say what they mean."""
    parser.add_argument(
        "paths",
        metavar="RULES PATH",
        nargs="*",
        help="Rule files (.toml, .sql), savepoints and folders with savepoints. Of a folder, the newest savepoint of each job is "
        "tested.",
    )
    add_options(parser, TestRequest, _IN_FILES)
    parser.add_argument("--print-standard", action="store_true", help="Show these rules, and test nothing.")
    parser.add_argument("--junit", metavar="FILE", help="File for a report as JUnit's XML.")
    parser.add_argument("--json", metavar="FILE", help="File for a report as JSON; - for standard output.")
    parser.add_argument("--watch", action="store_true", help="Go on with each new checkpoint, until Ctrl-C.")
    parser.add_argument(
        "--interval", type=float, default=10.0, metavar="SECONDS", help="Time between two looks with --watch."
    )
    parser.add_argument(
        "--webhook",
        metavar="URL",
        help="URL that receives a JSON report for each savepoint that fails or recovers.",
    )
    parser.add_argument(
        "--webhook-header", metavar="FILE", help="File of headers for it, one a line: Authorization: Bearer …"
    )
    add_names(parser)
    settings.add_arguments(parser, QUERY_SETTINGS, UNLIMITED)
    add_no_cache(parser)


def _tested(options: Namespace) -> int:
    found = settings.settings_of(vars(options), os.environ, UNLIMITED)
    names = [name for name in options.paths if Path(name).suffix.casefold() in SUFFIXES]
    if not names and not options.standard:
        raise WrongUsageError("expected a file of rules, .toml or .sql, or --standard")
    brought = Brought(files=names)
    try:
        request = request_of(TestRequest, options, {*_IN_FILES, "previous"})
        # A mistake in the rules is told before a savepoint is looked for.
        rules_of(request, brought)
    except InvalidRulesError:
        raise
    except InvalidRequestError as error:
        raise WrongUsageError(f"--{error.message}") from error
    output = _Output(options)
    paths = [path for path in options.paths if path not in names]
    if not paths:
        raise WrongUsageError("expected a savepoint, or a folder with some, behind the rules")
    catalog = catalog_of(paths, options, cache=cache_of(found, writes=False), may_be_empty=options.watch)
    subjects = [] if options.watch else subjects_of(request, catalog, _previous(options))
    log_compilation()
    load_machine()
    with closing(Session(catalog, open_engines(found), found)) as queries:
        context = Context(catalog=catalog, settings=found, start=queries.start, is_alone=True)
        testing = prepared(request, context, brought)
        if options.watch:
            _watch(options, catalog, testing, output)
        return output.show(testing, subjects).exit_code


def _previous(options: Namespace) -> Database | None:
    """Return the savepoint that --previous names."""
    if options.previous is None:
        return None
    previous = catalog_of([options.previous], options).default
    if previous is None:
        raise WrongUsageError("--previous: expected one savepoint, found several")
    return previous


def _watch(options: Namespace, catalog: Catalog, testing: Testing, output: _Output) -> NoReturn:
    """Test each new savepoint, until Ctrl-C."""
    watch, told = Watch(catalog), ""
    while True:
        try:
            subjects = watch.look()
            failure = ""
        except (ReaderError, OSError) as error:
            # A folder that cannot be listed for a moment is no reason to stop.
            subjects, failure = [], str(error)
        if failure and failure != told:
            _tell(failure)
        told = failure
        if subjects:
            output.show(testing, subjects)
        time.sleep(options.interval)


class _Output:
    """What a run shows, writes and sends.

    Args:
        options: the parsed command line.

    Raises:
        WrongUsageError: two options contradict each other.
        InvalidRequestError: there is no such webhook.
    """

    def __init__(self, options: Namespace) -> None:
        if options.webhook is None and options.webhook_header is not None:
            raise WrongUsageError("--webhook-header: expected --webhook, too")
        if options.watch and options.previous is not None:
            raise WrongUsageError("--previous: expected one savepoint to test, found --watch")
        if not 0 < options.interval < threading.TIMEOUT_MAX:
            raise WrongUsageError(f"--interval: expected seconds above 0, found {options.interval}")
        self._junit = options.junit
        self._json = options.json
        self._fail_on = Severity(options.fail_on)
        self._notices = Notices(self._fail_on)
        self._webhook: Webhook | None = None
        self._has_shown = False
        if options.webhook is not None:
            self._webhook = webhook_of(options.webhook, options.webhook_header)

    def show(self, testing: Testing, subjects: Sequence[Subject]) -> RunReport:
        """Test savepoints, and show the results of each as soon as it is tested."""
        is_text = self._json != _STDOUT
        width = screen_width(None)
        if is_text and self._has_shown:
            # The report of the next look begins a paragraph of its own.
            print()
        self._has_shown = True

        def test(subject: Subject) -> SavepointResult:
            told = f"testing {printable(subject.database.name)}"
            with ProgressLine(told.__str__):
                one = testing.runner.run(subject)
            if is_text:
                print("\n".join([*savepoint_lines(one, self._fail_on, width), ""]), flush=True)
            self._notify(one)
            return one

        report = testing.report(subjects, test)
        if is_text:
            print(report.summary, flush=True)
        self._write(report)
        return report

    def _notify(self, one: SavepointResult) -> None:
        if self._webhook is None:
            return
        body = self._notices.body_of(one)
        if body is None:
            return
        try:
            self._webhook.post(body)
        except WebhookError as error:
            _tell(f"--webhook: the report of {one.name} was not sent: {error}")

    def _write(self, report: RunReport) -> None:
        if self._junit is not None:
            _write(self._junit, junit_text(report), "--junit")
        if self._json is not None:
            text = orjson.dumps(report.to_dict(), option=orjson.OPT_INDENT_2).decode() + "\n"
            if self._json == _STDOUT:
                print(text, end="", flush=True)
            else:
                _write(self._json, text, "--json")


def _write(path: str, text: str, option: str) -> None:
    """Write a report; a reader of the file never finds half of one."""
    # A pipe or a device must not be replaced by a file.
    is_file = os.path.isfile(path) or not os.path.exists(path)
    half = f"{path}.part" if is_file else path
    try:
        Path(half).write_text(text, encoding="utf-8")
        if is_file:
            os.replace(half, path)
    except OSError as error:
        raise WrongUsageError(f"{option}: cannot write {path}: {error.strerror}") from error


def _tell(text: str) -> None:
    print(printable(f"savepointdb: {' '.join(text.split())}"), file=sys.stderr, flush=True)
