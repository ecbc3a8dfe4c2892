"""Followers of a real session cluster, killed at random as the service is: the sum of their events is the state of the newest checkpoint.

A job counts, with a checkpoint each second of which ten are retained; incremental RocksDB, and hashmap. It is cancelled, and goes on from
its last checkpoint as another job. `CHECKPOINTS` says how many each follower sees at least (60 if not set). The folder of the last ten
checkpoints is what `tests/data/follow` has, with `RECORD=1`. Many checkpoints take longer than a test may: `-o faulthandler_timeout=0`.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

import savepointdb
from tests.support.flinkcluster import FlinkCluster, flink_cluster
from tests.support.paths import DATA
from tests.support.waiting import awaited

pytestmark = pytest.mark.flink

TABLE = "aggregate__count"
CHECKPOINTS = int(os.environ.get("CHECKPOINTS", "60"))
RECORDED = DATA / "follow"
_SILENT: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
_ASKED = {"table": TABLE, "successors": "true"}


@pytest.fixture(scope="module", params=[("1.20.3", "rocksdb"), ("2.3.0", "hashmap")], ids="-".join)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FlinkCluster]:
    version, backend = request.param
    settings = [f"state.backend.type: {backend}", "execution.checkpointing.incremental: true"]
    with flink_cluster(version, tmp_path_factory.mktemp("followed"), *settings) as found:
        yield found


class Consumer:
    """What a consumer of events has: the rows up to the last checkpoint that came whole, and its token."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.token = "snapshot"
        self.checkpoints: list[int] = []
        self.kinds: set[str] = set()
        self.failure = ""
        self._pending: list[dict[str, Any]] = []

    def begin(self) -> None:
        """Begin again behind the last whole checkpoint."""
        self._pending = []

    def take(self, event: dict[str, Any]) -> None:
        """Take one event; the rows of a checkpoint count at its end."""
        self.kinds |= {"reset", "restarted", "gap", "error"} & event.keys()
        if not event.get("complete"):
            self._pending.append(event)
            return
        changed = [one for one in self._pending if "change" in one]
        assert len(changed) == event["rows"]
        if any("reset" in one for one in self._pending):
            self.rows = {}
        for one in changed:
            assert self.rows.get(one["key"]) == one["value_before"], one
            if one["change"] == "removed":
                del self.rows[one["key"]]
            else:
                self.rows[one["key"]] = one["value_after"]
        self.checkpoints.append(event["checkpoint"])
        self.token = event["token"]
        self.begin()


class Follower(threading.Thread):
    """A door that is read again and again, and killed at random."""

    def __init__(self, read: Callable[[Consumer, Follower], None]) -> None:
        super().__init__(daemon=True)
        self.consumer = Consumer()
        self.random = random.Random(read.__name__)
        self.ends = threading.Event()
        self.kills = 0
        self.stop: Callable[[], object] = lambda: None
        self._read = read

    def run(self) -> None:
        """Read until the end; what goes wrong is kept for the test."""
        while not self.ends.is_set():
            self.consumer.begin()
            try:
                self._read(self.consumer, self)
            except Exception as error:
                if not self.ends.is_set():
                    self.consumer.failure = repr(error)
                    return

    def end(self) -> None:
        """End the reading, and wait for it."""
        self.ends.set()
        self.stop()
        self.join()

    def dies(self) -> bool:
        """Return whether the follower is to be killed at this event; seldom."""
        dies = self.random.random() < 0.0005
        self.kills += dies
        return dies or self.ends.is_set()


def by_command(job: Path) -> Callable[[Consumer, Follower], None]:
    def read(consumer: Consumer, follower: Follower) -> None:
        command = [sys.executable, "-m", "savepointdb", "follow", str(job.parent), TABLE, "--job", job.name]
        command += ["--since", consumer.token, "--successors", "--format", "jsonl", "--interval", "0.2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            follower.stop = process.kill
            for line in process.stdout:
                consumer.take(orjson.loads(line))
                if follower.dies():
                    process.send_signal(signal.SIGKILL)
                    break
            process.kill()

    return read


class Service:
    """A service in a process of its own, which is killed again and again.

    Args:
        root: what it serves.

    Attributes:
        url: its address, which stays.
        kills: how often it was killed.
    """

    def __init__(self, root: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        self.url, self.kills = f"http://127.0.0.1:{port}", 0
        serve = [sys.executable, "-m", "savepointdb", "serve", "--no-cache"]
        self._command = [*serve, "--root", f"real={root}", "--port", str(port)]
        self._process = self._started()

    def restart(self) -> None:
        """Kill it, with all of its workers, and start another one."""
        self.close()
        self.kills += 1
        self._process = self._started()

    def close(self) -> None:
        """Kill it."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, start_new_session=True, **_SILENT)


def by_events(service: Service, job: Path) -> Callable[[Consumer, Follower], None]:
    def read(consumer: Consumer, follower: Follower) -> None:
        with httpx.stream(
            "GET",
            f"{service.url}/api/jobs/{job.name}/changes",
            params=_ASKED,
            headers={"Last-Event-ID": consumer.token},
            timeout=60,
        ) as answer:
            assert answer.status_code == 200, answer.read()
            follower.stop = answer.close
            for line in answer.iter_lines():
                if not line.startswith("data: "):
                    continue
                consumer.take(orjson.loads(line.removeprefix("data: ")))
                if follower.dies():
                    if follower.kills % 3 == 0:
                        service.restart()
                    return

    def read_again(consumer: Consumer, follower: Follower) -> None:
        try:
            read(consumer, follower)
        except httpx.TransportError:
            # The service was killed, or does not listen yet.
            follower.ends.wait(0.2)

    return read_again


def by_python(job: Path) -> Callable[[Consumer, Follower], None]:
    def read(consumer: Consumer, follower: Follower) -> None:
        with savepointdb.connect(job.parent) as db:
            followed = db.follow(TABLE, job=job.name, since=consumer.token, successors=True, interval_s=0.2)
            follower.stop = followed.close
            for one in followed:
                if one.reset:
                    consumer.take({"reset": one.checkpoint_id})
                if one.restarted:
                    consumer.take({"restarted": one.checkpoint_id})
                for row in one.arrow().to_pylist():
                    if follower.dies():
                        return
                    consumer.take(row)
                consumer.take(
                    {"complete": True, "checkpoint": one.checkpoint_id, "rows": len(one), "token": one.token}
                )

    return read


class Lake(threading.Thread):
    """An Iceberg table that follows a job, by a command that is killed again and again."""

    def __init__(self, job: Path, target: Path) -> None:
        super().__init__(daemon=True)
        self.target, self.kills, self.ends = target, 0, threading.Event()
        self.command = [
            sys.executable,
            "-m",
            "savepointdb",
            "export",
            str(job),
            "--to",
            str(target),
            "--format",
        ]
        self.command += ["iceberg", "--tables", TABLE]
        self._random = random.Random("lake")

    def run(self) -> None:
        """Follow and be killed, until the end; then export what is left."""
        while not self.ends.is_set():
            with subprocess.Popen([*self.command, "--follow", "--interval", "0.2"], **_SILENT) as process:
                self.ends.wait(self._random.uniform(3, 20))
                process.send_signal(signal.SIGKILL)
                self.kills += 1
        subprocess.run(self.command, check=True, **_SILENT)

    @property
    def snapshots(self) -> list[tuple[int, int]]:
        """The checkpoint of each snapshot, and the snapshot."""
        return [
            (int(one.summary["savepointdb.checkpoint-id"]), one.snapshot_id)
            for one in self._table().snapshots()
        ]

    def rows(self, snapshot: int) -> dict[str, int]:
        """The rows of a snapshot."""
        found = self._table().scan(snapshot_id=snapshot, selected_fields=("key", "value")).to_arrow()
        return dict(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def _table(self) -> Any:
        from pyiceberg.catalog import load_catalog

        with closing(
            load_catalog("savepointdb", type="sql", uri=f"sqlite:///{self.target}/catalog.db")
        ) as catalog:
            (namespace,) = catalog.list_namespaces()
            # Flink 1.20 stores no uid: the name of the table begins with the id of the operator.
            (table,) = catalog.list_tables(namespace)
            return catalog.load_table(table)


class SparkTable(threading.Thread):
    """A Parquet sink of Spark that follows a job, by a program that is killed again and again."""

    def __init__(self, job: Path, folder: Path) -> None:
        super().__init__(daemon=True)
        self.kills, self.ends = 0, threading.Event()
        self._random = random.Random("spark")
        self._command = [sys.executable, "-c", _STREAM, str(job), str(folder)]

    def run(self) -> None:
        """Follow and be killed, until the end; then read what is left."""
        while not self.ends.is_set():
            with subprocess.Popen([*self._command, "follow"], start_new_session=True, **_SILENT) as process:
                self.ends.wait(self._random.uniform(30, 60))
                os.killpg(process.pid, signal.SIGKILL)
                self.kills += 1

    def rows(self) -> list[dict[str, Any]]:
        """All rows of the sink, once the stream is at the newest checkpoint."""
        told = subprocess.run(
            [*self._command, "end"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return [orjson.loads(line) for line in told.stdout.splitlines() if line.startswith(b"{")]


# Each of its processes goes on from the same checkpoint of Spark.
_STREAM = f"""
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
import savepointdb.spark
job, folder, what = sys.argv[1:]
options = dict(table="{TABLE}", mode="changes", since="snapshot", on_gone="reset")
changes = spark.readStream.format("savepoint").options(**options).load(job)
query = changes.writeStream.option("path", folder + "/sink").option("checkpointLocation", folder + "/state")
if what == "follow":
    query.trigger(processingTime="1 second").start().awaitTermination()
query.trigger(availableNow=True).start().awaitTermination()
for row in spark.read.parquet(folder + "/sink").toJSON().collect():
    print(row)
"""


def summed(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The state of a consumer of rows of `changes`, checkpoint by checkpoint."""
    state: dict[str, int] = {}
    order = {"reset": 0, "removed": 1, "changed": 2, "added": 3}
    for row in sorted(rows, key=lambda row: (row["_checkpoint_id"], order[row["change"]])):
        if row["change"] == "reset":
            state.clear()
            continue
        assert state.pop(row["key"], None) == row.get("value_before"), row
        if row.get("value_after") is not None:
            state[row["key"]] = row["value_after"]
    return state


def test_the_sum_of_all_events_is_the_state(cluster: FlinkCluster, tmp_path: Path) -> None:
    root = cluster.directory / "checkpoints"
    first = cluster.submit()
    awaited(lambda: cluster.newest(first) >= 2)
    with closing(Service(root)) as service:
        job = root / first
        followers = [Follower(read) for read in (by_command(job), by_events(service, job), by_python(job))]
        lake = Lake(job, tmp_path / "lake")
        sink = SparkTable(job, tmp_path / "spark")
        for follower in (*followers, lake, sink):
            follower.start()

        def have_seen(count: int) -> None:
            def seen() -> bool:
                assert not any(one.consumer.failure for one in followers), [
                    one.consumer.failure for one in followers
                ]
                return min(len(one.consumer.checkpoints) for one in followers) >= count

            awaited(seen, count * 20 + 300, 0.2)

        have_seen(CHECKPOINTS // 2)
        cluster.cancel(first)
        last = cluster.newest(first)
        lake.ends.set()
        sink.ends.set()
        second = cluster.submit(restores=root / first / f"chk-{last}")
        have_seen(CHECKPOINTS)
        cluster.cancel(second)
        newest = root / second / f"chk-{cluster.newest(second)}"
        with savepointdb.connect(newest) as db:
            state: dict[str, int] = dict(db.sql(f"SELECT key, value FROM {TABLE}").fetchall())
        number = int(newest.name.removeprefix("chk-"))
        awaited(lambda: all(one.consumer.checkpoints[-1] == number for one in followers), 60)
        for follower in followers:
            follower.end()

    lake.join()
    sink.join()
    checkpoints = [checkpoint for checkpoint, _ in lake.snapshots]
    assert checkpoints == sorted(set(checkpoints))
    assert checkpoints[-1] == last
    assert lake.kills
    assert sink.kills
    with savepointdb.connect(root / first / f"chk-{last}") as db:
        of_first: dict[str, int] = dict(db.sql(f"SELECT key, value FROM {TABLE}").fetchall())
    assert lake.rows(lake.snapshots[-1][1]) == of_first
    assert summed(sink.rows()) == of_first
    assert len(state) == 1000
    assert [one.consumer.rows == state for one in followers] == [True, True, True]
    assert all("restarted" in one.consumer.kinds for one in followers)
    assert (all(one.kills for one in followers) and service.kills) or CHECKPOINTS < 60
    if os.environ.get("RECORD"):
        record(cluster.version, root / second)


def record(version: str, job: Path) -> None:
    """Keep the last checkpoints of a job."""
    RECORDED.mkdir(exist_ok=True)
    with tarfile.open(RECORDED / f"counting-{version}.tar.xz", "w:xz") as archive:
        numbers = sorted(int(path.name[4:]) for path in job.glob("chk-*"))
        for name in ["shared", *(f"chk-{number}" for number in numbers[-5:])]:
            if (job / name).exists():
                archive.add(job / name, f"job/{name}")
