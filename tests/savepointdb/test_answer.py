"""Answers: rows, frames and streams, from DuckDB's side and from ours."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import duckdb
import pandas
import pyarrow as pa
import pytest

import savepointdb
from tests.support.damaged import corrupt, write_in_files
from tests.support.paths import DATA

WORDCOUNT = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
WORDS = "SELECT key, value FROM aggregate WHERE value > 190 ORDER BY key"
LARGE = [("key_144", 193), ("key_166", 192), ("key_40", 191), ("key_477", 194), ("key_566", 199)]


def test_rows_come_as_python_values(db: savepointdb.Connection) -> None:
    answer = db.sql(WORDS)
    expected = pytest.approx(len(answer.fetchall()))

    assert answer.columns == ["key", "value"]
    assert answer.types == ["VARCHAR", "BIGINT"]
    assert answer.schema == pa.schema([("key", pa.string()), ("value", pa.int64())])
    assert answer.fetchall() == list(answer) == [tuple(row.values()) for row in answer.arrow().to_pylist()]
    assert len(answer.df()) == expected


def test_rows_come_one_by_one(db: savepointdb.Connection) -> None:
    answer = db.sql("SELECT * FROM range(5) t(i)")

    assert [answer.fetchone(), answer.fetchone()] == [(0,), (1,)]
    assert answer.fetchmany(2) == [(2,), (3,)]
    assert answer.fetchall() == [(4,)]
    assert answer.fetchall() == [(0,), (1,), (2,), (3,), (4,)]
    assert [answer.fetchmany(4), answer.fetchmany(4), answer.fetchmany(4)] == [
        [(0,), (1,), (2,), (3,)],
        [(4,)],
        [(0,), (1,), (2,), (3,)],
    ]
    only = db.sql("SELECT 1")
    assert [only.fetchone(), only.fetchone(), only.fetchone()] == [(1,), None, (1,)]


def test_a_statement_runs_when_its_rows_are_wanted(db: savepointdb.Connection) -> None:
    answer = db.sql("SELEC 1")

    with pytest.raises(savepointdb.InvalidQueryError, match=r"line 1, column 1: .*\(SELECT, EXPLAIN"):
        answer.fetchall()
    assert repr(answer).startswith("QuerySyntaxError: line 1, column 1: ")
    assert answer._repr_html_() is None


def test_columns_are_known_without_the_rows(db: savepointdb.Connection) -> None:
    answer = db.sql("SELECT sum(i) AS total FROM range(100000000000) t(i)")

    assert (answer.columns, answer.types) == (["total"], ["HUGEINT"])
    described = db.sql("DESCRIBE aggregate")
    assert described.columns[:2] == ["column_name", "column_type"]
    assert db.sql("EXPLAIN SELECT 1").types == ["VARCHAR", "VARCHAR"]
    assert db.sql("SHOW TABLES").columns == ["name"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("NULL::INTEGER", None),
        ("sum(i)", 3),
        ("170141183460469231731687303715884105727", 170141183460469231731687303715884105727),
        ("1.50", Decimal("1.50")),
        ("DATE '2024-05-01'", datetime.date(2024, 5, 1)),
        ("DATE '20240-05-01'", "+20240-05-01"),
        ("TIMESTAMP '2024-05-01 12:00:00.000001'", datetime.datetime(2024, 5, 1, 12, 0, 0, 1)),
        ("TIMESTAMP_NS '2024-05-01 12:00:00.000001'", datetime.datetime(2024, 5, 1, 12, 0, 0, 1)),
        ("TIMESTAMP_NS '2024-05-01 12:00:00.000000001'", "2024-05-01T12:00:00.000000001"),
        ("{'at': TIMESTAMP_NS '2024-05-01 12:00:00.000000001'}", {"at": "2024-05-01T12:00:00.000000001"}),
        ("MAP {'a': 1}", [("a", 1)]),
        ("[1, NULL]", [1, None]),
        (r"'\xAA'::BLOB", b"\xaa"),
        ("INTERVAL 1 DAY", "P1D"),
    ],
)
def test_values_are_exact(db: savepointdb.Connection, expression: str, value: Any) -> None:
    answer = db.sql(f"SELECT {expression} AS x FROM range(3) t(i)").fetchall()

    assert answer[0] == (value,)
    assert type(answer[0][0]) is type(value)


def test_a_frame_of_pandas_loses_nothing(db: savepointdb.Connection) -> None:
    frame = db.sql(
        "SELECT * FROM (VALUES (9007199254740993, 1, 'a', DATE '20240-01-01'), (NULL, 2, NULL, NULL)) t(a, b, b, d)"
    ).df()

    assert list(frame.columns) == ["a", "b", "b_1", "d"]
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "int32", "object", "object"]
    assert frame["a"].tolist() == [9007199254740993, pandas.NA]
    assert frame["d"].tolist() == ["+20240-01-01", None]
    total = db.sql("SELECT sum(value) AS total FROM aggregate").df()
    assert (total["total"].dtype, total["total"][0]) == ("int64", 111695)


def test_frames_have_all_rows(db: savepointdb.Connection) -> None:
    answer = db.sql("SELECT * FROM aggregate")

    frame = answer.df()

    assert frame.shape == (1000, 6)
    assert frame["value"].sum() == 111695
    assert frame[["key", "value"]].values.tolist() == [[row[1], row[3]] for row in answer]
    assert db.sql("SELECT * FROM aggregate WHERE value < 0").df().shape == (0, 6)


def test_polars_takes_the_rows(db: savepointdb.Connection) -> None:
    polars = pytest.importorskip("polars")

    assert db["aggregate"].pl().shape == (1000, 6)
    assert polars.DataFrame(db.sql(WORDS)).rows() == db.sql(WORDS).fetchall()
    assert db.sql("SELECT sum(value) FROM aggregate").pl().item() == 111695
    assert db.sql("SELECT INTERVAL 1 DAY, NULL, 18446744073709551616::HUGEINT").pl().row(0) == (
        "P1D",
        None,
        Decimal(18446744073709551616),
    )


def test_duckdb_takes_the_rows(db: savepointdb.Connection) -> None:
    large = db.sql(WORDS)
    words = db["aggregate"]  # noqa: F841  # DuckDB finds it by its name

    with duckdb.connect() as other:
        assert other.sql("SELECT * FROM large").fetchall() == large.fetchall()
        assert other.sql("SELECT sum(value), count(*) FROM words").fetchall() == [(111695, 1000)]


def test_arrow_takes_the_rows(db: savepointdb.Connection) -> None:
    assert pa.table(db["aggregate"]).num_rows == 1000
    with db.sql(WORDS).to_reader() as reader:
        assert reader.read_all().to_pylist() == db.sql(WORDS).arrow().to_pylist()


def test_a_missing_package_is_named(db: savepointdb.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)

    with pytest.raises(savepointdb.MissingPackageError) as raised:
        db["aggregate"].pl()
    assert isinstance(raised.value, ImportError)
    assert str(raised.value) == (
        "expected the package polars, found that it is not installed (pip install polars; to_arrow needs neither)"
    )


def test_the_first_rows_are_shown(
    db: savepointdb.Connection, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    answer = db.sql("SELECT key, value, namespace FROM aggregate WHERE key <= 'key_2' ORDER BY key")

    answer.show(2)

    assert capsys.readouterr().out.splitlines() == [
        "key    value  namespace",
        "─────  ─────  ─────────",
        "key_0      1  NULL",
        "key_1     38  NULL",
        "the first 2 rows",
    ]
    assert repr(answer).splitlines()[-1] == "the first 40 rows"
    assert repr(db.sql("SELECT 1 AS x")).splitlines()[-1] == "1 row"
    assert repr(db.sql("SELECT 'long text, much of it' AS a, repeat('b', 30) AS b")).splitlines()[-2:] == [
        "1 row",
        "1 column left out: b",
    ]
    assert repr(db.sql("EXPLAIN SELECT key FROM aggregate")).startswith("engine: duckdb\n")


def test_html_is_escaped_and_control_characters_are_shown(db: savepointdb.Connection) -> None:
    evil = "<script>alert(1)</script>"
    answer = db.sql(
        f"""SELECT '{evil}' AS "{evil}", chr(27) || '[2J' AS "\x1b]0;x", repeat('y', 1000) AS z"""
    )

    html = answer._repr_html_()

    assert html is not None
    assert "<script>" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    assert "\x1b" not in html + repr(answer)
    assert f"<td>{'y' * 200}…</td>" in html
    assert re.search(r"<p>1 row</p>", html)


def test_a_scan_has_columns_and_a_condition(db: savepointdb.Connection) -> None:
    scan = db["aggregate"].scan(columns=["KEY", "value"], where="value > 190 AND true -- the large ones")

    assert scan.columns == ["key", "value"]
    assert sorted(scan.fetchall()) == sorted(db.sql(WORDS).fetchall())
    with pytest.raises(savepointdb.ColumnNotFoundError, match=r'did you mean "value"'):
        db["aggregate"].scan(columns=["valu"])
    with pytest.raises(savepointdb.InvalidRequestError, match="expected at least one column"):
        db["aggregate"].scan(columns=[])
    with pytest.raises(TypeError, match="expected a statement as str, found NoneType"):
        db.sql(None)  # type: ignore[arg-type]  # what a user may give
    with pytest.raises(savepointdb.QueryError, match=r"expected one statement|refused|not allowed|near"):
        db["aggregate"].scan(where="true); DROP TABLE x; --").fetchall()


def test_rows_that_cannot_be_read_are_left_out_with_a_warning(tmp_path: Any) -> None:
    folder = write_in_files(
        DATA / "flink" / "2.3.0" / "wordcount-hashmap-savepoints" / "native", tmp_path / "damaged"
    )
    corrupt(max((file for file in folder.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size))
    with savepointdb.connect(folder) as db:
        with pytest.raises(savepointdb.SavepointError) as raised:
            db.sql("SELECT * FROM aggregate").fetchall()
        with pytest.warns(savepointdb.IncompleteWarning, match="lacks rows"):
            rows = db.sql("SELECT * FROM aggregate", allow_partial=True).fetchall()

    assert str(folder) in str(raised.value)
    assert len(rows) < 1000
