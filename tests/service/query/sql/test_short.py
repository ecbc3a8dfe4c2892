"""Short statements: which texts are, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import savepointdb
from catalog import connect
from service.base.errors import QueryError
from service.base.settings import Settings
from service.query.engines.registry import open_engines
from service.query.running.request import QueryRequest
from service.query.serving.registry import Queries
from service.query.sql.plan import Comparison, is_lookup
from service.query.sql.short import KEPT, OTHERS, short_text
from tests.service.conftest import Asker

SHORT: dict[str, tuple[list[str], str, int | None]] = {
    "SELECT value FROM aggregate WHERE key = 'key_662'": (["value"], "key = ?", None),
    "select value from AGGREGATE where key='key_662';": (["value"], "key = ?", None),
    "SELECT\tkey AS k, value\nFROM native.aggregate WHERE key IN ('a', 'b') LIMIT 3 ; ;": (["key", "value"], "key IN (?, ?)", 3),
    'SELECT "key" AS "my ""k""" FROM flink."native".aggregate a WHERE a.key = \'it\'\'s\'': (["key"], "key = ?", None),
    "SELECT aggregate.value FROM aggregate WHERE aggregate.key = ('k') AND value != -5": (["value"], "", None),
    "SELECT value FROM aggregate AS t WHERE t.key = 'k' AND value >= 3 AND _key_group < (99)": (["value"], "", None),
}  # fmt: skip
NOT_SHORT = [
    "",
    "SELECT",
    "SELECT value FROM aggregate",
    "SELECT value FROM aggregate LIMIT 1",
    "SELECT value FROM aggregate WHERE value = 5",
    "SELECT value FROM aggregate WHERE key = 'k' OR value = 5",
    "SELECT value FROM aggregate WHERE NOT key = 'k'",
    "SELECT value FROM aggregate WHERE key = 'k' -- why",
    "SELECT value FROM aggregate WHERE key = 'k' /* why */",
    "SELECT value FROM aggregate WHERE key = E'k'",
    "SELECT value FROM aggregate WHERE key = 'a' 'b'",
    "SELECT value FROM aggregate WHERE key = 'a\\'",
    "SELECT value FROM aggregate WHERE key = $$k$$",
    "SELECT value FROM aggregate WHERE key = NULL",
    "SELECT value FROM aggregate WHERE key IN ('k', NULL)",
    "SELECT value FROM aggregate WHERE key IN 'k'",
    "SELECT value FROM aggregate WHERE key = 5",
    "SELECT value FROM aggregate WHERE key = 'k' AND value = 1.0",
    "SELECT value FROM aggregate WHERE key = 'k' AND value = 1e3",
    "SELECT value FROM aggregate WHERE key = 'k' AND value = 99999999999999999999",
    "SELECT value FROM aggregate WHERE key = 'k' AND value =-5",
    "SELECT value FROM aggregate WHERE key = 'k' AND value == 5",
    "SELECT value FROM aggregate WHERE key = 'k' AND value BETWEEN 1 AND 5",
    "SELECT value FROM aggregate WHERE key < 'k' AND key = 'k'",
    "SELECT value FROM aggregate WHERE key LIKE 'k' AND key = 'k'",
    "SELECT value FROM aggregate WHERE 'k' = key",
    "SELECT value FROM aggregate WHERE key = 'k' LIMIT 1 OFFSET 1",
    "SELECT value FROM aggregate WHERE key = 'k' LIMIT -1",
    "SELECT value FROM aggregate WHERE key = 'k' LIMIT 'a'",
    "SELECT value FROM aggregate WHERE key = 'k' ORDER BY value",
    "SELECT value FROM aggregate WHERE key = 'k'; SELECT 1",
    "SELECT DISTINCT value FROM aggregate WHERE key = 'k'",
    "SELECT value + 1 FROM aggregate WHERE key = 'k'",
    "SELECT VALUE FROM aggregate WHERE key = 'k'",
    "SELECT count(*) FROM aggregate WHERE key = 'k'",
    "SELECT aggregate.* FROM aggregate WHERE key = 'k'",
    "SELECT other.value FROM aggregate WHERE key = 'k'",
    "SELECT value order FROM aggregate WHERE key = 'k'",
    "SELECT value FROM aggregate order WHERE key = 'k'",
    "SELECT nothing FROM aggregate WHERE key = 'k'",
    "SELECT value FROM nothing WHERE key = 'k'",
    "SELECT value FROM aggregate, aggregate WHERE key = 'k'",
    "SELECT value FROM aggregate value WHERE value.key = 'k'",
    "SELECT table_name FROM information_schema.tables WHERE table_name = 'k'",
    "SELECT value FROM 'file.csv' WHERE key = 'k'",
    "SELECT * FROM range(5) WHERE key = 'k'",
    "EXPLAIN SELECT value FROM aggregate WHERE key = 'k'",
    "WITH t AS (SELECT 1) SELECT value FROM aggregate WHERE key = 'k'",
    "SELECT value FROM aggregate WHERE key = '" + "k" * 20_000 + "'",
]  # fmt: skip


def planned(asker: Asker, sql: str, **request: Any) -> Any:
    return QueryRequest(sql=sql, **request).plan(asker.catalog, 1 << 20, may_be_short=True)


@pytest.mark.parametrize("sql", SHORT)
def test_a_lookup_is_short(native: Asker, sql: str) -> None:
    columns, condition, limit = SHORT[sql]
    plan = planned(native, sql)

    assert plan.short is not None
    assert list(plan.short.columns) == columns
    assert plan.short.limit == limit
    assert condition in plan.short.shape
    assert not any(constant in plan.short.shape for constant in ("key_662", "'", "99"))
    assert plan.in_full().short is None
    assert plan.in_full().tables[0].predicate == plan.tables[0].predicate
    assert plan.in_full().tables[0].name == plan.tables[0].name


def test_constants_have_the_type_of_their_column(native: Asker) -> None:
    sql = "SELECT value FROM aggregate WHERE key IN ('a', 'it''s') AND _key_group != -1 AND value <= 7"

    assert planned(native, sql).short.conditions == (
        Comparison("key", "IN", ("a", "it's")),
        Comparison("_key_group", "<>", (-1,)),
        Comparison("value", "<=", (7,)),
    )


@pytest.mark.parametrize("sql", NOT_SHORT)
def test_anything_else_is_left_to_the_engine(native: Asker, sql: str) -> None:
    def meaning(may_be_short: bool) -> Any:
        try:
            plan = QueryRequest(sql=sql).plan(native.catalog, 1 << 20, may_be_short=may_be_short)
        except Exception as error:
            return repr(error), getattr(error, "position", None)
        return plan.short, plan.text

    assert meaning(True) == meaning(False)


@pytest.mark.parametrize(
    "request_", [{"engine": "duckdb"}, {"explain": True}, {"describe": True}, {"allow_partial": True}]
)  # fmt: skip
def test_a_request_may_want_more_than_a_scan(native: Asker, request_: dict[str, Any]) -> None:
    assert planned(native, "SELECT value FROM aggregate WHERE key = 'key_662'", **request_).short is None


def test_values_of_parameters_are_constants(native: Asker) -> None:
    plan = planned(
        native, "SELECT value FROM aggregate WHERE key = ? AND value < ?", parameters=("k' OR 1=1", 5)
    )

    assert plan.short.conditions == (Comparison("key", "=", ("k' OR 1=1",)), Comparison("value", "<", (5,)))


@pytest.mark.parametrize(("words", "sign"), [(KEPT, "<>"), (OTHERS, "=")])
def test_the_words_are_those_of_duckdb(words: frozenset[str], sign: str) -> None:
    known = f"SELECT upper(keyword_name) FROM duckdb_keywords() WHERE keyword_category {sign} 'unreserved'"

    assert {word for (word,) in duckdb.connect().execute(known).fetchall()} == words


WORDS = [
    "SELECT", "FROM", "WHERE", "AND", "LIMIT", "IN", "AS", "key", "value", "aggregate", "native", "a", "_key_group", "'key_662'",
    "'it''s'", "5", "-5", "(", ")", ",", ".", "*", "=", "<>", "<", ";", '"key"', '"a b"', "NOT", "--", "/*", "E'x'", "'", '"', "\\",
    "\n", "\t", "\u00a0", "\x00", "é", "1.5", "1e5", "0x1F", "1_000", "::", "||", "->", "$1", "?", "DESC", "value.f0",
]  # fmt: skip
BEGINNINGS = [
    [],
    ["SELECT", "value", "FROM", "aggregate", "WHERE"],
    ["SELECT", "value", "FROM", "aggregate", "WHERE", "key", "=", "'key_662'"],
    [
        "SELECT",
        "value",
        "AS",
        "a",
        "FROM",
        "native",
        ".",
        "aggregate",
        "a",
        "WHERE",
        "a",
        ".",
        "key",
        "IN",
        "(",
        "'key_662'",
        ")",
    ],
]


@given(
    beginning=st.sampled_from(BEGINNINGS),
    words=st.lists(st.sampled_from(WORDS), max_size=8),
    at=st.integers(0, 30),
    between=st.sampled_from([" ", "", "\n"]),
)
@examples(max_examples=60)
def test_what_is_short_means_the_same_to_duckdb(
    native: Asker, scanning: Queries, beginning: list[str], words: list[str], at: int, between: str
) -> None:
    kept = [word + " " if word.isalpha() or "." in word else word for word in beginning]
    text = " ".join(kept[:at]) + between + between.join(words) + between + " ".join(kept[at:])
    try:
        if short_text(text) is None or planned(native, text).short is None:
            return
    except QueryError:
        return  # the words have made the name of a table

    found, expected = (answer(scanning, text, engine) for engine in ("scan", "duckdb"))

    assert found == expected


def answer(queries: Queries, sql: str, engine: str) -> Any:
    with queries.start(QueryRequest(sql=sql, engine=engine)) as query:
        return query.columns, [
            row for batch in query.batches() for row in zip(*map(list, batch.columns), strict=True)
        ]


@pytest.fixture(scope="module")
def scanning(native: Asker) -> Iterator[Queries]:
    limits = Settings()
    with closing(Queries(native.catalog, open_engines(limits), limits)) as queries:
        yield queries


@pytest.mark.slow
def test_a_short_statement_needs_no_engine_however_large_its_key_group_is(tmp_path: Path) -> None:
    """One key group of 13 MB: a scan answers, and the query waits for its turn as others do."""
    rows = "SELECT 'key_' || i AS key, i AS value FROM range(400000) t(i)"
    savepointdb.create(tmp_path / "large", f"CREATE TABLE op__s WITH (max_parallelism = 1) AS {rows}")

    with closing(savepointdb.connect(tmp_path / "large")) as db:
        found = db.sql("SELECT key, value FROM op__s WHERE key IN ('key_7', 'key_399999')")
        assert sorted(found.arrow().to_pydict()["value"]) == [7, 399_999]
    catalog = connect(tmp_path / "large")
    plan = QueryRequest(sql="SELECT value FROM op__s WHERE key = 'key_7'").plan(
        catalog, 1 << 20, may_be_short=True
    )
    assert plan.short is not None
    assert plan.size_bytes > 10 << 20
    assert (is_lookup(plan, 1_000), is_lookup(plan, plan.size_bytes)) == (True, False)
