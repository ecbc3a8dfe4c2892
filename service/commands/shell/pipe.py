"""The statements of a pipe or a file: one after the other, until one fails. Their answers are those of `savepointdb query`."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import closing

from service.commands.outcome import OK, ended
from service.commands.shell.console import Console
from service.commands.shell.scripts import lines_of


def main(options: Namespace) -> int:
    """Run the statements of standard input; return the exit code of the first that fails."""
    code = OK

    def run(options: Namespace) -> None:
        nonlocal code
        with closing(Console(options, is_terminal=False)) as console:
            code = console.run(lines_of(sys.stdin, "standard input"))

    return ended(run, options) or code
