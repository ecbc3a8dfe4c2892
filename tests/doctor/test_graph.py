"""The stage `graph`: operators, parallelism and the version of `_metadata`, on labelled restores in real Flink."""

from __future__ import annotations

from pathlib import Path

import pytest

import doctor
from doctor import Outcome, Stage
from doctor.check import derived_max_parallelism
from readers import Savepoint
from tests.support.compatpairs import unpack_pairs

PAIRS = ("uid-changed", "maxpar-down", "maxpar-unset", "pojo-same", "pojo-add-field", "par-up")
A, B = "A-2.3.0-hashmap-canonical", "B-2.3.0-hashmap-canonical"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), PAIRS)


def checked(pair: Path, **options: object) -> doctor.CheckReport:
    against = doctor.SavepointAgainst(Savepoint(pair / "savepoints" / B))
    return doctor.check(pair / "savepoints" / A, against=[against], **options)  # type: ignore[arg-type]  # a shorthand


def test_an_operator_that_is_not_in_the_new_job_fails(pairs: Path) -> None:
    report = checked(pairs / "uid-changed")

    assert (report.outcome, report.stage) == (Outcome.FAILS, Stage.GRAPH)
    [missing] = [operator for operator in report.operators if operator.outcome is Outcome.FAILS]
    assert missing.uid == "a"
    assert "Cannot map checkpoint/savepoint state for operator 'a'" in missing.message
    assert "setUidHash" in missing.remedy
    assert {state.outcome for state in missing.states} == {"not-declared"}


def test_an_operator_that_is_not_in_the_new_job_is_dropped_where_that_is_allowed(pairs: Path) -> None:
    report = checked(pairs / "uid-changed", allow_non_restored=True)

    [dropped] = [operator for operator in report.operators if operator.rule == "operator-dropped"]
    assert (dropped.outcome, dropped.loses_data) == (Outcome.RESTORES, True)
    assert {state.outcome for state in dropped.states} == {"dropped"}


def test_states_of_operators_that_only_the_new_job_has_are_new(pairs: Path) -> None:
    report = checked(pairs / "uid-changed")

    [added] = [operator for operator in report.operators if operator.uid == "b"]
    assert (added.outcome, added.loses_data) == (Outcome.RESTORES, False)
    assert {state.outcome for state in added.states} == {"new"}


def test_another_max_parallelism_fails(pairs: Path) -> None:
    report = checked(pairs / "maxpar-down")

    assert (report.outcome, report.stage) == (Outcome.FAILS, Stage.GRAPH)
    assert {operator.rule for operator in report.operators if operator.states} == {"max-parallelism-differs"}
    assert "with max parallelism 128 to new program with max parallelism 64" in next(
        operator.message for operator in report.operators if operator.rule
    )


def test_a_max_parallelism_that_flink_derives_may_not_be_set(pairs: Path) -> None:
    report = checked(pairs / "maxpar-unset")

    assert {operator.message.rpartition(", ")[2] for operator in report.operators if operator.rule} == {
        "unless it sets none"
    }


def test_older_versions_of_flink_do_not_read_newer_metadata(pairs: Path) -> None:
    report = doctor.check(pairs / "pojo-add-field" / "savepoints" / A, flink="1.20.3")

    assert (report.outcome, report.stage) == (Outcome.FAILS, Stage.GRAPH)
    assert report.message.startswith("Unrecognized checkpoint version number: 6")


@pytest.mark.parametrize(
    ("parallelism", "derived"),
    [(1, 128), (85, 128), (86, 256), (128, 256), (171, 256), (200, 512), (30_000, 32_768)],
)
def test_flink_derives_the_max_parallelism(parallelism: int, derived: int) -> None:
    assert derived_max_parallelism(parallelism) == derived


@pytest.mark.parametrize("flink", ["", "2", "1.7", "3.0", "x.y", "2.3.0\n; rm"])
def test_a_text_that_is_no_known_version_is_refused(pairs: Path, flink: str) -> None:
    with pytest.raises(doctor.UnknownVersionError, match="expected a version of Flink"):
        doctor.check(pairs / "pojo-add-field" / "savepoints" / A, flink=flink)


def test_a_backend_without_facts_is_refused(pairs: Path) -> None:
    with pytest.raises(doctor.UnknownBackendError, match="hashmap, rocksdb, forst, found 'memory'"):
        doctor.check(pairs / "pojo-add-field" / "savepoints" / A, backend="memory")
