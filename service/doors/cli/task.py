"""The commands of use cases: arguments from the fields of a request, the outcome as text, JSON, or rows in any of their formats.

`savepointdb NAME PATH …`: PATH is a savepoint, or a folder, whose newest savepoint is meant.
"""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from contextlib import ExitStack, closing
from importlib import import_module
from typing import TYPE_CHECKING, Any

import orjson

from readers import load_machine
from service.base import settings
from service.base.settings import UNLIMITED, Settings, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.options import add_options, request_of
from service.doors.cli.outcome import FAILED, WRONG_USAGE, concluded
from service.doors.cli.output import output_format, screen_width, write_lines, write_rows
from service.doors.cli.parser import QUERY_SETTINGS, SOURCE, add_names, add_no_cache, add_output
from service.doors.cli.progress import ProgressLine
from service.doors.cli.sources import cache_of, catalog_of
from service.query.encode import printable, size_text
from service.query.engines.registry import open_engines
from service.tasks.registry import TASKS
from service.tasks.request import TaskRequest
from service.tasks.task import Context, Outcome, Task

if TYPE_CHECKING:
    from catalog import Catalog
    from service.query.running.group import QueryGroup
    from service.query.running.request import QueryRequest
    from service.query.running.run import Run
    from service.query.running.session import Session

_TEXT, _JSON = "text", "json"


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments of a use case."""
    parser.add_argument("path", metavar="PATH", help=SOURCE)
    task = TASKS[name].load()
    add_options(parser, task.request)
    if task.columns:
        add_output(parser)
    else:
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
    if task.columns:
        output_format(options.format, options.output)  # before anything is read
    found = settings_of(vars(options), os.environ, UNLIMITED)
    log_compilation()
    catalog = catalog_of([options.path], options, cache=cache_of(found, writes=False))
    with closing(_Statements(catalog, found)) as statements:
        return _answer(task, asked, options, statements, found)


def answer(
    task: Task[Any, Any], asked: TaskRequest, options: Namespace, queries: Session, settings: Settings
) -> int:
    """Run a use case over open savepoints, show its outcome, and return its exit code.

    Args:
        task: the use case.
        asked: its request.
        options: the command, its format and its output.
        queries: over the savepoints.
        settings: the limits.
    """
    return _answer(task, asked, options, _Statements(queries.catalog, settings, queries), settings)


def _answer(
    task: Task[Any, Any], asked: TaskRequest, options: Namespace, statements: _Statements, settings: Settings
) -> int:
    format_name = output_format(options.format, options.output) if task.columns else options.format
    with ProgressLine(lambda: statements.progress(options.command)) as progress:
        shown = _Shown(task, format_name, options.output, progress)
        context = Context(
            catalog=statements.catalog,
            settings=settings,
            start=statements.start,
            request=_asked,
            is_alone=True,
            warn=_warn,
            note=shown.note,
        )
        outcome: Outcome = task.run(asked, context)
    shown.show(outcome)
    return outcome.exit_code


def _asked() -> QueryRequest:
    """Return what all queries of a command have: they may read files of this machine."""
    request = import_module("service.query.running.request")
    tables = import_module("service.tasks.write.localfiles").LocalTables()
    asked: QueryRequest = request.QueryRequest(sql="", system_tables=tables)
    return asked


class _Statements:
    """The statements of a command. What runs them is loaded when the first one starts: a command that scans needs none of it.

    Args:
        catalog: the databases.
        settings: the limits.
        queries: what runs them, if it is open already.
    """

    def __init__(self, catalog: Catalog, settings: Settings, queries: Session | None = None) -> None:
        self.catalog = catalog
        self._queries = queries
        self._settings = settings
        self._group: QueryGroup[Run] | None = None
        self._opened = ExitStack()

    def start(self, request: QueryRequest) -> Run:
        """Start a statement.

        Raises:
            QueryError: it means nothing.
        """
        if self._group is None:
            from service.query.running.group import QueryGroup
            from service.query.running.session import Session

            queries = self._queries
            if queries is None:
                load_machine()
                opened = Session(self.catalog, open_engines(self._settings), self._settings)
                queries = self._opened.enter_context(closing(opened))
            self._group = QueryGroup(queries.start)
        return self._group.start(request)

    def progress(self, command: str) -> str:
        """Return how many bytes were read."""
        if self._group is None:
            return command
        read, total = self._group.bytes_read()
        of = f" of {size_text(total)}" if total else ""
        return f"{command}: {size_text(read)}{of} read"

    def close(self) -> None:
        """End what runs the statements."""
        self._opened.close()


class _Shown:
    """Shows an outcome; to a reader of text, its first lines as soon as they are known.

    Args:
        task: the use case.
        format_name: of the output.
        path: the file to write; standard output if None.
        progress: the line to hide meanwhile.
    """

    def __init__(
        self, task: Task[Any, Any], format_name: str, path: str | None, progress: ProgressLine
    ) -> None:
        self._task = task
        self._format = format_name
        self._path = path
        self._progress = progress
        self._notes = 0

    def note(self, line: str) -> None:
        """Show a line."""
        if not self._task.columns and self._format != _JSON and self._path is None:
            self._progress.hide()
            print(line, flush=True)
            self._progress.show()
            self._notes += 1

    def show(self, outcome: Outcome) -> None:
        """Show what was not shown yet."""
        if self._task.columns:
            self._show_rows(outcome)
            return
        if self._format == _JSON:
            told = outcome.to_dict()
            shown = told if self._task.listed is None else told[self._task.listed]
            lines = [orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode()]
        else:
            lines = [*outcome.lines(screen_width(self._path))][self._notes :]
        write_lines(lines, self._path)
        sys.stdout.flush()

    def _show_rows(self, outcome: Any) -> None:
        """Write the rows; without any no file is made, and a sentence says so."""
        rows = outcome.rows
        if rows.num_rows or not outcome.exit_code:
            write_rows(
                self._task.columns, rows.schema, rows.to_batches(), format_name=self._format, path=self._path
            )
        else:
            _warn(next(iter(outcome.lines(None))))


def _warn(text: str) -> None:
    print(f"savepointdb: {printable(text)}", file=sys.stderr)
