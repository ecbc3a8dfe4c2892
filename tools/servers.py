"""Servers of their own for benchmarks and tests, and their processes, measured from outside."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import httpx

# For one answer: on a busy machine a server that starts may need longer than a client waits by itself.
_PATIENCE_S = 60.0


def allow_files(count: int) -> None:
    """Let this process open so many files, if the machine allows it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (count if most == resource.RLIM_INFINITY else min(count, most), most)
    )


@contextmanager
def served(
    root: Path, *options: str, files: int = 0, checkout: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server over a folder, and yield it and its address when it is ready.

    Args:
        root: the folder.
        options: of the command `serve`.
        files: most files that the server may have open; 0 for the limit of this process.
        checkout: folder of the code that serves; None for this code.
    """
    command = [sys.executable, "-m", "service.cli", "serve", "--root", str(root), "--port", "0", *options]
    if files:
        command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
    # It logs to a file: a pipe that is not read fills up, and then the server waits for ever.
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            command,
            stderr=log,
            text=True,
            cwd=checkout,
            env=None if checkout is None else os.environ | {"PYTHONPATH": str(checkout)},
        ) as server,
    ):
        try:
            while not (logged := re.search(rb"http://\S+(?=/\n)", os.pread(log.fileno(), 4096, 0))):
                if server.poll() is not None:
                    raise RuntimeError(f"expected a server, found the exit code {server.returncode}")
                time.sleep(0.05)
            address = logged[0].decode()
            while (
                httpx.get(f"{address}/readyz", verify=False, timeout=_PATIENCE_S).status_code != HTTPStatus.OK
            ):
                time.sleep(0.05)
            yield server, address
        finally:
            server.terminate()


@dataclass(frozen=True, slots=True)
class Process:
    """A process in `/proc`.

    Attributes:
        parent: the id of its parent.
        own_s: processor time that it took.
        dead_s: processor time of its children that ended.
    """

    parent: int
    own_s: float
    dead_s: float


def processes() -> dict[int, Process]:
    """Return all processes by their ids."""
    ticks = os.sysconf("SC_CLK_TCK")
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                user, system, dead_user, dead_system = (int(text) / ticks for text in fields[11:15])
                found[int(path.name)] = Process(int(fields[1]), user + system, dead_user + dead_system)
    return found


def children_of(parent: int, known: dict[int, Process]) -> list[int]:
    """Return the ids of a process's children."""
    return [number for number, process in known.items() if process.parent == parent]


def workers_of(server: int) -> list[int]:
    """Return the ids of a server's workers: the children of its fork server."""
    known = processes()
    return [worker for forks in children_of(server, known) for worker in children_of(forks, known)]


def cpu_of(server: int) -> dict[str, float]:
    """Return the processor time of the clients, of a server and of its workers so far, also of those that ended."""
    known = processes()
    forks = children_of(server, known)
    workers = [worker for fork in forks for worker in children_of(fork, known)]
    return {
        "clients": time.process_time(),
        "server": known[server].own_s,
        "workers": sum(known[fork].own_s + known[fork].dead_s for fork in forks)
        + sum(known[worker].own_s for worker in workers),
    }


def share_bytes(process: int) -> int:
    """Return the memory of a process, with its share of the pages that processes share; 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def shares_bytes(processes: list[int]) -> int:
    """Return the memory of several processes; slow."""
    return sum(map(share_bytes, processes))


def resident_bytes(process: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
