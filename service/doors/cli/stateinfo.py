"""`savepointdb stateinfo write`: describe a savepoint in a `stateInfo` file."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from catalog.stateinfo import write
from service.base.settings import path_map_of, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.outcome import ended
from service.doors.cli.sources import storage_options


def main(options: Namespace) -> int:
    """Write the file and show its path; return the exit code."""
    return ended(_write, options)


def _write(options: Namespace) -> None:
    log_compilation()
    settings = settings_of(vars(options), os.environ)
    where = write(
        options.path,
        output=options.output,
        plan=options.plan,
        protobuf=options.protobuf,
        path_map=path_map_of(vars(options), settings),
        options=storage_options(settings),
    )
    print(f"written to {where}", file=sys.stderr)
