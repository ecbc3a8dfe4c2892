"""`savepointdb compile`: everything that is ever compiled, now and not at the first query."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace

from readers import compile_all, compile_log
from service.commands.outcome import ended


def main(options: Namespace) -> int:
    """Compile; the exit code."""
    return ended(_compile, options)


def _compile(options: Namespace) -> None:
    tell_what_is_compiled()
    compile_all()
    print("savepointdb: all is compiled", file=sys.stderr)


def tell_what_is_compiled() -> None:
    """From now on, tell a person who watches what takes so long when something is compiled."""
    if sys.stderr.isatty():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("savepointdb: %(message)s"))
        compile_log.addHandler(handler)
        compile_log.setLevel(logging.INFO)
