"""A real session cluster: its job appears with its name, `latest` follows, a planted fault is found, a savepoint opens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import ceil, log2
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from tests.support.flinkcluster import FlinkCluster, flink_cluster
from tests.support.serving import listening
from tests.support.waiting import awaited

pytestmark = pytest.mark.flink

RETAINED = 10
_NEGATIVE = "SELECT key, value FROM aggregate WHERE key = 'key_662' AND value < 0"


@pytest.fixture(scope="module", params=[("1.20.3", "rocksdb"), ("2.3.0", "hashmap")], ids="-".join)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FlinkCluster]:
    """A cluster of each version, with another state backend."""
    version, backend = request.param
    settings = [f"state.backend.type: {backend}", "execution.checkpointing.incremental: true"]
    with flink_cluster(version, tmp_path_factory.mktemp("cluster"), *settings) as found:
        yield found


def test_a_live_job_from_its_first_checkpoint_to_its_fault(
    cluster: FlinkCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    roots = [Root(path=str(cluster.directory / name), label=name) for name in ("checkpoints", "savepoints")]
    settings = Settings.of(
        flink=f"real={cluster.url}",
        flink_poll_s=0.5,
        flink_savepoints=True,
        cache="off",
        # Not by looking again now and then: only the cluster says what is new.
        rescan_after_s=3600.0,
    )
    catalog = Catalog(roots, rescan_after_s=settings.storage.rescan_after_s)
    app = create_app(settings, catalog, roots=[root.path for root in roots])
    with listening(app) as url, httpx.Client(base_url=url, timeout=60) as client:
        job_id = cluster.submit()
        job = awaited(lambda: job_of(client, job_id))
        assert (job["live"]["state"], job["live"]["url_label"]) == ("RUNNING", "real")
        assert client.get("/api/flink").json()["clusters"][0]["version"] == cluster.version

        for _ in range(3):
            number = cluster.get(f"/jobs/{job_id}/checkpoints")["latest"]["completed"]["id"] + 1
            awaited(lambda number=number: latest_of(client) >= number)  # type: ignore[misc]

        begun = client.post(f"/api/jobs/{job['name']}/savepoints", json={"format": "canonical"})
        assert begun.status_code == 202, begun.text
        taken = awaited(lambda: ended(client, begun.headers["location"]))
        assert taken["error"] is None
        # The table has the name that the job gave to its operator, also where the savepoint does not store it.
        assert rows(client, f'SELECT count(*), min(value) > 0 FROM "{taken["database"]}".aggregate') == [
            [1000, True]
        ]
        assert taken["database"] in job_of(client, job_id)["databases"]

        capfd.readouterr()
        assert main(["savepoint", "counting", "--flink", cluster.url, "--format", "native", "--wait"]) == 0
        path, told = capfd.readouterr()
        assert Path(path.strip()).parent == cluster.directory / "savepoints"
        assert ", 3 operators" in told

        awaited(lambda: cluster.completed(job_id) >= RETAINED)
        cluster.spoil()
        spoiled_at = cluster.newest(job_id)
        awaited(lambda: cluster.newest(job_id) >= spoiled_at + 4)
        cluster.cancel(job_id)
        awaited(lambda: (job_of(client, job_id) or {"live": {}})["live"].get("state") == "CANCELED")
        catalog.refresh()

        history = rows(
            client,
            f'SELECT _checkpoint_id, value FROM "{job["history"]}".aggregate '
            "WHERE key = 'key_662' AND _database LIKE 'checkpoints%' ORDER BY 1",
        )

    numbers = [number for number, _ in history]
    first = next(number for number, value in history if value < 0)
    assert RETAINED <= len(history) <= RETAINED + 1
    assert [value < 0 for _, value in history] == [number >= first for number in numbers]
    assert numbers[0] < first < numbers[-1]
    capfd.readouterr()
    code = main(
        ["bisect", str(cluster.directory / "checkpoints"), _NEGATIVE, "--job", job_id, "--format", "json"]
    )
    found = json.loads(capfd.readouterr().out)
    last = numbers[numbers.index(first) - 1]
    assert (code, found["first"]["checkpoint_id"], found["last"]["checkpoint_id"]) == (0, first, last), found
    assert len(found["questions"]) <= ceil(log2(len(history))) + 1


def job_of(client: httpx.Client, job_id: str) -> Any:
    """The job of an id, once a cluster says its name."""
    jobs = client.get("/api/jobs").json()["jobs"]
    return next((job for job in jobs if job["job_id"] == job_id and job["job_name"] == "counting"), None)


def latest_of(client: httpx.Client) -> int:
    number: int = client.get("/api/databases/latest").json()["checkpoint_id"] or 0
    return number


def ended(client: httpx.Client, path: str) -> Any:
    status = client.get(path).json()
    return None if status["status"] == "running" else status


def rows(client: httpx.Client, sql: str) -> list[list[Any]]:
    answer = client.post("/api/query", json={"sql": sql}).json()
    assert "rows" in answer, answer
    found: list[list[Any]] = answer["rows"]
    return found
