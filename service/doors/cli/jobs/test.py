"""`savepointdb test`: rules over savepoints, once or over each new checkpoint."""

from __future__ import annotations

import os
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NoReturn

import orjson

from catalog import Catalog
from readers import ReaderError, load_machine
from service.base.settings import UNLIMITED, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.outcome import WrongUsageError, answered
from service.doors.cli.output import screen_width
from service.doors.cli.progress import ProgressLine
from service.doors.cli.sources import cache_of, catalog_of
from service.query.encode import printable
from service.query.engines.registry import open_engines
from service.query.serving.registry import Queries
from service.tasks.test.files import SUFFIXES, given_params, read_rules, with_params
from service.tasks.test.markup import junit_text
from service.tasks.test.results import KEPT, RunReport, SavepointResult
from service.tasks.test.rules import Rule, Severity
from service.tasks.test.running import Runner
from service.tasks.test.selection import Subject, all_of, newest_ones
from service.tasks.test.standard import standard_rules, standard_text
from service.tasks.test.text import savepoint_lines, summary_line
from service.tasks.test.watching import Watch
from service.tasks.test.webhook import Notices, Webhook, WebhookError, webhook_of

_STDOUT = "-"


def main(options: Namespace) -> int:
    """Test, show what was found, and return the exit code of `service.tasks.test.results`."""
    if options.print_standard:
        print(standard_text().rstrip())
        return KEPT
    return answered(_tested, options)


def _tested(options: Namespace) -> int:
    settings = settings_of(vars(options), os.environ, UNLIMITED)
    names = [name for name in options.paths if Path(name).suffix.casefold() in SUFFIXES]
    rules = _rules(options, names)
    output = _Output(options)
    paths = [path for path in options.paths if path not in names]
    if not paths:
        raise WrongUsageError("expected a savepoint, or a folder with some, behind the rules")
    catalog = catalog_of(paths, options, cache=cache_of(settings, writes=False), may_be_empty=options.watch)
    subjects = _subjects(options, catalog)
    log_compilation()
    load_machine()
    with closing(Queries(catalog, open_engines(settings), settings)) as queries:
        runner = Runner(start=queries.start, rules=rules, engine=options.engine, timeout_s=options.timeout_s)
        if options.watch:
            _watch(options, catalog, runner, output)
        return output.show(runner, subjects).exit_code


def _watch(options: Namespace, catalog: Catalog, runner: Runner, output: _Output) -> NoReturn:
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
            output.show(runner, subjects)
        time.sleep(options.interval)


def _rules(options: Namespace, names: Sequence[str]) -> list[Rule]:
    """Return the rules to test.

    Raises:
        WrongUsageError: there are none.
        InvalidRulesError: a file is not as documented.
    """
    rules = read_rules(names, standard_rules() if options.standard else ())
    if not rules:
        raise WrongUsageError("expected a file of rules, .toml or .sql, or --standard")
    rules = with_params(rules, given_params(options.param or ()))
    for pattern in options.rule or ():
        if not any(fnmatchcase(rule.name, pattern) for rule in rules):
            known = ", ".join(rule.name for rule in rules)
            raise WrongUsageError(f"--rule: expected a name of {known}, found {pattern!r}")
    chosen = options.rule or ["*"]
    return [rule for rule in rules if any(fnmatchcase(rule.name, pattern) for pattern in chosen)]


def _subjects(options: Namespace, catalog: Catalog) -> list[Subject]:
    """Return the savepoints to test; with --watch those that are there are looked for later."""
    if options.previous is None:
        if options.watch:
            return []
        return all_of(catalog) if options.all else newest_ones(catalog)
    if options.watch or options.all or len(catalog.databases) != 1:
        raise WrongUsageError(
            f"--previous: expected one savepoint to test, found {len(catalog.databases)}, --all or --watch"
        )
    previous = catalog_of([options.previous], options).default
    if previous is None:
        raise WrongUsageError("--previous: expected one savepoint, found several")
    return newest_ones(catalog, previous)


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

    def show(self, runner: Runner, subjects: Sequence[Subject]) -> RunReport:
        """Test savepoints, and show the results of each as soon as it is tested."""
        found: list[SavepointResult] = []
        is_text = self._json != _STDOUT
        width = screen_width(None)
        if is_text and self._has_shown:
            # The report of the next look begins a paragraph of its own.
            print()
        self._has_shown = True
        for subject in subjects:
            told = f"testing {printable(subject.database.name)}"
            with ProgressLine(told.__str__):
                one = runner.run(subject)
            found.append(one)
            if is_text:
                print("\n".join([*savepoint_lines(one, self._fail_on, width), ""]), flush=True)
            self._notify(one)
        report = RunReport(savepoints=tuple(found), fail_on=self._fail_on)
        if is_text:
            print(summary_line(report), flush=True)
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
