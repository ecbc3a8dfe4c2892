"""The use cases as commands of the shell: `.lookup KEY`, `.xray`, … with the options of the commands that are called so.

They are about the database that is chosen, or about its job. Answers go where those of statements go (`View`), `.mode json` included; an
answer such as "they differ" is no error, and does not end a script.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from catalog import Catalog, CatalogError, Database
from service.base.settings import Settings
from service.doors.cli.output import (
    BINARY,
    INTERRUPTED,
    ROWS_ON_SCREEN,
    TABLE,
    WrongUsageError,
    ended,
    refuse_other_suffix,
    screen_width,
    suffix_format,
)
from service.doors.cli.parser import CommandParser, command_parsers
from service.doors.cli.sources import catalog_of, newest_of
from service.doors.cli.task import answer, request_of
from service.query.encode import printable
from service.query.running.session import Session
from service.tasks.registry import CLI, TASKS, tasks_at


@dataclass(slots=True, kw_only=True)
class View:
    """How answers are shown; commands of the shell change it.

    Attributes:
        mode: the format of the rows that was chosen; None for the one that the suffix of the output names, or `table`.
        output: the file that answers go to; None for standard output.
        once: True if only the next answer goes there.
        answers: how many answers the output has.
        rows_on_screen: most rows of a table that a terminal shows; None for all.
        width: characters per line of a screen; None for those of the terminal.
        shows_time: True to tell how long each statement took.
        database: of tables that name none; None for the only or the newest one.
        dialect: of the statements.
        engine: runs the statements.
        allows_partial: whether rows of files that cannot be read are left out.
        max_rows: most rows of an answer; None for all.
        timeout_s: seconds that a statement may take; None for what the settings say.
    """

    mode: str | None
    output: str | None = None
    once: bool = False
    answers: int = 0
    rows_on_screen: int | None = ROWS_ON_SCREEN
    width: int | None = None
    shows_time: bool = False
    database: str | None = None
    dialect: str
    engine: str
    allows_partial: bool = False
    max_rows: int | None = None
    timeout_s: float | None = None

    @property
    def format(self) -> str:
        """The format of the rows."""
        return self.mode or suffix_format(self.output) or TABLE

    @property
    def contradiction(self) -> str:
        """What to say of a file whose suffix names another format than the chosen one; empty if there is nothing to say."""
        return f" as {self.format}" if suffix_format(self.output) not in (None, self.format) else ""

    @property
    def appends(self) -> bool:
        """True if the next answer follows others in the file."""
        return self.answers > 0

    def write_to(self, path: str | None, *, once: bool = False) -> None:
        """Send the answers to a file, which loses what it has; None for standard output.

        Raises:
            WrongUsageError: the file cannot be written, or its suffix names a format that is not written.
        """
        if self.mode is None:
            refuse_other_suffix(path)
        if path is not None:
            try:
                with open(path, "wb"):
                    pass
            except OSError as error:
                raise WrongUsageError(f"cannot write {printable(path)}: {error.strerror}") from error
        self.output, self.once, self.answers = path, once, 0

    def check(self) -> None:
        """Refuse an answer that the output cannot take.

        Raises:
            WrongUsageError: bytes for a terminal, or a second answer for a file of a format that has one.
        """
        if self.format not in BINARY:
            return
        if screen_width(self.output) is not None:
            raise WrongUsageError(
                f"{self.format} is not for terminals: .output FILE names a file, .mode another format"
            )
        if self.answers:
            output = "standard output" if self.output is None else printable(self.output)
            raise WrongUsageError(
                f"{output} has an answer already, and {self.format} holds one: .output FILE names another file"
            )

    def answered(self) -> None:
        """Count an answer that was written, or a part of one."""
        self.answers += 1
        if self.once:
            self.write_to(None)


class Console(Protocol):
    """What use cases work on: `service.doors.cli.shell.console`."""

    catalog: Catalog
    view: View
    options: Namespace
    settings: Settings

    @property
    def queries(self) -> Session:
        """Runs statements."""


class ReportedError(Exception):
    """A command failed, and has said why.

    Args:
        code: the exit code.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


def run_task(console: Console, name: str, words: Sequence[str]) -> None:
    """Run a use case and show its outcome on standard output.

    Args:
        console: has the savepoints.
        name: of the use case.
        words: its arguments, as on the command line, without PATH.

    Raises:
        WrongUsageError: the arguments are wrong, or no database is chosen.
        CatalogError, QueryError, ReaderError: it fails.
        ReportedError: it failed, and has reported it.
    """
    parser = parser_of(console, name)
    try:
        options = parser.parse_args(["", *words], _preset(console, name))
    except SystemExit:
        return  # --help, which is shown
    task = TASKS[name].load()
    if getattr(options, "job", "") is None:
        options.job = _job(console)
    catalog, names = _pair(console, options.after) if hasattr(options, "after") else (console.catalog, {})
    queries = console.queries if catalog is console.catalog else None
    asked = request_of(task.request, options, **names)

    def run(options: Namespace) -> int:
        return answer(task, asked, options, catalog, console.settings, queries)

    code = ended(run, options, task.exits)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code not in task.exits.answers:
        raise ReportedError(code)


def parser_of(console: Console, name: str) -> CommandParser:
    """Return the parser of a use case, whose errors are raised."""
    whole: argparse.ArgumentParser = console.options.parser_of(name)
    parser = command_parsers(whole)[name]
    parser.prog = f".{name}"
    # The database that is chosen stands in place of the first argument.
    first, *others = [one for one in parser._actions if not one.option_strings]
    first.help = argparse.SUPPRESS
    named = [f"[{one.metavar}]" if one.nargs == "?" else str(one.metavar) for one in others]
    parser.usage = " ".join([parser.prog, *named, "[option …]"])
    parser.on_error = _wrong(parser.prog)
    return parser


def _wrong(prog: str) -> Callable[[str], NoReturn]:
    def wrong(message: str) -> NoReturn:
        raise WrongUsageError(f"{prog}: {message} (.help {prog[1:]} shows its arguments)")

    return wrong


def _preset(console: Console, name: str) -> Namespace:
    """Return what the shell knows already: its options, and what was chosen since."""
    view = console.view
    known = vars(console.options) | {
        "command": name,
        "format": view.mode or suffix_format(view.output),
        "output": None,
        "database": _database(console).name,
        "engine": view.engine,
    }
    return Namespace(**known)


def _database(console: Console) -> Database:
    """Return the database that is chosen."""
    if console.view.database is None:
        raise WrongUsageError("no database is chosen: .database NAME chooses one, .databases lists them")
    return console.catalog.database(console.view.database)


def _job(console: Console) -> str | None:
    """Return the job of the database that is chosen; None if it has none."""
    database = _database(console)
    return next((job.name for job in console.catalog.jobs() if database in job.databases), None)


def _pair(console: Console, other: str | None) -> tuple[Catalog, dict[str, str]]:
    """Return the chosen database and another one, or another path; without one that before it in its job."""
    after = _database(console)
    names = {"after": after.name}
    if other is None:
        return console.catalog, names
    try:
        return console.catalog, {"before": console.catalog.database(other).name, **names}
    except CatalogError:
        if "/" not in other:
            raise
    before = newest_of(catalog_of([other], console.options), "compared")
    return Catalog.of([before, after]), {"before": before.name, **names}


# Their arguments are files and targets beside savepoints.
_WITH_FILES = frozenset({"convert", "create", "export", "forget", "sample", "savepoint", "test", "write"})
_ARGUMENTS = {"bisect": "SQL", "check": "[--against X]", "diff": "[OTHER]", "history": "KEY", "lookup": "KEY"}


def task_commands() -> Iterator[tuple[str, str, str]]:
    """Yield each use case of the shell: its name, its arguments, and what it does."""
    for name, task in sorted(tasks_at(CLI)):
        if name not in _WITH_FILES:
            yield name, _ARGUMENTS.get(name, ""), task.summary
