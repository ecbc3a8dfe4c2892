"""Queries that follow a job through `latest`: what they answer, and what they say that it came from."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trino.dbapi
from fastapi import FastAPI

from catalog import Catalog, roots
from catalog.catalog import Root
from catalog.roots import DiscoveredSavepoint
from readers import StorageOptions
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from service.query.running.request import QueryRequest
from tests.service.conftest import Asker
from tests.support.paths import DATA

Serving = Callable[[FastAPI], AbstractContextManager[str]]
CHECKPOINTS = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
FIRST, SECOND = 6774, 11290
"""The count of `key_662` in `chk-1` and `chk-2`."""
ROWS = {1: 196, 2: 180}
COUNT = "SELECT value FROM latest.aggregate WHERE key = 'key_662'"


NAMED: list[tuple[str, dict[str, str], list[list[Any]]]] = [
    ("SELECT value FROM prod_latest.aggregate WHERE key = 'key_662'", {}, [[SECOND]]),
    ("SELECT value FROM flink.PROD_LATEST.aggregate WHERE key = 'key_662'", {}, [[SECOND]]),
    ("SELECT value FROM aggregate WHERE key = 'key_662'", {"database": "latest"}, [[SECOND]]),
    (
        "SELECT latest.aggregate.value FROM latest.aggregate WHERE latest.aggregate.key = 'key_662'",
        {},
        [[SECOND]],
    ),
    (
        'SELECT latest.aggregate.value - "chk-1".aggregate.value FROM latest.aggregate '
        'JOIN "chk-1".aggregate ON latest.aggregate.key = "chk-1".aggregate.key '
        "WHERE latest.aggregate.key = 'key_662'",
        {},
        [[SECOND - FIRST]],
    ),
    (
        'SELECT count(*) FROM "chk-2".aggregate JOIN latest.aggregate '
        'ON latest.aggregate.key = "chk-2".aggregate.key AND latest.aggregate.value = "chk-2".aggregate.value',
        {},
        [[ROWS[2]]],
    ),
    (
        "SHOW SCHEMAS",
        {},
        [["prod__chk-1"], ["prod__chk-2"], ["latest"], ["prod_latest"], ["prod__history"], ["savepointdb"]],
    ),
    (
        "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_name = 'aggregate' ORDER BY 1",
        {},
        [["latest"], ["prod__chk-1"], ["prod__chk-2"], ["prod__history"], ["prod_latest"]],
    ),
    (
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = 'latest' AND table_name = 'aggregate__count' ORDER BY ordinal_position LIMIT 3",
        {},
        [["key"], ["namespace"], ["value"]],
    ),
]


def put(job: Path, number: int) -> None:
    (job / "shared").mkdir(parents=True, exist_ok=True)
    for file in (CHECKPOINTS / "shared").iterdir():
        # Flink never writes one again: a query may be reading it.
        if not (job / "shared" / file.name).exists():
            shutil.copy(file, job / "shared")
    shutil.copytree(CHECKPOINTS / f"chk-{number}", job / f"chk-{number}")
    os.utime(job / f"chk-{number}" / "_metadata", (number, number))


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a job, with its first checkpoint."""
    put(tmp_path / "job", 1)
    return tmp_path / "job"


@contextmanager
def following(job: Path, serving: Serving) -> Iterator[httpx.Client]:
    """A service that looks at the job's folder before every query."""
    app = create_app(Settings.of(workers=1), Catalog([Root(path=str(job), label="prod")], rescan_after_s=0))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as http:
        yield http


@pytest.fixture
def followed(job: Path, serving: Serving) -> Iterator[httpx.Client]:
    """A service that follows a job, which has its first checkpoint."""
    with following(job, serving) as http:
        yield http


@pytest.fixture(scope="module")
def moved_on(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[httpx.Client]:
    """A service that follows a job, and saw its second checkpoint come."""
    job = tmp_path_factory.mktemp("job") / "job"
    put(job, 1)
    with following(job, serving) as http:
        assert asked(http, COUNT)["rows"] == [[FIRST]]
        put(job, 2)
        yield http


def asked(client: httpx.Client, sql: str, **body: Any) -> Any:
    return client.post("/api/query", json={"sql": sql, **body}).json()


@pytest.mark.slow
def test_the_next_query_answers_from_the_new_checkpoint_and_says_so(
    followed: httpx.Client, job: Path
) -> None:
    before = asked(followed, COUNT)
    put(job, 2)
    after = asked(followed, COUNT)

    assert (before["rows"], after["rows"]) == ([[FIRST]], [[SECOND]])
    assert before["databases"] == [{"name": "prod__chk-1", "checkpoint_id": 1, "path": str(job / "chk-1")}]
    assert after["databases"] == [{"name": "prod__chk-2", "checkpoint_id": 2, "path": str(job / "chk-2")}]


@pytest.mark.slow
def test_an_answer_of_the_newest_database_says_so(moved_on: httpx.Client) -> None:
    bare = "SELECT value FROM aggregate WHERE key = 'key_662'"
    found, named = asked(moved_on, bare), asked(moved_on, bare, database="prod__chk-1")
    status = moved_on.get(f"/api/queries/{found['query_id']}").json()
    page = moved_on.post("/v1/statement", content=bare, headers={"X-Trino-User": "u"}).json()
    warnings: list[dict[str, Any]] = []
    while "nextUri" in page:
        page = moved_on.get(page["nextUri"], headers={"X-Trino-User": "u"}).json()
        warnings = page["warnings"] or warnings

    assert found["rows"] == [[SECOND]]
    assert (
        found["warnings"]
        == status["warnings"]
        == [warning["message"] for warning in warnings]
        == ['tables that name no database are read from "prod__chk-2", the newest of 2']
    )
    assert named["rows"] == [[FIRST]]
    assert "warnings" not in named


@pytest.mark.slow
@pytest.mark.parametrize("sql", [COUNT, COUNT.replace("latest.", ""), COUNT.replace("latest", "prod_latest")])
def test_an_answer_says_which_newer_savepoint_cannot_be_read(sql: str, job: Path, serving: Serving) -> None:
    put(job, 2)
    metadata = job / "chk-2" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:1000])
    os.utime(metadata, (2, 2))

    with following(job, serving) as http:
        found = asked(http, sql)
        listed = {one["name"]: one for one in http.get("/api/databases").json()["databases"]}
        page = http.post("/v1/statement", content=sql, headers={"X-Trino-User": "u"}).json()
        warnings: list[dict[str, Any]] = []
        while "nextUri" in page:
            page = http.get(page["nextUri"], headers={"X-Trino-User": "u"}).json()
            warnings = page["warnings"] or warnings

    assert found["rows"] == [[FIRST]]
    alias = "prod_latest" if "prod_latest" in sql else "latest"
    assert found["warnings"][-1].startswith(
        f'"{alias}" is "prod__chk-1": "prod__chk-2" is newer, and cannot be read: damaged or incomplete'
    )
    assert str(job) not in str(found["warnings"])
    assert (warnings[-1]["warningCode"]["name"], warnings[-1]["message"]) == (
        "SKIPPED_SAVEPOINT",
        found["warnings"][-1],
    )
    [skipped] = listed["latest"]["skipped"]
    assert listed["latest"]["alias_of"] == "prod__chk-1"
    assert skipped == {"name": "prod__chk-2", "error": listed["prod__chk-2"]["error"]}
    assert listed["prod__chk-1"]["skipped"] == []


def test_the_command_line_says_which_newer_savepoint_cannot_be_read(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(job, 2)
    metadata = job / "chk-2" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:1000])
    os.utime(metadata, (2, 2))

    code = main(["query", COUNT, "--savepoint", f"prod={job}", "--format", "csv"])

    printed = capsys.readouterr()
    assert (code, printed.out.split()) == (0, ['"value"', str(FIRST)])
    assert 'savepointdb: "latest" is "prod__chk-1": "prod__chk-2" is newer, and cannot be read' in printed.err


def test_an_alias_is_a_schema_wherever_one_is_named(moved_on: httpx.Client) -> None:
    for sql, body, rows in NAMED:
        assert (sql, asked(moved_on, sql, **body).get("rows")) == (sql, rows)


def test_the_tables_of_an_alias_are_those_of_its_database(moved_on: httpx.Client) -> None:
    assert (
        asked(moved_on, "SHOW TABLES FROM latest")["rows"]
        == asked(moved_on, 'SHOW TABLES FROM "chk-2"')["rows"]
    )
    assert (
        asked(moved_on, "DESCRIBE latest.aggregate")["rows"]
        == asked(moved_on, 'DESCRIBE "chk-2".aggregate')["rows"]
    )


def test_the_api_lists_aliases_behind_the_databases(moved_on: httpx.Client) -> None:
    listed = moved_on.get("/api/databases").json()["databases"]

    assert [(one["name"], one["alias_of"], one["checkpoint_id"]) for one in listed] == [
        ("prod__chk-2", None, 2),
        ("prod__chk-1", None, 1),
        ("latest", "prod__chk-2", 2),
        ("prod_latest", "prod__chk-2", 2),
    ]
    latest = moved_on.get("/api/databases/Prod_Latest").json()
    assert latest.pop("age_s") >= listed[3].pop("age_s")
    assert latest == listed[3]
    tables = moved_on.get("/api/databases/latest/tables").json()
    assert tables == moved_on.get("/api/databases/chk-2/tables").json()
    assert moved_on.get("/api/databases/latest/tables/aggregate").json()["name"] == "aggregate"


@pytest.mark.slow
def test_clients_of_trino_follow_a_job_too(followed: httpx.Client, job: Path) -> None:
    connection = trino.dbapi.connect(
        host=followed.base_url.host,
        port=followed.base_url.port or 0,
        user="u",
        catalog="flink",
        schema="latest",
    )

    def rows(sql: str) -> list[list[Any]]:
        cursor = connection.cursor()
        cursor.execute(sql)
        found: list[list[Any]] = cursor.fetchall()
        return found

    # Of the only checkpoint, too: the session names the schema before there is another.
    assert rows("SELECT value FROM aggregate WHERE key = 'key_662'") == [[FIRST]]
    assert ["aggregate"] in rows("SHOW TABLES")
    put(job, 2)
    assert rows("SELECT value FROM aggregate WHERE key = 'key_662'") == [[SECOND]]
    assert rows("SHOW SCHEMAS LIKE '%latest'") == [["latest"], ["prod_latest"]]
    listed = "SELECT table_schem FROM system.jdbc.tables WHERE table_schem LIKE 'latest' AND table_name LIKE 'aggregate'"
    assert rows(listed) == [["latest"]]
    connection.close()


def test_a_query_that_runs_keeps_its_checkpoint(job: Path, ask_of: Callable[[Catalog], Asker]) -> None:
    asker = ask_of(Catalog([Root(path=str(job))], rescan_after_s=0))

    with asker.queries.start(QueryRequest(sql="SELECT count(*) FROM latest.aggregate")) as query:
        put(job, 2)
        assert asker.rows("SELECT count(*) FROM latest.aggregate") == [(ROWS[2],)]
        rows = [batch.to_pylist() for batch in query.batches()]

    assert rows == [[{"count_star()": ROWS[1]}]]
    assert [one.name for one in query.plan.databases] == ["job__chk-1"]


def test_all_of_a_query_reads_one_checkpoint_though_another_comes_while_it_is_planned(
    job: Path, ask_of: Callable[[Catalog], Asker], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    found = roots.find_savepoints

    def find_savepoints(path: str, options: StorageOptions) -> Iterator[DiscoveredSavepoint]:
        nonlocal looks
        looks += 1
        if looks == 3:
            put(job, 2)
        return found(path, options)

    monkeypatch.setattr(roots, "find_savepoints", find_savepoints)
    asker = ask_of(Catalog([Root(path=str(job))], rescan_after_s=0))

    rows = asker.rows(
        "SELECT (SELECT count(*) FROM latest.aggregate), (SELECT count(*) FROM latest.aggregate), "
        "(SELECT value FROM latest.aggregate WHERE key = 'key_662')"
    )

    assert looks > 3
    assert rows in ([(ROWS[1], ROWS[1], FIRST)], [(ROWS[2], ROWS[2], SECOND)])
