"""Jobs, checkpoints and histories as users meet them: in SQL, in the API, behind grants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from catalog import Catalog, Root
from catalog.history import HistorySplit
from service.base.principal import Principal
from service.base.settings import Settings
from service.doors.app import create_app
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.sql import planner
from tests.support.checkpoints import COUNTS, put

Serving = Callable[[FastAPI], AbstractContextManager[str]]
COUNT = "SELECT _checkpoint_id, value FROM {}.aggregate__count WHERE key = 'key_662' ORDER BY 1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in (1, 2):
        put(tmp_path / "job" / f"chk-{number}", number)
    return tmp_path


@pytest.fixture
def catalog(root: Path) -> Catalog:
    return Catalog([Root(path=str(root), label="prod")], rescan_after_s=0)


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDBEngine]:
    with_engine = DuckDBEngine(Settings.of())
    yield with_engine
    with_engine.close()


def rows(engine: DuckDBEngine, catalog: Catalog, sql: str) -> list[tuple[Any, ...]]:
    execution = engine.execution(planner.plan(sql, catalog))
    try:
        found = execution.open().read_all()
    finally:
        execution.close()
    return list(zip(*found.to_pydict().values(), strict=True))


def test_the_value_of_a_key_in_all_checkpoints(engine: DuckDBEngine, catalog: Catalog) -> None:
    for name in ("prod__job__history", '"PROD__JOB__HISTORY"', "job__history"):
        assert rows(engine, catalog, COUNT.format(name)) == list(COUNTS.items())


@pytest.mark.parametrize(
    ("condition", "read", "kept"),
    [
        ("_checkpoint_id = 2", [2], [2]),
        ("_checkpoint_id IN (1, 7)", [1], [1]),
        ("_database = 'prod__job__chk-1'", [1], [1]),
        ("_checkpoint_id = 1 AND _database = 'prod__job__chk-2'", [], []),
        ("value > 1", [2, 1], [2, 1]),
        ("_checkpoint_id >= 2", [2], [2]),
        ("2 <= _checkpoint_id", [2], [2]),
        ("_checkpoint_id < 2", [2, 1], [1]),
        ("_checkpoint_id <= 1", [1], [1]),
        ("_checkpoint_id BETWEEN 2 AND 9", [2], [2]),
        ("_checkpoint_id NOT BETWEEN 2 AND 9", [2, 1], [1]),
        ("_checkpoint_id > 0 AND _checkpoint_id < -1", [], []),
        ("_checkpoint_id >= 2 OR value > 1", [2, 1], [2, 1]),
        ("_checkpoint_id >= value - value + 2", [2, 1], [2]),
        ("_checkpoint_at >= TIMESTAMPTZ '2026-09-01 12:00:02+00'", [2], [2]),
        ("_checkpoint_at <= '2026-09-01T14:00:01+02:00'", [1], [1]),
        ("_checkpoint_at = '2026-09-01 12:00:01Z'", [1], [1]),
        ("_checkpoint_at > TIMESTAMP '2026-09-01 12:00:01'", [2, 1], [2]),
        ("_checkpoint_at > '2026-10-01'", [], []),
    ],
)
def test_conditions_on_the_checkpoint_leave_out_the_others(
    engine: DuckDBEngine, catalog: Catalog, condition: str, read: list[int], kept: list[int]
) -> None:
    sql = (
        f"SELECT DISTINCT _checkpoint_id FROM job__history.aggregate__count WHERE {condition} ORDER BY 1 DESC"
    )
    plan = planner.plan(sql, catalog)

    assert [database.checkpoint_id for database in plan.databases] == read
    splits = plan.tables[0].scan.splits
    assert {split.database for split in splits if isinstance(split, HistorySplit)} == {
        f"prod__job__chk-{number}" for number in read
    }
    assert rows(engine, catalog, sql) == [(number,) for number in kept]


def test_what_a_history_lacks_is_named(engine: DuckDBEngine, catalog: Catalog, root: Path) -> None:
    (root / "job" / "chk-2" / "_metadata").write_bytes(b"no savepoint")
    plan = planner.plan(COUNT.format("job__history"), catalog)

    assert rows(engine, catalog, COUNT.format("job__history")) == [(1, COUNTS[1])]
    [left_out] = plan.incomplete
    assert left_out.table == "prod__job__history.aggregate__count"
    assert left_out.message.startswith('checkpoint "prod__job__chk-2" is left out: ')
    assert str(root) not in left_out.text()


def test_jobs_and_checkpoints_are_tables(engine: DuckDBEngine, catalog: Catalog, root: Path) -> None:
    (put(root / "job" / "chk-3", 1) / "_metadata").write_bytes(b"no savepoint")

    listed = rows(
        engine,
        catalog,
        "SELECT database, job, label, checkpoint_id, kind, readable, error IS NULL FROM savepointdb.checkpoints",
    )

    assert listed == [
        ("prod__job__chk-3", "prod__job", "prod", None, None, False, False),
        ("prod__job__chk-2", "prod__job", "prod", 2, "CHECKPOINT", True, True),
        ("prod__job__chk-1", "prod__job", "prod", 1, "CHECKPOINT", True, True),
    ]
    assert rows(engine, catalog, "SELECT job, history, checkpoints FROM flink.savepointdb.jobs") == [
        ("prod__job", "prod__job__history", 3)
    ]
    [[lineages, sizes]] = rows(
        engine,
        catalog,
        "SELECT count(DISTINCT lineage), min(size_bytes) > 1000 FROM savepointdb.checkpoints WHERE readable",
    )
    assert (lineages, sizes) == (1, True)


def test_histories_and_the_schema_of_the_service_are_listed(engine: DuckDBEngine, catalog: Catalog) -> None:
    def names(sql: str) -> set[Any]:
        return {row[0] for row in rows(engine, catalog, sql)}

    assert {"prod__job__history", "savepointdb"} <= names("SHOW SCHEMAS")
    assert names("SHOW TABLES FROM savepointdb") == {"jobs", "checkpoints"}
    assert "aggregate__count" in names("SHOW TABLES FROM job__history")
    assert names("DESCRIBE job__history.aggregate__count") == names(
        "DESCRIBE prod__job__history.aggregate__count"
    )
    assert names(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'prod__job__history'"
        " AND table_name = 'aggregate__count' AND ordinal_position <= 3"
    ) == {"_checkpoint_id", "_checkpoint_at", "_database"}


def test_a_database_of_the_name_hides_the_schema_of_the_service(engine: DuckDBEngine, root: Path) -> None:
    catalog = Catalog([Root(path=str(root / "job" / "chk-1"), label="savepointdb")])

    assert rows(engine, catalog, "SELECT value FROM savepointdb.aggregate WHERE key = 'key_662'") == [
        (COUNTS[1],)
    ]


@pytest.mark.slow
def test_users_see_the_jobs_checkpoints_and_rows_of_their_grants(root: Path, serving: Serving) -> None:
    put(root / "secret" / "chk-1")
    catalog = Catalog([Root(path=str(root), label="prod")])
    some = catalog.visible(Principal(name="", grants=("prod/job/chk-1",)).sees)
    with (
        serving(create_app(Settings.of(workers=1), some)) as address,
        httpx.Client(base_url=address, timeout=60) as http,
    ):

        def asked(sql: str) -> Any:
            return http.post("/api/query", json={"sql": sql}).json()

        assert [job["databases"] for job in http.get("/api/jobs").json()["jobs"]] == [["prod__job__chk-1"]]
        assert http.get("/api/jobs/secret").status_code == 404
        assert asked(COUNT.format("job__history"))["rows"] == [[1, COUNTS[1]]]
        assert asked("SELECT database FROM savepointdb.checkpoints")["rows"] == [["prod__job__chk-1"]]
        assert asked("SELECT * FROM secret__history.operators")["error"]["code"] == "DATABASE_NOT_FOUND"


@pytest.mark.slow
def test_the_api_has_the_jobs(root: Path, serving: Serving) -> None:
    put(root / "alone" / "chk-9")
    (put(root / "job" / "chk-3", 1) / "_metadata").write_bytes(b"no savepoint")
    app = create_app(Settings.of(workers=1), Catalog([Root(path=str(root), label="prod")]))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as http:
        listed = http.get("/api/databases").json()["databases"]
        jobs = http.get("/api/jobs").json()["jobs"]
        answer = http.post("/api/query", json={"sql": COUNT.format("prod__job__history")}).json()

        own = [one for one in listed if one["alias_of"] is None]
        assert [one["name"] for one in own] == [
            "prod__alone__chk-9",
            "prod__job__chk-3",
            "prod__job__chk-2",
            "prod__job__chk-1",
        ]
        assert [(one["readable"], one["age_s"] is None) for one in own[1:3]] == [
            (False, False),
            (True, False),
        ]
        assert [(job["name"], job["title"], job["history"]) for job in jobs] == [
            ("prod__alone", "alone", "prod__alone__history"),
            ("prod__job", "job", "prod__job__history"),
        ]
        assert jobs[1]["databases"] == ["prod__job__chk-3", "prod__job__chk-2", "prod__job__chk-1"]
        assert len(jobs[1]["lineage"]) == 1
        assert http.get("/api/jobs/PROD__JOB").json() == jobs[1]
        assert http.get("/api/jobs/jo").json()["error"]["code"] == "JOB_NOT_FOUND"
        assert answer["rows"] == [list(pair) for pair in COUNTS.items()]
        assert [one["name"] for one in answer["databases"]] == ["prod__job__chk-2", "prod__job__chk-1"]
        assert [one["message"].partition(" is")[0] for one in answer["incomplete"]] == [
            'checkpoint "prod__job__chk-3"'
        ]
        tables = http.get("/api/databases/prod__job__history/tables").json()["tables"]
        assert "aggregate__count" in {table["name"] for table in tables}
        detail = http.get("/api/databases/prod__job__history/tables/aggregate__count").json()
        assert [column["name"] for column in detail["columns"]][:3] == [
            "_checkpoint_id",
            "_checkpoint_at",
            "_database",
        ]
