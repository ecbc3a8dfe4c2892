"""The commands of the shell that begin with a dot, as the shells of DuckDB and SQLite have them.

A command stands alone on a line. The beginning of its name is enough where no other command begins so. Those of psql, which begin
with a backslash, are answered with what does the same here.
"""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from catalog.errors import near_names
from service.doors.cli.output import WrongUsageError, write_lines
from service.doors.cli.parser import DIALECTS, FORMATS
from service.doors.cli.query import named_values
from service.doors.cli.shell import taskcommands
from service.doors.cli.shell.statements import command_of
from service.query.encode import printable
from service.query.engines import registry
from service.query.sql.schemas import schema_called
from service.query.sql.text import quoted, text_constant


class Console(taskcommands.Console, Protocol):
    """What commands work on: `service.doors.cli.shell.console`."""

    is_over: bool

    def ask(self, sql: str) -> None:
        """Run a statement in DuckDB's dialect and show its answer."""

    def use(self, name: str) -> None:
        """Let tables that name no database be those of another one."""

    def answer(self, action: Callable[[], None]) -> None:
        """Do something whose standard output is an answer."""

    def run_saved(self, name: str, given: Mapping[str, str]) -> None:
        """Run a saved query."""

    def run_file(self, path: Path) -> None:
        """Run the statements and commands of a file."""


_NEAR = 2
_MOST_WORDS = 1 << 10
_ALL, _AUTO = "all", "auto"
_Run = Callable[[Console, "DotCommand", list[str]], None]


def run_command(console: Console, line: str) -> None:
    """Run the command of a line.

    Raises:
        WrongUsageError: there is no such command, with near names, or it cannot take these arguments.
        CatalogError: its argument is no database, with near names.
        QueryError: what it asks fails.
    """
    name, _, rest = (command_of(line) or line.strip()).partition(" ")
    if name.startswith("\\"):
        raise _elsewhere(name)
    command = _command_called(name)
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise WrongUsageError(
            f"{name}: expected quotation marks in pairs, found {printable(rest.strip())}"
        ) from error
    if not command.least_arguments <= len(words) <= command.most_arguments:
        raise _wrong(command, " ".join(words) or "nothing")
    command.run(console, command, words)


@dataclass(frozen=True, slots=True, kw_only=True)
class DotCommand:
    """A command.

    Attributes:
        name: with its dot.
        arguments: as help shows them.
        meaning: a sentence for help.
        run: does it.
        values: what its argument may be; empty if that is not known before.
        least_arguments: how many it needs.
        most_arguments: how many it takes.
        is_task: True for a use case, which has options.
    """

    name: str
    arguments: str = ""
    meaning: str
    run: _Run
    values: tuple[str, ...] = ()
    least_arguments: int = 0
    most_arguments: int = 1
    is_task: bool = False


def _command_called(name: str) -> DotCommand:
    """Return the command of a name, or of the beginning of one."""
    folded = name.casefold()
    begun = [command for known, command in COMMANDS.items() if known.startswith(folded)]
    # `.h` is `.help`, whatever use cases begin so.
    own = [command for command in begun if not command.is_task] or begun
    found = COMMANDS.get(folded) or (own[0] if len(own) == 1 else None)
    if found is not None:
        return found
    near = [command.name for command in begun] or [
        f".{one}" for one in near_names(name[1:], [known[1:] for known in COMMANDS])
    ]
    hint = f"did you mean {' or '.join(near[:_NEAR])}?" if near else ".help lists them"
    raise WrongUsageError(f"there is no command {printable(name)} ({hint})")


def _elsewhere(name: str) -> WrongUsageError:
    """Return the error of a command of psql."""
    same = _PSQL.get(name, ".help")
    hint = ".help lists the commands of this shell" if same == ".help" else f"{same} does the same"
    return WrongUsageError(f"there is no command {printable(name)} ({hint})")


def _wrong(command: DotCommand, found: str) -> WrongUsageError:
    expected = " or ".join(command.values) or command.arguments or "no arguments"
    near = near_names(found, command.values)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    return WrongUsageError(f"{command.name}: expected {expected}, found {printable(found)}{hint}")


def _chosen(command: DotCommand, words: list[str]) -> str:
    """Return the argument of a command, which is one of its values."""
    word = words[0].casefold() if words else "nothing"
    if word not in command.values:
        raise _wrong(command, words[0] if words else "nothing")
    return word


def _number(command: DotCommand, words: list[str], other: str) -> int | None:
    """Return the number that is the argument of a command; None for the word that may stand in its place."""
    word = words[0].casefold() if words else "nothing"
    if word == other:
        return None
    if not (word.isascii() and word.isdigit() and 0 < int(word[:10]) < 1_000_000_000):
        raise _wrong(command, word)
    return int(word)


def _help(console: Console, _: DotCommand, words: list[str]) -> None:
    wanted = [_command_called("." + words[0].lstrip("."))] if words else list(COMMANDS.values())
    heads = [f"{command.name} {command.arguments}".rstrip() for command in wanted]
    widest = max(map(len, heads))
    lines = [f"{head:<{widest}}  {command.meaning}" for head, command in zip(heads, wanted, strict=True)]
    if words and wanted[0].is_task:
        task = taskcommands.parser_of(console, wanted[0].name[1:])
        lines += ["", *task.format_help().rstrip().splitlines()]
    if not words:
        lines += [
            "",
            "Everything else is SQL, up to the next semicolon; SHOW TABLES, DESCRIBE and SUMMARIZE are, too.",
        ]
    write_lines(lines, None)


def _tables(console: Console, _: DotCommand, words: list[str]) -> None:
    database = _database(console)
    # A list passes over what cannot be read, and its tables alone would be an empty list.
    schema_called(console.catalog, database).database.listed()
    conditions = [f"table_schema = {text_constant(database)}"]
    if words:
        conditions.append(f"table_name ILIKE {text_constant(_like(words[0]))}")
    console.ask(
        "SELECT table_name AS name, table_comment AS comment FROM information_schema.tables "
        f"WHERE {' AND '.join(conditions)}"
    )


def _databases(console: Console, _: DotCommand, _words: list[str]) -> None:
    console.ask("SHOW DATABASES")


def _schema(console: Console, _: DotCommand, words: list[str]) -> None:
    database = _database(console)
    names = schema_called(console.catalog, database).database.tables
    if words:
        folded = words[0].casefold()
        pattern = folded.replace("%", "*")
        wanted = [name for name in names if name.casefold() == folded] or [
            name for name in names if fnmatch.fnmatchcase(name.casefold(), pattern)
        ]
        # The name is one of another database, or one that is not listed, or wrong: the statement says which.
        sources = [f"{quoted(database)}.{quoted(name)}" for name in wanted] or [_path(words[0])]
    else:
        sources = [f"{quoted(database)}.{quoted(name)}" for name in names]
    for source in sources:
        console.ask(f"SHOW CREATE TABLE {source}")


def _path(name: str) -> str:
    """Return a name of one or two parts, quoted."""
    database, dot, table = name.rpartition(".")
    return f"{quoted(database)}.{quoted(table)}" if dot and database else quoted(name)


def _use(console: Console, command: DotCommand, words: list[str]) -> None:
    if words:
        console.use(words[0])
    else:
        _tell(command, _database(console))


def _mode(console: Console, command: DotCommand, words: list[str]) -> None:
    if words:
        console.view.mode = _chosen(command, [_MODES_ELSEWHERE.get(words[0].casefold(), words[0])])
    else:
        _tell(command, console.view.format)


def _output(console: Console, _: DotCommand, words: list[str]) -> None:
    console.view.write_to(words[0] if words else None)


def _count(attribute: str, other: str) -> _Run:
    """Return what shows a number of the view, or sets it; None stands for another word."""

    def run(console: Console, command: DotCommand, words: list[str]) -> None:
        if words:
            setattr(console.view, attribute, _number(command, words, other))
        else:
            _tell(command, str(getattr(console.view, attribute) or other))

    return run


def _timer(console: Console, command: DotCommand, words: list[str]) -> None:
    if words:
        console.view.shows_time = _chosen(command, words) == "on"
    else:
        _tell(command, "on" if console.view.shows_time else "off")


def _choice(attribute: str) -> _Run:
    """Return what shows a choice of the view, or makes one."""

    def run(console: Console, command: DotCommand, words: list[str]) -> None:
        if words:
            setattr(console.view, attribute, _chosen(command, words))
        else:
            _tell(command, getattr(console.view, attribute))

    return run


def _read(console: Console, _: DotCommand, words: list[str]) -> None:
    console.run_file(Path(words[0]).expanduser())


def _show(console: Console, _: DotCommand, _words: list[str]) -> None:
    view = console.view
    facts = {
        "database": view.database or "",
        "dialect": view.dialect,
        "engine": view.engine,
        "maxrows": str(view.rows_on_screen or _ALL),
        "mode": view.format,
        "output": view.output or "",
        "timer": "on" if view.shows_time else "off",
        "width": str(view.width or _AUTO),
    }
    write_lines([f"{name:>8}  {printable(value)}".rstrip() for name, value in facts.items()], None)


def _quit(console: Console, _: DotCommand, _words: list[str]) -> None:
    console.is_over = True


def _tell(command: DotCommand, value: str) -> None:
    write_lines([f"{command.name} {printable(value)}"], None)


def _database(console: Console) -> str:
    """Return the database of tables that name none."""
    database = console.view.database
    if database is None:
        raise WrongUsageError("no database is chosen: .database NAME chooses one, .databases lists them")
    return database


def _like(pattern: str) -> str:
    """Return a pattern of LIKE: with `%` and `*` as it stands, else whatever has the text in it."""
    found = pattern.replace("*", "%")
    return found if "%" in found else f"%{found}%"


# DuckDB's shell calls them so; its tables with frames are ours without.
_MODES_ELSEWHERE: Mapping[str, str] = {
    "box": "table",
    "column": "table",
    "duckbox": "table",
    "jsonlines": "jsonl",
}
_PSQL: Mapping[str, str] = {
    "\\c": ".database",
    "\\connect": ".database",
    "\\d": ".schema",
    "\\d+": ".schema",
    "\\dn": ".databases",
    "\\dt": ".tables",
    "\\g": "a semicolon",
    "\\i": ".read",
    "\\l": ".databases",
    "\\o": ".output",
    "\\q": ".quit",
    "\\timing": ".timer",
    "\\x": ".mode line",
}
_OWN = (
    DotCommand(
        name=".database",
        arguments="NAME",
        meaning="Choose the database of tables that name none, as USE does.",
        run=_use,
    ),
    DotCommand(name=".databases", meaning="List the databases.", run=_databases, most_arguments=0),
    DotCommand(
        name=".dialect",
        arguments="|".join(DIALECTS),
        meaning="Choose the dialect of the statements.",
        run=_choice("dialect"),
        values=DIALECTS,
    ),
    DotCommand(
        name=".engine",
        arguments="|".join(registry.choices()),
        meaning="Choose the engine that runs the statements.",
        run=_choice("engine"),
        values=tuple(registry.choices()),
    ),
    DotCommand(name=".exit", meaning="Leave, as Ctrl-D does.", run=_quit, most_arguments=0),
    DotCommand(name=".help", arguments="[COMMAND]", meaning="Show the commands.", run=_help),
    DotCommand(
        name=".maxrows",
        arguments="N|all",
        meaning="Show at most so many rows of an answer on the terminal.",
        run=_count("rows_on_screen", _ALL),
    ),
    DotCommand(
        name=".mode",
        arguments="|".join(FORMATS),
        meaning="Choose the format of answers; arrow and parquet are for files.",
        run=_mode,
        values=FORMATS,
    ),
    DotCommand(
        name=".once",
        arguments="FILE",
        meaning="Write the next answer to a file, in the format that its suffix names; what it has is lost.",
        run=lambda console, _, words: console.view.write_to(words[0], once=True),
        least_arguments=1,
    ),
    DotCommand(
        name=".output",
        arguments="[FILE]",
        meaning="Write answers to a file from now on, in the format that its suffix names; without a file, to the terminal again.",
        run=_output,
    ),
    DotCommand(name=".quit", meaning="Leave, as Ctrl-D does.", run=_quit, most_arguments=0),
    DotCommand(
        name=".read", arguments="FILE", meaning="Run the statements of a file.", run=_read, least_arguments=1
    ),
    DotCommand(
        name=".run",
        arguments="NAME [PARAMETER=VALUE …]",
        meaning="Run a saved query of --saved-queries.",
        run=lambda console, command, words: console.run_saved(
            words[0], named_values(command.name, words[1:])
        ),
        least_arguments=1,
        most_arguments=_MOST_WORDS,
    ),
    DotCommand(
        name=".schema",
        arguments="[TABLE]",
        meaning="Show the columns of a table, or of all, as CREATE TABLE statements.",
        run=_schema,
    ),
    DotCommand(name=".show", meaning="Show what is chosen.", run=_show, most_arguments=0),
    DotCommand(
        name=".tables",
        arguments="[PATTERN]",
        meaning="List the tables of the database; those that have a text in their names, or fit a pattern such as agg%.",
        run=_tables,
    ),
    DotCommand(
        name=".timer",
        arguments="on|off",
        meaning="Show how long each statement takes.",
        run=_timer,
        values=("on", "off"),
    ),
    DotCommand(
        name=".width",
        arguments="N|auto",
        meaning="Show tables in so many characters a line; auto takes the width of the terminal.",
        run=_count("width", _AUTO),
    ),
)
_OF_TASKS = (
    DotCommand(
        name=f".{name}",
        arguments=arguments,
        meaning=summary,
        run=lambda console, command, words: console.answer(
            lambda: taskcommands.run_task(console, command.name[1:], words)
        ),
        most_arguments=_MOST_WORDS,
        is_task=True,
    )
    for name, arguments, summary in taskcommands.task_commands()
)
COMMANDS: Mapping[str, DotCommand] = {
    command.name: command for command in sorted((*_OWN, *_OF_TASKS), key=lambda command: command.name)
}
