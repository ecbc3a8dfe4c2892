"""Compiles what writes need and queries do not, so that the first write does not wait for it.

A process of its own compiles, beside the first requests and with a lower priority, and ends with the service. Once on a machine: the
object code is kept.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading

from readers import COMPILED_UNITS as READER_UNITS
from readers import compile_all, missing_units
from service.query.engines.workers.forks import start_process
from service.query.engines.workers.worker import end_with, yield_to_the_server
from writers import COMPILED_UNITS

# The workers compile those of the readers.
_UNITS = tuple(unit for unit in COMPILED_UNITS if unit not in READER_UNITS)

logger = logging.getLogger("savepointdb")


class Compilation:
    """The compiling of the parts that are missing on this machine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    @property
    def is_running(self) -> bool:
        """True if a write would wait for the compiler."""
        return self._process is not None

    def start(self) -> None:
        """Begin to compile what is missing; return at once."""
        threading.Thread(target=self._run, name="compilation", daemon=True).start()

    def close(self) -> None:
        """End it; parts that are compiled are kept."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        if not missing_units(_UNITS):
            return
        lifeline, own = os.pipe()
        try:
            with self._lock:
                if self._is_closed:
                    return
                self._process = process = start_process(__name__, lifeline)
            logger.info("what writes need is compiled for this processor, once: a first write waits for it")
            code = process.wait()
            if code == 0:
                logger.info("what writes need is compiled")
            elif not self._is_closed:
                logger.warning(
                    "what writes need was not compiled: exit code %d; the first write compiles it", code
                )
        finally:
            self._process = None
            os.close(own)
            os.close(lifeline)


def main() -> None:
    """Compile all parts, in the process that `Compilation` starts."""
    end_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield_to_the_server()
    compile_all(_UNITS)
