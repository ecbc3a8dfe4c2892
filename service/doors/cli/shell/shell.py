"""`savepointdb PATH`: the shell, at a terminal; the statements of a pipe or a file, where standard input is one.

It imports neither Arrow nor the readers: at a terminal the prompt stands there before they are loaded.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from importlib import import_module


def main(options: Namespace) -> int:
    """Run the shell; return the exit code."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    module = import_module(f"service.doors.cli.shell.{'terminal' if is_terminal else 'pipe'}")
    return int(module.main(options))
