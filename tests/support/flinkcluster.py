"""A session cluster of real Flink: a JobManager and a TaskManager, each a process; `tests/flink/cluster`."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.paths import PROJECT
from tests.support.waiting import awaited

FOLDER = PROJECT / "tests" / "flink" / "cluster"
_START_S = 180  # the first start of a version compiles, and may download
_SUBMIT_S = 60


class FlinkCluster:
    """A cluster that runs.

    Attributes:
        version: of Flink.
        directory: with its checkpoints and savepoints, and the file that spoils a count.
        url: its REST API.
    """

    def __init__(self, version: str, directory: Path, port: int) -> None:
        self.version = version
        self.directory = directory
        self.url = f"http://127.0.0.1:{port}"

    def submit(self, name: str = "counting", restores: Path | None = None) -> str:
        """Start the job that counts, from a checkpoint if one is given; returns its id."""
        conf = self.directory / "conf"
        if restores is not None:
            conf = self.directory / "conf-restored"
            conf.mkdir()
            lines = (self.directory / "conf" / "config.yaml").read_text()
            (conf / "config.yaml").write_text(f"{lines}execution.state-recovery.path: {restores.as_uri()}\n")
        done = subprocess.run(
            [
                *(FOLDER / "java.sh", self.version, "savepointdb.cluster.Counting"),
                *(conf, name, self.directory / f"spoil-{name}"),
            ],
            capture_output=True,
            text=True,
            timeout=_SUBMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def spoil(self, name: str = "counting") -> None:
        """Let the count of `key_662` be negative from now on."""
        (self.directory / f"spoil-{name}").touch()

    def get(self, path: str) -> Any:
        """Return an answer of the REST API."""
        with urllib.request.urlopen(self.url + path, timeout=10) as response:
            return json.load(response)

    def cancel(self, job_id: str) -> None:
        """Cancel a job, and wait for its end."""
        request = urllib.request.Request(f"{self.url}/jobs/{job_id}?mode=cancel", method="PATCH")
        with urllib.request.urlopen(request, timeout=10):
            pass
        awaited(lambda: self.get(f"/jobs/{job_id}")["state"] == "CANCELED")

    def newest(self, job_id: str) -> int:
        """Return the number of the newest checkpoint in the storage; the REST API may be three seconds behind."""
        found = (self.directory / "checkpoints" / job_id).glob("chk-*/_metadata")
        return max((int(path.parent.name[4:]) for path in found), default=0)

    def completed(self, job_id: str) -> int:
        """Return how many checkpoints of a job are complete."""
        return int(self.get(f"/jobs/{job_id}/checkpoints")["counts"]["completed"])


@contextmanager
def flink_cluster(version: str, directory: Path, *settings: str) -> Iterator[FlinkCluster]:
    """Start a cluster, and stop it."""
    port, rpc = _free_ports()
    started = subprocess.run(
        [FOLDER / "start.sh", version, directory, str(port), str(rpc), *settings],
        capture_output=True,
        text=True,
        timeout=_START_S,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    try:
        yield FlinkCluster(version, directory.resolve(), port)
    finally:
        subprocess.run([FOLDER / "stop.sh", directory], timeout=60, check=True)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
