"""`diff('before', 'after', 'table')` in FROM: rows, predicates, names, errors with their positions; in both dialects."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import Catalog, Root
from service.base.errors import (
    DatabaseNotFoundError,
    ForbiddenError,
    InvalidQueryError,
    QueryError,
    TableNotFoundError,
)
from service.query.sql.planner import planned
from tests.support.differing import BEFORE, ROWS
from tests.support.paths import DATA

COUNT = "diff('before', 'after', 'aggregate__count')"


@pytest.fixture(scope="module")
def catalog(after: Path) -> Catalog:
    return Catalog([Root(path=str(BEFORE), label="before"), Root(path=str(after), label="after")])


@pytest.fixture
def ask(catalog: Catalog, ask_of: Callable[[Catalog], Any]) -> Any:
    return ask_of(catalog)


@pytest.mark.parametrize(
    ("dialect", "source"),
    [("duckdb", COUNT), ("trino", COUNT), ("trino", f"TABLE({COUNT})"), ("duckdb", f"TABLE ( {COUNT} )")],
)
def test_rows_that_differ_are_a_table(ask: Any, dialect: str, source: str) -> None:
    rows = ask.rows(
        f"SELECT change, key, value_before, value_after FROM {source} AS d ORDER BY d.key DESC",
        dialect=dialect,
    )

    assert sorted(rows) == ROWS


def test_a_condition_on_the_key_prunes(ask: Any) -> None:
    everything = ask.rows(f"SELECT key FROM {COUNT}")
    whole = ask.bytes_read
    one = ask.rows(f"SELECT key, value_after FROM {COUNT} WHERE diff.key = 'key_662'")

    assert len(everything) == len(ROWS)
    assert one == [("key_662", 11291)]
    assert ask.bytes_read < whole / 4
    assert ask.rows(f"SELECT key FROM {COUNT} WHERE key = 'key_1'") == []


@pytest.mark.slow
def test_it_joins_and_stands_wherever_a_table_does(ask: Any) -> None:
    joined = ask.rows(
        f"WITH d AS (FROM {COUNT}) SELECT d.key, c.value FROM d JOIN before.aggregate c USING (key) ORDER BY ALL"
    )
    united = ask.rows(f"SELECT change FROM {COUNT} UNION ALL SELECT change FROM {COUNT} ORDER BY 1")
    described = ask.rows(f"DESCRIBE {COUNT}")
    twice = ask.rows(f"SELECT count(*) FROM {COUNT} a JOIN {COUNT} b ON a.key = b.key")

    assert joined == [("key_0", 1), ("key_662", 11290)]
    assert [change for (change,) in united] == sorted(2 * [change for change, *_ in ROWS])
    assert ("change", "VARCHAR") in [row[:2] for row in described]
    assert twice == [(3,)]


@pytest.mark.slow
def test_parameters_may_be_names(ask: Any) -> None:
    rows = ask.rows(
        "SELECT key FROM diff(?, ?, ?) WHERE change = ?",
        parameters=["before", "after", "aggregate__count", "added"],
    )

    assert rows == [("new",)]


def test_the_answer_names_both_savepoints(ask: Any, catalog: Catalog) -> None:
    plan = planned(f"SELECT * FROM {COUNT}", catalog, dialect="duckdb", max_sql_bytes=1000, constants={})
    [(explained,)] = [row[-1:] for row in ask.rows(f"EXPLAIN SELECT * FROM {COUNT} WHERE key = 'new'")]

    assert [database.name for database in plan.databases] == ["before", "after"]
    assert "reads: diff(before, after, aggregate__count): " in explained
    assert "key IN ('new')" in explained


@pytest.mark.slow
def test_names_are_found_in_any_case(ask: Any) -> None:
    assert ask.rows("SELECT count(*) FROM DIFF('BEFORE', 'After', 'AGGREGATE__count')") == [(3,)]


@pytest.mark.parametrize(
    ("sql", "kind", "message", "column", "hint"),
    [
        (
            "diff('befor', 'after', 't')",
            DatabaseNotFoundError,
            "there is no database 'befor'",
            20,
            '"before"',
        ),
        ("diff('before', 'nothing at all')", DatabaseNotFoundError, "'nothing at all'", 30, ""),
        (
            "diff('before', 'after', 'aggregate__cont')",
            TableNotFoundError,
            "'aggregate__cont'",
            39,
            "aggregate__count",
        ),
        ("diff('before')", InvalidQueryError, "found 1 argument", 15, ""),
        ("diff()", InvalidQueryError, "found 0 arguments", 15, ""),
        ("diff('a', 'b', 'c', 'd')", InvalidQueryError, "found 4 arguments", 15, ""),
        ("diff(before, 'after')", InvalidQueryError, "single quotes, found before", 20, "SHOW SCHEMAS"),
        ("diff('before', 'after', 1)", InvalidQueryError, "single quotes, found 1", 39, "SHOW SCHEMAS"),
        ("diff('before', 'af' || 'ter')", InvalidQueryError, "single quotes", 30, "SHOW SCHEMAS"),
        ("diff('before', before => 'after')", InvalidQueryError, "single quotes", None, "SHOW SCHEMAS"),
        ("diff('before', '')", InvalidQueryError, "single quotes", 30, "SHOW SCHEMAS"),
        ("flink.diff('before', 'after')", InvalidQueryError, "without a qualifier", 21, ""),
    ],
)
def test_errors_say_what_and_where(
    catalog: Catalog, sql: str, kind: type[QueryError], message: str, column: int | None, hint: str
) -> None:
    with pytest.raises(kind) as raised:
        planned(f"SELECT * FROM {sql}", catalog, dialect="duckdb", max_sql_bytes=1000, constants={})

    assert message in raised.value.message
    assert hint in (raised.value.hint or "")
    if column is not None:
        assert raised.value.position is not None
        assert (raised.value.position.line, raised.value.position.column) == (1, column)


def test_errors_of_trino_have_positions_in_its_text(catalog: Catalog) -> None:
    sql = "SELECT *\nFROM TABLE(diff('before', 'missing', 't'))"

    with pytest.raises(DatabaseNotFoundError) as raised:
        planned(sql, catalog, dialect="trino", max_sql_bytes=1000, constants={})

    assert raised.value.position is not None
    assert (raised.value.position.line, raised.value.position.column) == (2, 28)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM TABLE(read_csv('/etc/passwd'))",
        "SELECT * FROM diff('before', 'after', 'aggregate__count'), read_text('/etc/passwd')",
    ],
)
def test_other_functions_stay_refused(catalog: Catalog, sql: str) -> None:
    with pytest.raises(ForbiddenError):
        planned(sql, catalog, dialect="duckdb", max_sql_bytes=1000, constants={})


def test_only_what_the_caller_sees_is_compared(catalog: Catalog) -> None:
    visible = catalog.visible(lambda name: name == "after")

    for names in ("'before', 'after'", "'after', 'before'"):
        with pytest.raises(DatabaseNotFoundError) as raised:
            planned(
                f"SELECT * FROM diff({names}, 'aggregate__count')",
                visible,
                dialect="duckdb",
                max_sql_bytes=1000,
                constants={},
            )
        assert raised.value.hint is None


def test_a_history_is_no_savepoint() -> None:
    jobs = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental"
    catalog = Catalog([Root(path=str(jobs), label="jobs")])
    history = catalog.jobs()[0].history

    with pytest.raises(InvalidQueryError, match="which holds several") as raised:
        planned(
            f"SELECT * FROM diff('latest', '{history}')",
            catalog,
            dialect="duckdb",
            max_sql_bytes=1000,
            constants={},
        )

    assert raised.value.position is not None
    assert raised.value.position.column == 30


@pytest.mark.slow
def test_a_previous_savepoint_that_cannot_be_read_is_passed_over_and_named(tmp_path: Path) -> None:
    job = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
    shutil.copytree(job, tmp_path / "job")
    shutil.copytree(job / "chk-2", tmp_path / "job" / "chk-3")
    (tmp_path / "job" / "chk-2" / "_metadata").write_bytes(b"no metadata")
    catalog = Catalog([Root(path=str(tmp_path / "job"), label="w")])

    plan = planned(
        "SELECT * FROM diff('previous', 'w__chk-3')", catalog, dialect="trino", max_sql_bytes=99, constants={}
    )

    assert [database.name for database in plan.databases] == ["w__chk-1", "w__chk-3"]
    [skipped] = plan.skipped
    assert skipped.startswith('"w__chk-2" is newer than "previous", and cannot be read: ')


def test_previous_is_the_savepoint_before_in_its_job(ask_of: Callable[[Catalog], Any]) -> None:
    job = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
    catalog = Catalog([Root(path=str(job), label="w")])
    asker = ask_of(catalog)
    _, first = catalog.jobs()[0].databases

    newest = asker.rows(
        "SELECT change, count(*) FROM diff('Previous', 'latest', 'aggregate__count') GROUP BY ALL"
    )

    assert sorted(newest) == sorted(
        asker.rows(
            f"SELECT change, count(*) FROM diff('{first.name}', 'latest', 'aggregate__count') GROUP BY ALL"
        )
    )
    assert dict(newest) == {"added": 4, "changed": 176, "removed": 20}
    with pytest.raises(DatabaseNotFoundError, match="no savepoint before") as raised:
        asker.rows(f"SELECT * FROM diff('previous', '{first.name}')")
    assert raised.value.position is not None
    assert raised.value.position.column == 20


WORDS = [
    "'before'",
    "'after'",
    "'aggregate__count'",
    "'timers'",
    "''",
    "'it''s'",
    "before",
    '"after"',
    "1",
    "NULL",
    "(",
    ")",
]
WORDS += [
    ",",
    ",",
    "||",
    "=>",
    "diff",
    "TABLE(",
    "SELECT",
    "-- c\n",
    "/* ) */",
    "AS",
    "d",
    ".",
    "*",
    "'",
    "$$x$$",
    "LATERAL",
]


@pytest.mark.slow
@given(words=st.lists(st.sampled_from(WORDS), max_size=9), dialect=st.sampled_from(["duckdb", "trino"]))
def test_whatever_stands_in_a_call_is_a_plan_or_an_error_of_the_service(
    catalog: Catalog, words: list[str], dialect: str
) -> None:
    sql = f"SELECT * FROM diff({' '.join(words)}"

    for text in (sql, f"{sql})", f"{sql}) AS d WHERE d.change = 'added'"):
        with contextlib.suppress(QueryError):
            found = planned(text, catalog, dialect=dialect, max_sql_bytes=1000, constants={})
            assert {database.name for database in found.databases} <= {"before", "after"}
