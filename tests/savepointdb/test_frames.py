"""`FROM df`: data frames of the caller, and files, beside the tables of a savepoint."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, dataset

import savepointdb
from savepointdb import ColumnNotFoundError, InvalidQueryError, TableNotFoundError

WORDS = {"key": ["key_662", "key_1", "none"], "n": [7, 8, 9]}
JOINED = "SELECT a.key, value, n FROM aggregate a JOIN words USING (key) ORDER BY value"
MAKERS: dict[str, Callable[[], object]] = {
    "pandas": lambda: pd.DataFrame(WORDS, index=["x", "y", "z"]),
    "polars": lambda: pl.DataFrame(WORDS),
    "a lazy frame": lambda: pl.LazyFrame(WORDS),
    "a table": lambda: pa.table(WORDS),
    "a record batch": lambda: pa.record_batch(WORDS),
    "a reader": lambda: pa.table(WORDS).to_reader(),
    "a dataset": lambda: dataset.dataset(pa.table(WORDS)),
}
shared = pd.DataFrame({"n": [5]})


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_data_frame_is_joined_with_a_state(db: savepointdb.Connection, make: Callable[[], object]) -> None:
    words = make()

    answer = db.sql(JOINED)

    assert words is not None
    assert answer.fetchall() == [("key_1", 38, 8), ("key_662", 11290, 7)]
    # Each call runs the statement anew.
    assert (answer.columns, answer.to_arrow().num_rows) == (["key", "value", "n"], 2)


def test_a_condition_of_a_join_with_a_frame_prunes_the_state(db: savepointdb.Connection) -> None:
    words = pd.DataFrame(WORDS)

    plan = repr(
        db.sql("EXPLAIN SELECT value FROM words JOIN aggregate USING (key) WHERE words.key = 'key_662'")
    )

    assert len(words) == 3
    assert "1 of 128 key groups" in plan


def test_an_answer_is_a_frame_of_the_next_statement(db: savepointdb.Connection) -> None:
    large = db.sql("SELECT key, value FROM aggregate WHERE value > 190")

    assert db.sql("SELECT count(*), max(value) FROM large").fetchall() == [(len(large.fetchall()), 11290)]


def test_a_table_hides_a_frame_of_its_name(db: savepointdb.Connection) -> None:
    aggregate = shared

    assert len(aggregate) == 1
    assert db.sql("SELECT count(*) FROM aggregate").fetchall() == [(1000,)]
    assert db.sql("WITH shared AS (SELECT 1 AS one) SELECT * FROM shared").fetchall() == [(1,)]


def test_frames_are_those_of_the_caller(db: savepointdb.Connection) -> None:
    def inside() -> savepointdb.Answer:
        hidden = pa.table({"n": [1]})
        return db.sql("SELECT n FROM hidden") if hidden else db.sql("SELECT 1")

    assert inside().fetchall() == [(1,)]
    assert db.sql("SELECT n FROM shared").fetchall() == [(5,)]
    with pytest.raises(TableNotFoundError, match="there is no table 'hidden'"):
        db.sql("SELECT n FROM hidden").fetchall()


def test_a_statement_keeps_the_frame_that_it_was_given(db: savepointdb.Connection) -> None:
    words = pa.table({"n": [1]})
    before = db.sql("SELECT n FROM words")
    words = pa.table({"n": [2]})

    assert (before.fetchall(), db.sql("SELECT n FROM words").fetchall()) == ([(1,)], [(2,)])
    assert words.num_rows == 1


def test_what_is_no_frame_is_no_table(db: savepointdb.Connection) -> None:
    numbers, mixed, frame = [1, 2], pd.DataFrame({"n": [1, "a", object()]}), shared

    assert len(numbers) == 2
    with pytest.raises(TableNotFoundError, match="there is no table 'numbers'"):
        db.sql("FROM numbers").fetchall()
    with pytest.raises(
        InvalidQueryError, match=r"line 1, column 6: the data frame 'mixed' cannot be read: .*str"
    ):
        db.sql("FROM mixed").fetchall()
    with pytest.raises(ColumnNotFoundError, match="there is no column 'm'"):
        db.sql("SELECT m FROM frame").fetchall()
    with pytest.raises(TableNotFoundError):
        db.sql('SELECT * FROM "native".frame').fetchall()
    assert (len(mixed), len(frame)) == (3, 1)


def test_columns_without_a_name_of_their_own_get_the_one_of_duckdb(db: savepointdb.Connection) -> None:
    odd = pa.table([[1], [2], [3]], names=["", "a", "A"])

    assert odd.num_rows == 1
    assert db.sql("FROM odd").columns == ["column0", "a", "A_1"]
    assert db.sql("SELECT A_1 FROM odd").fetchall() == [(3,)]


def test_a_frame_needs_no_database_among_several(tmp_path: Path) -> None:
    from tests.savepointdb.conftest import WORDCOUNT

    with (
        savepointdb.connect({"one": WORDCOUNT, "two": WORDCOUNT.parent / "canonical"}) as two,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")

        assert two.sql("SELECT n FROM shared").fetchall() == [(5,)]


def test_python_reads_files(db: savepointdb.Connection, tmp_path: Path) -> None:
    csv.write_csv(pa.table(WORDS), tmp_path / "words.csv")

    assert db.sql(f"SELECT words.n FROM '{tmp_path}/words.csv' WHERE n > 8").fetchall() == [(9,)]


def test_a_scan_and_a_bisection_read_frames_and_files(db: savepointdb.Connection, tmp_path: Path) -> None:
    from tests.savepointdb.conftest import WORDCOUNT

    words = pd.DataFrame(WORDS)
    csv.write_csv(pa.table(WORDS), tmp_path / "words.csv")
    rows = db["aggregate__count"].scan(columns="value", where="key IN (FROM words SELECT key WHERE n = 7)")
    found = savepointdb.bisect(WORDCOUNT, JOINED.replace("ORDER", "WHERE n = 7 ORDER"))

    assert len(words) == 3
    assert rows.fetchall() == [(11290,)]
    assert (
        db["aggregate"].scan(where=f"key IN (FROM '{tmp_path}/words.csv' SELECT key)").to_arrow().num_rows
        == 2
    )
    assert found.rows == [{"key": "key_662", "value": 11290, "n": 7}]
