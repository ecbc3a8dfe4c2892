"""`savepointdb.check`: what a restore will do, in Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import savepointdb
from service import cli
from tests.support.compatpairs import unpack_pairs
from tests.support.paths import DATA

A, B = "A-2.3.0-hashmap-canonical", "B-2.3.0-hashmap-canonical"


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), ["uid-changed"]) / "uid-changed" / "savepoints"


def test_a_check_is_a_dict_of_operators_and_states(savepoints: Path) -> None:
    report = savepointdb.check(
        savepoints / A, against=savepoints / B, flink="2.3.0", backend="rocksdb"
    ).to_dict()

    assert (report["outcome"], report["stage"], report["loses_data"]) == ("fails", "graph", False)
    assert (report["flink"], report["backend"]) == ("2.3.0", "rocksdb")
    [missing] = [operator for operator in report["operators"] if operator["outcome"] == "fails"]
    assert (missing["uid"], missing["stage"]) == ("a", "graph")
    assert {state["state_name"]: state["outcome"] for state in missing["states"]} == {
        "s": "not-declared",
        "_timer_state/processing_user-timers": "not-declared",
        "_timer_state/event_user-timers": "not-declared",
    }
    assert set(missing["states"][0]) >= {"changes_values", "field_path", "message", "remedy", "evidence"}
    assert json.loads(json.dumps(report)) == report


def test_what_it_is_compared_with_may_be_several(savepoints: Path) -> None:
    result = savepointdb.check(
        str(savepoints / A), [str(savepoints / B), savepoints / B], allow_non_restored=True
    )

    assert result.report.against == (str(savepoints / B), str(savepoints / B))
    assert [one.rule for one in result.operators if one.uid == "a"] == ["operator-dropped"]


def test_the_worse_of_both_backends_decides(savepoints: Path) -> None:
    result = savepointdb.check(savepoints / A, savepoints / B, backend="both")

    assert (result.outcome, result.stage, result.exit_code) == ("fails", "graph", 2)
    assert set(result.to_dict()["backends"]) == {"hashmap", "rocksdb"}


def test_the_backend_that_nobody_names_is_the_same_at_every_door(capsys: pytest.CaptureFixture[str]) -> None:
    """The files of a native savepoint of RocksDB restore with RocksDB alone."""
    native = DATA / "flink/2.3.0/everything-rocksdb-savepoints/native"

    in_python = savepointdb.check(native)
    with savepointdb.connect(native) as connection:
        connected = connection.check()
    code = cli.main(["check", str(native), "--format", "json"])

    assert in_python.exit_code == connected.exit_code == code
    assert in_python.outcome != "fails"
    assert in_python.to_dict() == connected.to_dict() == json.loads(capsys.readouterr().out)


def test_a_session_shows_what_to_do(savepoints: Path) -> None:
    result = savepointdb.check(savepoints / A, savepoints / B)

    assert repr(result).startswith(f"savepointdb: savepoint  {savepoints / A}")
    assert "FAILS    a  (at graph)" in repr(result)
    assert "What to do:" in result._repr_html_()
    assert "<script" not in result._repr_html_()


def test_an_open_savepoint_is_checked_too(savepoints: Path) -> None:
    with savepointdb.connect(savepoints / A) as db:
        assert db.check(savepoints / B).stage == "graph"


def test_values_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    pair = unpack_pairs(tmp_path, ["kryo-type-arraylist"]) / "kryo-type-arraylist"

    result = savepointdb.check(pair / "savepoints/A-1.20.3-hashmap-canonical", flink="2.3", values="all")

    assert result.exit_code in (1, 2)
    with pytest.raises(
        savepointdb.InvalidRequestError, match="values: expected one of sample, all, found 'some'"
    ):
        savepointdb.check(pair / "savepoints/A-1.20.3-hashmap-canonical", values="some")


def test_wrong_arguments_are_errors_of_the_package(savepoints: Path) -> None:
    with pytest.raises(savepointdb.SavepointError):
        savepointdb.check(savepoints / "nowhere")
    with pytest.raises(
        savepointdb.SavepointError, match="a savepoint, a jar, a job plan or a stateInfo file"
    ):
        savepointdb.check(savepoints / A, against=savepoints / "nowhere")
    with pytest.raises(savepointdb.QueryError, match="expected a version of Flink"):
        savepointdb.check(savepoints / A, flink="two")
    with pytest.raises(
        savepointdb.InvalidRequestError, match="backend: expected one of hashmap, rocksdb, forst, both, auto"
    ):
        savepointdb.check(savepoints / A, backend="memory")
