"""The arguments of the commands that look at several savepoints: history, diff, bisect, test.

Like `service.cli` it imports only what it needs to parse arguments.
"""

from __future__ import annotations

import argparse

from service.base import settings
from service.doors.cli.parser import QUERY_SETTINGS, add_engine, add_names, add_no_cache


def add_test(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `savepointdb test`."""
    parser.add_argument(
        "paths",
        metavar="RULES PATH",
        nargs="*",
        help="Files of rules (.toml, .sql), and savepoints or folders with some; of a folder the newest one of each job is tested.",
    )
    parser.add_argument(
        "--standard", action="store_true", help="Test the rules that come with savepointdb, too."
    )
    parser.add_argument("--print-standard", action="store_true", help="Show these rules, and test nothing.")
    parser.add_argument(
        "--rule", action="append", metavar="PATTERN", help="Test only rules of such names. May be repeated."
    )
    parser.add_argument(
        "--param",
        action="append",
        metavar="NAME=VALUE",
        help="Value of a parameter of rules. May be repeated.",
    )
    parser.add_argument(
        "--previous", metavar="PATH", help="The savepoint before the only one that is tested."
    )
    parser.add_argument("--all", action="store_true", help="Test every savepoint of a folder.")
    parser.add_argument(
        "--fail-on",
        default="error",
        choices=("error", "warning", "info"),
        help="Least severity of a violation that makes the exit code 1.",
    )
    parser.add_argument("--junit", metavar="FILE", help="File for a report as JUnit's XML.")
    parser.add_argument("--json", metavar="FILE", help="File for a report as JSON; - for standard output.")
    parser.add_argument("--watch", action="store_true", help="Go on with each new checkpoint, until Ctrl-C.")
    parser.add_argument(
        "--interval", type=float, default=10.0, metavar="SECONDS", help="Time between two looks with --watch."
    )
    parser.add_argument(
        "--webhook",
        metavar="URL",
        help="URL that gets the report as JSON of each savepoint that fails, or is fine again.",
    )
    parser.add_argument(
        "--webhook-header", metavar="FILE", help="File of headers for it, one a line: Authorization: Bearer …"
    )
    _add_asking(parser)


def _add_asking(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that ask several savepoints the same."""
    add_engine(parser, "Engine that runs the queries.")
    add_names(parser)
    settings.add_arguments(parser, QUERY_SETTINGS, settings.UNLIMITED)
    add_no_cache(parser)
