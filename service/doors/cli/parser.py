"""What the parsers of commands share: exit codes of wrong usage, `--version`, and the arguments of several commands.

Like `service.cli` this imports only what it needs to parse arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NoReturn

from service.base import settings
from service.query.engines import registry

# Written out, because importing the formats would import Arrow.
FORMATS = ("table", "line", "markdown", "html", "json", "jsonl", "csv", "arrow", "parquet")
DIALECTS = ("duckdb", "trino", "flink")
SOURCE = "Savepoint, checkpoint (chk-N), _metadata file, or folder with several savepoints; local or remote."
_PATHS = frozenset(
    {"PATH", "PATHS", "FILE", "DIR", "DIRECTORY", "SOURCE", "SAVEPOINT", "BEFORE", "AFTER", "X"}
)
STORAGE_SETTINGS = ("allow_http", "file_cache_directory", "file_cache_bytes")
FLINK_SETTINGS = (
    *("flink", "flink_token_file", "flink_ca_file", "flink_certificate", "flink_key", "flink_path_map"),
    "flink_timeout_s",
)
READING_SETTINGS = ("jar", *STORAGE_SETTINGS)
QUERY_SETTINGS = (
    *("timeout_s", "temp_directory"),
    *READING_SETTINGS,
    *settings.keys_of("cache", *registry.names()),
)


class VersionAction(argparse.Action):
    """`--version`: reads what it shows when it is asked for, because reading that takes longer than parsing."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the version, the commit and the formats, and exit."""
        print(import_module("service.doors.operations.release").release_text(parser.prog))
        parser.exit()


class CommandParser(argparse.ArgumentParser):
    """A parser that ends with the exit code of its command where the arguments are wrong: 2 says "fails" of a check."""

    wrong_usage = 2
    # The shell goes on: there it raises.
    on_error: Callable[[str], NoReturn] | None = None

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit."""
        if self.on_error is not None:
            self.on_error(message)
        self.print_usage(sys.stderr)
        self.exit(self.wrong_usage, f"{self.prog}: error: {message}\n")


def command_parsers(parser: argparse.ArgumentParser) -> Mapping[str, CommandParser]:
    """Return the parsers of the commands, or of the actions, that a parser has."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def takes_path(action: argparse.Action) -> bool:
    """Return whether an argument is a file or a folder."""
    # PATH of [NAME=]PATH, and of PATH SQL.
    words = str(action.metavar or "").rpartition("]")[2].split()
    return not _PATHS.isdisjoint(words)


def add_names(parser: argparse.ArgumentParser) -> None:
    """Add the options that name operators and find files."""
    group = parser.add_argument_group("names of operators, places of files")
    group.add_argument(
        "--uids", metavar="FILE", help="File of operator uids, one per line; for savepoints with ids only."
    )
    group.add_argument(
        "--state-info", metavar="FILE", help="stateInfo file to use instead of the one beside the savepoint."
    )
    add_path_map(group)


def add_path_map(parser: argparse._ActionsContainer) -> None:
    """Add the option for files that were moved."""
    parser.add_argument(
        "--path-map",
        action="append",
        metavar="OLD=NEW",
        help="Moved files: a path OLD in savepoints is NEW here, in any file system. May be repeated.",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how rows look, and where they go."""
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="Format of the rows; if not given, by the suffix of --output, or else table. line shows one value per line.",
    )
    parser.add_argument("--output", metavar="FILE", help="Output file; standard output if not given.")


def add_asking(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run statements: how rows look, the engine, what statements may read, settings."""
    add_output(parser)
    parser.add_argument(
        "--max-rows",
        type=int,
        metavar="ROWS",
        help="Maximum number of rows; if not given, all. A terminal shows 40.",
    )
    parser.add_argument(
        "--engine",
        default=registry.AUTO,
        choices=registry.choices(),
        help="Engine that runs the statement.",
    )
    parser.add_argument(
        "--database", metavar="NAME", help="Default database of tables; if not given, the only or newest one."
    )
    parser.add_argument(
        "--dialect",
        choices=DIALECTS,
        help="SQL dialect of the statement; duckdb if not given, or flink with --compat flink.",
    )
    add_allow_partial(parser, "query")
    add_names(parser)
    settings.add_arguments(parser, ("saved_queries", *QUERY_SETTINGS, "compat"), settings.UNLIMITED)
    add_no_cache(parser)


def add_allow_partial(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option for a query or an export of what can be read."""
    parser.add_argument(
        "--allow-partial",
        action="store_true",
        help=f"Leave out the rows of files that cannot be read, and list the files; otherwise the {what} fails.",
    )


def dialect_of(options: argparse.Namespace, compat: str) -> str:
    """Return the dialect of a command's statements: the one that is given, or the one that goes with the names it uses."""
    given: str | None = options.dialect
    return given or (compat if compat in DIALECTS else DIALECTS[0])


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    """Add the short form of `--cache off`."""
    parser.add_argument(
        "--no-cache", dest="cache", action="store_const", const="off", help="Short for --cache off."
    )


def add_shell(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `savepointdb shell`."""
    parser.add_argument(
        "paths", metavar="[NAME=]PATH", nargs="+", help=f"{SOURCE} Several are databases beside each other."
    )
    add_asking(parser)
    parser.add_argument(
        "--no-history",
        action="store_true",
        help="Keep no statements for later sessions: values in them are data.",
    )


def is_source(word: str) -> bool:
    """Return whether a word of the command line that is no command is meant as the path of a savepoint."""
    return "/" in word or os.path.exists(word) or os.path.exists(word.partition("=")[2])
