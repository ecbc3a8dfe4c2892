"""Scans by key: values of Python, converted to the type of the keys or refused with a key as an example."""

from __future__ import annotations

import ast
import datetime
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

import savepointdb
from tests.support.paths import DATA

ALL_STATES = DATA / "corpus" / "1.20.3" / "allstates-hashmap-compressed" / "canonical"
KINDS = ("uuid-kryo", "tuple2", "tuple-nested", "row", "instant", "pojo", "local-date", "bigdec")


@pytest.fixture(scope="module")
def states() -> Iterator[savepointdb.Connection]:
    with savepointdb.connect(ALL_STATES, uids=[f"kinds-{kind}" for kind in KINDS]) as connected:
        yield connected


def test_a_key_is_looked_up(db: savepointdb.Connection) -> None:
    table = db["aggregate"]

    assert table.scan(key="key_662", columns=["value"]).fetchall() == [(11290,)]
    assert sorted(table.scan(keys=["key_662", "key_0"], columns=["key", "value"]).fetchall()) == [
        ("key_0", 1),
        ("key_662", 11290),
    ]
    assert table.scan(key="key_662", where="value < 0").fetchall() == []
    assert table.scan(keys=[]).fetchall() == []
    assert table.scan(key="no'key").fetchall() == []
    assert db["mod7-no-uid"].scan(key=3).df()["key"].tolist() == [3]
    assert db["mod7-no-uid"].scan(key="3").fetchall() == db["mod7-no-uid"].scan(key=3).fetchall()


def test_a_key_reads_its_key_group_only(db: savepointdb.Connection) -> None:
    scan = db["aggregate"].scan(key="key_662")

    ((_, plan),) = db.sql(f"EXPLAIN {scan.statement}").fetchall()

    assert "1 of 2 splits, 1 of 128 key groups" in plan


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        (
            "aggregate",
            662,
            "expected a value of type text, found int 662 (keys of aggregate look like 'key_",
        ),
        ("aggregate__count", None.__class__, "expected a value of type text, found type <class 'NoneType'>"),
        ("mod7-no-uid", "x", "expected an integer, found 'x' (keys of mod7-no-uid look like "),
        (
            "mod7-no-uid",
            2**40,
            "expected an integer of 32 bits, found 1099511627776 (keys of mod7-no-uid look like ",
        ),
        ("mod7-no-uid", 1.5, "expected an integer, found '1.5' (keys of mod7-no-uid look like "),
        ("source__topic-partition-offset-states", "x", "there is no column 'key'"),
    ],
)
def test_what_is_no_key_is_refused(db: savepointdb.Connection, table: str, key: Any, message: str) -> None:
    with pytest.raises(savepointdb.QueryError) as raised:
        db[table].scan(key=key)

    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("uuid-kryo", UUID("00000000-0000-0001-ffff-ffffffffffff")),
        ("uuid-kryo", "00000000-0000-0001-ffff-ffffffffffff"),
        ("instant", "1970-01-01T00:00:01.000000001"),
        ("tuple2", ("t1", 1)),
        ("tuple2", {"f0": "t1", "f1": 1}),
        ("row", ("r1", 1)),
        ("pojo", {"b": "p1", "a": 1}),
        ("local-date", datetime.date(2024, 3, 1)),
        ("bigdec", "0.01"),
    ],
)
def test_keys_of_all_types_are_found_in_states_and_timers(
    states: savepointdb.Connection, kind: str, key: Any
) -> None:
    entries = states[f"kinds-{kind}"].scan(key=key).arrow()
    timers = states["timers"].scan(key=key, where=f"operator_uid = 'kinds-{kind}'").arrow()

    assert (len(entries), len(timers)) == (18, 9)
    assert len(set(map(str, entries["key"].to_pylist()))) == 1


def test_an_example_is_a_key_as_python_has_it(states: savepointdb.Connection) -> None:
    with pytest.raises(savepointdb.InvalidRequestError) as raised:
        states["kinds-tuple2"].scan(key=("t1",))
    shown = str(raised.value).partition("(keys of kinds-tuple2 look like ")[2].removesuffix(")")

    assert str(raised.value).startswith("expected the fields f0, f1, found 1 value (")
    assert len(states["kinds-tuple2"].scan(key=ast.literal_eval(shown)).fetchall()) == 18


@pytest.mark.slow
def test_every_table_has_its_rows_in_the_types_of_its_schema(states: savepointdb.Connection) -> None:
    for name in states.tables:
        table = states[name]
        found = table.scan().to_arrow()

        assert found.schema.remove_metadata() == table.schema, name
        assert len(list(table.scan())) == len(found) == len(table.df())
