"""Savepoints of old versions of Flink: what newer ones still read."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import doctor
from doctor import Outcome, Severity, Stage
from tests.support.oldversions import unpack_old
from tests.support.paths import DATA

CASE = "win-op-migration-test-session-with-stateful-trigger-mint"


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("versions")
    for name in ("savepoints", "operators"):
        with tarfile.open(DATA / "versions" / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    return unpack_old(folder)


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


@pytest.mark.parametrize(
    ("snapshot", "flink", "backend", "rules"),
    [
        ("1.7.2/kinds-rocks/sp-1", "1.10", "rocksdb", set()),
        ("1.7.2/kinds-rocks/sp-1", "1.11", "rocksdb", {"row-of-1-7"}),
        ("1.7.2/kinds-rocks/sp-1", "1.16", "rocksdb", {"row-of-1-7"}),
        ("1.7.2/kinds-rocks/sp-1", "1.17", "rocksdb", {"config-snapshot"}),
        ("1.7.2/kinds-rocks/sp-1", "1.16", "hashmap", {"native-other-backend"}),
        ("1.8.3/sql-heap/sp-1", "1.10", "hashmap", set()),
        ("1.8.3/sql-heap/sp-1", "1.11", "hashmap", {"kryo-row-of-1-10"}),
        ("1.8.3/sql-rocks/sp-1", "1.20", "rocksdb", {"kryo-row-of-1-10"}),
        ("1.9.3/sqlx-heap/sp-1", "1.10", "hashmap", set()),
        ("1.10.3/sql-heap/sp-1", "1.11", "hashmap", {"sql-of-1-10"}),
        ("1.12.7/sql-rocks/sp-1", "1.12", "rocksdb", set()),
        ("1.12.7/sql-rocks/sp-1", "1.13", "rocksdb", {"sql-aggregates-of-1-12"}),
        ("1.12.7/kinds-rocks/sp-1", "1.20", "rocksdb", set()),
        ("1.12.7/kinds-rocks/sp-1", "1.20", "hashmap", {"native-other-backend"}),
        (
            "1.13.6/kinds-rocksfull-heaptimers/checkpoint/chk-8",
            "1.20",
            "hashmap",
            {"native-other-backend"},
        ),
    ],
)
def test_what_newer_versions_make_of_the_state_of_old_jobs(
    savepoints: Path, snapshot: str, flink: str, backend: str, rules: set[str]
) -> None:
    report = doctor.check(savepoints / snapshot, flink=flink, backend=backend)

    of_operators = {one.rule for one in report.operators if one.outcome is Outcome.FAILS}
    of_states = {
        state.rule for one in report.operators for state in one.states if state.severity is Severity.FAILS
    }
    assert (of_operators | of_states) - {None} == rules
    assert report.outcome is (Outcome.FAILS if rules else Outcome.RESTORES)


def test_windows_of_a_native_savepoint_without_timers_are_lost(tmp_path: Path) -> None:
    report = doctor.check(unpack_old(tmp_path, "heaptimers") / "native", flink="1.20", backend="rocksdb")

    assert (report.outcome, report.loses_data) == (Outcome.RESTORES, True)
    assert [one.rule for one in report.operators if one.loses_data] == ["heap-timers-left-out"] * 6
