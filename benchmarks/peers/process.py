"""A process, measured from outside.

`wait4` returns the resource usage of a process, and adds its bytes and its number of read calls to those of this process in
`/proc/self/io` (pages of a memory map are in neither; to read that file itself is a call or two). The file of the ended process
says the same, but newer kernels show it to root only. Peak memory begins with that of the process that starts another, so the
starting process must be small.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedProcess:
    """A process that has ended.

    Attributes:
        code: its exit code.
        output: its standard output.
        errors: the end of its standard error.
        wall_s: from start to end.
        cpu_s: user and system time of all its threads, and of its children.
        peak_mib: the most memory it had.
        read_bytes: bytes that its read calls returned.
        read_calls: number of its read calls.
    """

    code: int
    output: str
    errors: str
    wall_s: float
    cpu_s: float
    peak_mib: float
    read_bytes: int
    read_calls: int


def run_measured(command: Sequence[str], environment: Mapping[str, str] | None = None) -> FinishedProcess:
    """Run a command to its end; return its output and its measurements."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment
        )
        try:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wall_s = time.perf_counter() - started
        before = _counted()
        _, status, usage = os.wait4(process.pid, 0)
        counted = {name: count - before[name] for name, count in _counted().items()}
        process.returncode = os.waitstatus_to_exitcode(status)
        return FinishedProcess(
            code=process.returncode,
            output=_text(output.fileno()),
            errors=_text(errors.fileno()),
            wall_s=wall_s,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_mib=usage.ru_maxrss / 1024,
            read_bytes=counted.get("rchar", 0),
            read_calls=counted.get("syscr", 0),
        )


def _counted() -> dict[str, int]:
    """Return the kernel's counts of input and output of this process; empty where the kernel does not give them."""
    try:
        lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    return {name: int(count) for name, _, count in (line.partition(": ") for line in lines)}


def _text(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode("utf-8", "replace")
