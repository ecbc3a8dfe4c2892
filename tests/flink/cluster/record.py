"""Records what Flink's REST API answers: `python -m tests.flink.cluster.record <flink version> <output folder>`.

Each answer is a file: request, status and body, as Flink gave them. The fast tests serve them again (`tests/support/flinkrest.py`).
"""

from __future__ import annotations

import json
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.flinkcluster import FlinkCluster, flink_cluster
from tests.support.waiting import awaited

# Answers name folders: always the same ones.
DIRECTORY = Path("/tmp/savepointdb-cluster")
CHECKPOINTS = 12
_KEPT = 100


def main(version: str, output: Path) -> None:
    """Run a job, and record its answers while it runs and after its end."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with flink_cluster(version, DIRECTORY) as cluster:
        job = cluster.submit()
        awaited(lambda: cluster.completed(job) >= CHECKPOINTS)
        order = {"formatType": "CANONICAL", "triggerId": "5" * 32, "cancel-job": False}
        _record(cluster, output, "savepoint", f"/jobs/{job}/savepoints", order)
        _record(cluster, output, "savepoint-begun", f"/jobs/{job}/savepoints/{'5' * 32}")
        awaited(lambda: cluster.get(f"/jobs/{job}/savepoints/{'5' * 32}")["status"]["id"] == "COMPLETED")
        _record(cluster, output, "savepoint-done", f"/jobs/{job}/savepoints/{'5' * 32}")
        nowhere = order | {"triggerId": "6" * 32, "target-directory": "file:///proc/nowhere"}
        _record(cluster, output, "savepoint-nowhere", f"/jobs/{job}/savepoints", nowhere)
        awaited(lambda: cluster.get(f"/jobs/{job}/savepoints/{'6' * 32}")["status"]["id"] == "COMPLETED")
        _record(cluster, output, "savepoint-failed", f"/jobs/{job}/savepoints/{'6' * 32}")
        _record(cluster, output, "savepoint-unknown", f"/jobs/{job}/savepoints/{'7' * 32}")
        _record(cluster, output, "config", "/config")
        _record(cluster, output, "overview", "/overview")
        _record(cluster, output, "jobs", "/jobs")
        _record(cluster, output, "jobs-overview", "/jobs/overview")
        _record(cluster, output, "job", f"/jobs/{job}")
        _record(cluster, output, "plan", f"/jobs/{job}/plan")
        _record(cluster, output, "exceptions", f"/jobs/{job}/exceptions")
        _record(cluster, output, "checkpoints", f"/jobs/{job}/checkpoints")
        _record(cluster, output, "checkpoints-config", f"/jobs/{job}/checkpoints/config")
        last = cluster.get(f"/jobs/{job}/checkpoints")["latest"]["completed"]["id"]
        _record(cluster, output, "checkpoint", f"/jobs/{job}/checkpoints/details/{last}")
        _record(cluster, output, "job-unknown", f"/jobs/{'8' * 32}/checkpoints")
        cluster.cancel(job)
        _record(cluster, output, "jobs-overview-canceled", "/jobs/overview")
        _record(cluster, output, "checkpoints-canceled", f"/jobs/{job}/checkpoints")
    shutil.rmtree(DIRECTORY)


def _record(cluster: FlinkCluster, output: Path, name: str, path: str, order: Any = None) -> None:
    body = None if order is None else json.dumps(order).encode()
    request = urllib.request.Request(cluster.url + path, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            status, content = response.status, json.load(response)
    except urllib.error.HTTPError as error:
        status, content = error.code, json.load(error)
    # A Java object of 37 kB that nobody reads.
    cause = (content.get("operation") or {}).get("failure-cause") or {}
    if "serialized-throwable" in cause:
        cause["serialized-throwable"] = cause["serialized-throwable"][:_KEPT]
    recorded = {"request": f"{request.get_method()} {path}", "status": status, "body": content}
    (output / f"{name}.json").write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
