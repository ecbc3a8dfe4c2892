"""Constants as values of a column: equal to the column exactly where DuckDB finds them equal."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

from service.query.sql.text import condition_of, value_of
from tests.support.examples import examples

PAIR = pa.struct([("f0", pa.string()), ("f1", pa.int64())])
NESTED = pa.struct([("day", pa.date32()), ("pair", PAIR), ("tags", pa.list_(pa.int32()))])


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("'a'", pa.string(), "a"),
        ("-5", pa.int32(), -5),
        ("TRUE", pa.bool_(), True),
        ("1.5", pa.decimal128(10, 2), Decimal("1.50")),
        ("-7", pa.decimal128(3, 0), Decimal(-7)),
        ("1.555", pa.decimal128(10, 2), None),
        ("1000", pa.decimal128(3, 0), None),
        ("1.5", pa.float32(), 1.5),
        ("0.1", pa.float64(), None),
        ("0", pa.float64(), None),
        ("'2024-02-29'", pa.date32(), datetime.date(2024, 2, 29)),
        ("DATE '2024-02-29'", pa.date32(), datetime.date(2024, 2, 29)),
        ("'2023-02-29'", pa.date32(), None),
        ("TIMESTAMP '2024-01-01 00:00:01.5'", pa.timestamp("ms"), datetime.datetime(2024, 1, 1, 0, 0, 1, 500_000)),
        ("'2024-01-01 00:00:01.0005'", pa.timestamp("ms"), None),
        ("DATE '2024-01-01'", pa.timestamp("ms"), None),
        ("{'f0': 'a', 'f1': 1}", PAIR, {"f0": "a", "f1": 1}),
        ("ROW('a', 1)", PAIR, {"f0": "a", "f1": 1}),
        ("{'f1': 1, 'f0': 'a'}", PAIR, None),
        ("{'f0': 'a', 'f1': '1'}", PAIR, None),
        ("{'f0': NULL, 'f1': 1}", PAIR, None),
        ("{'f0': 'a'}", PAIR, None),
        ("[1, 2]", pa.list_(pa.int32()), [1, 2]),
        ("[]", pa.list_(pa.int32()), []),
        ("[1, NULL]", pa.list_(pa.int32()), None),
        (
            "{'day': DATE '2024-01-01', 'pair': {'f0': 'x', 'f1': 2}, 'tags': [3]}",
            NESTED,
            {"day": datetime.date(2024, 1, 1), "pair": {"f0": "x", "f1": 2}, "tags": [3]},
        ),
        ("'a' || 'b'", pa.string(), None),
        ("x", pa.string(), None),
        ("5", pa.string(), None),
    ],
)  # fmt: skip
def test_a_constant_that_compares_without_conversion_is_a_value(
    text: str, column: pa.DataType, expected: Any
) -> None:
    assert value_of(parse_one(text, read="duckdb"), column) == expected


COLUMNS: dict[pa.DataType, list[Any]] = {
    pa.string(): ["a", "1", "2024-01-01", ""],
    pa.int32(): [0, 1, -1, 2024],
    pa.bool_(): [True, False],
    pa.float64(): [0.0, -0.0, 1.5, 1.0, float("nan")],
    pa.float32(): [1.5, 1.0, 16777216.0],
    pa.decimal128(5, 2): [Decimal("1.50"), Decimal("1.00"), Decimal("-0.25")],
    pa.date32(): [datetime.date(2024, 1, 1), datetime.date(1, 1, 1)],
    pa.timestamp("ms"): [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 1, 2, 3, 4000)],
    pa.timestamp("ns"): [datetime.datetime(2024, 1, 1)],
    PAIR: [{"f0": "a", "f1": 1}, {"f0": None, "f1": 1}, {"f0": "a", "f1": None}],
    pa.list_(pa.int32()): [[1, 2], [], [1], [None]],
}
CONSTANTS = st.sampled_from(
    (
        "'a'", "''", "'1'", "1", "-1", "0", "2024", "1.5", "1.50", "1.0", "-0.25", "16777217", "TRUE", "FALSE", "NULL",
        "[1, 2]", "[]", "[1]", "[1.0]", "['1']", "1::BIGINT", "'1'::INT", "'2024-01-01'", "DATE '2024-01-01'",
        "TIMESTAMP '2024-01-01'", "TIMESTAMP '2024-01-01 01:02:03.004'", "'2024-01-01 01:02:03.0040'",
        "{'f0': 'a', 'f1': 1}", "ROW('a', 1)", "{'f0': 'a', 'f1': 1.0}", "{'f0': 'a', 'f1': NULL}",
        "{'f1': 1, 'f0': 'a'}",
    )
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(list(COLUMNS)), CONSTANTS)
def test_only_the_value_of_a_constant_is_equal_to_it(column: pa.DataType, constant: str) -> None:
    value = value_of(parse_one(constant, read="duckdb"), column)
    if value is None:
        return
    table = pa.table({"x": pa.array([*COLUMNS[column], value], column)})

    with duckdb.connect() as connection:
        connection.register("t", table)
        found = connection.execute(f"SELECT x FROM t WHERE x = {constant}").fetchall()

    assert found
    assert all(one == (value,) for one in found)


DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 123000)
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", "it's", "", '"q"']),
    (pa.int8(), [-128, 127, 0]),
    (pa.int64(), [-(1 << 63), (1 << 63) - 1, 5]),
    (pa.bool_(), [True, False]),
    (pa.float32(), [0.1, 1.5, -2.0, float("inf"), float("nan")]),
    (pa.float64(), [0.1, 1.5, 1e300, -5e-324, 0.0, float("-inf"), float("nan")]),
    (pa.decimal128(38, 3), [Decimal("1.500"), Decimal("-" + "9" * 35 + ".999"), Decimal("0.001")]),
    (pa.decimal128(38, 30), [Decimal("1.2345678901234567890123E-8"), Decimal("1.2345678901234567890124E-8"), Decimal(0)]),
    (pa.date32(), [DAY, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    (pa.time32("ms"), [1, 86_399_999]),
    (pa.time64("ns"), [1000, 86_399_999_999_000, 1]),
    (pa.timestamp("s"), [0, -1, 4_000_000_000]),
    (pa.timestamp("ms"), [0, 1, -1]),
    (pa.timestamp("us"), [0, 1, -1]),
    (pa.timestamp("ns"), [0, 1, 1000, -1]),
    (pa.timestamp("ms", "UTC"), [0, 1]),
    (pa.binary(), [b"", b"\x00\xff", b"text"]),
    (PAIR, [{"f0": "a", "f1": 1}, {"f0": "it's", "f1": None}, {"f0": None, "f1": None}]),
    (NESTED, [{"day": DAY, "pair": {"f0": "x", "f1": 2}, "tags": [3, None]}, {"day": None, "pair": None, "tags": []}]),
    (pa.struct([("a b'", pa.timestamp("ms")), ("t", pa.float32())]), [{"a b'": NOON, "t": 0.1}]),
    (pa.list_(pa.int32()), [[], [1], [1, 2]]),
    (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], [("b", None)]]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "values"), VALUES, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
def test_the_condition_of_a_value_finds_it_and_no_other(column: pa.DataType, values: list[Any]) -> None:
    rows = pa.array(values, column)

    with duckdb.connect() as connection:
        connection.register("t", pa.table({"x": rows, "n": list(range(len(rows)))}))
        for number in range(len(rows)):
            condition = condition_of("x", rows.slice(number, 1))
            assert connection.execute(f"SELECT n FROM t WHERE {condition}").fetchall() == [(number,)], (
                condition
            )


def test_conditions_prune_as_constants_of_people_do() -> None:
    for column, value in (
        (pa.string(), "a"),
        (pa.int32(), -5),
        (pa.float64(), 1.5),
        (pa.date32(), DAY),
        (pa.timestamp("ns"), NOON),
        (PAIR, {"f0": "a", "f1": 1}),
        (pa.list_(pa.int32()), [1, 2]),
    ):
        condition = parse_one(condition_of("x", pa.array([value], column)), read="duckdb")
        assert value_of(condition.expression, column) == value
