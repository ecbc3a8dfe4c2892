"""`savepointdb demo`: the savepoints that come with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import savepointdb
from service import cli

WRONG, OFFSETS = "customers__account", "source_offsets"


def test_demo_writes_two_jobs_with_a_wrong_total_and_a_lost_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my demo"

    assert cli.main(["demo", str(folder), "--no-serve"]) == 0

    assert f"savepointdb lookup '{folder}/orders' customer-42" in capsys.readouterr().out
    with savepointdb.connect(str(folder / "orders")) as orders:
        wrong = (
            f"SELECT key, value.orders, value.totalCents FROM latest.{WRONG} WHERE value.totalCents > 100000"
        )
        assert orders.sql(wrong).fetchall() == [("customer-42", 10, 100_008_312)]
        offsets = f'SELECT "partition", starting_offset FROM latest.{OFFSETS} ORDER BY 1'
        assert orders.sql(offsets).fetchall() == [(0, 500), (1, 500), (2, 500), (3, 620)]
    with savepointdb.connect(str(folder / "wordcount")) as words:
        assert words.sql("SELECT count(*) FROM aggregate").fetchall() == [(1000,)]


def test_demo_keeps_what_is_there_and_takes_no_folder_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["demo", str(tmp_path / "mine"), "--no-serve"])
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "mine").rglob("*")}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()

    assert cli.main(["demo", str(tmp_path / "mine"), "--no-serve"]) == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "mine").rglob("*")} == times
    capsys.readouterr()
    assert cli.main(["demo", str(tmp_path / "other"), "--no-serve"]) == 2
    assert f"expected a new or empty folder, found something in {tmp_path}/other" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["file"]


@pytest.mark.slow
def test_demo_serves_its_jobs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "service.cli", "demo", str(tmp_path / "demo"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("savepointdb serves"))
        address = line.rpartition(" ")[2].strip()
        jobs = httpx.get(f"{address}api/jobs").json()["jobs"]
        process.terminate()

    assert [job["name"].partition("__")[0] for job in jobs] == ["orders", "wordcount"]
