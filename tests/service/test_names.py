"""Names of databases as users meet them: in SQL, in the API, in grants and on the command line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import trino.dbapi
import trino.exceptions
from fastapi import FastAPI

from catalog import Catalog
from catalog.catalog import Root
from service.base.principal import Principal
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from tests.support.paths import DATA

Serving = Callable[[FastAPI], AbstractContextManager[str]]
CHECKPOINTS = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
FIRST, SECOND = 6774, 11290
"""The count of `key_662` in `chk-1` and `chk-2`."""
NOON = 1_788_264_000
SAVED = "SELECT value FROM \"{}\".aggregate WHERE key = 'key_662'"


def put(job: Path, name: str, number: int) -> Path:
    """Copy a checkpoint into the folder of a job."""
    shutil.copytree(CHECKPOINTS / "shared", job / "shared", dirs_exist_ok=True)
    shutil.copytree(CHECKPOINTS / f"chk-{number}", job / name)
    os.utime(job / name / "_metadata", (NOON + number, NOON + number))
    return job / name


@contextmanager
def over(serving: Serving, *roots: Root) -> Iterator[httpx.Client]:
    app = create_app(Settings.of(workers=1), Catalog(roots, rescan_after_s=0))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as http:
        yield http


def asked(http: httpx.Client, sql: str) -> Any:
    answer = http.post("/api/query", json={"sql": sql}).json()
    return answer["rows"] if "rows" in answer else answer["error"]


@pytest.mark.slow
def test_a_saved_query_answers_the_same_whoever_comes_and_goes(tmp_path: Path, serving: Serving) -> None:
    put(tmp_path / "jobA", "chk-4", 1)
    with over(serving, Root(path=str(tmp_path), label="prod")) as http:
        full, short = SAVED.format("prod__jobA__chk-4"), SAVED.format("chk-4")
        assert asked(http, full) == asked(http, short) == [[FIRST]]

        put(tmp_path / "jobB", "chk-4", 2)

        assert asked(http, full) == [[FIRST]]
        assert asked(http, SAVED.format("prod__jobB__chk-4")) == [[SECOND]]
        error = asked(http, short)
        assert (error["code"], error["position"]) == ("AMBIGUOUS_DATABASE", {"line": 1, "column": 27})
        assert error["message"].endswith('each of 2: "prod__jobA__chk-4", "prod__jobB__chk-4"')
        assert http.get("/api/databases/chk-4").status_code == 409

        shutil.rmtree(tmp_path / "jobA")

        assert asked(http, full)["code"] == "DATABASE_NOT_FOUND"
        # The alias means what it can mean now, and says which that is.
        found = http.get("/api/databases/chk-4").json()
        assert (found["name"], found["alias_of"]) == ("chk-4", "prod__jobB__chk-4")


def test_names_need_no_escapes_and_aliases_with_slashes_work_in_urls(
    tmp_path: Path, serving: Serving
) -> None:
    put(tmp_path / "my job", "chk-1", 1)
    put(tmp_path / "ü_" / "__", "chk-2", 2)
    with over(serving, Root(path=str(tmp_path), label="p:1")) as http:
        listed = http.get("/api/databases").json()["databases"]
        names = [one["name"] for one in listed]

        assert names == [
            "p~3a1__my~20job__chk-1",
            "p~3a1__~c3~bc~5f__~5f~5f__chk-2",
            "latest",
            "p~3a1_latest",
        ]
        assert [quote(name, safe="") for name in names] == names
        for name in names:
            assert http.get(f"/api/databases/{name}").json()["name"] == name
            assert len(http.get(f"/api/databases/{name}/tables").json()["tables"]) > 5
        found = http.get("/api/databases/p:1/my job/chk-1").json()
        assert (found["name"], found["alias_of"]) == ("p:1/my job/chk-1", names[0])


def test_the_api_tells_the_age_and_the_job_also_of_what_it_cannot_read(
    tmp_path: Path, serving: Serving
) -> None:
    put(tmp_path / "3f2a", "chk-1", 1)
    (put(tmp_path / "3f2a", "chk-2", 2) / "_metadata").write_bytes(b"no savepoint")
    os.utime(tmp_path / "3f2a" / "chk-2" / "_metadata", (NOON, NOON))
    with over(serving, Root(path=str(tmp_path), label="p")) as http:
        listed = http.get("/api/databases").json()["databases"][:2]

        assert [(one["created_at"], one["job"]) for one in listed] == [
            ("2026-09-01T12:00:00Z", "3f2a"),
            ("2026-09-01T12:00:01Z", "3f2a"),
        ]
        assert [(one["error"] is None, one["readable"]) for one in listed] == [(False, False), (True, True)]
        assert http.get("/api/databases/chk-1").json()["created_at"] == "2026-09-01T12:00:01Z"


@pytest.mark.slow
def test_what_lists_the_tables_of_an_alias_knows_aliases_that_are_not_listed(
    tmp_path: Path, serving: Serving
) -> None:
    put(tmp_path / "jobA", "chk-4", 1)
    with over(serving, Root(path=str(tmp_path), label="prod")) as http:
        for condition in ("= 'chk-4'", "LIKE 'chk-4'", "IN ('chk-4', 'chk-5')"):
            sql = (
                f"SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_schema {condition}"
            )
            assert asked(http, sql) == [["chk-4"]]
        assert asked(http, "SELECT schema_name FROM information_schema.schemata") == [
            ["prod__jobA__chk-4"],
            ["savepointdb"],
        ]


@pytest.mark.parametrize(
    ("grant", "name", "seen"),
    [
        ("prod/*", "prod__jobA__chk-4", True),
        ("PROD/joba/*", "prod__jobA__chk-4", True),
        ("prod/jobA/chk-?", "prod__jobA__chk-4", True),
        ("prod/my job/*", "prod__my~20job__chk-4", True),
        ("prod__jobA__*", "prod__jobA__chk-4", True),
        ("prod/*", "prod", False),
        ("jobA/*", "prod__jobA__chk-4", False),
        ("chk-*", "prod__jobA__chk-4", False),
        # Folders under another label that are called like this one.
        ("prod/*", "lab__prod__chk-4", False),
        ("prod/*", "lab__prod~2fchk-4", False),
        ("prod__*", "lab__~5fprod~5f~5fchk-4", False),
    ],
)
def test_grants_match_names_or_labels_and_paths(grant: str, name: str, seen: bool) -> None:
    assert Principal(name="x", grants=(grant,)).sees(name) is seen


def test_a_grant_matches_no_alias(tmp_path: Path) -> None:
    put(tmp_path / "p" / "jobA", "chk-4", 1)
    put(tmp_path / "l" / "prod", "chk-5", 2)
    roots = [Root(path=str(tmp_path / "p"), label="prod"), Root(path=str(tmp_path / "l"), label="lab")]
    catalog = Catalog(roots)

    def visible(*grants: str) -> list[str]:
        return catalog.visible(Principal(name="x", grants=grants).sees).databases

    assert visible("chk-*", "jobA/*", "latest", "*_latest") == []
    assert visible("prod/*") == visible("prod__*") == ["prod__jobA__chk-4"]


def test_clients_of_trino_hear_that_an_alias_is_ambiguous(tmp_path: Path, serving: Serving) -> None:
    for job in ("jobA", "jobB"):
        put(tmp_path / job, "chk-4", 1)
    with over(serving, Root(path=str(tmp_path), label="prod")) as http:
        connection = trino.dbapi.connect(
            host=http.base_url.host, port=http.base_url.port or 0, user="u", catalog="flink", schema="chk-4"
        )
        cursor = connection.cursor()
        for sql in ("SELECT count(*) FROM aggregate", "SHOW TABLES", 'USE "chk-4"', "DESCRIBE aggregate"):
            with pytest.raises(trino.exceptions.TrinoQueryError) as error:
                cursor.execute(sql)
            assert "prod__jobA__chk-4" in error.value.message
            assert error.value.error_type == "USER_ERROR"
        cursor.execute('USE "prod__jobA__chk-4"')
        assert cursor.fetchall() is not None
        connection.close()


# ---- command line ----


def test_roots_of_one_name_say_what_to_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (put(tmp_path / job / "my savepoints", "chk-1", 1).parent for job in ("jobA", "jobB"))

    for command, option in (["serve"], "--root"), (["query", "SELECT 1"], "--savepoint"):
        assert main([*command, option, str(one), option, str(other)]) == 2
        assert capsys.readouterr().err == (
            f"savepointdb: expected a different label for each folder, found 'my savepoints' of {one}, "
            f"'my savepoints' of {other}; label them: {option} 'jobA={one}' {option} 'jobB={other}'\n"
        )


def test_a_root_inside_another_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path / "job", "chk-1", 1)

    assert main(["serve", "--root", str(tmp_path), "--root", f"new={path}"]) == 2
    assert capsys.readouterr().err == (
        f"savepointdb: expected folders beside each other, found {path} inside {tmp_path}; leave one of them out\n"
    )


def test_an_only_savepoint_keeps_the_name_of_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(put(tmp_path / "job", "chk-42", 1))

    for sql in (SAVED.format("chk-42"), "SELECT value FROM aggregate WHERE key = 'key_662'"):
        assert main(["query", sql, "--savepoint", path, "--format", "csv"]) == 0
        assert capsys.readouterr().out == f'"value"\r\n{FIRST}\r\n'
    assert main(["query", SAVED.format("mine"), "--savepoint", f"mine={path}", "--format", "csv"]) == 0


def test_inspect_shows_the_age_and_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path / "3f2a", "chk-1", 1)
    os.utime(path / "_metadata", (1_000_000_000, 1_000_000_000))

    assert main(["inspect", str(path)]) == 0
    head = capsys.readouterr().out.splitlines()[0]
    assert main(["inspect", str(path), "--format", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)

    assert head.startswith("chk-1: checkpoint 1, ")
    assert " days ago (2001-09-09 01:46:40 UTC), job 3f2a, " in head
    assert (found["created_at"], found["job"]) == ("2001-09-09T01:46:40Z", "3f2a")
