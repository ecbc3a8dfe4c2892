"""Aggregates of queries in texts, and the rows of accumulators that they can have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers import RowDataSerializer
from readers.jars.declared.queries import queries_in
from readers.serializers.table.logicaltypes import BIGINT, DOUBLE, INT, NumberType, RowType


def stored(*types: NumberType) -> RowDataSerializer:
    return RowDataSerializer(RowType(tuple((f"f{index}", kind) for index, kind in enumerate(types))))


@pytest.mark.parametrize(
    ("text", "aggregates"),
    [
        ("SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k", "COUNT(*), SUM(v)"),
        ("select k, count(1) as n, count(*) from t where s = 'SELECT, MAX(' group by k", "COUNT(*)"),
        ("INSERT INTO o SELECT k, AVG(a + b) FROM t -- UNION\n GROUP BY k", "AVG(a + b)"),
        ("SELECT COUNT(DISTINCT `from`) FROM t GROUP BY k", "COUNT(DISTINCT ?)"),
        ("SELECT k, MIN(COALESCE(v, 0)) FROM t GROUP BY k", "MIN(COALESCE(v, 0))"),
    ],
)
def test_aggregates_of_a_plain_query_are_read(text, aggregates):
    assert [str(query) for query in queries_in([text])] == [aggregates]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM t",
        "SELECT k FROM t GROUP BY k",
        "SELECT COUNT(*) FROM t",
        "SELECT k, COUNT(*) FROM (SELECT * FROM t) GROUP BY k",
        "SELECT k, SUM(v) OVER (PARTITION BY k) FROM t GROUP BY k",
        "SELECT k, LISTAGG(s), COUNT(*) FROM t GROUP BY k",
        "SELECT k, COUNT(* FROM t GROUP BY k",
        "Please GROUP BY id",
    ],
)
def test_other_texts_are_left_out(text):
    assert queries_in([text]) == []


@pytest.mark.parametrize(
    ("aggregates", "types", "fits"),
    [
        ("COUNT(*), SUM(v)", (BIGINT, INT), True),
        ("COUNT(*), SUM(v), MAX(d)", (BIGINT, INT), False),
        ("COUNT(*)", (BIGINT, INT), False),
        ("SUM(v), COUNT(*)", (BIGINT, INT), False),
        ("SUM(v), COUNT(*)", (INT, BIGINT), True),
        # Where rows are retracted, a sum has a count beside it.
        ("SUM(v)", (INT, BIGINT, BIGINT), True),
        ("AVG(v), COUNT(*)", (DOUBLE, BIGINT, BIGINT), True),
        ("AVG(v), COUNT(*)", (DOUBLE, BIGINT, INT), False),
        ("COUNT(DISTINCT v)", (BIGINT,), False),
    ],
)
def test_a_row_fits_the_aggregates_or_cannot_be_theirs(aggregates, types, fits):
    (query,) = queries_in([f"SELECT k, {aggregates} FROM t GROUP BY k"])

    assert query.fits(stored(*types)) is fits


@given(st.text(alphabet="SELCTFROMGUPBY *(),'`\"-/\n", max_size=120))
def test_any_text_is_read(text):
    queries_in([text, f"SELECT {text} FROM t GROUP BY k", f"SELECT COUNT({text} FROM t GROUP BY k"])
