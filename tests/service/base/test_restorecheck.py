"""The tables `restore_check` and `required_classes`: what becomes of a savepoint, as SQL and BI tools see it."""

from __future__ import annotations

import catalog
import doctor
from catalog import Database
from tests.support.paths import DATA

FLINK = DATA / "flink"


def opened(version: str, uids: tuple[str, ...] = ()) -> Database:
    path = FLINK / version / "wordcount-hashmap-savepoints" / "canonical"
    database = catalog.connect(path, uids=uids).default
    assert database is not None
    return database


def test_each_operator_and_state_has_a_row_for_each_backend() -> None:
    database = opened("2.3.0")

    rows = database.scan("restore_check").to_arrow().to_pylist()

    operators = len(database.savepoint.metadata.operators)
    assert len([row for row in rows if row["state_name"] is None]) == 2 * operators
    assert {(row["flink"], row["backend"]) for row in rows} == {("2.3.0", "hashmap"), ("2.3.0", "rocksdb")}
    assert ("aggregate", "count", "VALUE") in {
        (row["operator_uid"], row["state_name"], row["state_kind"]) for row in rows
    }


def test_rows_are_those_of_the_report() -> None:
    database = opened("1.20.3", uids=("aggregate",))

    rows = database.scan("restore_check", backend="rocksdb").to_arrow().to_pylist()
    report = doctor.check(database.savepoint, flink="2.3.0", backend="rocksdb")

    assert {(row["operator_id"], row["state_name"], row["outcome"], row["stage"]) for row in rows} == {
        *((one.operator_id, None, one.outcome, one.stage) for one in report.operators),
        *(
            (one.operator_id, state.state_name, state.outcome, state.stage)
            for one in report.operators
            for state in one.states
        ),
    }
    assert "aggregate" in {row["operator_uid"] for row in rows}


def test_required_classes_are_those_of_the_report() -> None:
    database = opened("1.20.3")

    rows = database.scan("required_classes").to_arrow().to_pylist()

    assert [(row["class_name"], row["role"], row["state_name"]) for row in rows] == [
        (one.class_name, one.role, one.state_name)
        for one in doctor.check(database.savepoint).required_classes
    ]
