"""A savepoint restores in the job that wrote it: whatever its types and its layout are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import doctor
from doctor import CheckReport, Outcome, Severity
from readers import ReaderError, Savepoint
from tests.support.compatpairs import unpack_pairs
from tests.support.paths import DATA
from tests.support.retained import changed, with_offset

WRITTEN = sorted(path.parent for path in (DATA / "flink").rglob("_metadata"))
# Kryo 2 loses the zone of these when hashmap writes them, without any change.
LOSING = {"kryo2-zones"}


def against_itself(path: Path) -> CheckReport:
    savepoint = Savepoint(path)
    formats = {
        source.backend
        for operator in savepoint.operators
        for source in operator.sources
        if source.key_serializer
    }
    return doctor.check(
        savepoint,
        against=[doctor.SavepointAgainst(savepoint)],
        flink="2.3.0" if savepoint.metadata.version > 4 else "1.20.3",
        backend="hashmap" if "hashmap" in formats else "rocksdb",
    )


def assert_restores(path: Path) -> None:
    report = against_itself(path)

    assert (report.outcome, report.stage) == (Outcome.RESTORES, None)
    losing = {
        state.rule for each in report.operators for state in each.states if state.severity is Severity.LOSES
    }
    assert losing <= LOSING


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(DATA)))
def test_a_savepoint_restores_in_its_own_job(path: Path) -> None:
    assert_restores(path)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = unpack_pairs(tmp_path_factory.mktemp("pairs"), ["kryo-avro-on-cp-pojo"])
    return folder / "kryo-avro-on-cp-pojo" / "savepoints" / "A-1.20.3-rocksdb-canonical"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_header_is_an_error_or_a_report(
    everything: Path, tmp_path: Path, at: int, flip: int
) -> None:
    damaged = tmp_path / "damaged"
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(everything, damaged)
    file = max(damaged.iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[at % len(content)] ^= flip
    file.write_bytes(content)

    try:
        report = doctor.check(
            damaged, against=[doctor.SavepointAgainst(Savepoint(everything))], flink="1.20.3"
        )
    except ReaderError as error:
        assert str(error)  # noqa: PT017  # most damage is no error of the whole savepoint
    else:
        assert report.to_dict()["outcome"] in ("restores", "fails", "unknown")


@pytest.mark.parametrize(("offset", "outcome"), [(-250, Outcome.FAILS), (-915623761775, Outcome.RESTORES)])
def test_an_offset_that_no_source_can_have_fails(offset: int, outcome: Outcome, tmp_path: Path) -> None:
    report = against_itself(with_offset(tmp_path / "new", offset))

    assert report.outcome is outcome
    found = [state.message for each in report.operators for state in each.states if state.rule]
    assert [message.partition(":")[0] for message in found] == (
        ["topic words, partition 0"] if outcome is Outcome.FAILS else []
    )


def test_an_offset_of_a_state_that_the_new_job_lacks_is_not_read(tmp_path: Path) -> None:
    new = with_offset(tmp_path / "new", -250)
    without = changed(tmp_path / "without", 'DROP TABLE "source__topic-partition-offset-states"')

    report = doctor.check(new, against=[doctor.SavepointAgainst(Savepoint(without))])

    assert report.outcome is Outcome.RESTORES
