"""The command line: `savepointdb serve | query | inspect | lookup | stateinfo | compile | keys |
doctor-env`.

Only what parses arguments is loaded here; a command's module is loaded when it is called. Results go to standard
output, everything else to standard error; exit codes are in `service.commands.outcome`.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from service import settings
from service.process import memory

_FORMATS = ("table", "json", "jsonl", "csv", "arrow", "parquet")
_SOURCE = (
    "a savepoint, a checkpoint (chk-N), a _metadata file, or a folder that holds several; local or remote"
)
_STORAGE_SETTINGS = ("allow_http", "file_cache_directory", "file_cache_bytes")
_QUERY_SETTINGS = (
    *("timeout_s", "memory_limit", "temp_directory", "max_temp_size", "threads"),
    *("cache", "cache_directory", "cache_bytes"),
    *_STORAGE_SETTINGS,
    *(name for name in settings.names() if name.startswith("spark_")),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; its exit code."""
    options = parser_of().parse_args(arguments)
    return int(_loaded(options.command).main(options))


def run() -> NoReturn:
    """The program `savepointdb`: `main`, then the end of the process.

    What is loaded stays to the end: it is not looked through for garbage, and not taken apart at the end. Both cost more than a
    short query.
    """
    gc.disable()
    memory.keep_little()
    options = parser_of().parse_args()
    command = _loaded(options.command)
    gc.freeze()
    gc.enable()
    code = int(command.main(options))
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(code)


def _loaded(command: str) -> ModuleType:
    if "pandas" not in sys.modules:
        import_module("service.process.arrow").load_without_pandas()
    return import_module(f"service.commands.{command.replace('-', '_')}")


class _Version(argparse.Action):
    """Looks the version up when it is asked for: that takes longer than all else here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """As argparse asks."""
        print(f"{parser.prog} {import_module('service.version').installed_version()}")
        parser.exit()


def parser_of() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="savepointdb", description="SQL over Apache Flink savepoints and checkpoints, without Flink."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (summary, add_arguments) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        add_arguments(command)
        command.add_argument("--verbose", action="store_true", help="with errors, show where they come from")
    return parser


def _add_no_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-cache", dest="cache", action="store_const", const="off", help="short for --cache off"
    )


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        action="append",
        metavar="[LABEL=]DIR",
        help=f"{_SOURCE}; may be repeated; roots of the settings file if not given",
    )
    _add_config(parser)
    _add_names(parser)
    settings.add_arguments(parser, settings.names())
    _add_no_cache(parser)


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sql", metavar="SQL", help="one SELECT, EXPLAIN, SHOW or DESCRIBE; - reads it from standard input"
    )
    parser.add_argument(
        "--savepoint",
        required=True,
        action="append",
        metavar="[NAME=]PATH",
        help=f"{_SOURCE}; may be repeated",
    )
    parser.add_argument("--engine", default="auto", choices=("auto", "duckdb", "spark"), help="what runs it")
    parser.add_argument("--max-rows", type=int, metavar="ROWS", help="rows at most; all if not given")
    _add_names(parser)
    _add_output(parser)
    settings.add_arguments(parser, _QUERY_SETTINGS)
    _add_no_cache(parser)


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help=_SOURCE)
    _add_names(parser)
    parser.add_argument("--format", default="table", choices=("table", "json"), help="of the answer")
    settings.add_arguments(parser, _STORAGE_SETTINGS)


def _add_lookup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help=_SOURCE)
    parser.add_argument("key", metavar="KEY", help="text, number, or JSON for keys of several fields")
    _add_names(parser)
    _add_output(parser)
    settings.add_arguments(parser, _STORAGE_SETTINGS)


def _add_stateinfo(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    summary = "Describe a savepoint in a stateInfo file."
    write = actions.add_parser("write", help=summary, description=summary)
    write.add_argument("path", metavar="PATH", help="a savepoint or checkpoint")
    write.add_argument("--output", metavar="FILE", help="write there; beside _metadata if not given")
    write.add_argument(
        "--plan", metavar="FILE", help="names, from the plan of Flink's REST API or a compiled SQL plan"
    )
    write.add_argument(
        "--protobuf", metavar="FILE", help="descriptors of messages, from protoc --descriptor_set_out"
    )
    _add_path_map(write)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", action="append", metavar="DIR", help="a folder to serve; may be repeated")
    _add_config(parser)
    settings.add_arguments(parser, ["temp_directory", "keys_file", "oidc_issuer"])


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="settings in TOML, by their names")


def _add_keys(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="Make a key and show it, once.")
    create.add_argument("name", metavar="NAME", help="who gets it; the user of BI tools")
    create.add_argument(
        "--grant", action="append", metavar="PATTERN", help="databases, such as prod-*; all if not given"
    )
    create.add_argument("--expires-days", type=float, metavar="DAYS", help="never if not given")
    listing = actions.add_parser("list", help="Show names, grants and times.")
    revoke = actions.add_parser("revoke", help="Let a key be nobody's.")
    revoke.add_argument("name", metavar="NAME", help="as it was created")
    for action in (create, listing, revoke):
        settings.add_arguments(action, ["keys_file"])


def _add_compile(parser: argparse.ArgumentParser) -> None:
    """It has no arguments."""


def _add_names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--uids", metavar="FILE", help="uids of operators, one a line, for savepoints that have ids only"
    )
    parser.add_argument(
        "--state-info", metavar="FILE", help="use this stateInfo, not that beside the savepoint"
    )
    _add_path_map(parser)


def _add_path_map(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--path-map",
        action="append",
        metavar="OLD=NEW",
        help="files that savepoints name below OLD are below NEW, in this or another file system; may be repeated",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", default="table", choices=_FORMATS, help="of the rows")
    parser.add_argument("--output", metavar="FILE", help="write there; standard output if not given")


_COMMANDS = {
    "serve": ("Serve savepoints over HTTP.", _add_serve),
    "query": ("Answer one SQL statement.", _add_query),
    "inspect": ("Show operators, states, types and sizes, and what does not decode.", _add_inspect),
    "lookup": ("Show every state and timer of one key.", _add_lookup),
    "doctor-env": ("Show what this environment has and lacks.", _add_doctor),
    "keys": ("Make, list and revoke API keys of a service.", _add_keys),
    "stateinfo": ("Write what is known of a savepoint's states beside it.", _add_stateinfo),
    "compile": ("Compile the decoder, for all queries to come.", _add_compile),
}

if __name__ == "__main__":
    run()
