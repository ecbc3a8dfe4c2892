"""`savepointdb sample`: a new savepoint with some of the keys, which restores as the source does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import savepointdb
from service.cli import main
from tests.support.paths import DATA
from tools.synthetic.savepoints import write_savepoint

SOURCE = DATA / "flink/2.3.0/wordcount-rocksdb-savepoints/native"
UNTIL = "aggregate__count: key < 'key_2' AND value > 100"
COUNT = "SELECT key, value FROM aggregate__count"


def sample(*options: str, source: Path = SOURCE) -> int:
    return main(["sample", str(source), *options])


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with savepointdb.connect(path) as savepoint:
        return sorted(savepoint.sql(sql).fetchall())


def refused(capsys: pytest.CaptureFixture[str], *options: str, source: Path = SOURCE) -> str:
    assert sample(*options, source=source) != 0
    return capsys.readouterr().err


def test_keys_of_rows_stay_and_the_job_restores_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample("--to", str(tmp_path / "new"), "--where", UNTIL, "--json") == 0
    told = json.loads(capsys.readouterr().out)

    expected = rows(SOURCE, f"{COUNT} WHERE key < 'key_2' AND value > 100")
    assert rows(tmp_path / "new", COUNT) == expected
    assert told["target"] == str(tmp_path / "new")
    assert {one["state"]: one["entries"] for one in told["states"]} == {"count": len(expected), "seen": 0}
    assert told["check"]["verdict"] in ("fine", "risk")
    assert main(["check", str(SOURCE), "--against", str(tmp_path / "new"), "--flink", "2.3"]) == 0


def test_a_list_of_keys_stays(tmp_path: Path) -> None:
    (tmp_path / "keys.csv").write_text("key,name\nkey_662,a\nkey_7,b\n", encoding="utf-8")

    assert sample("--to", str(tmp_path / "new"), "--keys", str(tmp_path / "keys.csv")) == 0

    assert [key for key, _ in rows(tmp_path / "new", COUNT)] == ["key_662", "key_7"]


def test_a_listed_key_is_a_number_by_its_own_text_alone(tmp_path: Path) -> None:
    script = (
        "CREATE TABLE long__one AS SELECT n AS key, 1 AS value FROM (VALUES (0::BIGINT), (1), (5), (6)) AS t(n);"
        "CREATE TABLE text__one AS SELECT n AS key, 1 AS value FROM (VALUES ('0'), ('01'), ('+5'), ('6')) AS t(n)"
    )
    assert main(["create", str(tmp_path / "source"), script, "--flink", "2.3"]) == 0
    (tmp_path / "keys.csv").write_text("01\n00\n+5\n6\n")

    keys = ("--keys", str(tmp_path / "keys.csv"))
    assert sample("--to", str(tmp_path / "new"), *keys, source=tmp_path / "source") == 0

    assert rows(tmp_path / "new", "SELECT key FROM long__one") == [(6,)]
    assert rows(tmp_path / "new", "SELECT key FROM text__one") == [("+5",), ("01",), ("6",)]


def test_a_dry_run_tells_what_a_sample_has(tmp_path: Path) -> None:
    with savepointdb.connect(SOURCE) as savepoint:
        planned = savepoint.sample(None, 0.3, dry_run=True)
        made = savepoint.sample(tmp_path / "new", 0.3)
        others = savepoint.sample(None, 0.3, seed="other", dry_run=True)

    assert planned.target is None
    assert list(planned.states) == list(made.states)
    assert list(planned.states) != list(others.states)


def test_sources_and_states_go_by_their_names(tmp_path: Path) -> None:
    made = savepointdb.sample(
        SOURCE, tmp_path / "new", 0.5, offsets="latest", drop=["aggregate__count"], parallelism=1
    )

    with savepointdb.connect(made) as savepoint:
        assert savepoint.sql("SELECT count(*) FROM source_offsets").fetchall() == [(0,)]
        assert "aggregate__count" not in [name for (name,) in savepoint.sql("SHOW TABLES").fetchall()]


def test_one_subtask_has_the_offsets_of_all(tmp_path: Path) -> None:
    savepointdb.sample(SOURCE, tmp_path / "new", 0.5, parallelism=1)

    sql = 'SELECT topic, "partition", starting_offset FROM source_offsets'
    assert rows(tmp_path / "new", sql) == rows(SOURCE, sql)
    assert len(rows(SOURCE, sql)) > 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--fraction", "0"), "fraction: expected a number above 0 and up to 1, found 0"),
        (("--fraction", "2"), "fraction: expected a number above 0 and up to 1, found 2"),
        ((), "expected one of fraction, keys and where, found none"),
        (("--fraction", "0.1", "--where", UNTIL), "found fraction and where"),
        (("--fraction", "0.5", "--drop", "nothing"), "drop: expected an operator, or the table of a state"),
        (("--where", "aggregate__count"), "where: expected a table, a colon and a condition"),
        (
            ("--where", "aggregate__count: key = 'no such key'"),
            "found that no key stays; nothing was written",
        ),
        (("--where", "aggregate__count: 1) OR (1"), "where: expected one condition, found '1) OR (1'"),
        (("--keys", "/nowhere.csv"), "keys: expected a CSV file of keys, found /nowhere.csv"),
    ],
)
def test_what_means_nothing_is_refused(
    options: tuple[str, ...], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in refused(capsys, "--to", str(tmp_path / "new"), *options)
    assert not (tmp_path / "new").exists()


def test_a_key_that_fits_no_type_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keys.csv").write_text("7\nseven\n", encoding="utf-8")

    # The keys that are left are numbers.
    told = refused(
        capsys, "--to", str(tmp_path / "new"), "--keys", str(tmp_path / "keys.csv"), "--drop", "aggregate"
    )

    assert "expected keys of the types that the operators have, found 'seven', which fits none" in told


def test_state_that_cannot_be_read_is_not_kept_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_savepoint(tmp_path / "source", 20)
    for number in (0, 1):
        (tmp_path / "source" / f"subtask-{number}").unlink()

    told = refused(capsys, "--to", str(tmp_path / "new"), "--fraction", "0.5", source=tmp_path / "source")

    assert "keyed state of aggregate cannot be read" in told


SHOP = """
CREATE TABLE customers__name WITH (key_type = 'Long') AS SELECT range AS key, 'name ' || range AS value FROM range(60);
CREATE TABLE orders__total WITH (key_type = 'Tuple2<Integer, String>') AS
  SELECT {'f0': (range % 60)::INTEGER, 'f1': 'day ' || range // 60} AS key, range AS value FROM range(180);
CREATE TABLE visits__page WITH (key_type = 'Row<String, Integer>') AS
  SELECT {'f0': CASE WHEN range % 60 < 59 THEN (range % 60)::VARCHAR END, 'f1': range::INTEGER} AS key, range AS value FROM range(120);
CREATE TABLE prices__price AS SELECT 'article ' || range AS key, range AS value FROM range(60)
"""
GROUP = """version = 1
[group.customer]
columns = ["customers.key", "orders.key.f0", "visits.key.f0"]
"""
CUSTOMERS = {
    "customers": "SELECT key FROM customers__name",
    "orders": "SELECT DISTINCT key.f0 FROM orders__total",
    "visits": "SELECT DISTINCT key.f0::BIGINT FROM visits__page WHERE key.f0 IS NOT NULL",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "groups.toml").write_text(GROUP, encoding="utf-8")
    assert main(["create", str(tmp_path / "shop"), SHOP, "--flink", "2.3"]) == 0
    return tmp_path / "shop"


def grouped(shop: Path, *options: str) -> list[str]:
    """Return the options of a sample of the shop by customers, in the folder of the shop."""
    return [
        "--to",
        str(shop.parent / "new"),
        "--mask",
        str(shop.parent / "groups.toml"),
        "--group",
        "customer",
        *options,
    ]


def test_operators_with_a_field_of_a_group_keep_the_same_ones(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert sample(*grouped(shop, "--fraction", "0.3", "--json"), source=shop) == 0

    told, new = json.loads(capsys.readouterr().out), shop.parent / "new"
    kept = {name: [one for (one,) in rows(new, sql)] for name, sql in CUSTOMERS.items()}
    assert told["parts"] == {"customers": "key", "orders": "key.f0", "visits": "key.f0"}
    assert 5 < len(kept["customers"]) < 35
    assert kept["orders"] == kept["customers"]
    assert kept["visits"] == [one for one in kept["customers"] if one != 59]
    # Each customer has all of the orders, and what has no column of the group goes by its own keys.
    assert rows(new, "SELECT key.f0, count(*) FROM orders__total GROUP BY 1") == [
        (one, 3) for one in kept["orders"]
    ]
    assert sample("--to", str(shop.parent / "alone"), "--fraction", "0.3", source=shop) == 0
    prices = "SELECT key FROM prices__price"
    assert rows(new, prices) == rows(shop.parent / "alone", prices)
    # Of a key without a customer the whole key decides.
    assert 0 < len(rows(new, "SELECT key FROM visits__page WHERE key.f0 IS NULL")) < 2


def test_listed_keys_are_values_of_the_field(shop: Path) -> None:
    (shop.parent / "keys.csv").write_text("7\n12\n", encoding="utf-8")

    assert sample(*grouped(shop, "--keys", str(shop.parent / "keys.csv")), source=shop) == 0

    kept = {name: rows(shop.parent / "new", sql) for name, sql in CUSTOMERS.items()}
    assert kept == {name: [(7,), (12,)] for name in CUSTOMERS}
    assert rows(shop.parent / "new", "SELECT key FROM prices__price") == []


def test_fields_of_keys_of_rows_decide(shop: Path) -> None:
    assert sample(*grouped(shop, "--where", "orders__total: value IN (7, 67, 179)"), source=shop) == 0

    kept = {name: rows(shop.parent / "new", sql) for name, sql in CUSTOMERS.items()}
    assert kept == {"customers": [(7,), (59,)], "orders": [(7,), (59,)], "visits": [(7,)]}


@pytest.mark.parametrize(
    ("columns", "group", "expected"),
    [
        (
            '["orders.key"]',
            "customer",
            "expected one field of the key of orders in customer, outside of lists and maps",
        ),
        ('["orders__total.value"]', "customer", "expected a key, or a field of one, in customer, found none"),
        (
            '["orders.key.customer"]',
            "customer",
            "expected a column of a state, found none called orders.key.customer",
        ),
        ('["orders.key.f0"]', "person", "group: expected one of customer, found 'person'"),
    ],
)
def test_a_group_without_one_column_of_a_key_is_refused(
    columns: str, group: str, expected: str, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop.parent / "groups.toml").write_text(
        f"version = 1\n[group.customer]\ncolumns = {columns}\n", encoding="utf-8"
    )

    assert expected in refused(capsys, *grouped(shop, "--fraction", "0.5", "--group", group), source=shop)
    assert not (shop.parent / "new").exists()
