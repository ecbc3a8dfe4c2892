"""Real Flink, one process a version, which runs the jobs of `tests/flink/restore` one after the other.

Most of the time of a single run goes into starting Java and loading Flink's classes.
"""

from __future__ import annotations

import json
import subprocess
import threading
from functools import cache
from typing import Any

from tests.support.paths import PROJECT

_RUN = PROJECT / "tests/flink/restore/run.sh"
_TIMEOUT_S = 240

Lines = list[dict[str, Any]]


class ServedFlink:
    """A process of one version of Flink; it ends when its standard input does."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._process = subprocess.Popen(
            [str(_RUN), version, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *arguments: str) -> Lines:
        """The lines that a job prints: its arguments are those of `run.sh` behind the version."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(_TIMEOUT_S, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write("\t".join(arguments) + "\n")
            self._process.stdin.flush()
            lines: Lines = []
            for text in self._process.stdout:
                line = json.loads(text)
                if line.get("phase") == "ended":
                    assert not line["causes"], "\n".join(line["causes"])
                    return lines
                lines.append(line)
        finally:
            timer.cancel()
        served_flink.cache_clear()
        raise AssertionError(f"Flink {self._version} ended, or ran longer than {_TIMEOUT_S} s")


@cache
def served_flink(version: str) -> ServedFlink:
    """The process of a version, which the first run starts."""
    return ServedFlink(version)
