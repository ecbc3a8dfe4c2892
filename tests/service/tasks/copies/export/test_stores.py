"""Exports to an object store: the same files, the manifest last, and what was killed goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.service.tasks.copies.export.conftest import expected, rows
from tests.support.objectstore import BUCKET, KEY_VARIABLES, Fault, ObjectStore, Proxy, status
from tests.support.paths import DATA
from tests.support.waiting import awaited

WORDCOUNT = DATA / "flink/2.3.0/wordcount-rocksdb-savepoints/native"
HISTORY = DATA / "flink/2.3.0/wordcount-rocksdb-checkpoint-incremental/checkpoint"
TABLES = ("--tables", "aggregate__count,operators")

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _emptied(store: ObjectStore) -> None:
    for key in store.contents(""):
        store.delete(key)


def test_files_go_to_a_store_and_the_manifest_last(export: Any, store: ObjectStore, proxy: Proxy) -> None:
    ended = export(WORDCOUNT, proxy.url("new"), *TABLES)

    assert ended.code == 0, ended.err
    found = store.contents("new/")
    manifest = json.loads(content(store, "new/manifest.json"))
    files = [file["path"] for table in manifest["savepoints"][0]["tables"] for file in table["files"]]
    assert found.keys() == {f"new/{name}" for name in ("manifest.json", *files)}
    (table,) = (one for one in manifest["savepoints"][0]["tables"] if one["name"] == "aggregate__count")
    read = parquet.read_table(pa.BufferReader(content(store, f"new/{table['files'][0]['path']}")))
    assert rows(read) == rows(expected(WORDCOUNT, "aggregate__count"))
    assert "is there already" in export(WORDCOUNT, proxy.url("new"), *TABLES).out


def test_what_was_finished_before_the_store_failed_is_not_sent_again(
    export: Any, store: ObjectStore, proxy: Proxy
) -> None:
    proxy.faults.append(Fault(status(403), method="PUT", key="aggregate__count"))
    failed = export(WORDCOUNT, proxy.url("new"), "--tables", "operators,aggregate__count")
    proxy.faults.clear()
    proxy.requests.clear()

    ended = export(WORDCOUNT, proxy.url("new"), "--tables", "operators,aggregate__count")

    assert (failed.code, "access denied" in failed.err) == (1, True)
    assert ended.code == 0, ended.err
    sent = [request.key for request in proxy.requests if request.method == "PUT"]
    assert not any("operators/part" in key for key in sent)
    assert sum("aggregate__count/part" in key for key in sent) == 1
    assert not [key for key in store.contents("new/") if "_unfinished" in key]


def test_a_savepoint_in_a_store_is_no_target(export: Any, store: ObjectStore, proxy: Proxy) -> None:
    source = proxy.url(store.upload(WORDCOUNT, "savepoint"))

    assert "savepoints are only read" in export(source, proxy.url("savepoint/export")).err
    assert "savepoints are only read" in export(WORDCOUNT, proxy.url("savepoint/export/deeper")).err
    store.put("other/notes.txt", b"mine")
    assert "found notes.txt" in export(WORDCOUNT, proxy.url("other")).err


def test_iceberg_in_a_store_needs_a_catalog(export: Any, proxy: Proxy) -> None:
    assert "--catalog names one" in export(WORDCOUNT, proxy.url("lake"), "--format", "iceberg").err


def test_iceberg_in_a_store_follows_a_job(store: ObjectStore, tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    uri = f"sqlite:///{tmp_path}/catalog.db"

    # Arrow's client sends chunks, which the proxy does not know.
    target = Proxy(store.address, address=store.address).url("lake")
    job = followed(store, tmp_path, target, "--format", "iceberg", "--catalog", uri, *TABLES)

    host, port = store.address
    reached = {
        "s3.endpoint": f"http://{host}:{port}",
        "s3.region": "us-east-1",
        "s3.connect-timeout": "60",
        "s3.request-timeout": "120",
        "s3.access-key-id": KEY_VARIABLES["MOTO_ACCESS_KEY_ID"],
        "s3.secret-access-key": KEY_VARIABLES["MOTO_SECRET_ACCESS_KEY"],
    }
    catalog = load_catalog("savepointdb", uri=uri, **reached)
    table = catalog.load_table(("job", "aggregate__count"))
    found = [table.scan(snapshot_id=one.snapshot_id).to_arrow() for one in table.snapshots()]
    catalog.close()
    assert [rows(one) for one in found] == [
        rows(expected(job / name, "aggregate__count")) for name in ("chk-1", "chk-2")
    ]


def test_delta_in_a_store_follows_a_job(store: ObjectStore, proxy: Proxy, tmp_path: Path) -> None:
    job = followed(store, tmp_path, proxy.url("lake"), "--format", "delta", *TABLES)

    logs = [key for key in store.contents("lake/") if "aggregate__count/_delta_log/" in key]
    assert [key.rpartition("/")[2] for key in sorted(logs)] == [f"{number:020}.json" for number in (0, 1)]
    (added,) = (
        line["add"] for line in map(json.loads, content(store, sorted(logs)[1]).splitlines()) if "add" in line
    )
    read = parquet.read_table(pa.BufferReader(content(store, f"lake/job/aggregate__count/{added['path']}")))
    assert rows(read) == rows(expected(job / "chk-2", "aggregate__count"))


def content(store: ObjectStore, key: str) -> bytes:
    """The bytes of an object."""
    found: bytes = store.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return found


def followed(store: ObjectStore, folder: Path, target: str, *options: str) -> Path:
    """Follow a job until the second of its checkpoints is there; return the job.

    The command is a process of its own: deltalake lets no other thread of Python run while it waits, and the store is one.
    """
    job = folder / "job"
    shutil.copytree(HISTORY / "shared", job / "shared")
    command = [sys.executable, "-m", "savepointdb", "export", str(job), "--to", target, "--no-cache"]
    command += ["--follow", "--interval", "0.05", *options]
    shutil.copytree(HISTORY / "chk-1", job / "chk-1")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            awaited(lambda: is_whole(store, 1))
            shutil.copytree(HISTORY / "chk-2", job / "chk-2")
            awaited(lambda: is_whole(store, 2))
        finally:
            process.kill()
            assert process.stderr is not None
            assert process.stderr.read() == b""
    return job


def is_whole(store: ObjectStore, savepoints: int) -> bool:
    """Whether the manifest has so many savepoints, and nothing is unfinished."""
    found = store.contents("lake/")
    if "lake/manifest.json" not in found or any("_unfinished" in key for key in found):
        return False
    return len(json.loads(content(store, "lake/manifest.json"))["savepoints"]) == savepoints
