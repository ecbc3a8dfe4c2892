"""`/api/savepoints`: clients that write, over a real service, in processes of their own."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

import savepointdb
from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from service.tasks.write.serving.targets import write_roots_of
from tests.support.largefile import SCRIPT, with_large_file
from tests.support.paths import DATA
from tests.support.waiting import wait_until

Serving = Callable[[FastAPI], AbstractContextManager[str]]
WORDCOUNT = DATA / "flink/2.3.0/wordcount-hashmap-savepoints"
REWIND = "UPDATE source_offsets SET starting_offset = 24000 WHERE topic = 'words' AND \"partition\" = 2"
ENDLESS = "UPDATE source_offsets SET starting_offset = (SELECT count(*) FROM range(1000000000000) t(a) WHERE a % 7 = 9)"
REFUSALS = {"FORBIDDEN", "INVALID_QUERY", "SYNTAX_ERROR", "TABLE_NOT_FOUND", "COLUMN_NOT_FOUND"}
# Large enough to be ended in the middle of its copy.
LARGE_BYTES = 6 << 30


class Client:
    """A client of a service that may write below the folder `out`."""

    def __init__(self, address: str, out: Path, key: str = "") -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=address, timeout=60, headers=headers)
        self.out = out

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def post(self, sql: str = REWIND, **body: Any) -> httpx.Response:
        known = {"source": "jobs__canonical", "target": "new", "sql": sql}
        given = {name: value for name, value in (known | body).items() if value is not None}
        return self.http.post("/api/savepoints", json=given)

    def code(self, sql: str = REWIND, **body: Any) -> tuple[int, str]:
        answer = self.post(sql, **body)
        return answer.status_code, answer.json()["error"]["code"]

    def started(self, sql: str = REWIND, **body: Any) -> str:
        answer = self.post(sql, **body)
        assert answer.status_code == 202, answer.text
        assert answer.headers["location"] == f"/api/savepoints/{answer.json()['id']}"
        return str(answer.json()["id"])

    def status(self, write_id: str) -> Any:
        return self.http.get(f"/api/savepoints/{write_id}").raise_for_status().json()

    def ended(self, write_id: str) -> Any:
        wait_until(lambda: self.status(write_id)["state"] not in ("queued", "running"))
        return self.status(write_id)

    def written(self, sql: str = REWIND, **body: Any) -> Any:
        return self.ended(self.started(sql, **body))

    def rows(self, sql: str) -> Any:
        return self.http.post("/api/query", json={"sql": sql}).raise_for_status().json()["rows"]


def application(folder: Path, authenticator: Authenticator | None = None, **settings: Any) -> FastAPI:
    """A service over `jobs`, which may write below `out`."""
    (folder / "out").mkdir(exist_ok=True)
    roots = [Root(path=str(folder / "jobs")), Root(path=str(folder / "out"))]
    return create_app(
        Settings.of(workers=1, **settings),
        Catalog(roots, rescan_after_s=3600.0),
        write_roots=write_roots_of(roots, roots[1:]),
        authenticator=authenticator,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written")
    shutil.copytree(WORDCOUNT, path / "jobs")
    return path


@pytest.fixture(scope="module")
def client(folder: Path, serving: Serving) -> Iterator[Client]:
    with serving(application(folder)) as address, Client(address, folder / "out") as found:
        yield found


@pytest.fixture
def serve(tmp_path: Path, serving: Serving) -> Callable[..., AbstractContextManager[Client]]:
    """Serves an application of its own, with these settings."""

    @contextmanager
    def served(**settings: Any) -> Iterator[Client]:
        if not (tmp_path / "jobs").exists():
            shutil.copytree(WORDCOUNT, tmp_path / "jobs")
        app = application(tmp_path, **settings)
        with serving(app) as address, Client(address, tmp_path / "out") as found:
            yield found

    return served


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def offsets(client: Client, database: str) -> dict[int, int]:
    return {
        row[0]: row[1]
        for row in client.rows(f'SELECT partition, starting_offset FROM "{database}".source_offsets')
    }


# ---- writing ----


def test_a_write_that_finds_nothing_fails_unless_that_is_allowed(client: Client) -> None:
    script = "DELETE FROM aggregate__count WHERE key = 'nope'"

    refused = client.written(script, target="empty")
    preview = client.written(script, dry_run=True)
    allowed = client.written(script, dry_run=True, allow_empty=True)

    assert [one["state"] for one in (refused, preview, allowed)] == ["failed", "failed", "finished"]
    assert refused["error"] == preview["error"]
    assert refused["error"]["code"] == "NOTHING_CHANGES"
    assert refused["error"]["message"] == "no row of aggregate__count matches key = 'nope'"
    assert not (client.out / "empty").exists()
    assert allowed["report"]["rows"] == 0


def test_a_script_becomes_a_savepoint_that_is_a_database_at_once(client: Client, folder: Path) -> None:
    before = content(folder / "jobs")

    found = client.written(f"{REWIND}; DROP TABLE aggregate")

    assert (found["state"], found["error"]) == ("finished", None)
    assert (found["source"], found["database"]) == ("jobs__canonical", "out__new")
    assert found["target"] == str((folder / "out/new").resolve())
    assert found["progress"]["statements_done"] == found["progress"]["statements"] == 2
    assert found["progress"]["files"] == 1
    report = found["report"]
    assert [(one["table"], one["changed"]) for one in report["statements"]] == [
        ("source_offsets", 1),
        ("aggregate", 0),
    ]
    assert report["rows"] == 1
    assert report["offsets"] == [
        {
            "operator": "source",
            "split": "topic words, partition 2",
            "before": 36445,
            "after": 24000,
            "meaning": "",
        }
    ]
    assert report["check"]["verdict"] == "fine"
    assert report["summary"]["operators"] == 2
    assert offsets(client, "out__new") == offsets(client, "jobs__canonical") | {2: 24000}
    assert content(folder / "jobs") == before
    assert found["id"] in [one["id"] for one in client.http.get("/api/savepoints").json()["writes"]]


@pytest.mark.slow
def test_a_dry_run_says_the_same_and_writes_nothing(client: Client) -> None:
    found = client.written(target=None, dry_run=True)

    assert (found["state"], found["dry_run"], found["target"], found["database"]) == (
        "finished",
        True,
        None,
        None,
    )
    assert found["report"]["offsets"][0]["after"] == 24000
    assert not (client.out / "dry").exists()


@pytest.mark.slow
def test_a_number_of_rows_is_a_condition(client: Client) -> None:
    failed = client.written(target="expected", expect={"source_offsets": 2})

    assert (failed["state"], failed["error"]["code"]) == ("failed", "CONFLICT")
    assert not (client.out / "expected").exists()
    assert client.written(target="expected", expect={"source_offsets": 1})["state"] == "finished"


@pytest.mark.slow
def test_an_alias_is_a_source_and_files_and_flink_are_chosen(client: Client) -> None:
    found = client.written(source="CANONICAL", target="chosen", files="copy", flink="1.20")

    assert (found["state"], found["source"], found["files"]) == ("finished", "jobs__canonical", "copy")


@pytest.mark.slow
def test_an_error_of_the_script_has_its_code_and_position(client: Client) -> None:
    found = client.written(f"{REWIND};\nUPDATE source_offsets SET starting_offset = nothing", target="wrong")

    assert (found["state"], found["report"]) == ("failed", None)
    assert found["error"]["code"] == "COLUMN_NOT_FOUND"
    assert found["error"]["position"]["line"] == 2
    assert not (client.out / "wrong").exists()


@pytest.mark.slow
def test_a_script_reads_the_other_databases_that_its_user_sees(
    client: Client, keyed: Callable[[str], Client]
) -> None:
    script = 'UPDATE source_offsets SET starting_offset = (SELECT count(*) FROM "jobs__native".aggregate)'

    found = client.written(script, target="other-1")
    hidden = keyed("both").written(script, target="both-2")

    assert (found["state"], set(offsets(client, "out__other-1").values())) == ("finished", {1000})
    assert (hidden["state"], hidden["error"]["code"]) == ("failed", "DATABASE_NOT_FOUND")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["counts.csv", "/etc/passwd", "s3://bucket/counts.parquet", "http://host/a.csv"]
)
def test_a_script_reads_no_file_of_the_service(name: str, client: Client, folder: Path) -> None:
    (folder / "counts.csv").write_text("key,value\na,1\n")
    path = str(folder / name) if name == "counts.csv" else name
    read = (
        f"CREATE TABLE fresh__count (key VARCHAR, value BIGINT) WITH (kind = 'VALUE') AS SELECT * FROM '{path}'",
        f"UPDATE source_offsets SET starting_offset = (SELECT count(*) FROM read_csv('{path}'))",
        f"UPDATE source_offsets SET starting_offset = (SELECT count(*) FROM '{path}')",
    )
    for script in read:
        found = client.written(script, target="read")

        assert (found["state"], found["error"]["code"] in REFUSALS) == ("failed", True), found["error"]
        assert "root:" not in json.dumps(found)
    assert not (client.out / "read").exists()


CREATE = (
    "CREATE TABLE fresh__count (key VARCHAR, value BIGINT) WITH (kind = 'VALUE', operator_uid = 'fresh') "
    "AS SELECT key, value * 2 AS value FROM \"jobs__canonical\".aggregate__count WHERE key IN ('key_662', 'key_663')"
)


def test_a_savepoint_is_made_from_nothing(client: Client) -> None:
    found = client.written(
        CREATE, source=None, flink="1.20", target="made", parallelism=2, max_parallelism=500
    )

    assert (found["state"], found["error"], found["source"]) == ("finished", None, None)
    assert (found["database"], found["report"]["summary"]["operators"]) == ("out__made", 1)
    assert client.rows('SELECT key, value FROM "out__made".fresh__count ORDER BY key') == [
        ["key_662", 22580],
        ["key_663", 264],
    ]
    assert client.rows('SELECT parallelism, max_parallelism FROM "out__made".StateMeta') == [[2, 500]]
    assert found["id"] in [one["id"] for one in client.http.get("/api/savepoints").json()["writes"]]


@pytest.mark.slow
def test_a_dry_run_from_nothing_writes_nothing(client: Client) -> None:
    before = sorted(client.out.iterdir())

    found = client.written(CREATE, source=None, flink="2.3", target=None, dry_run=True)

    assert (found["state"], found["dry_run"]) == ("finished", True)
    assert [one["added"] for one in found["report"]["statements"]] == [2]
    assert sorted(client.out.iterdir()) == before


@pytest.mark.slow
def test_all_doors_write_the_same_bytes(client: Client, tmp_path: Path) -> None:
    script = (
        f"{REWIND}; DELETE FROM aggregate__count WHERE key < 'key_5'; "
        "UPDATE aggregate__count SET value = value + 1 WHERE value > 100; "
        "ALTER TABLE aggregate RENAME TO 'counts'; DROP TABLE \"mod7-no-uid\""
    )
    source = WORDCOUNT / "canonical"

    client.written(script, target="same")
    assert main(["write", str(source), script, "--to", str(tmp_path / "command")]) == 0
    with savepointdb.connect(source) as db:
        db.write(tmp_path / "python", script)

    written = {
        tuple(sorted(re.sub(rb"[0-9a-f-]{36}", b"", path.read_bytes()) for path in folder.iterdir()))
        for folder in (client.out / "same", tmp_path / "command", tmp_path / "python")
    }
    # Files, and handles that change, get names of their own each time.
    assert len(written) == 1
    assert len(written.pop()) > 1


# ---- refusals, before anything runs ----


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"sql": ""}, (400, "SYNTAX_ERROR")),
        ({"sql": "UPDATE"}, (400, "SYNTAX_ERROR")),
        ({"sql": "SELECT 1"}, (403, "FORBIDDEN")),
        ({"sql": "COPY x TO 'y'"}, (403, "FORBIDDEN")),
        ({"sql": "x" * 300_000}, (413, "LIMIT_EXCEEDED")),
        ({"source": "nothing"}, (404, "DATABASE_NOT_FOUND")),
        ({"source": None}, (400, "INVALID_REQUEST")),
        ({"source": "jobs__canonical", "parallelism": 0}, (400, "INVALID_REQUEST")),
        ({"target": None}, (400, "INVALID_REQUEST")),
        ({"source": None, "flink": "2.3", "target": "there"}, (409, "TARGET_EXISTS")),
        ({"source": None, "flink": "2.3", "target": "../jobs/new"}, (403, "FORBIDDEN")),
        ({"source": None, "flink": "2.3", "target": None}, (400, "INVALID_REQUEST")),
        ({"target": "../jobs/new"}, (403, "FORBIDDEN")),
        ({"target": "/etc/new"}, (403, "FORBIDDEN")),
        ({"target": ""}, (400, "INVALID_REQUEST")),
        ({"target": "."}, (400, "INVALID_REQUEST")),
        ({"target": "there"}, (409, "TARGET_EXISTS")),
        ({"files": "move"}, (400, "INVALID_REQUEST")),
        ({"expect": {"source_offsets": -1}}, (400, "INVALID_REQUEST")),
        ({"expected": {}}, (400, "INVALID_REQUEST")),
    ],
)
def test_a_wrong_request_is_refused_at_once(
    body: dict[str, Any], expected: tuple[int, str], client: Client
) -> None:
    (client.out / "there").mkdir(exist_ok=True)

    assert client.code(**body) == expected


@pytest.mark.parametrize(
    "statement",
    [
        REWIND,
        "DROP TABLE aggregate",
        "ALTER TABLE aggregate RENAME TO 'x'",
        "DELETE FROM aggregate",
        "INSERT INTO aggregate VALUES (1)",
    ],
)
def test_the_door_for_queries_stays_closed(statement: str, client: Client) -> None:
    for path in ("/api/query", "/api/queries"):
        answer = client.http.post(path, json={"sql": statement, "database": "jobs__canonical"})

        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")


def test_a_service_without_a_write_root_writes_nothing(folder: Path, serving: Serving) -> None:
    app = create_app(Settings.of(workers=1), Catalog([Root(path=str(folder / "jobs"))]))
    with serving(app) as address, Client(address, folder / "out") as client:
        answer = client.post()
        listed = client.http.get("/api/savepoints").json()

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert "write_root" in answer.json()["error"]["hint"]
    assert listed == {"may_write": False, "write_roots": [], "writes": []}


def test_an_id_that_is_none_is_not_found(client: Client) -> None:
    for method in ("GET", "DELETE"):
        answer = client.http.request(method, "/api/savepoints/none")

        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "WRITE_NOT_FOUND")


# ---- grants ----


GRANTS = {
    "owner": ["write:*"],
    "reader": ["*"],
    "source": ["write:jobs__*", "out__*"],
    "target": ["jobs/*", "write:out/*"],
    "both": ["write:jobs/can*", "write:out/both*"],
    "blind": ["write:out/*"],
    "operator": ["operator:*"],
    "part": ["operator:out/*"],
}


@pytest.fixture(scope="module")
def keyed(folder: Path, serving: Serving) -> Iterator[Callable[[str], Client]]:
    """Returns the client of a name of `GRANTS`."""
    keys = KeyFile(folder / "keys.json")
    secrets = {name: keys.create(name, grants) for name, grants in GRANTS.items()}
    with serving(application(folder, Authenticator(keys))) as address, ExitStack() as stack:
        clients = {
            name: stack.enter_context(Client(address, folder / "out", secret))
            for name, secret in secrets.items()
        }
        yield clients.__getitem__


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [
        ("reader", "mine", (403, "FORBIDDEN")),
        ("source", "mine", (403, "FORBIDDEN")),
        ("target", "mine", (403, "FORBIDDEN")),
        ("both", "other", (403, "FORBIDDEN")),
        ("blind", "mine", (404, "DATABASE_NOT_FOUND")),
    ],
)
def test_a_key_needs_a_grant_to_write_source_and_target(
    name: str, target: str, expected: tuple[int, str], keyed: Callable[[str], Client]
) -> None:
    assert keyed(name).code(target=target) == expected


COPY = "DROP TABLE aggregate; COPY OPERATOR jobs__native.aggregate"


def test_a_key_copies_operators_of_savepoints_that_it_sees(keyed: Callable[[str], Client]) -> None:
    seen = keyed("owner").written(COPY, target="grafted")
    hidden = keyed("both").written(COPY, target="both-grafted")

    assert seen["report"]["summary"]["operators"] == 3
    assert seen["report"]["check"]["verdict"] == "fine"
    assert hidden["error"]["code"] == "DATABASE_NOT_FOUND"
    assert not (keyed("both").out / "both-grafted").exists()


@pytest.mark.parametrize(("name", "target"), [("reader", "made-1"), ("both", "other")])
def test_a_key_needs_a_grant_to_write_a_savepoint_from_nothing(
    name: str, target: str, keyed: Callable[[str], Client]
) -> None:
    assert keyed(name).code(CREATE, source=None, flink="2.3", target=target) == (403, "FORBIDDEN")
    if name == "reader":
        refused = keyed(name).code(CREATE, source=None, flink="2.3", target=None, dry_run=True)
        assert refused == (403, "FORBIDDEN")


@pytest.mark.slow
def test_a_savepoint_from_nothing_has_only_what_its_user_sees(keyed: Callable[[str], Client]) -> None:
    failed = keyed("blind").written(CREATE, source=None, flink="2.3", target="made-2")
    made = keyed("blind").written(
        "CREATE TABLE fresh__count AS SELECT 'a' AS key, 1 AS value",
        source=None,
        flink="2.3",
        target="made-2",
    )

    assert (failed["state"], failed["error"]["code"]) == ("failed", "DATABASE_NOT_FOUND")
    assert (made["state"], made["error"]) == ("finished", None)
    assert keyed("owner").http.get(f"/api/savepoints/{made['id']}").status_code == 404


def test_the_list_says_who_may_write(keyed: Callable[[str], Client]) -> None:
    listed = {name: keyed(name).http.get("/api/savepoints").json() for name in GRANTS}

    assert {name for name, found in listed.items() if found["may_write"]} == {
        "owner",
        "source",
        "target",
        "both",
        "blind",
    }
    assert listed["reader"]["write_roots"] == []


@pytest.mark.slow
def test_a_write_is_there_for_its_user_only(keyed: Callable[[str], Client]) -> None:
    found = keyed("both").written(target="both-1")

    assert (found["state"], found["user"], found["database"]) == ("finished", "both", "out__both-1")
    assert keyed("owner").http.get(f"/api/savepoints/{found['id']}").status_code == 404
    assert keyed("owner").http.delete(f"/api/savepoints/{found['id']}").status_code == 404
    assert keyed("owner").http.get("/api/savepoints").json()["writes"] == []
    assert offsets(keyed("both"), "out__both-1")[2] == 24000


@pytest.mark.slow
def test_an_operator_sees_and_ends_writes_of_others(
    keyed: Callable[[str], Client], caplog: pytest.LogCaptureFixture
) -> None:
    write_id = keyed("both").started(ENDLESS, target="both-2")
    path = f"/api/savepoints/{write_id}"
    wait_until(lambda: keyed("both").status(write_id)["progress"]["phase"] == "reading")

    def listed(name: str) -> list[str]:
        writes = keyed(name).http.get("/api/savepoints?all=true").json()["writes"]
        return [write["id"] for write in writes if write["id"] == write_id]

    assert (listed("operator"), listed("part")) == ([write_id], [])
    for name in ("owner", "reader", "part"):
        refused = keyed(name).http.delete(path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "WRITE_NOT_FOUND")
    assert keyed("owner").http.get("/api/savepoints?all=true").status_code == 403
    with caplog.at_level(logging.INFO, "savepointdb.audit"):
        assert keyed("operator").http.delete(path).status_code == 204
        assert keyed("operator").http.delete(path).status_code == 204

    found = keyed("both").status(write_id)
    assert (found["state"], found["error"]["code"]) == ("cancelled", "KILLED")
    assert found["error"]["message"] == "an operator ended the write"
    assert not (keyed("both").out / "both-2").exists()
    [killed] = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "write killed"]
    assert (killed["user"], killed["owner"], killed["target"]) == ("operator", "both", "out__both-2")


# ---- ending in the middle ----


@pytest.mark.slow
def test_a_write_that_is_cancelled_leaves_nothing(client: Client) -> None:
    write_id = client.started(ENDLESS, target="cancelled")
    wait_until(lambda: client.status(write_id)["progress"]["phase"] == "reading")

    assert client.http.delete(f"/api/savepoints/{write_id}").status_code == 204

    found = client.status(write_id)
    assert (found["state"], found["error"]["code"]) == ("cancelled", "CANCELLED")
    assert not (client.out / "cancelled").exists()
    assert client.http.delete(f"/api/savepoints/{write_id}").status_code == 204


@pytest.mark.slow
def test_a_write_that_waits_is_cancelled_and_too_many_are_refused(
    serve: Callable[..., AbstractContextManager[Client]],
) -> None:
    with serve(max_writes=1, max_queued_writes=1) as client:
        first = client.started(ENDLESS, target="a")
        second = client.started(target="b")
        assert client.status(second)["state"] == "queued"

        refused = client.post(target="c")
        taken = client.code(target="b")
        client.http.delete(f"/api/savepoints/{second}").raise_for_status()

        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "TOO_MANY_WRITES")
        assert refused.headers["retry-after"] == "10"
        assert taken == (429, "TOO_MANY_WRITES")
        assert client.status(second)["state"] == "cancelled"
        third = client.started(target="c")
        assert client.code(target="a") == (429, "TOO_MANY_WRITES")
        client.http.delete(f"/api/savepoints/{first}").raise_for_status()
        assert client.ended(third)["state"] == "finished"
    assert sorted(path.name for path in client.out.iterdir()) == ["c"]


@pytest.mark.slow
def test_two_writes_do_not_make_one_target(serve: Callable[..., AbstractContextManager[Client]]) -> None:
    with serve() as client:
        client.started(ENDLESS, target="a")

        assert client.code(target="a") == (409, "TARGET_EXISTS")


@pytest.mark.slow
def test_a_write_that_takes_too_long_ends(serve: Callable[..., AbstractContextManager[Client]]) -> None:
    with serve(write_timeout_s=1.5) as client:
        found = client.written(ENDLESS)

    assert (found["state"], found["error"]["code"]) == ("failed", "EXCEEDED_TIME_LIMIT")
    assert not (client.out / "new").exists()


@pytest.mark.slow
def test_a_write_has_a_limit_of_memory(serve: Callable[..., AbstractContextManager[Client]]) -> None:
    greedy = (
        "UPDATE source_offsets SET starting_offset = "
        "(SELECT len(string_agg(repeat('x', 1000000), '')) FROM range(100000))"
    )
    with serve(write_memory="600MB") as client:
        found = client.written(greedy)
        again = client.written()

    assert (found["state"], found["error"]["code"]) == ("failed", "EXCEEDED_MEMORY")
    assert again["state"] == "finished"


@pytest.mark.slow
@pytest.mark.parametrize(
    "limit", [{"max_write_bytes": 1 << 26}, {"write_free_bytes": 1 << 60}], ids=["bytes", "free disk"]
)
def test_a_write_ends_before_the_disk_is_full(
    limit: dict[str, int], tmp_path: Path, serve: Callable[..., AbstractContextManager[Client]]
) -> None:
    with_large_file(tmp_path / "jobs/large", LARGE_BYTES)
    shutil.copytree(WORDCOUNT / "canonical", tmp_path / "jobs/canonical")
    with serve(**limit) as client:
        found = client.written(SCRIPT, source="large", files="copy")

    assert (found["state"], found["error"]["code"]) == ("failed", "LIMIT_EXCEEDED")
    assert list(client.out.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("dry_run", [False, True], ids=["written", "dry run"])
@pytest.mark.parametrize(
    "script",
    [
        "INSERT INTO aggregate__count SELECT 'k' || range || repeat('x', 200), 1 FROM range(1000000000)",
        "CREATE TABLE new__state WITH (kind = 'value') AS SELECT range AS key, repeat('x', 200) AS value FROM range(1000000000)",
    ],
    ids=["layers", "entries"],
)
def test_temporary_files_of_a_write_are_bounded(
    script: str, dry_run: bool, tmp_path: Path, serve: Callable[..., AbstractContextManager[Client]]
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with serve(max_write_bytes=1 << 24, temp_directory=str(temporary)) as client:
        found = client.written(script, dry_run=dry_run, target=None if dry_run else "new")
        left = [path for folder in temporary.glob("*/*") for path in folder.rglob("*.arrow")]

    assert (found["state"], found["error"]["code"]) == ("failed", "LIMIT_EXCEEDED")
    assert "expected temporary files of at most 16777216 bytes" in found["error"]["message"]
    assert list(client.out.iterdir()) == left == []


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_nothing_and_harms_nobody(
    tmp_path: Path, serve: Callable[..., AbstractContextManager[Client]]
) -> None:
    with_large_file(tmp_path / "jobs/large", LARGE_BYTES)
    shutil.copytree(WORDCOUNT / "canonical", tmp_path / "jobs/canonical")
    with serve() as client:
        write_id = client.started(SCRIPT, source="large", files="copy")
        wait_until(lambda: client.status(write_id)["progress"]["bytes_written"])
        for process in processes_of(os.getpid()):
            os.kill(process, signal.SIGKILL)
        found = client.ended(write_id)
        again = client.written(target="again")

    assert (found["state"], found["error"]["code"]) == ("failed", "WORKER_LOST")
    assert again["state"] == "finished"
    assert [path.name for path in client.out.iterdir()] == ["again"]


def test_a_write_whose_process_cannot_be_started_has_failed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    found = client.written(target="never")

    assert (found["state"], found["error"]["code"]) == ("failed", "ENGINE_UNAVAILABLE")
    assert found["error"]["message"] == "expected a process for the write: No such file or directory"
    assert not (client.out / "never").exists()


def processes_of(parent: int) -> list[int]:
    """The processes of writes that a process has started."""
    listed = Path(f"/proc/{parent}/task").glob("*/children")
    children = [int(child) for path in listed for child in path.read_text().split()]
    return [
        child
        for child in children
        if b"service.tasks.write.serving" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


# ---- the service as a process ----


@contextmanager
def started_service(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Client, list[str]]]:
    """`savepointdb serve` as people start it, with the lines of its log."""
    (folder / "out").mkdir()
    command = [sys.executable, "-m", "savepointdb", "serve", "--root", str(folder / "jobs"), "--port", "0"]
    command += ["--write-root", str(folder / "out"), "--audit-log", "--log-format", "json", *options]
    lines: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            first = process.stderr.readline()
            address = first.split(" at ")[-1].strip().rstrip("/")
            with Client(address, folder / "out") as client:
                yield process, client, lines
        finally:
            process.send_signal(signal.SIGKILL if process.poll() is None else 0)
            lines += process.stderr.read().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL], ids=["asked to stop", "killed"])
def test_a_service_that_ends_in_the_middle_leaves_nothing(sent: signal.Signals, tmp_path: Path) -> None:
    with_large_file(tmp_path / "jobs/large", LARGE_BYTES)
    before = {path.name: path.stat() for path in (tmp_path / "jobs/large").iterdir()}
    with started_service(tmp_path, "--drain-s", "0") as (process, client, _):
        write_id = client.started(SCRIPT, source="large", files="copy")
        wait_until(lambda: client.status(write_id)["progress"]["bytes_written"])
        (writer,) = processes_of(process.pid)

        process.send_signal(sent)
        process.wait(60)
        assert not (client.out / "new/_metadata").exists()
        wait_until(lambda: not Path(f"/proc/{writer}").exists())

    assert list(client.out.iterdir()) == []
    after = {path.name: path.stat() for path in (tmp_path / "jobs/large").iterdir()}
    assert {name: (one.st_size, one.st_mtime_ns) for name, one in after.items()} == {
        name: (one.st_size, one.st_mtime_ns) for name, one in before.items()
    }


@pytest.mark.slow
def test_the_audit_log_has_each_write_and_no_value(tmp_path: Path) -> None:
    shutil.copytree(WORDCOUNT, tmp_path / "jobs")
    with started_service(tmp_path) as (process, client, lines):
        written = client.written(f"{REWIND}; ALTER TABLE aggregate RENAME TO 'secret'")
        client.written("DROP TABLE nothing", target="other")
        metrics = client.http.get("/metrics").text
        process.send_signal(signal.SIGTERM)
        process.wait(60)

    events = [json.loads(line) for line in lines if '"write_id"' in line]
    assert [
        (one["state"], one["code"], one["database"], one["target"], one["statements"], one["row_count"])
        for one in events
    ] == [
        ("finished", None, "jobs__canonical", "out__new", ["UPDATE", "RENAME TABLE"], 1),
        ("failed", "TABLE_NOT_FOUND", "jobs__canonical", "out__other", ["DROP TABLE"], None),
    ]
    assert events[0]["write_id"] == written["id"]
    assert "secret" not in json.dumps(events)
    assert 'savepointdb_writes_total{code="",state="finished"} 1.0' in metrics


@pytest.mark.slow
def test_a_service_that_stops_lets_a_write_end(tmp_path: Path) -> None:
    shutil.copytree(WORDCOUNT, tmp_path / "jobs")
    with started_service(tmp_path) as (process, client, _):
        client.started()
        time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)

    assert (client.out / "new/_metadata").exists()
