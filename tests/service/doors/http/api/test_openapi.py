"""Every answer fits the OpenAPI description, for any request; every abuse of HTTP has its own error."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.support.examples import examples
from tests.support.paths import DATA

Serving = Callable[[FastAPI], AbstractContextManager[str]]
FLINK = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints"
TYPED = {503, 504, 507}
"""What the service may answer of its own accord, and says by which code."""
MAX_BYTES = 64 * 1024


def application() -> FastAPI:
    return create_app(
        Settings.of(max_request_bytes=MAX_BYTES, timeout_s=30.0),
        Catalog([Root(path=str(FLINK / name)) for name in ("canonical", "native")]),
    )


DESCRIPTION = application().openapi()
OPERATIONS = [
    (method.upper(), path)
    for path, calls in DESCRIPTION["paths"].items()
    for method in calls
]  # fmt: skip


def test_every_call_of_the_api_says_how_it_fails() -> None:
    described = {
        (method, path): calls[method]["responses"].keys()
        for path, calls in DESCRIPTION["paths"].items()
        for method in calls
        if path.startswith(("/api/", "/db", "/saved/"))
    }

    assert described
    assert [call for call, answers in described.items() if not answers >= {"4XX", "5XX"}] == []


@pytest.fixture(scope="module")
def address(serving: Serving) -> Iterator[str]:
    with serving(application()) as found:
        yield found


# ---- what the description says ----


def make_sensible(case: Any) -> None:
    """Replace generated names by existing ones, so that requests reach more than the answer 404."""
    there = {"database": "latest", "table": "aggregate", "place": "latest/aggregate"}
    for name in there.keys() & (case.path_parameters or {}).keys():
        case.path_parameters[name] = there[name]
    if isinstance(case.body, dict) and {"before", "after"} <= case.body.keys():
        case.body |= {"before": "canonical", "after": "native", "operator": "mod7-no-uid", "timeout_s": 5}
    if isinstance(case.body, dict) and "sql" in case.body:
        case.body |= {
            "sql": "SELECT key, value FROM native.aggregate",
            "engine": "duckdb",
            "dialect": "duckdb",
        }
        case.body["timeout_s"] = 5


@pytest.fixture(scope="module")
def described() -> Any:
    """The description, and what is checked of every answer."""
    import schemathesis  # takes a second to load, in each process of `make test`, too
    from schemathesis.specs.openapi import checks

    # A jar is sent as the bytes that it is.
    schemathesis.serializer.alias("application/java-archive", "application/octet-stream")
    return schemathesis.openapi.from_dict(DESCRIPTION), [
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]


@pytest.mark.slow
@pytest.mark.hypothesis  # the test within it
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_operation_answers_as_it_is_described(
    address: str, described: Any, method: str, path: str
) -> None:
    description, checks = described
    strategy = description[path][method].as_strategy()

    @given(case=strategy, is_sensible=st.booleans())
    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    def check(case: Any, is_sensible: bool) -> None:
        if is_sensible:
            make_sensible(case)
        answer = case.call(base_url=address, timeout=60)

        assert answer.status_code < 500 or answer.status_code in TYPED
        if answer.status_code >= 400 and method != "HEAD":
            body = answer.json()
            assert set(body) == {"error"}
            assert set(body["error"]) <= {"code", "message", "hint", "position"}
            assert re.fullmatch(r"[A-Z][A-Z_]+", body["error"]["code"])
            assert body["error"]["message"]
        case.validate_response(answer, checks=checks)

    check()


# ---- abuse ----


def sent(address: str, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Bytes as they are over a connection of their own → status, headers, body."""
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(request)
        content = b""
        while chunk := connection.recv(1 << 16):
            content += chunk
    head, _, body = content.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split(" ")[1]), headers, body


def post(
    address: str, *headers: bytes, body: bytes = b'{"sql": "SELECT 1"}', path: bytes = b"/api/query"
) -> bytes:
    """A request with a length, and these headers besides."""
    host = address.removeprefix("http://").encode()
    lines = [
        b"POST " + path + b" HTTP/1.1",
        b"host: " + host,
        b"connection: close",
        b"content-length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


JSON = b"content-type: application/json"


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nothing",
        b"[]",
        b"null",
        b'"SELECT 1"',
        b"{}",
        b'{"sql": 1}',
        b'{"sql": null}',
        b'{"sql": "SELECT 1", "more": 1}',
        b'{"sql": "SELECT 1", "max_rows": -1}',
        b'{"sql": "SELECT 1", "max_rows": 1e400}',
        b'{"sql": "SELECT 1", "max_rows": 1' + b"0" * 5000 + b"}",
        b'{"sql": "SELECT 1", "timeout_s": NaN}',
        b'{"sql": "SELECT 1", "timeout_s": 0}',
        b'{"sql": "SELECT 1", "engine": "none"}',
        b'{"sql": "SELECT 1", "dialect": "none"}',
        b'{"sql": "SELECT \xff"}',
        b'{"sql": "SELECT \xed\xa0\x80"}',
        b'{"sql": "SELECT \'\\ud800\'"}',
        b'{"sql": "SELECT 1\x00"}',
        b'{"sql": "SELECT * FROM files", "database": "\\u0000"}',
        b"\xff\xfe" + '{"sql": "SELECT"}'.encode("utf-16-le"),
        b"\x00" * 100,
        b"[" * 30_000,
        b'{"sql":' * 8_000,
        b'{"sql": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
)
def test_a_body_that_is_no_query_is_a_bad_request(address: str, body: bytes) -> None:
    status, headers, answer = sent(address, post(address, JSON, body=body))

    assert (status, headers["content-type"]) in ((400, "application/json"), (404, "application/json"))
    assert re.fullmatch("[A-Z_]+", json.loads(answer)["error"]["code"])
    assert len(answer) < 4096


@pytest.mark.parametrize(
    "kind",
    [
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data",
        b"",
        b"\xff/\xff",
        b"application/xml",
    ],
)
def test_a_body_of_another_type_is_no_query(address: str, kind: bytes) -> None:
    status, _, answer = sent(address, post(address, b"content-type: " + kind))

    assert (status, json.loads(answer)["error"]["code"]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("path", [b"/api/query", b"/api/queries", b"/v1/statement"])
@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_body_that_is_too_long_is_refused_however_it_comes(
    address: str, path: bytes, is_chunked: bool
) -> None:
    body = b" " * (MAX_BYTES + 1)
    request = post(address, JSON, body=body, path=path)
    if is_chunked:
        request = request.replace(b"content-length: %d" % len(body), b"transfer-encoding: chunked")
        request = request.removesuffix(body) + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"

    status, _, answer = sent(address, request)

    assert (status, json.loads(answer)["error"]["code"]) == (413, "LIMIT_EXCEEDED")


def test_a_body_in_chunks_is_a_query(address: str) -> None:
    body = b'{"sql": "SELECT 42", "timeout_s": 60}'
    request = post(address, JSON, body=body)
    request = request.replace(b"content-length: %d" % len(body), b"transfer-encoding: chunked")
    chunks = b"".join(b"1\r\n" + body[at : at + 1] + b"\r\n" for at in range(len(body)))

    status, _, answer = sent(address, request.removesuffix(body) + chunks + b"0\r\n\r\n")

    assert (status, json.loads(answer)["rows"]) == (200, [[42]])


@pytest.mark.parametrize(
    "line",
    [
        b"x-large: " + b"a" * 70_000,
        b"\r\n".join(b"x-%d: %s" % (number, b"a" * 50) for number in range(1200)),
        b"x-nul: a\x00b",
        b"no colon",
        b"bad name: a",
        b": no name",
        b"content-length: -1",
        b"content-length: 5",
        b"transfer-encoding: gzip",
        b"host: other",
    ],
)
def test_headers_that_are_none_are_refused_by_the_server(address: str, line: bytes) -> None:
    status, _, _ = sent(address, post(address, JSON, line, body=b""))

    assert status in (400, 403, 413, 431)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"accept: image/png", 406),
        (b"accept: \xff\xfe", 406),
        (b"accept: " + b",".join([b"a/b"] * 5000), 406),
        (b"accept: ;;;,,,;q=", 406),
        (b"accept-encoding: \xff", 200),
        (b"origin: http://[", 403),
        (b"origin: \xff", 403),
        (b"authorization: Basic \xff", 200),
        (b"cookie: " + b"a=b; " * 4000, 200),
        (b"user-agent: \xff\x80'\"<script>", 200),
        (b"x-forwarded-for: \xff, ::::", 200),
        (b"x-forwarded-proto: \xff", 200),
        (b"if-none-match: \xff", 200),
        (b"range: bytes=9-1", 200),
        (b"content-encoding: gzip", 200),
    ],
)
def test_headers_of_any_bytes_are_answered(address: str, line: bytes, status: int) -> None:
    found, _, _ = sent(address, post(address, JSON, line))

    assert found == status


@pytest.mark.parametrize(
    "line",
    [
        b"x-trino-user: \xff\xfe",
        b"x-trino-user: " + b"u" * 20_000,
        b"x-trino-session: =,=,%%%,engine",
        b"x-trino-session: engine=%ff%00",
        b"x-trino-session: query_max_run_time=1e999d",
        b"x-trino-prepared-statement: a=%ff",
        b"x-trino-prepared-statement: " + b"=" * 1000,
        b"x-trino-client-capabilities: \xff",
        b"x-trino-time-zone: ../../etc/passwd",
        b"x-trino-catalog: \xff",
        b"x-trino-schema: %0d%0aset-cookie: a=b",
        b"x-trino-transaction-id: \xff",
        b"x-trino-client-info: \xff",
        b"accept: \xff",
    ],
)
def test_headers_of_trino_never_break_the_service_nor_its_headers(address: str, line: bytes) -> None:
    request = post(address, b"x-trino-user: u", line, body=b"SELECT 1", path=b"/v1/statement")

    status, headers, answer = sent(address, request)

    assert status in (200, 400)
    assert "set-cookie" not in headers
    assert isinstance(json.loads(answer), dict)


@pytest.mark.parametrize(
    "statement",
    [
        b"\xff",
        b"",
        b"\x00",
        b"SELECT 1\x00",
        b'PREPARE "a\r\nset-cookie: b=c" FROM SELECT 1',
        b"SET SESSION engine = 'duckdb\r\nset-cookie: b=c'",
        b'USE "a\r\nset-cookie: b=c"',
        b"(" * 20_000,
        b"SELECT " + b"-" * 20_000 + b"1",
        b"SELECT '" + b"\xf0\x9f\x98\x80" * 5_000 + b"'",
    ],
)
def test_statements_of_any_bytes_end_in_an_answer_without_headers_of_theirs(
    address: str, statement: bytes
) -> None:
    status, headers, answer = sent(
        address, post(address, b"x-trino-user: u", body=statement, path=b"/v1/statement")
    )

    assert status in (200, 400)
    found = json.loads(answer)
    while "nextUri" in found and "error" not in found:
        page = httpx.get(found["nextUri"], timeout=60)
        assert page.status_code == 200
        assert "set-cookie" not in page.headers
        found = page.json()
    assert "set-cookie" not in headers


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/api/databases/%00", 404),
        (b"/api/databases/%ff%fe", 404),
        (b"/api/databases/..%2f..%2fetc%2fpasswd", 404),
        (b"/api/databases/native/tables/%00", 404),
        (b"/api/databases/native/tables/" + b"a" * 20_000, 404),
        (b"/api/queries/%0d%0aset-cookie:%20a=b", 404),
        (b"/static/..%2f..%2fapp.py", 404),
        (b"/static/%00", 404),
        (b"/v1/statement/executing/a/b/99999999999999999999999999", 404),
        (b"/v1/statement/executing/a/b/" + b"9" * 5000, 400),
        (b"/v1/statement/executing/a/b/-1", 404),
        (b"/v1/statement/executing/a/b/x", 400),
        (b"/nothing?%ff=%00", 404),
        (b"/api/query", 405),
        (b"//evil.example/%2f..", 404),
    ],
)
def test_addresses_of_any_bytes_are_not_there(address: str, target: bytes, status: int) -> None:
    host = address.removeprefix("http://").encode()

    found, headers, answer = sent(
        address, b"GET " + target + b" HTTP/1.1\r\nhost: " + host + b"\r\nconnection: close\r\n\r\n"
    )

    assert (found, "set-cookie" in headers) == (status, False)
    assert set(json.loads(answer)) == {"error"}


@pytest.mark.slow
def test_any_bytes_in_place_of_a_body_end_in_a_refusal(address: str) -> None:
    with httpx.Client(base_url=address, headers={"content-type": "application/json"}, timeout=60) as client:

        @given(st.binary(max_size=200))
        @settings(max_examples=examples(200), deadline=None)
        def check(body: bytes) -> None:
            answer = client.post("/api/query", content=body)

            assert answer.status_code == 400
            assert answer.json()["error"]["code"] == "INVALID_REQUEST"

        check()


def test_nul_is_a_character_of_a_text(address: str) -> None:
    answer = httpx.post(f"{address}/api/query", json={"sql": "SELECT 'a\0b', length('\0')"}, timeout=60)

    assert answer.json()["rows"] == [["a\0b", 1]]
