"""A query plans each of its scans once, and resolves each of its tables once, wherever it runs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog import Catalog, Database, Predicate, Scan, connect
from catalog.scan import ANYTHING
from catalog.statetables import StatesTable
from service.base.settings import Settings
from service.doors.app import create_app
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.engines.workers.channel import plan_of, task_content
from service.query.sql import planner
from service.query.sql.planner import plan
from service.query.sql.resolver import RememberedQueries
from tests.service.conftest import Asker
from tests.support.many_operators import files_of, keep_files_of, opened_files, uid_of, write_many_operators
from tests.support.serving import listening

OPERATORS, ASKED = 500, 250
LOOKUP = "SELECT value FROM aggregate WHERE key = 'key_662'"


class Counts:
    """How often tables were planned and resolved."""

    planned = 0
    resolved = 0


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    found = Counts()
    plain_plan, plain_table = StatesTable.plan, Database.table

    def planned(table: StatesTable, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        found.planned += 1
        return plain_plan(table, predicate, allow_partial=allow_partial)

    def resolved(database: Database, name: str) -> Any:
        found.resolved += 1
        return plain_table(database, name)

    # A text that was planned over another savepoint is resolved a second time.
    monkeypatch.setattr(planner, "_REMEMBERED", RememberedQueries())
    monkeypatch.setattr(StatesTable, "plan", planned)
    monkeypatch.setattr(Database, "table", resolved)
    return found


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        (LOOKUP, 1),
        ("SELECT * FROM aggregate", 1),
        ("SELECT count(*) FROM aggregate__count WHERE value > 100", 1),
        ("WITH c AS (SELECT * FROM aggregate__count) SELECT * FROM c AS a JOIN c AS b USING (key)", 1),
        ("SELECT * FROM aggregate__count AS a JOIN aggregate AS b USING (key)", 2),
        ("EXPLAIN SELECT count(*) FROM aggregate", 1),
        (f"EXPLAIN {LOOKUP}", 1),
        ("DESCRIBE aggregate", 1),
    ],
)
def test_a_query_plans_each_scan_once(native: Asker, counts: Counts, sql: str, tables: int) -> None:
    rows = native.rows(sql)

    assert rows
    assert (counts.planned, counts.resolved) == (tables, tables)


def test_a_worker_neither_plans_nor_resolves(native: Asker, counts: Counts) -> None:
    planned = plan(LOOKUP, native.catalog)
    content = task_content(planned)
    assert (counts.planned, counts.resolved) == (1, 1)
    engine = DuckDBEngine(Settings())

    execution = engine.execution(plan_of(content))
    rows = execution.open().read_all().to_pylist()
    execution.close()
    engine.close()

    assert rows == [{"value": 11290}]
    assert (counts.planned, counts.resolved) == (1, 1)
    assert execution.progress.bytes_read > 0


def test_splits_of_one_state_share_what_is_the_same(native: Asker) -> None:
    scan = native.catalog.table("aggregate").plan()

    one, two = (
        len(pickle.dumps(replace(scan, splits=scan.splits[:1] + copies))) for copies in ((), scan.splits[1:2])
    )

    assert len(scan.splits) > 1
    assert two - one < 400


def test_a_query_opens_the_files_of_its_operator(tmp_path: Path, ask_of: Callable[[Catalog], Asker]) -> None:
    write_many_operators(tmp_path, OPERATORS)

    with opened_files(tmp_path) as found:
        asker = ask_of(connect(tmp_path))
        rows = asker.rows(f"SELECT key, value FROM \"{uid_of(ASKED)}\" WHERE key = 'key_662'")

    assert rows == [("key_662", 11290)]
    assert sorted(found) == files_of(tmp_path, ASKED)


@pytest.mark.slow
def test_the_service_answers_though_the_files_of_other_operators_are_gone(tmp_path: Path) -> None:
    write_many_operators(tmp_path, 20)
    keep_files_of(tmp_path, 7)
    sql = f"SELECT value FROM \"{uid_of(7)}__count\" WHERE key = 'key_662'"

    with (
        listening(create_app(Settings.of(workers=1), connect(tmp_path))) as address,
        httpx.Client(base_url=address, timeout=60) as http,
    ):
        answer = http.post("/api/query", json={"sql": sql})

    assert answer.status_code == 200
    assert answer.json()["rows"] == [[11290]]
