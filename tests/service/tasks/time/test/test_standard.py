"""The rules that come with the program: none is violated by what real Flink wrote, and each finds a planted fault."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import savepointdb
from service.tasks.time.test.rules import Severity
from service.tasks.time.test.running import Status
from tests.support.paths import DATA
from tests.support.retained import WORDCOUNT, changed, with_offset
from tests.support.unpacked import ARCHIVES, unpacked

FLINK = DATA / "flink"
NATIVE = FLINK / "2.3.0/everything-rocksdb-savepoints/native"
OFFSETS = '"source__topic-partition-offset-states"'
WINDOWS = "2.3.0-windows-canonical"
# Warnings that are true of savepoints of the tests: states of classes that nobody describes, timers of the year 2100.
_UNDECODED, _FAR = "no state undecoded", "no timer years away"
_TRUE = {
    _UNDECODED: "SELECT count(*) FROM StateMeta WHERE decode_status <> 'decoded' AND state_kind <> 'CHANNEL'",
    _FAR: "SELECT count(*) FROM timers WHERE year(timestamp) = 2100",
}
_ENDED = {Status.PASSED, Status.SKIPPED, Status.VIOLATED}
_WINDOW = "{'start': TIMESTAMP '1970-01-01 00:00:20', 'end': TIMESTAMP '1970-01-01 00:00:10'}"


def ended(path: Path, previous: Path | None = None, **params: object) -> dict[str, Status]:
    """Rule → the worst of how it ended, for all rules that did not pass."""
    result = savepointdb.test(None, path, previous=previous, params=params, fail_on="info")
    (savepoint,) = result.savepoints
    assert savepoint.error == ""
    return {
        one.rule.name: one.status
        for one in savepoint.results
        if one.status not in (Status.PASSED, Status.SKIPPED)
    }


def check_findings(path: Path) -> None:
    """Check that only what is true is found in a savepoint of real Flink."""
    found = savepointdb.test(None, path, previous=path, fail_on="info")
    assert {one.rule.name for one in found.violations} <= {_UNDECODED, _FAR}, path
    assert {one.status for savepoint in found.savepoints for one in savepoint.results} <= _ENDED, path
    with savepointdb.connect(path) as connection:
        for one in found.violations:
            (count,) = connection.sql(_TRUE[one.rule.name]).fetchall()
            assert one.rows is not None
            assert count == (one.rows.row_count,), (path, one.rule.name)


def violated(*names: str) -> dict[str, Status]:
    return dict.fromkeys(names, Status.VIOLATED)


@pytest.mark.parametrize("version", ["1.20.3", "2.3.0"])
def test_checkpoints_of_one_job_violate_nothing(version: str) -> None:
    job = FLINK / version / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"

    result = savepointdb.test(None, job, fail_on="info")

    (savepoint,) = result.savepoints
    assert savepoint.path.endswith("chk-2")
    assert savepoint.previous is not None
    assert result.violations == ()
    assert result.passed


@pytest.mark.slow
def test_no_savepoint_of_the_tests_violates_a_rule() -> None:
    for path in sorted(metadata.parent for metadata in FLINK.glob("**/_metadata")):
        check_findings(path)


@pytest.mark.slow
@pytest.mark.parametrize("archive", sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES.iterdir()))
def test_no_snapshot_of_the_tests_violates_a_rule(archive: str, tmp_path: Path) -> None:
    path = unpacked(archive, tmp_path).directory

    check_findings(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "rules"),
    [
        (f"DELETE FROM {OFFSETS} WHERE value.f1 = 2", ["no partition lost"]),
        ("UPDATE source_offsets SET starting_offset = 1 WHERE partition = 2", ["no offset goes back"]),
        ("UPDATE source_offsets SET starting_offset = starting_offset + 1", []),
        (f"INSERT INTO {OFFSETS} SELECT * FROM {OFFSETS} WHERE value.f1 = 2", ["no partition read twice"]),
        (
            "INSERT INTO aggregate__count (key, value) SELECT 'new' || i, i FROM range(20000) t(i)",
            ["no state doubled"],
        ),
    ],
)
def test_a_fault_against_the_checkpoint_before_is_found(
    script: str, rules: list[str], tmp_path: Path
) -> None:
    new = changed(tmp_path / "new", script)

    assert ended(new, WORDCOUNT, least_bytes=10_000) == violated(*rules)


@pytest.mark.parametrize(("offset", "rules"), [(-250, ["no impossible offset"]), (-915623761775, [])])
def test_an_offset_that_no_source_can_have_is_found(offset: int, rules: list[str], tmp_path: Path) -> None:
    assert ended(with_offset(tmp_path / "new", offset)) == violated(*rules)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "rules"),
    [
        (
            'INSERT INTO "sliding__window-contents" (key, namespace, value) '
            f"SELECT 'bad', {_WINDOW}, value FROM \"sliding__window-contents\" LIMIT 1",
            ["no negative window"],
        ),
        (
            "UPDATE timers SET timestamp = timestamp + INTERVAL 100 YEARS WHERE key = 'k1'",
            ["no timer years away"],
        ),
        (
            "UPDATE timers SET timestamp = timestamp + INTERVAL 40000 YEARS WHERE key = 'k1'",
            ["no timer centuries away", "no timer years away"],
        ),
        # A job asks for the end of its input so.
        ("UPDATE timers SET timestamp = CAST('infinity' AS TIMESTAMP_MS)", []),
    ],
)
def test_a_fault_of_windows_and_timers_is_found(script: str, rules: list[str], tmp_path: Path) -> None:
    new = changed(tmp_path / "new", script, unpacked(WINDOWS, tmp_path / "windows").directory)

    assert ended(new) == violated(*rules)


@pytest.mark.slow
def test_a_file_that_is_missing_is_found(tmp_path: Path) -> None:
    shutil.copytree(NATIVE, tmp_path / "new")
    for file in _state_files(tmp_path / "new"):
        file.unlink()
        break

    found = ended(tmp_path / "new")

    assert found["no file missing"] is Status.VIOLATED
    assert found["no state unreadable"] is Status.VIOLATED


@pytest.mark.slow
def test_a_file_that_is_cut_is_found(tmp_path: Path) -> None:
    shutil.copytree(NATIVE, tmp_path / "new")
    for file in _state_files(tmp_path / "new"):
        file.write_bytes(file.read_bytes()[:100])

    assert ended(tmp_path / "new")["no state unreadable"] is Status.VIOLATED


@pytest.mark.slow
def test_a_state_of_bytes_is_a_warning() -> None:
    result = savepointdb.test(None, FLINK / "2.3.0/everything-hashmap-savepoints/canonical")

    found = {one.rule.name: one.rule.severity for one in result.violations}
    assert found["no state undecoded"] is Severity.WARNING
    assert result.passed


def _state_files(path: Path) -> Iterator[Path]:
    return (file for file in sorted(path.rglob("*")) if file.is_file() and file.name != "_metadata")
