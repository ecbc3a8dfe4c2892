"""The average that Spark computes in Python equals DuckDB's own."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.spark.average import average

_GROUPS = st.lists(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9), min_size=1, max_size=20), min_size=1
)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as made:
        yield made


def exactly(value: int, scale: int) -> Decimal:
    """So many of the smallest unit, with no digit lost."""
    return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -scale))


@given(groups=_GROUPS, scale=st.sampled_from([0, 1, 9, 18]))
def test_an_average_has_duckdbs_last_digit(
    connection: duckdb.DuckDBPyConnection, groups: list[list[int]], scale: int
) -> None:
    kind = pa.decimal128(38, scale)
    values = [value for group in groups for value in group]
    numbers = [number for number, group in enumerate(groups) for _ in group]
    column = pa.array([exactly(value, scale) for value in values], kind) if scale else pa.array(values)
    connection.register("t", pa.table({"g": numbers, "x": column}))
    expected = connection.execute("SELECT avg(x) FROM t GROUP BY g ORDER BY g").fetchall()

    # The first is not one of them.
    totals = pa.array([exactly(7, scale), *(exactly(sum(group), scale) for group in groups)], kind)
    counts = pa.array([7, *map(len, groups)], pa.int64())
    found = average(totals.slice(1), counts.slice(1))

    assert [(one,) for one in found.to_pylist()] == expected


def test_there_is_no_average_of_none() -> None:
    totals = pa.array([None, Decimal(6), Decimal(0)], pa.decimal128(38, 0))

    assert average(totals, pa.array([0, 4, 0], pa.int64())).to_pylist() == [None, 1.5, None]
