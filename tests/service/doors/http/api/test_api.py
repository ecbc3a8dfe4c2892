"""The HTTP service, through a socket."""

from __future__ import annotations

import io
import json
import re
import shutil
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from fastapi import FastAPI
from pyarrow import parquet

from catalog import connect
from readers.errors import (
    AccessDeniedError,
    FileChangedError,
    MissingFileError,
    ReaderError,
    SavepointGoneError,
    StorageError,
)
from service.base.errors import NotAcceptableError, query_error_of
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http import connections
from service.doors.http.api.answers import accepted_format
from service.doors.http.api.databases import path_under
from tests.support.attacks import ATTACKS
from tests.support.damaged import write_in_files
from tests.support.paths import DATA
from tests.support.waiting import wait_until

FLINK = DATA / "flink"
HASHMAP = FLINK / "2.3.0" / "wordcount-hashmap-savepoints"
ONE_KEY = "SELECT key, value FROM native.aggregate WHERE key = 'key_662'"

Serving = Callable[[FastAPI], AbstractContextManager[str]]


def ask(client: httpx.Client, sql: str, accept: str = "*/*", **body: Any) -> httpx.Response:
    return client.post("/api/query", json={"sql": sql, **body}, headers={"accept": accept})


@pytest.mark.slow
def test_an_answer_has_rows_and_says_how_they_came_about(client: httpx.Client) -> None:
    response = ask(client, ONE_KEY)
    answer = response.json()

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert answer.pop("query_id")
    assert answer.pop("elapsed_ms") > 0
    assert 0 < answer.pop("bytes_read") < 1000
    assert answer.pop("engine_reason")
    [database] = answer.pop("databases")
    assert (database["name"], database["checkpoint_id"]) == ("native", 2)
    assert database["path"].endswith("wordcount-rocksdb-savepoints/native")
    assert answer == {
        "columns": [{"name": "key", "type": "VARCHAR"}, {"name": "value", "type": "BIGINT"}],
        "rows": [["key_662", 11290]],
        "row_count": 1,
        "truncated": False,
        "engine": "scan",
        "bytes_cached": 0,
        "cache_hits": 0,
    }


@pytest.mark.parametrize(
    "body",
    [
        {"sql": ONE_KEY},
        {"sql": ONE_KEY, "max_rows": "1", "max_bytes": 1000},
        {"sql": "SELECT 1 AS one, NULL AS none"},
        {"sql": "SELECT nothing FROM native.aggregate"},
        {"sql": "SELECT * FROM absent.aggregate"},
        {"sql": ONE_KEY, "max_row": 1},
        {"sql": ONE_KEY, "parameters": {"a": []}},
        {},
        [],
        "SELECT 1",
        None,
    ],
)
def test_a_plain_request_is_answered_as_any_other(client: httpx.Client, body: Any) -> None:
    content = json.dumps(body)
    answers = [
        client.post("/api/query", content=text, headers={"content-type": kind})
        for text, kind in (
            (content, "application/json"),
            (content, "application/json; charset=utf-8"),
            (content[:-1], "application/json"),
            (content[:-1], "application/json; charset=utf-8"),
        )
    ]

    whole, again, cut, cut_again = (answer.status_code for answer in answers)
    assert (whole, cut) == (again, cut_again)
    assert cut == 400
    shown = [without_chance(answer.json()) for answer in answers]
    assert (shown[0], shown[2]) == (shown[1], shown[3])


def without_chance(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ("query_id", "elapsed_ms")}


def test_max_rows_cuts_the_answer_and_says_so(client: httpx.Client) -> None:
    answer = ask(client, "SELECT * FROM native.aggregate", max_rows=3).json()

    assert (len(answer["rows"]), answer["row_count"], answer["truncated"]) == (3, 3, True)


def test_json_has_ten_thousand_rows_unless_more_are_asked_for(client: httpx.Client) -> None:
    sql = "SELECT * FROM range(30000)"

    assert ask(client, sql).json()["row_count"] == 10_000
    assert ask(client, sql, max_rows=20_000).json()["row_count"] == 20_000
    assert len(ask(client, sql, "text/csv").text.splitlines()) == 30_001


def test_every_format_holds_the_same_rows(client: httpx.Client) -> None:
    sql = "SELECT key, value FROM native.aggregate ORDER BY key LIMIT 100"
    rows = ask(client, sql).json()["rows"]

    lines = ask(client, sql, "application/jsonl")
    text = ask(client, sql, "text/csv")
    arrow = ask(client, sql, "application/vnd.apache.arrow.stream")
    columns = ask(client, sql, "application/vnd.apache.parquet")

    assert [list(json.loads(line).values()) for line in lines.text.splitlines()] == rows
    assert text.text.splitlines() == ['"key","value"', *(f'"{key}",{value}' for key, value in rows)]
    assert values(pa.ipc.open_stream(arrow.content).read_all()) == rows
    assert values(parquet.read_table(io.BytesIO(columns.content))) == rows
    assert lines.headers["content-type"] == "application/jsonl"
    assert arrow.headers["x-query-id"] in arrow.headers["content-disposition"]


def values(table: pa.Table) -> list[list[Any]]:
    return [list(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("accept", "name"),
    [
        (None, "json"),
        ("*/*", "json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "json"),
        ("text/csv", "csv"),
        ("application/json;q=0.5, text/csv;q=0.9", "csv"),
        ("text/csv, */*", "csv"),
        ("application/x-ndjson", "jsonl"),
        ("text/csv;q=0, application/vnd.apache.parquet;q=0.1", "parquet"),
        ("TEXT/CSV; charset=utf-8", "csv"),
        ("text/csv;q=x, application/json;q=0.1", "json"),
    ],
)
def test_accept_chooses_the_format(accept: str | None, name: str) -> None:
    assert accepted_format(accept).name == name


@pytest.mark.parametrize(
    ("accept", "cell"),
    [
        ("text/csv", "=1+1"),
        ("text/csv; formulas=exact", "=1+1"),
        ("text/csv; formulas=escape", "'=1+1"),
        ("text/csv;q=0.5; formulas=escape, application/json;q=0.1", "'=1+1"),
        ("text/*; Formulas = Escape", "'=1+1"),
    ],
)
def test_csv_is_exact_unless_formulas_are_to_be_escaped(client: httpx.Client, accept: str, cell: str) -> None:
    answer = ask(client, "SELECT '=1+1' AS \"-a\", -1 AS b", accept)

    assert answer.headers["content-type"].startswith("text/csv")
    name = "'-a" if cell.startswith("'") else "-a"
    assert answer.text.splitlines() == [f'"{name}","b"', f'"{cell}",-1']


@pytest.mark.parametrize("accept", ["text/csv; formulas=no", "application/json; formulas=escape"])
def test_a_wish_for_formulas_is_not_overlooked(client: httpx.Client, accept: str) -> None:
    assert ask(client, "SELECT 1", accept).status_code == 406
    assert ask(client, "SELECT 1", f"{accept}, */*;q=0.1").headers["content-type"] == "application/json"


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain"])
@pytest.mark.parametrize("path", ["/api/query", "/api/diff", "/api/savepoints"])
def test_a_body_without_its_content_type_gets_a_hint(client: httpx.Client, path: str, kind: str) -> None:
    # As curl -d sends it; a form of another site can send it, too, so it is not answered.
    response = client.post(path, content='{"sql": "SELECT 1"}', headers={"content-type": kind})

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "INVALID_REQUEST")
    assert error["message"].endswith(f"found {kind!r}")
    assert error["hint"].startswith("curl -d needs -H 'Content-Type: application/json'")


@pytest.mark.parametrize("accept", ["image/png", "text/csv;q=0", ""])
def test_a_format_that_is_not_ours_is_refused(accept: str) -> None:
    if accept == "":
        assert accepted_format(accept).name == "json"
        return
    with pytest.raises(NotAcceptableError):
        accepted_format(accept)


@pytest.mark.parametrize(
    ("sql", "body", "status", "code"),
    [
        ("SELECT * FROM native.nothing", {}, 404, "TABLE_NOT_FOUND"),
        ("SELECT * FROM nothing.aggregate", {}, 404, "DATABASE_NOT_FOUND"),
        ("SELECT vlaue FROM native.aggregate", {}, 400, "COLUMN_NOT_FOUND"),
        ("SELECT FROM WHERE", {}, 400, "SYNTAX_ERROR"),
        ("SELECT CAST(key AS INT) FROM native.aggregate", {}, 400, "INVALID_VALUE"),
        ("COPY native.aggregate TO '/tmp/x'", {}, 403, "FORBIDDEN"),
        ("SELECT * FROM read_text('/etc/passwd')", {}, 403, "FORBIDDEN"),
        ("SELECT 1; SELECT 2", {}, 403, "FORBIDDEN"),
        ("SELECT count(*) FROM range(1000000000000)", {"timeout_s": 0.3}, 504, "EXCEEDED_TIME_LIMIT"),
        ("SELECT 1", {"engine": "x"}, 400, "INVALID_REQUEST"),
        ("SELECT 1", {"dialect": "x"}, 400, "INVALID_REQUEST"),
        ("SELECT 1", {"max_rows": -1}, 400, "INVALID_REQUEST"),
        ("SELECT 1", {"timeout_s": 0}, 400, "INVALID_REQUEST"),
        ("SELECT 1", {"more": 1}, 400, "INVALID_REQUEST"),
        ("SELECT '" + "x" * 70_000 + "'", {}, 413, "LIMIT_EXCEEDED"),
        ("SELECT '" + "x" * 200_000 + "'", {}, 413, "LIMIT_EXCEEDED"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, {}, 413, "LIMIT_EXCEEDED"),
    ],
)
@pytest.mark.parametrize("accept", ["application/json", "text/csv"])
def test_errors_have_a_status_and_a_code(
    client: httpx.Client, accept: str, sql: str, body: dict[str, Any], status: int, code: str
) -> None:
    response = ask(client, sql, accept, **body)

    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.json()["error"]["message"]
    assert ask(client, "SELECT 1").json()["rows"] == [[1]]


def test_an_error_says_where_and_what_to_try(client: httpx.Client) -> None:
    error = ask(client, "SELECT key\nFROM native.agregate").json()["error"]

    assert error["code"] == "TABLE_NOT_FOUND"
    assert error["position"] == {"line": 2, "column": 13}
    assert '"aggregate"' in error["hint"]


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"", "application/json"),
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'{"sql": 5}', "application/json"),
        (b'{"sql": "SELECT 1"}', "text/plain"),
        (b"\xff\xfe", "application/json"),
        (b'{"sql": "\\ud800"}', "application/json"),
    ],
)
def test_a_body_that_is_no_query_is_refused(client: httpx.Client, content: bytes, content_type: str) -> None:
    response = client.post("/api/query", content=content, headers={"content-type": content_type})

    assert response.status_code == 400, response.text
    assert response.json()["error"]["code"]
    assert client.get("/api/queries").status_code == 200


def test_addresses_and_methods_that_are_not_there(client: httpx.Client) -> None:
    assert client.get("/nothing").json()["error"]["code"] == "NOT_FOUND"
    assert client.get("/api/query").status_code == 405
    assert client.get("/api/query").json()["error"]["code"] == "METHOD_NOT_ALLOWED"


def test_the_catalog_over_http(client: httpx.Client) -> None:
    databases = client.get("/api/databases").json()["databases"]
    tables = client.get("/api/databases/native/tables").json()["tables"]
    table = client.get("/api/databases/NATIVE/tables/Aggregate__Count").json()
    assert (table["state_bytes"], table["is_estimate"]) == (16232, False)
    assert client.get("/api/databases/native/tables/files").json()["state_bytes"] is None

    assert [(one["name"], one["kind"], one["checkpoint_id"]) for one in databases][:2] == [
        ("canonical", "SAVEPOINT", 1),
        ("native", "SAVEPOINT", 2),
    ]
    native = client.get("/api/databases/native").json()
    assert native.pop("age_s") >= databases[1].pop("age_s")
    assert native == databases[1]
    assert {"StateMeta", "operators", "files", "timers", "aggregate"} <= {one["name"] for one in tables}
    assert table["name"] == "aggregate__count"
    assert {"name": "value", "type": "BIGINT"} in table["columns"]
    assert table["size_bytes"] > 0


def test_what_the_catalog_does_not_have_is_not_found(client: httpx.Client) -> None:
    missing = client.get("/api/databases/nativ")

    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "DATABASE_NOT_FOUND")
    assert '"native"' in missing.json()["error"]["hint"]
    assert client.get("/api/databases/native/tables/nothing").json()["error"]["code"] == "TABLE_NOT_FOUND"


def test_a_savepoint_under_a_root_can_be_registered(client: httpx.Client) -> None:
    body = {"name": "heap", "path": str(HASHMAP / "native")}

    created = client.post("/api/databases", json=body)
    again = client.post("/api/databases", json=body)
    taken = client.post("/api/databases", json={**body, "path": str(HASHMAP / "canonical")})

    assert (created.status_code, created.json()["name"], again.status_code) == (201, "heap", 201)
    assert ask(client, ONE_KEY.replace("native", "heap")).json()["rows"] == [["key_662", 11290]]
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "CONFLICT")


@pytest.mark.parametrize(
    "path",
    [
        "/etc",
        str(FLINK / "1.20.3" / "wordcount-hashmap-savepoints" / "native"),
        str(FLINK / "2.3.0" / ".." / "1.20.3" / "wordcount-hashmap-savepoints" / "native"),
        str(FLINK / "2.3.0") + "-else",
        "s3://bucket/savepoint",
        "http://127.0.0.1/savepoint",
        "file:///etc",
        "..",
        "\0",
        str(FLINK / "2.3.0" / "wordcount-hashmap-savepoints" / "native\0"),
        "file:///\0",
        "s3://bucket\0/savepoint",
    ],
)
def test_nothing_outside_the_roots_can_be_registered(client: httpx.Client, path: str) -> None:
    response = client.post("/api/databases", json={"name": "outside", "path": path})

    assert (response.status_code, response.json()["error"]["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize("name", ["\0", "a\nb", "a\x7fb"])
def test_a_name_with_control_characters_is_refused(client: httpx.Client, name: str) -> None:
    response = client.post("/api/databases", json={"name": name, "path": str(HASHMAP / "native")})

    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "path",
    [
        *("/%00", "/static/%00", "/api/databases/%00", "/api/databases/native/tables/%00"),
        *("/api/queries/%00", "/v1/statement/executing/%00/%00/1", "/docs/%00"),
    ],
)
def test_a_nul_in_an_address_is_not_found(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_link_that_leads_out_of_the_roots_cannot_be_registered(serving: Serving, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(HASHMAP / "native")
    app = create_app(Settings.of(workers=1), connect(root), roots=[str(root)])

    with serving(app) as address:
        body = {"name": "outside", "path": str(root / "link")}
        response = httpx.post(f"{address}/api/databases", json=body, timeout=60)

    assert response.status_code == 403


def test_what_is_registered_under_a_remote_root_has_the_options_of_the_root() -> None:
    roots = ("/local", "s3://bucket/savepoints?region=eu-west-1&endpoint=http://store")
    options = "region=eu-west-1&endpoint=http://store"

    assert path_under("s3://bucket/savepoints/a", roots) == f"s3://bucket/savepoints/a?{options}"
    assert path_under("s3a://bucket/savepoints", roots) == f"s3a://bucket/savepoints?{options}"
    assert path_under(f"s3://bucket/savepoints/a?{options}", roots) == f"s3://bucket/savepoints/a?{options}"
    for outside in (
        "s3://bucket/savepoints/a?endpoint=http://evil",
        "s3://bucket/savepoints/../secret",
        "s3://bucket/savepoints-2",
        "s3://other/savepoints/a",
        "s3://bucket@evil/savepoints/a",
        "file://host/local",
    ):
        assert path_under(outside, roots) is None


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (MissingFileError("expected a file", path="s3://bucket/sp/file"), 410, "MISSING_FILE"),
        (SavepointGoneError("expected a file", path="s3://bucket/sp/file"), 410, "SAVEPOINT_GONE"),
        (FileChangedError("expected a file", path="s3://bucket/sp/file"), 409, "SAVEPOINT_CHANGED"),
        (AccessDeniedError("expected a file", path="s3://bucket/sp/file"), 502, "STORAGE_ACCESS_DENIED"),
        (StorageError("expected a file", path="s3://bucket/sp/file"), 502, "STORAGE_ERROR"),
    ],
)
def test_faults_of_storage_have_codes_and_name_no_bucket(error: ReaderError, status: int, code: str) -> None:
    reported = query_error_of(error)

    assert (reported.status, reported.code) == (status, code)
    assert reported.message == "expected a file (…/file)"


def test_health_and_openapi(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()

    assert client.get("/healthz").json() == {"status": "ok"}
    assert {"/api/query", "/api/databases", "/healthz"} <= set(document["paths"])
    content = document["paths"]["/api/query"]["post"]["responses"]["200"]["content"]
    assert {"application/json", "text/csv", "application/vnd.apache.parquet"} <= set(content)


@pytest.fixture
def damaged(tmp_path: Path, serving: Serving) -> Any:
    """Serves a copy of the savepoints of which one was damaged by the test."""

    def serve(damage: Callable[[Path], None]) -> AbstractContextManager[str]:
        shutil.copytree(
            FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint", tmp_path / "job"
        )
        damage(tmp_path / "job")
        return serving(create_app(Settings.of(workers=1), connect(tmp_path / "job")))

    return serve


def truncated(job: Path) -> None:
    path = job / "chk-2" / "_metadata"
    path.write_bytes(path.read_bytes()[:100])


def wrong_magic(job: Path) -> None:
    path = job / "chk-2" / "_metadata"
    path.write_bytes(b"\0\0\0\0" + path.read_bytes()[4:])


def unknown_version(job: Path) -> None:
    path = job / "chk-2" / "_metadata"
    path.write_bytes(path.read_bytes()[:4] + (99).to_bytes(4, "big") + path.read_bytes()[8:])


def missing_files(job: Path) -> None:
    for path in (job / "shared").iterdir():
        path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "status", "code"),
    [
        (truncated, 422, "CORRUPT_SAVEPOINT"),
        (wrong_magic, 422, "NOT_A_SAVEPOINT"),
        (unknown_version, 422, "UNSUPPORTED_VERSION"),
        (missing_files, 410, "MISSING_FILE"),
    ],
)
def test_a_damaged_savepoint_is_reported_without_folders_and_others_go_on(
    damaged: Any, tmp_path: Path, damage: Callable[[Path], None], status: int, code: str
) -> None:
    with damaged(damage) as address, httpx.Client(base_url=address, timeout=60) as client:
        response = ask(client, 'SELECT count(*) FROM "chk-2".aggregate')
        databases = client.get("/api/databases").json()["databases"]
        listing = ask(client, "SHOW SCHEMAS").json()["rows"]
        other = ask(client, "SELECT DISTINCT table_schema FROM information_schema.tables")

        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        assert str(tmp_path) not in response.text
        assert {one["name"] for one in databases} == {"job__chk-1", "job__chk-2", "latest"}
        assert sorted(listing) == [
            ["job__chk-1"],
            ["job__chk-2"],
            ["job__history"],
            ["latest"],
            ["savepointdb"],
        ]
        assert ["job__chk-1"] in other.json()["rows"]
        if damage is not missing_files:
            assert ask(client, 'SELECT count(*) > 0 FROM "chk-1".aggregate').json()["rows"] == [[True]]


def test_a_client_that_goes_away_cancels_its_query(client: httpx.Client) -> None:
    before = watches()
    host, port = client.base_url.host, client.base_url.port
    body = json.dumps({"sql": "SELECT count(*) FROM range(1000000000000)"}).encode()
    head = f"POST /api/query HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, port)) as connection:
        connection.sendall(head.encode() + body)
        wait_until(lambda: watches() > before)

    wait_until(lambda: watches() == before)


def test_a_reader_that_stops_in_the_middle_cancels_its_query(client: httpx.Client) -> None:
    before = watches()
    request = {"sql": "SELECT * FROM range(1000000000)"}
    with client.stream("POST", "/api/query", json=request, headers={"accept": "text/csv"}) as response:
        next(response.iter_bytes())
        assert watches() > before

    wait_until(lambda: watches() == before)


def test_an_error_in_the_middle_breaks_the_connection(client: httpx.Client) -> None:
    sql = "SELECT CAST(if(x < 2000000, x::VARCHAR, 'bad') AS INT) FROM range(3000000) t(x)"

    with pytest.raises(httpx.RemoteProtocolError):
        ask(client, sql, "text/csv")


@pytest.mark.slow
def test_many_clients_at_once(client: httpx.Client) -> None:
    def one(number: int) -> Any:
        sql = f"SELECT count(*) FROM native.aggregate WHERE key = 'key_{number}'"
        return httpx.post(
            f"http://{client.base_url.host}:{client.base_url.port}/api/query", json={"sql": sql}, timeout=60
        ).json()["rows"]

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(one, range(60))) == [[[1]]] * 60


def watches() -> int:
    """Return the number of running queries: each has a thread for its deadline."""
    return sum(thread.name.startswith("query-") for thread in threading.enumerate())


def test_the_description_is_a_page_that_loads_nothing(client: httpx.Client) -> None:
    answer = client.get("/docs")

    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<script" not in answer.text
    assert re.findall(r'(?:src|href)="([^"#]+)"', answer.text) == ["/openapi.json"]
    for path in client.get("/openapi.json").json()["paths"]:
        assert f" {path}</code>" in answer.text
    assert client.get("/redoc").status_code == 404


@pytest.mark.parametrize("sql", ATTACKS)
def test_an_attack_is_refused_by_every_way_in(client: httpx.Client, sql: str) -> None:
    body = {"sql": sql, "database": "native"}
    answers = [
        client.post("/api/query", json=body),
        client.post("/api/query", json=body | {"explain": True}),
        client.post("/api/query", json=body, headers={"accept": "text/csv"}),
        client.post("/api/queries", json=body),
    ]

    reported = [(answer.status_code, answer.json()["error"]["code"]) for answer in answers]
    assert reported == [(403, "FORBIDDEN")] * 4
    assert not any(re.search(r"/home|/usr|/var|site-packages", answer.text) for answer in answers)


def test_no_part_of_an_answer_waits_until_the_one_before_is_acknowledged() -> None:
    with (
        connections.listening("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_there_are_fifty_attacks_and_more() -> None:
    assert len(set(ATTACKS)) == len(ATTACKS) > 50


@pytest.mark.slow
def test_an_answer_over_missing_files_fails_or_says_what_it_lacks(tmp_path: Path, serving: Serving) -> None:
    folder = write_in_files(HASHMAP / "canonical", tmp_path / "jobs" / "sp")
    [file] = folder.glob("source-1.*")
    file.unlink()
    with (
        serving(create_app(catalog=connect(tmp_path / "jobs"), settings=Settings())) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        sql = "SELECT count(*) FROM source_offsets"
        failed = ask(client, sql)
        partial = ask(client, sql, allow_partial=True)
        stream = ask(client, sql, "application/vnd.apache.arrow.stream", allow_partial=True)
        whole = ask(client, "SELECT count(*) FROM aggregate", allow_partial=True)

    assert (failed.status_code, failed.json()["error"]["code"]) == (410, "MISSING_FILE")
    assert file.name in failed.json()["error"]["message"]
    assert partial.json()["rows"] == [[2]]
    [lacking] = partial.json()["incomplete"]
    assert (lacking["table"], lacking["code"]) == ("jobs__sp.source_offsets", "MISSING_FILE")
    assert lacking["path"].endswith(file.name)
    assert str(tmp_path) not in partial.text.replace(partial.json()["databases"][0]["path"], "")
    metadata = pa.ipc.open_stream(stream.content).schema.metadata
    assert json.loads(metadata[b"savepointdb.incomplete"]) == [lacking]
    assert stream.headers["x-incomplete"] == "1"
    assert "incomplete" not in whole.json()


@pytest.mark.slow
def test_damage_found_while_reading_is_listed_and_breaks_a_stream(tmp_path: Path, serving: Serving) -> None:
    folder = write_in_files(HASHMAP / "canonical", tmp_path / "jobs" / "sp")
    [file] = folder.glob("aggregate-1.*")
    half = file.stat().st_size // 2
    file.write_bytes(file.read_bytes()[:half] + b"\xff" * half)
    with (
        serving(create_app(catalog=connect(tmp_path / "jobs"), settings=Settings())) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        sql = "SELECT key, value FROM aggregate"
        failed = ask(client, sql)
        partial = ask(client, sql, allow_partial=True).json()
        with pytest.raises(httpx.RemoteProtocolError):
            ask(client, sql, "text/csv", allow_partial=True)

    assert failed.json()["error"]["code"] == "CORRUPT_SAVEPOINT"
    assert partial["row_count"] > 0
    assert [(file["table"], file["code"]) for file in partial["incomplete"]] == [
        ("jobs__sp.aggregate", "CORRUPT_SAVEPOINT")
    ]
