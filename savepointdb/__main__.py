"""The program `savepointdb`, also as `python -m savepointdb`: checks that its packages are its own, and runs the command line."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

from savepointdb.rooms import ShadowedPackageError, check_rooms

_WRONG_USAGE = 2
_INTERRUPTED = 130


def run() -> NoReturn:
    """Run the command that the arguments name, and end the process."""
    # Ctrl-C would end an import in the middle, with a traceback.
    signal.signal(signal.SIGINT, _interrupted)
    # Collecting garbage among modules that stay until the end would take longer than to parse the arguments.
    gc.disable()
    try:
        check_rooms()
    except ShadowedPackageError as error:
        print(f"savepointdb: {error}", file=sys.stderr)
        sys.exit(_WRONG_USAGE)
    import_module("service.cli").run()
    raise AssertionError("expected the command to end the process")


def _interrupted(*_: object) -> NoReturn:
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
