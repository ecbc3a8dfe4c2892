"""`Connection.follow`: checkpoints of a job, one after the other, in `for` and in `async for`."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import savepointdb
from tests.support.changing import CHANGES, TABLE, make_job


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_job(tmp_path_factory.mktemp("followed") / "job")


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ["change", "key", "value_before", "value_after"]
    return sorted((tuple(row[name] for name in names) for row in table.to_pylist()), key=str)


def test_checkpoints_are_arrow_tables_and_frames(job: Path) -> None:
    with savepointdb.connect(job) as db, db.follow(TABLE, since=1, once=True) as followed:
        found = list(followed)

    assert [(one.checkpoint_id, one.token, one.database, len(one)) for one in found] == [
        (2, "2", "job__chk-2", 3),
        (3, "3", "job__chk-3", 2),
        (4, "4", "job__chk-4", 1),
    ]
    assert [rows_of(one.arrow()) for one in found] == [sorted(rows, key=str) for rows in CHANGES.values()]
    assert found[0].arrow().schema.names[:4] == ["_checkpoint_id", "_checkpoint_at", "_database", "change"]
    assert found[0].df()["_checkpoint_id"].tolist() == [2, 2, 2]
    assert pa.Table.from_batches(found[1].batches()).equals(found[1].arrow())
    assert not any(one.reset or one.restarted or one.gaps for one in found)
    assert repr(found[2]) == "<checkpoint 4: 1 changes, token '4'>"


def test_a_beginning_and_a_gap_are_said(job: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(job, tmp_path / "job")
    shutil.rmtree(copy / "chk-2")

    with savepointdb.connect(copy) as db:
        first, second, third = db.follow(TABLE, since="earliest", once=True)

    assert (first.reset, len(first)) == ("it begins with all rows", 1000)
    assert [(gap.first, gap.last, gap.reason) for gap in second.gaps] == [
        (2, 2, "removed, or never completed")
    ]
    assert (len(second), len(third)) == (4, 1)


def test_async_for_waits_and_ends_when_closed(job: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(job, tmp_path / "job")
    later = shutil.move(copy / "chk-4", tmp_path / "kept")

    async def read() -> list[int]:
        found = []
        with savepointdb.connect(copy) as db, db.follow(TABLE, since=2, interval_s=0.05) as followed:
            async for one in followed:
                found.append(one.checkpoint_id)
                if one.checkpoint_id == 3:
                    shutil.move(later, copy / "chk-4")
                else:
                    followed.close()
        return found

    assert asyncio.run(asyncio.wait_for(read(), 60)) == [3, 4]


def test_close_ends_the_waiting_of_another_thread(job: Path) -> None:
    with savepointdb.connect(job) as db:
        followed = db.follow(TABLE)
        timer = threading.Timer(0.3, followed.close)
        timer.start()
        assert list(followed) == []
        timer.join()


def test_errors_are_those_of_the_package(job: Path) -> None:
    with savepointdb.connect(job) as db:
        with pytest.raises(savepointdb.TableNotFoundError, match="aggregate__cont"):
            next(db.follow("aggregate__cont"))
        with pytest.raises(savepointdb.InvalidRequestError, match="found 'x'"):
            next(db.follow(TABLE, since="x"))
        with pytest.raises(savepointdb.InvalidRequestError, match="engine"):
            db.follow(TABLE, engine="no")
