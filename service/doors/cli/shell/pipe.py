"""The statements of a pipe or a file: one after the other, until one fails. Their answers are those of `savepointdb query`."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import closing

from service.doors.cli.outcome import OK, ended
from service.doors.cli.shell.console import Console
from service.doors.cli.shell.statements import lines_of


def main(options: Namespace) -> int:
    """Run the statements of standard input; return the exit code of the first that fails."""
    code = OK

    def run(options: Namespace) -> None:
        nonlocal code
        with closing(Console(options, is_terminal=False)) as console:
            code = console.run(lines_of(sys.stdin, "standard input"))

    return ended(run, options) or code
