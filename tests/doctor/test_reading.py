"""The doctor reads headers only, and says of what cannot be read that it is not known."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import doctor
from doctor import Outcome, Severity, StateOutcome
from readers import JobClasses, ReadCounter, Savepoint
from tests.support.compatpairs import unpack_pairs
from tests.support.paths import DATA
from tests.support.unpacked import unpacked

A, B = "A-2.3.0-rocksdb-canonical", "B-2.3.0-rocksdb-canonical"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = unpack_pairs(tmp_path_factory.mktemp("pairs"), ["pojo-add-field"])
    return folder / "pojo-add-field" / "savepoints"


def state_file(savepoint: Path) -> Path:
    return max(
        (path for path in savepoint.iterdir() if path.name != "_metadata"),
        key=lambda path: path.stat().st_size,
    )


def test_of_state_files_the_headers_are_read_only(pair: Path, tmp_path: Path) -> None:
    large = shutil.copytree(pair / A, tmp_path / "large")
    file = state_file(large)
    header = file.read_bytes()
    counter, few = ReadCounter(), ReadCounter()
    doctor.check(Savepoint(pair / A, counter=few), flink="2.3.0", backend="rocksdb")
    # Behind the header everything is damaged: nothing of it is read.
    start = Savepoint(large).operators[0].sources[0].stored_header()
    assert start is not None
    file.write_bytes(header[: start.header.end] + b"\xff" * (len(header) - start.header.end))

    report = doctor.check(Savepoint(large, counter=counter), flink="2.3.0", backend="rocksdb")

    assert report.outcome is Outcome.RESTORES
    assert counter.bytes_read == few.bytes_read


def test_a_damaged_state_file_is_unknown_and_the_rest_is_checked(pair: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(pair / A, tmp_path / "damaged")
    state_file(damaged).write_bytes(b"\x00\x00\x00\x63" * 100)

    report = doctor.check(damaged, against=[doctor.SavepointAgainst(Savepoint(pair / B))])

    assert report.outcome is Outcome.UNKNOWN
    assert report.severity is Severity.UNKNOWN
    [operator] = [each for each in report.operators if each.rule]
    assert operator.rule == "state-unread"
    assert "what it holds could not be checked: expected " in operator.message
    assert report.to_dict()["outcome"] == "unknown"


def test_a_missing_state_file_is_unknown(pair: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(pair / A, tmp_path / "missing")
    state_file(damaged).unlink()

    report = doctor.check(damaged)

    assert report.outcome is Outcome.UNKNOWN


def test_a_new_job_whose_files_are_damaged_tells_nothing_of_its_states(pair: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(pair / B, tmp_path / "damaged-b")
    state_file(damaged).write_bytes(b"\x00\x00\x00\x63" * 100)

    report = doctor.check(pair / A, against=[doctor.SavepointAgainst(Savepoint(damaged))])

    assert report.outcome is Outcome.UNKNOWN
    assert {state.outcome for operator in report.operators for state in operator.states} == {
        StateOutcome.UNKNOWN
    }


def test_a_native_savepoint_without_one_of_its_files_is_unknown(tmp_path: Path) -> None:
    folder = unpack_pairs(tmp_path, ["native-same"]) / "native-same" / "savepoints" / "A-2.3.0-rocksdb-native"
    tables = [path for path in folder.rglob("*") if path.is_file() and path.name != "_metadata"]
    assert doctor.check(folder, backend="rocksdb").outcome is Outcome.RESTORES

    for path in tables:
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        shortened = doctor.check(folder, backend="rocksdb")
        path.unlink()
        missing = doctor.check(folder, backend="rocksdb")
        path.write_bytes(content)

        assert (shortened.outcome, missing.outcome) == (Outcome.UNKNOWN, Outcome.UNKNOWN)
        assert "a file is missing" in next(each.message for each in missing.operators if each.rule)


def test_operators_without_a_uid_are_a_risk_where_no_job_is_given(tmp_path: Path) -> None:
    folder = unpack_pairs(tmp_path, ["uid-none-same"]) / "uid-none-same" / "savepoints"

    report = doctor.check(folder / "A-2.3.0-hashmap-canonical")

    assert [risk.rule for operator in report.operators for risk in operator.risks] == ["operator-without-uid"]


def test_a_savepoint_of_the_new_job_by_another_flink_is_a_doubt(tmp_path: Path) -> None:
    folder = unpack_pairs(tmp_path, ["pojo-list-field"]) / "pojo-list-field" / "savepoints"
    same = doctor.SavepointAgainst(Savepoint(folder / "A-1.20.3-hashmap-canonical"))

    report = doctor.check(folder / "A-1.20.3-hashmap-canonical", against=[same], flink="2.3.0")

    assert "new-job-of-other-flink" in {risk.rule for risk in report.risks}
    assert report.severity is not Severity.FINE


def test_a_report_names_the_classes_that_the_savepoint_needs(pair: Path) -> None:
    report = doctor.check(pair / A)

    assert {(one.class_name, one.role, one.state_name) for one in report.required_classes} == {
        ("app.Acc", "POJO", "s"),
        ("app.Acc", "declares a field", "s"),
    }


def test_records_in_flight_are_a_risk(tmp_path: Path) -> None:
    snapshot = unpacked("1.20.3-unaligned-hashmap-chk-1", tmp_path)

    report = doctor.check(snapshot.directory, flink="1.20.3")

    assert "records-in-flight" in {risk.rule for risk in report.all_risks()}


def test_jars_that_decode_a_savepoint_change_nothing_in_what_a_restore_does():
    path = DATA / "corpus/1.20.3/alltypes-hashmap/canonical"
    decoded = Savepoint(path, jars=JobClasses.open([DATA / "classes/jobs.jar"]))

    report = doctor.check(decoded, against=[doctor.SavepointAgainst(decoded)], flink="1.20.3")

    assert report == doctor.check(
        Savepoint(path), against=[doctor.SavepointAgainst(Savepoint(path))], flink="1.20.3"
    )
