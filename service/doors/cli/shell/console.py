"""Statements and commands over savepoints that are open together, one after the other; and what the shell says of the savepoints first.

The first one that fails ends its text, because what follows it may rest on it. So do those of a pipe or a file, whose answers are those
of `savepointdb query`.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path

from catalog import Catalog, CatalogError, Database
from readers import ReaderError
from service.base.errors import Position, QueryError, query_error_of
from service.base.settings import UNLIMITED, settings_of
from service.doors.cli.output import (
    INTERRUPTED,
    OK,
    ROWS_ON_SCREEN,
    WrongUsageError,
    ended,
    output_format,
    unexpected,
)
from service.doors.cli.parser import dialect_of
from service.doors.cli.query import queries_of, saved_called, show_answer
from service.doors.cli.shell.dotcommands import run_command
from service.doors.cli.shell.statements import command_of, lines_of, statements_of
from service.doors.cli.shell.taskcommands import ReportedError, View
from service.doors.cli.sources import cache_of, catalog_of
from service.query.encode import counted, dated, printable
from service.query.running.request import QueryRequest
from service.query.running.session import Session
from service.query.sql.schemas import schema_called
from service.query.sql.text import DIALECT
from service.tasks.write.localfiles import LocalTables

# A text without an end is no statement: the planner refuses it long before.
_MOST_CHARACTERS = 1 << 24
_DEEPEST_FILE = 16
_USE = re.compile(r"""\s*USE\s+(?:"((?:[^"]|"")+)"|`([^`]+)`|([\w.@+-]+))\s*""", re.IGNORECASE)


class _FailedFileError(Exception):
    """A statement of a file failed.

    Args:
        path: the file.
        code: the exit code.
    """

    def __init__(self, path: str, code: int) -> None:
        super().__init__(f"{printable(path)} ends with this error; what follows in it was not run")
        self.code = code


class Console:
    """Savepoints that the shell has opened, and how it shows answers.

    Args:
        options: the parsed command line.
        is_terminal: True if a person types the statements.

    Attributes:
        catalog: the databases.
        view: how answers are shown.
        options: the parsed command line.
        settings: the limits.
        is_over: True once no more statements are wanted.

    Raises:
        ReaderError: a source does not exist, or none of them holds a savepoint.
        CatalogError: there is no such database.
        InvalidSettingError: a setting has a wrong value.
        WrongUsageError: the sources have one name, or the output cannot be written.
    """

    catalog: Catalog

    def __init__(self, options: Namespace, *, is_terminal: bool) -> None:
        if not is_terminal:
            output_format(options.format, options.output)
        # What the catalog logs for a service, the answers say here.
        logging.getLogger("savepointdb").addHandler(logging.NullHandler())
        self.options = options
        self._is_terminal = is_terminal
        self.settings = settings_of(vars(options), os.environ, UNLIMITED)
        self._open: Session | None = None
        self._depth = 0
        self.is_over = False
        self.catalog = catalog_of(
            options.paths,
            options,
            # Whoever stays sees new checkpoints come.
            rescan_after_s=self.settings.storage.rescan_after_s if is_terminal else None,
            cache=cache_of(self.settings, writes=is_terminal),
        )
        self.view = View(
            mode=options.format,
            dialect=dialect_of(options, self.settings.queries.compat),
            engine=options.engine,
            allows_partial=options.allow_partial,
            max_rows=options.max_rows,
            timeout_s=options.timeout_s,
            # A user who gives the number wants to see so many.
            rows_on_screen=ROWS_ON_SCREEN if options.max_rows is None else None,
            database=self._first_database(options.database),
        )
        self.view.write_to(options.output)

    def run(self, lines: Iterable[str]) -> int:
        """Run the statements and commands of some lines; return the exit code of the first one that fails.

        Args:
            lines: each with its end. A command stands alone on its line; a statement ends with a semicolon, or with the lines.
        """
        waiting, first = "", 1
        for line in lines:
            if command_of(line) is not None and not statements_of(waiting).is_open:
                waiting, first = "", first + waiting.count("\n") + 1
                code = self._attempted(partial(run_command, self, line))
            else:
                waiting += line
                if ";" not in line and len(waiting) < _MOST_CHARACTERS:
                    continue
                code, waiting, first = self._run_ended(waiting, first)
            if code or self.is_over:
                return code
        if not statements_of(waiting).is_open:
            return OK
        return self._attempted(partial(self._run_statement, waiting, first))

    def run_file(self, path: Path) -> None:
        """Run the statements and commands of a file; the first one that fails ends it.

        Raises:
            WrongUsageError: the file cannot be read, or files read each other.
        """
        if self._depth >= _DEEPEST_FILE:
            raise WrongUsageError(
                f"expected at most {_DEEPEST_FILE} files that read each other, found more: {path}"
            )
        self._depth += 1
        try:
            with path.open(encoding="utf-8") as file:
                code = self.run(lines_of(file, str(path)))
        except OSError as error:
            raise WrongUsageError(f"cannot read {printable(str(path))}: {error.strerror}") from error
        finally:
            self._depth -= 1
        if code:
            raise _FailedFileError(str(path), code)

    def ask(self, sql: str) -> None:
        """Run a statement in DuckDB's dialect and show its answer.

        Raises:
            QueryError: it fails.
            WrongUsageError: the answer cannot be written.
        """
        self._show(replace(self._asked(sql), dialect=DIALECT))

    @property
    def queries(self) -> Session:
        """Runs statements."""
        if self._open is None:
            has_deadline = self.view.timeout_s is not None
            self._open = queries_of(self.catalog, self.settings, has_deadline=has_deadline)
        return self._open

    def answer(self, action: Callable[[], None]) -> None:
        """Do something whose standard output is an answer: it goes where the answers of statements go.

        Raises:
            WrongUsageError: the answer cannot be written.
        """
        view = self.view
        view.check()
        began = time.monotonic()
        output = view.output
        if output is None:
            action()
        else:
            try:
                with (
                    open(output, "a" if view.appends else "w", encoding="utf-8") as file,
                    redirect_stdout(file),
                ):
                    action()
            except OSError as error:
                raise WrongUsageError(f"cannot write {printable(output)}: {error.strerror}") from error
        view.answered()
        if output is not None:
            self.tell(f"written to {printable(output)}{view.contradiction}")
        self._show_time(began)

    def run_saved(self, name: str, given: Mapping[str, str]) -> None:
        """Run a saved query, with texts for its parameters.

        Raises:
            WrongUsageError: no file of saved queries was given.
            QueryError: there is no such query, or a parameter is missing or unknown.
        """
        self._show(saved_called(name, self.settings).asked(self._asked(""), given))

    def use(self, name: str) -> None:
        """Let tables that name no database be those of another one.

        Raises:
            CatalogError: there is no such database; near names in the error.
        """
        self.view.database = schema_called(self.catalog, name).name

    def tell(self, message: str) -> None:
        """Show a message to a person; a pipe needs none."""
        if self._is_terminal:
            print(message, file=sys.stderr)

    def close(self) -> None:
        """Close the engines."""
        if self._open is not None:
            self._open.close()

    def _first_database(self, name: str | None) -> str | None:
        """Return the database that tables without one are of; None if statements must name theirs."""
        if name is not None:
            return self.catalog.schema(name).name
        # For the whole session: answers do not change because a newer checkpoint came.
        newest = self.catalog.newest
        return None if newest is None else newest.name

    def _run_ended(self, text: str, first: int) -> tuple[int, str, int]:
        """Run the statements that have ended; return the exit code, what is left of the text, and the line where that begins.

        What is left keeps its column, behind blanks.
        """
        found = statements_of(text)
        if not found.ended and len(text) >= _MOST_CHARACTERS:
            return self._attempted(partial(self._run_statement, text, first)), "", first
        for one in found.ended:
            sql, line = _in_column(text, one.start, one.text), _line(text, one.start, first)
            code = self._attempted(partial(self._run_statement, sql, line))
            if code or self.is_over:
                return code, "", first
        start = found.rest.start
        return OK, _in_column(text, start, found.rest.text), _line(text, start, first)

    def _run_statement(self, sql: str, first: int) -> None:
        """Run a statement that begins on a line of the input."""
        used = _USE.fullmatch(sql)
        if used is not None:
            self.use(used[1].replace('""', '"') if used[1] else used[2] or used[3])
            return
        try:
            self._show(self._asked(sql))
        except QueryError as error:
            if error.position is not None:
                error.position = Position(error.position.line + first - 1, error.position.column)
            raise

    def _asked(self, sql: str) -> QueryRequest:
        view = self.view
        return QueryRequest(
            sql=sql,
            engine=view.engine,
            max_rows=view.max_rows,
            timeout_s=view.timeout_s,
            dialect=view.dialect,
            schema=view.database,
            allow_partial=view.allows_partial,
            system_tables=LocalTables(),
        )

    def _show(self, request: QueryRequest) -> None:
        view = self.view
        view.check()
        began = time.monotonic()
        output = view.output
        row_count = show_answer(
            self.queries,
            request,
            format_name=view.format,
            path=output,
            rows_on_screen=view.rows_on_screen,
            screen=view.width,
            appends=view.appends,
        )
        view.answered()
        if output is not None:
            self.tell(f"{counted(row_count, 'row')} written to {printable(output)}{view.contradiction}")
        self._show_time(began)

    def _show_time(self, began: float) -> None:
        if self.view.shows_time:
            print(f"time: {time.monotonic() - began:,.3f} s", file=sys.stderr)

    def _attempted(self, action: Callable[[], None]) -> int:
        """Run an action; report its error as commands do, and return the exit code."""
        try:
            code = ended(lambda _: self._until_cut(action), self.options)
        except _FailedFileError as error:
            if error.code != INTERRUPTED:
                print(f"savepointdb: {error}", file=sys.stderr)
            return error.code
        except ReportedError as error:
            return error.code
        except Exception as error:  # libraries raise anything, and the next statement may be fine
            return unexpected(error, verbose=self.options.verbose)
        if code == INTERRUPTED:
            self.tell("savepointdb: cancelled")
        return code

    def _until_cut(self, action: Callable[[], None]) -> None:
        try:
            action()
        except BrokenPipeError:
            # A reader of the output, such as `head`, has seen enough.
            self.is_over = True
            raise


def _line(text: str, start: int, first: int) -> int:
    """Return the line of an offset of a text that begins on a line."""
    return first + text.count("\n", 0, start)


def _in_column(text: str, start: int, part: str) -> str:
    """Return a part of a text behind as many blanks as stand before it on its line."""
    return " " * (start - (text.rfind("\n", 0, start) + 1)) + part


def banner_lines(console: Console) -> Iterator[str]:
    """Yield a line or two: the database, its age, its job, how many tables it has, and how many other databases there are."""
    name = console.view.database
    if name is None:
        yield f"{counted(len(console.catalog.databases), 'database')}: .database NAME chooses one, .databases lists them"
        return
    try:
        owner = schema_called(console.catalog, name).database
        facts = list(_facts(owner)) if isinstance(owner, Database) else []
        facts.append(counted(len(owner.tables), "table"))
    except (CatalogError, ReaderError) as error:
        facts = [f"cannot be read: {printable(query_error_of(error).message)}"]
    yield f"{printable(name)}: {', '.join(facts)}"
    others = len(console.catalog.databases) - 1
    if others > 0:
        yield f"{counted(others, 'other database')}: .database NAME chooses one, .databases lists them"
    latest = console.catalog.latest
    for one in () if latest is None or latest.database.name != name else latest.skipped:
        message = "" if one.error is None else f": {query_error_of(one.error).message}"
        yield f"{printable(one.name)} is newer, and cannot be read{printable(message)}"


def _facts(database: Database) -> Iterator[str]:
    kind = (database.kind or "savepoint or checkpoint").lower()
    yield f"{kind} {database.checkpoint_id}"
    if database.created_at is not None:
        yield dated(database.created_at)
    if database.job.title:
        yield f"job {printable(database.job.title)}"


def run_pipe(options: Namespace) -> int:
    """Run the statements of standard input; return the exit code of the first that fails."""
    code = OK

    def run(options: Namespace) -> None:
        nonlocal code
        with closing(Console(options, is_terminal=False)) as console:
            code = console.run(lines_of(sys.stdin, "standard input"))

    return ended(run, options) or code
