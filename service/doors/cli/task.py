"""The commands of use cases: arguments from the fields of a request, the outcome as text or JSON.

`savepointdb NAME PATH …`: PATH is a savepoint, or a folder, whose newest savepoint is meant.
"""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from contextlib import closing
from typing import Any

import orjson

from readers import load_machine
from service.base import settings
from service.base.settings import UNLIMITED, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.options import add_options, request_of
from service.doors.cli.outcome import FAILED, WRONG_USAGE, concluded
from service.doors.cli.output import screen_width, write_lines
from service.doors.cli.parser import QUERY_SETTINGS, SOURCE, add_names, add_no_cache
from service.doors.cli.progress import ProgressLine
from service.doors.cli.sources import cache_of, catalog_of
from service.query.encode import printable, size_text
from service.query.engines.registry import open_engines
from service.query.serving.group import QueryGroup
from service.query.serving.registry import Queries
from service.query.serving.request import QueryRequest
from service.tasks.registry import TASKS
from service.tasks.task import Context, Outcome, Task, scanned
from service.tasks.write.localfiles import LocalTables

_TEXT, _JSON = "text", "json"


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments of a use case."""
    parser.add_argument("path", metavar="PATH", help=SOURCE)
    add_options(parser, TASKS[name].load().request)
    # `table` is an older name of `text`.
    parser.add_argument(
        "--format", default=_TEXT, choices=(_TEXT, _JSON, "table"), help="Format of the output."
    )
    parser.add_argument("--output", metavar="FILE", help="Output file; standard output if not given.")
    add_names(parser)
    settings.add_arguments(parser, QUERY_SETTINGS, UNLIMITED)
    add_no_cache(parser)


def main(options: Namespace) -> int:
    """Run the use case, show its outcome, and return its exit code."""
    task = TASKS[options.command].load()
    return concluded(lambda options: _run(task, options), options, WRONG_USAGE if task.is_judged else FAILED)


def _run(task: Task[Any, Any], options: Namespace) -> int:
    asked = request_of(task.request, options)
    found = settings_of(vars(options), os.environ, UNLIMITED)
    log_compilation()
    load_machine()
    catalog = catalog_of([options.path], options, cache=cache_of(found, writes=False))
    with closing(Queries(catalog, open_engines(found, later=True), found)) as queries:
        group = QueryGroup(queries)
        with ProgressLine(lambda: _progress(options.command, group)) as progress:
            shown = _Shown(options, progress)
            context = Context(
                catalog=catalog,
                settings=found,
                start=group.start,
                warn=_warn,
                note=shown.note,
                scan=scanned,
                asked=QueryRequest(sql="", system_tables=LocalTables()),
            )
            outcome: Outcome = task.run(asked, context)
    shown.show(outcome)
    return outcome.exit_code


class _Shown:
    """Shows an outcome; to a reader of text, its first lines as soon as they are known.

    Args:
        options: the parsed command line.
        progress: the line to hide meanwhile.
    """

    def __init__(self, options: Namespace, progress: ProgressLine) -> None:
        self._path: str | None = options.output
        self._is_json = options.format == _JSON
        self._progress = progress
        self._notes = 0

    def note(self, line: str) -> None:
        """Show a line."""
        if not self._is_json and self._path is None:
            self._progress.hide()
            print(line, flush=True)
            self._progress.show()
            self._notes += 1

    def show(self, outcome: Outcome) -> None:
        """Show what was not shown yet."""
        if self._is_json:
            lines = [orjson.dumps(outcome.to_dict(), option=orjson.OPT_INDENT_2).decode()]
        else:
            lines = [*outcome.lines(screen_width(self._path))][self._notes :]
        write_lines(lines, self._path)
        sys.stdout.flush()


def _warn(text: str) -> None:
    print(f"savepointdb: {printable(text)}", file=sys.stderr)


def _progress(command: str, group: QueryGroup) -> str:
    read, total = group.bytes_read()
    of = f" of {size_text(total)}" if total else ""
    return f"{command}: {size_text(read)}{of} read"
