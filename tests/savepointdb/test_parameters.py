"""Values of Python in place of the parameters of a statement."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy
import pytest

import savepointdb

EVIL = "x' OR '1'='1'; DROP TABLE t; -- \\ \x00 \u202e ? $a"


def test_values_stand_in_place_of_parameters(db: savepointdb.Connection) -> None:
    by_position = db.sql("SELECT value FROM aggregate WHERE key = ? AND value > ? -- ? '?'", ["key_662", 5])
    by_name = db.sql("SELECT value, '$key' FROM aggregate WHERE key = $key OR key = $key", {"key": "key_662"})

    assert by_position.fetchall() == [(11290,)]
    assert by_name.fetchall() == [(11290, "$key")]
    assert by_position.columns == ["value"]


def test_a_value_prunes_as_a_constant_does(db: savepointdb.Connection) -> None:
    ((_, plan),) = db.sql("EXPLAIN SELECT * FROM aggregate WHERE key = ?", ["key_662"]).fetchall()

    assert "1 of 2 splits, 1 of 128 key groups" in plan


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (None, None),
        (True, True),
        (-5, -5),
        (2**62, 2**62),
        (0.1, 0.1),
        (float("inf"), float("inf")),
        (1e300, 1e300),
        (Decimal("1.50"), Decimal("1.50")),
        ("", ""),
        ("it's", "it's"),
        (EVIL, EVIL),
        ("x" * 100_000, "x" * 100_000),
        (b"\x00'\xff", b"\x00'\xff"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime.date(2024, 2, 29), datetime.date(2024, 2, 29)),
        (datetime.datetime(2024, 2, 29, 1, 2, 3, 4), datetime.datetime(2024, 2, 29, 1, 2, 3, 4)),
        (datetime.time(1, 2, 3, 4), datetime.time(1, 2, 3, 4)),
        ([1, None, 3], [1, None, 3]),
        ([], []),
        ({"a": 1, "b'": [EVIL]}, {"a": 1, "b'": [EVIL]}),
        (numpy.int64(7), 7),
    ],
)
def test_values_come_back_as_they_are(db: savepointdb.Connection, value: Any, answer: Any) -> None:
    assert db.sql("SELECT ? AS x", [value]).fetchall() == [(answer,)]
    assert db.sql("SELECT $v AS x", {"v": value}).fetchall() == [(answer,)]


def test_a_negative_number_makes_no_comment(db: savepointdb.Connection) -> None:
    assert db.sql("SELECT 1-?", [-2]).fetchall() == [(3,)]
    assert db.sql("SELECT 1 LIMIT ?", [1]).fetchall() == [(1,)]
    assert db.sql("SELECT 2 IN (?,?)", [1, 2]).fetchall() == [(True,)]


@pytest.mark.parametrize(
    ("sql", "values", "message"),
    [
        ("SELECT ?", [1, 2], "expected 1 value for parameters, found 2 (each ? is a parameter)"),
        ("SELECT ?, ?", [1], "expected 2 values for parameters, found 1 (each ? is a parameter)"),
        (
            "SELECT $a",
            {"b": 1},
            "expected values for $a, found values for $b (parameters are written as $name)",
        ),
        ("SELECT ?", [object], "expected a value that SQL has as a constant, found type <class 'object'>"),
        ("SELECT ?", [2**64], "expected a value that SQL has as a constant, found int 18446744073709551616"),
        ("SELECT ?", ["\ud800"], "expected a value that SQL has as a constant, found str '\\ud800'"),
        ("SELECT ? FROM nothing", ["long" * 20], "line 1, column 15: there is no table 'nothing'"),
        ("SELECT ?", [], "parameters are not supported: write their values"),
    ],
)
def test_what_does_not_fit_is_refused(
    db: savepointdb.Connection, sql: str, values: Any, message: str
) -> None:
    with pytest.raises(savepointdb.InvalidQueryError) as raised:
        db.sql(sql, values).fetchall()

    assert str(raised.value).startswith(message)
