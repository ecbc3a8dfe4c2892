"""Recorded answers of real Flink, and a folder with checkpoints of the recorded job."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.base.settings import Settings
from tests.support.flinkrest import VERSIONS, RecordedFlink, recorded_flink
from tests.support.paths import DATA

SAVEPOINT = DATA / "flink" / "2.3.0" / "wordcount-hashmap-savepoints" / "canonical"
RECORDED_FOLDER = "file:/tmp/savepointdb-cluster"

MakeCheckpoint = Callable[[str, int], Path]


@pytest.fixture(params=VERSIONS)
def flink(request: pytest.FixtureRequest) -> Iterator[RecordedFlink]:
    """Each version of Flink that was recorded."""
    with recorded_flink(request.param) as found:
        yield found


@pytest.fixture(params=[VERSIONS[-1], pytest.param(VERSIONS[0], marks=pytest.mark.slow)])
def any_flink(request: pytest.FixtureRequest) -> Iterator[RecordedFlink]:
    """The newest of these versions; all where time allows."""
    with recorded_flink(request.param) as found:
        yield found


@pytest.fixture
def newest_flink() -> Iterator[RecordedFlink]:
    """The newest of these versions."""
    with recorded_flink(VERSIONS[-1]) as found:
        yield found


@pytest.fixture
def make_checkpoint(tmp_path: Path) -> MakeCheckpoint:
    """Makes `checkpoints/<job id>/chk-N`, the higher its number the newer."""

    def make(job_id: str, number: int) -> Path:
        path = tmp_path / "checkpoints" / job_id / f"chk-{number}"
        shutil.copytree(SAVEPOINT, path)
        os.utime(path / "_metadata", (1_700_000_000 + number, 1_700_000_000 + number))
        return path

    return make


def settings_of(flink: RecordedFlink, tmp_path: Path, /, **values: object) -> Settings:
    """Settings of a service that follows a cluster whose folder is `tmp_path` here."""
    defaults = {
        "flink": f"prod={flink.url}",
        "flink_path_map": f"{RECORDED_FOLDER}={tmp_path}",
        "flink_timeout_s": 60.0,
        "cache": "off",
    }
    return Settings.of(**defaults | values)
