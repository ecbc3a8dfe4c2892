"""New checkpoints, as they come."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import catalog
from readers import ReaderError
from service.tasks.time.test.watching import Watch
from tests.support.retained import JOB, changed, retain
from tests.support.waiting import wait_until


def _look(watch: Watch) -> list[tuple[str, str | None]]:
    return [
        (one.database.path.rpartition("/")[2], one.previous.path.rpartition("/")[2] if one.previous else None)
        for one in watch.look()
    ]


def test_each_new_checkpoint_is_seen_once_the_oldest_first(tmp_path: Path) -> None:
    job = tmp_path / JOB
    retain(job, range(1, 4))
    watch = Watch(catalog.connect(tmp_path))

    assert _look(watch) == [("chk-3", "chk-2")]
    assert _look(watch) == []
    retain(job, range(4, 6))
    shutil.rmtree(job / "chk-3")
    assert _look(watch) == [("chk-4", "chk-2"), ("chk-5", "chk-4")]
    retain(tmp_path / "other", range(1, 3))
    assert _look(watch) == [("chk-1", None), ("chk-2", "chk-1")]


def test_a_folder_that_is_away_for_a_moment_loses_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    retain(root / JOB, range(1, 3))
    watch = Watch(catalog.connect(root))
    assert _look(watch) == [("chk-2", "chk-1")]

    root.rename(tmp_path / "away")
    with pytest.raises(ReaderError):
        watch.look()
    (tmp_path / "away").rename(root)
    retain(root / JOB, range(3, 4))

    assert _look(watch) == [("chk-3", "chk-2")]


@pytest.mark.slow
def test_the_program_watches_until_it_is_stopped(tmp_path: Path) -> None:
    root = tmp_path / "root"
    bad = changed(tmp_path / "bad", "UPDATE aggregate__count SET value = -3 WHERE key = 'key_662'")
    retain(root / JOB, range(1, 2))
    (tmp_path / "rules.sql").write_text("-- rule: none\nSELECT key FROM aggregate WHERE value < 0")
    report = tmp_path / "report.json"
    command = ["test", str(tmp_path / "rules.sql"), str(root), "--watch", "--interval", "0.1"]
    hook = ["--json", str(report), "--webhook", "http://127.0.0.1:1/"]

    with subprocess.Popen(
        [sys.executable, "-m", "savepointdb", *command, *hook],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            wait_until(report.exists)
            assert json.loads(report.read_text())["exit_code"] == 0
            report.unlink()
            # Flink writes `_metadata` last, so a checkpoint appears at once.
            retain(tmp_path / "new", range(2, 3), bad)
            (tmp_path / "new" / "chk-2").rename(root / JOB / "chk-2")
            wait_until(report.exists)
            assert json.loads(report.read_text())["exit_code"] == 1
        finally:
            program.send_signal(signal.SIGINT)
            output, errors = program.communicate(timeout=60)

    assert program.returncode == 130
    assert re.findall(r"^(?:VIOLATED|passed)\b", output, re.MULTILINE) == ["passed", "VIOLATED"]
    assert len(re.findall(r"^1 savepoint: .*\n\nroot__", output, re.MULTILINE)) == 1, output
    assert "the report of root__" in errors
    assert "was not sent: 127.0.0.1: expected an answer, found" in errors
