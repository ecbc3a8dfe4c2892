"""Followers of checkpoints that a real cluster of Flink wrote: the sum of the events is each checkpoint, row by row.

`test_cluster.py` has recorded them: five checkpoints, one after the other, of incremental RocksDB (1.20.3) and of hashmap (2.3.0), the
first ones of a job that was restored.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

import savepointdb
from tests.support.paths import DATA

TABLE = "aggregate__count"
RECORDED = sorted((DATA / "follow").glob("*.tar.xz"))


@pytest.fixture(params=RECORDED, ids=lambda path: path.name)
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "job"


def test_there_are_recorded_jobs() -> None:
    assert [path.name for path in RECORDED] == ["counting-1.20.3.tar.xz", "counting-2.3.0.tar.xz"]


def test_the_sum_of_the_events_is_each_checkpoint(job: Path) -> None:
    numbers = sorted(int(path.name.removeprefix("chk-")) for path in job.glob("chk-*"))
    rows: dict[str, int] = {}
    changes = []
    with savepointdb.connect(job) as db:
        for one in db.follow(TABLE, since="earliest", once=True):
            found: list[dict[str, Any]] = one.arrow().to_pylist()
            for row in found:
                assert rows.get(row["key"]) == row["value_before"]
                rows[row["key"]] = row["value_after"]
            state: dict[str, int] = dict(
                db.database(one.database).sql(f"SELECT key, value FROM {TABLE}").fetchall()
            )
            assert rows == state
            changes.append((one.checkpoint_id, len(found)))
        in_sql = db.sql(
            f"SELECT _checkpoint_id, count(*) FROM job__history.changes('{TABLE}') GROUP BY 1 ORDER BY 1"
        ).fetchall()

    assert [number for number, _ in changes] == numbers
    assert len(rows) == 1000
    # A job that counts changes each key now and then, and no key twice in a checkpoint.
    assert all(0 < count <= 1000 for _, count in changes)
    assert in_sql == changes[1:]
