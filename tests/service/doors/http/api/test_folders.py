"""Where the folders of the server are is the owner's business: no answer about damaged savepoints names them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from catalog import Catalog, Root
from service.base.settings import Settings
from service.doors.app import create_app
from service.tasks.write.serving.targets import write_roots_of
from tests.service.conftest import FLINK
from tests.support.waiting import awaited

CHECKPOINTS = FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
CANONICAL = FLINK / "2.3.0" / "everything-rocksdb-savepoints" / "canonical"


@pytest.mark.slow
def test_no_answer_names_the_folders_of_the_server(
    serving: Callable[[FastAPI], AbstractContextManager[str]], tmp_path: Path
) -> None:
    root = tmp_path / "of my jobs"
    shutil.copytree(CANONICAL, root / "a")
    shutil.copytree(CANONICAL, root / "b")
    shutil.copytree(CHECKPOINTS, root / "c")
    cut, missing = list((root / "a").glob("*-*")), list((root / "c" / "shared").iterdir())
    for file in cut:
        file.write_bytes(file.read_bytes()[:-1])
    for file in missing:
        file.unlink()
    sql = "UPDATE aggregate SET value = 0 WHERE key = 'key_1'"
    checkpoint = {"database": "r__c__chk-2"}
    requests = [
        ("checks", {"database": "r__a"}),
        ("checks", checkpoint),
        ("diff", {"before": "r__a", "after": "r__b"}),
        ("diff", {"before": "r__c__chk-1", "after": "r__c__chk-2"}),
        ("lookup", {**checkpoint, "key": "key_1"}),
        ("savepoints", {"source": "r__c__chk-2", "sql": sql, "dry_run": True}),
        *(
            ("query", {"sql": f'SELECT * FROM "{database}".{table}'})
            for database in ("r__a", "r__c__chk-2")
            for table in ("StateMeta", "restore_check", "xray", "source_offsets", "timers")
        ),
    ]
    app = create_app(
        Settings.of(workers=1, write_free_bytes=1),
        Catalog([Root(path=str(root), label="r")]),
        write_roots=write_roots_of([Root(path=str(root), label="r")], [Root(path=str(root))]),
    )
    with serving(app) as address, httpx.Client(base_url=address, timeout=120) as client:
        answers = [client.post(f"/api/{name}", json=request) for name, request in requests]
        write = f"/api/savepoints/{answers[5].json()['id']}"
        awaited(lambda: client.get(write).json()["state"] in ("finished", "failed"))
        answers[5] = client.get(write)

    # Where a database is, its own member says: below the root that is served.
    told = [re.sub('"path":"[^"]*"', "", answer.text) for answer in answers]
    assert [request for request, text in zip(requests, told, strict=True) if "my jobs" in text] == []
    assert answers[5].json()["state"] == "failed"
    assert all(any(file.name in answer.text for answer in answers) for file in cut)
