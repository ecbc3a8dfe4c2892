"""`savepointdb compile`: compile the decoder now instead of at the first query."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace

import readers
import writers
from readers import compile_log
from service.doors.cli.outcome import ended


def main(options: Namespace) -> int:
    """Compile everything; return the exit code."""
    return ended(_compile, options)


def _compile(options: Namespace) -> None:
    log_compilation()
    readers.compile_all(writers.COMPILED_UNITS)
    print("savepointdb: all is compiled", file=sys.stderr)


def log_compilation() -> None:
    """Show, once, that something is compiled from now on: it takes seconds, also where nobody watches."""
    if not compile_log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("savepointdb: %(message)s"))
        handler.addFilter(_Once())
        compile_log.addHandler(handler)
        compile_log.setLevel(logging.INFO)


class _Once(logging.Filter):
    """Lets each message pass once: a command may compile several units."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is a new one."""
        is_new = record.msg not in self._seen
        self._seen.add(record.msg)
        return is_new
