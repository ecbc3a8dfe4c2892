"""`savepointdb PATH`: the shell, at a terminal; the statements of a pipe or a file, where standard input is one.

It imports neither Arrow nor the readers: at a terminal the prompt stands there before they are loaded.

The arguments of the shell. Like `service.cli` this imports only what it needs to parse arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from importlib import import_module

from service.doors.cli.parser import SOURCE, add_asking


def main(options: Namespace) -> int:
    """Run the shell; return the exit code."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    module = import_module(f"service.doors.cli.shell.{'terminal' if is_terminal else 'pipe'}")
    return int(module.main(options))


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
