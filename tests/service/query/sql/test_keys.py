"""Conditions on keys: fields of structs prune as the whole key does, and UUIDs of Kryo have two spellings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import catalog
from service import cli
from service.query.sql.planner import plan
from tests.support.paths import DATA

ALL_STATES = DATA / "corpus" / "1.20.3" / "allstates-hashmap-compressed" / "canonical"
UIDS = ["kinds-uuid-kryo", "kinds-tuple2", "kinds-tuple-nested"]
UUID = "00000000-0000-0001-ffff-ffffffffffff"


@pytest.fixture
def count(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Any:
    """Returns the number of rows that a query counts."""
    uids = tmp_path / "uids"
    uids.write_text("\n".join(UIDS))

    def call(sql: str) -> int:
        code = cli.main(
            ["query", sql, "--savepoint", str(ALL_STATES), "--uids", str(uids), "--format", "jsonl"]
        )
        sys.stdout.flush()
        output, errors = capfdbinary.readouterr()
        assert code == 0, errors
        [number] = json.loads(output).values()
        return int(number)

    return call


@pytest.fixture(scope="module")
def known() -> Any:
    return catalog.connect(ALL_STATES, uids=UIDS)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (f"key = '{UUID}'", 18),
        (f"key = '\"{UUID}\"'", 18),
        (f"t.key IN ('\"{UUID}\"', 'other')", 18),
        (f"'\"{UUID}\"' = key", 18),
        (f"key <> '\"{UUID}\"'", 35),
        (f"key = '\"{UUID}'", 0),
        (f"state_name = '\"{UUID}\"'", 0),
    ],
)
def test_both_spellings_find_a_uuid_that_kryo_wrote(count: Any, condition: str, rows: int) -> None:
    assert count(f'SELECT count(*) FROM "kinds-uuid-kryo" t WHERE {condition}') == rows


_TABLE = '"kinds-uuid-kryo"'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "column"),
    [
        (f"(SELECT key FROM {_TABLE})", "key"),
        (f"(SELECT * FROM {_TABLE}) t", "t.key"),
        (f"(SELECT t.*, 1 AS one FROM {_TABLE} t)", "key"),
        (f"(SELECT upper(state_name) AS s, key AS k FROM {_TABLE}) t", "t.K"),
        (f"(SELECT key, 1 FROM {_TABLE}) t(k)", "k"),
        (f"(SELECT k FROM (SELECT (key) AS k FROM {_TABLE}))", "k"),
        (f"(SELECT key FROM {_TABLE} UNION ALL SELECT key FROM {_TABLE} WHERE false)", "key"),
        (f"(WITH c AS (FROM {_TABLE}) SELECT key FROM c) t", "key"),
        (f"(WITH c(k) AS (SELECT key FROM {_TABLE}), d AS (SELECT k AS m FROM c) SELECT d.m FROM d)", "m"),
        (f"(SELECT key FROM {_TABLE} GROUP BY key)", "key"),
        (f"{_TABLE}, unnest([1, 2]) u(n)", "key"),
    ],
)
def test_both_spellings_find_a_uuid_outside_the_query_that_reads_it(
    count: Any, source: str, column: str
) -> None:
    plain, quoted = (
        count(f"SELECT count(*) FROM {source} WHERE {column} = '{text}'") for text in (UUID, f'"{UUID}"')
    )

    assert plain == quoted > 0


@pytest.mark.parametrize(
    "source",
    [
        f"(SELECT '\"{UUID}\"' AS key FROM {_TABLE})",
        f"(SELECT '\"' || key || '\"' AS key FROM {_TABLE})",
        f"(SELECT key FROM {_TABLE} WHERE false UNION ALL SELECT '\"{UUID}\"')",
        f"(WITH c AS (SELECT * REPLACE ('\"' || key || '\"' AS key) FROM {_TABLE}) FROM c)",
        f"(WITH c(key, k) AS (SELECT state_name, key FROM {_TABLE}) SELECT '\"' || k || '\"' AS key FROM c)",
    ],
)
def test_a_text_with_marks_stays_one(count: Any, source: str) -> None:
    assert count(f"SELECT count(*) FROM {source} WHERE key = '\"{UUID}\"'") > 0


def test_both_spellings_prune(known: Any) -> None:
    for text in (UUID, f'"{UUID}"'):
        [table] = plan(f"SELECT * FROM \"kinds-uuid-kryo\" WHERE key = '{text}'", known).tables
        assert len(table.scan.key_groups) == 1


@pytest.mark.parametrize(
    "condition",
    [
        "key = {'f0': 't1', 'f1': 1}",
        "key.f0 = 't1' AND key.f1 = 1",
        "1 = t.key.f1 AND (t.key).f0 = 't1' AND value IS NOT NULL",
        "KEY.F0 = 't1' AND key.f1 = 1",
    ],
)
def test_all_fields_of_a_key_prune_as_the_key_does(known: Any, count: Any, condition: str) -> None:
    sql = f'SELECT count(*) FROM "kinds-tuple2__val" t WHERE {condition}'

    [table] = plan(sql, known).tables

    assert table.predicate.of("key") == ({"f0": "t1", "f1": 1},)
    assert len(table.scan.key_groups) == 1
    assert count(sql) == 1


def test_fields_of_fields_prune(known: Any) -> None:
    sql = (
        "SELECT * FROM \"kinds-tuple-nested__val\" WHERE key.f0 = 1 AND key.f1.f0 = 'n' AND key.f1.f1 = TRUE"
    )

    [table] = plan(sql, known).tables

    assert table.predicate.of("key") == ({"f0": 1, "f1": {"f0": "n", "f1": True}},)


@pytest.mark.parametrize(
    "condition",
    [
        "key.f0 = 't1'",
        "key.f0 = 't1' OR key.f1 = 1",
        "key.f0 = 't1' AND key.f1 > 0",
        "key.f0 = 't1' AND key.f1 = value",
    ],
)
def test_some_fields_of_a_key_do_not_prune(known: Any, condition: str) -> None:
    [table] = plan(f'SELECT * FROM "kinds-tuple2__val" WHERE {condition}', known).tables

    assert table.predicate.of("key") is None


def test_a_table_goes_before_a_column_of_its_name(known: Any) -> None:
    """Here `key.key` is the column of the table `key`."""
    sql = "SELECT * FROM \"kinds-tuple2__val\" AS key WHERE key.key.f0 = 't1' AND key.key.f1 = 1"

    [table] = plan(sql, known).tables

    assert table.predicate.of("key") == ({"f0": "t1", "f1": 1},)
