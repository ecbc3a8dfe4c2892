"""The arguments of the shell. Like `service.cli` this imports only what it needs to parse arguments."""

from __future__ import annotations

import argparse
import os

from service.doors.cli.parser import SOURCE, add_asking


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
