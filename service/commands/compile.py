"""`savepointdb compile`: compile the decoder now instead of at the first query."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace

from readers import compile_all, compile_log
from service.commands.outcome import ended


def main(options: Namespace) -> int:
    """Compile everything; return the exit code."""
    return ended(_compile, options)


def _compile(options: Namespace) -> None:
    log_compilation()
    compile_all()
    print("savepointdb: all is compiled", file=sys.stderr)


def log_compilation() -> None:
    """Show on a terminal what is compiled from now on: it takes seconds."""
    if sys.stderr.isatty() and not compile_log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("savepointdb: %(message)s"))
        compile_log.addHandler(handler)
        compile_log.setLevel(logging.INFO)
