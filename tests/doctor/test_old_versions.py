"""Savepoints of old versions of Flink: what newer ones still read."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import doctor
from doctor import Outcome, Stage
from tests.support.paths import DATA

CASE = "win-op-migration-test-session-with-stateful-trigger-mint"


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("versions")
    for name in ("savepoints", "operators"):
        with tarfile.open(DATA / "versions" / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("version", ["1.6", "1.7"])
def test_savepoints_of_before_1_8_are_not_read_by_1_17(savepoints: Path, version: str) -> None:
    old = doctor.check(savepoints / CASE / version, flink="1.16.0")
    new = doctor.check(savepoints / CASE / version, flink="1.20.3")

    assert old.outcome is Outcome.RESTORES
    assert (new.outcome, new.stage) == (Outcome.FAILS, Stage.RESTORE)
    assert "config-snapshot" in {state.rule for operator in new.operators for state in operator.states}


@pytest.mark.parametrize("version", ["1.8", "1.11", "1.14", "1.20"])
def test_savepoints_of_1_8_are_read(savepoints: Path, version: str) -> None:
    assert doctor.check(savepoints / CASE / version, flink="1.20.3").outcome is Outcome.RESTORES


def test_the_metadata_of_1_2_is_read_by_no_newer_flink(savepoints: Path) -> None:
    report = doctor.check(savepoints / "nonKeyed" / "1.2", flink="2.3.0")

    assert (report.outcome, report.stage, report.rule) == (Outcome.FAILS, Stage.GRAPH, "metadata-too-old")
