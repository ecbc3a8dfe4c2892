"""`savepointdb stateinfo write`: describes a savepoint in a `stateInfo` file."""

from __future__ import annotations

import sys
from argparse import Namespace

from catalog.stateinfo import write
from service.commands.outcome import ended


def main(options: Namespace) -> int:
    """Write the file, and tell where; the exit code."""
    return ended(_write, options)


def _write(options: Namespace) -> None:
    where = write(options.path, output=options.output, plan=options.plan, protobuf=options.protobuf)
    print(f"written to {where}", file=sys.stderr)
