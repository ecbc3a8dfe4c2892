"""Keys, tokens, grants, and the gate: which requests pass, and which databases they see."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import trino
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from catalog import Catalog
from catalog.catalog import Root
from catalog.masks.masks import Masks
from service.base.hosts import certificate_names
from service.base.principal import Principal, Source
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import PREFIX, KeyFile, KeyFileError
from service.doors.http.auth.tokens import Provider, TokenVerifier
from tests.support.certificates import certificate
from tests.support.paths import DATA
from tests.support.thorough import thorough
from tests.support.waiting import wait_until

Serving = Callable[[FastAPI], AbstractContextManager[str]]
FLINK = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints"
AUDIENCE = "savepointdb"
# What everybody may see without credentials; all else needs some.
OPEN = frozenset({"/", "/static/{name}", "/healthz", "/readyz", "/v1/info"})
WRONG_CREDENTIALS = ["none", "wrong", "expired", "basic", "empty", "scheme", "bytes"]


def routes_of(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and path of every route; of what they have in braces, anything does."""
    for route in iter_route_contexts(app.routes):
        assert route.path is not None, "a mount has routes of its own"
        assert route.methods
        for method in sorted(route.methods):
            yield method, route.path


class Door:
    """A service over two savepoints, `canonical` and `native`, with keys of several people."""

    def __init__(self, address: str, keys: dict[str, str], routes: Sequence[tuple[str, str]] = ()) -> None:
        self.address = address
        self.keys = keys
        self.routes = routes

    def ask(self, method: str, path: str, credentials: str | None = None, **request: Any) -> httpx.Response:
        headers = {} if credentials is None else {"authorization": credentials}
        return httpx.request(
            method, self.address + path, headers=headers | request.pop("headers", {}), timeout=60, **request
        )

    def rows(self, name: str, sql: str) -> Any:
        answer = self.ask("POST", "/api/query", f"Bearer {self.keys[name]}", json={"sql": sql})
        return answer.json()["rows"] if answer.is_success else answer.json()["error"]["code"]


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def door(key_file: Path, serving: Serving) -> Iterator[Door]:
    keys = KeyFile(key_file)
    secrets = {
        "owner": keys.create("owner", ["*"]),
        "analyst": keys.create("analyst", ["nat*"]),
        "guest": keys.create("guest", ["other-*"]),
        "gone": keys.create("gone", ["*"], datetime.now(UTC) - timedelta(seconds=1)),
    }
    app = create_app(
        Settings.of(workers=1),
        Catalog([Root(path=str(FLINK / name)) for name in ("canonical", "native")]),
        roots=[str(FLINK)],
        authenticator=Authenticator(keys),
    )
    with serving(app) as address:
        yield Door(address, secrets, tuple(routes_of(app)))


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


# ---- keys ----


def test_a_key_is_its_owners_and_its_file_holds_the_hash_only(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    secret = KeyFile(path).create("ci", ["prod-*", "Dev?"])

    again = KeyFile(path)
    assert secret.startswith(PREFIX)
    assert again.principal(secret) == Principal(name="ci", grants=("prod-*", "Dev?"), source=Source.KEY)
    assert again.principal(secret[:-1]) is None
    assert again.principal("") is None
    assert secret not in path.read_text()
    assert json.loads(path.read_text())["keys"][0]["sha256"] == hashlib.sha256(secret.encode()).hexdigest()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_neither_a_revoked_nor_an_expired_key_is_accepted(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    gone = keys.create("gone", ["*"], datetime.now(UTC) - timedelta(seconds=1))
    later = keys.create("later", ["*"], datetime.now(UTC) + timedelta(days=1))
    revoked = keys.create("revoked", ["*"])

    keys.revoke("revoked")

    assert [keys.principal(key) is not None for key in (gone, later, revoked)] == [False, True, False]
    with pytest.raises(KeyFileError, match="expected the name of a key"):
        keys.revoke("revoked")


def test_a_key_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    (tmp_path / "keys.json").mkdir()

    with pytest.raises(KeyFileError, match="expected to write the file of keys"):
        keys.create("ci", ["*"])
    assert [path.name for path in tmp_path.iterdir()] == ["keys.json"]


@pytest.mark.slow
def test_a_running_service_sees_a_key_that_was_made_elsewhere(tmp_path: Path) -> None:
    running = KeyFile(tmp_path / "keys.json")
    secret = KeyFile(tmp_path / "keys.json").create("new", ["*"])

    wait_until(lambda: running.principal(secret) is not None)


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "x" * 201])
def test_a_name_that_basic_cannot_carry_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeyFileError, match="expected a name"):
        KeyFile(tmp_path / "keys.json").create(name, ["*"])


@pytest.mark.parametrize("grant", ["", "a[b]", "a\nb"])
def test_a_pattern_that_is_none_is_refused(tmp_path: Path, grant: str) -> None:
    with pytest.raises(KeyFileError, match="expected a pattern"):
        KeyFile(tmp_path / "keys.json").create("a", [grant])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "keys": []}',
        '{"version": 1, "keys": [{"name": "a", "sha256": "00", "grants": ["*"]}]}',
        '{"version": 1, "keys": [{"name": "a", "sha256": "' + "0" * 64 + '", "grants": [""]}]}',
        '{"version": 1, "keys": [{"name": "a", "sha256": "'
        + "0" * 64
        + '", "grants": [], "expires": "2030-01-01"}]}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_none_of_keys_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)

    with pytest.raises(KeyFileError, match="expected a file of keys"):
        KeyFile(tmp_path / "keys.json")


def test_keys_are_made_listed_and_revoked_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ["--keys-file", str(tmp_path / "keys.json")]
    assert main(["keys", "create", "bi", "--grant", "prod-*", "--grant", "dev", *file]) == 0
    secret = capsys.readouterr().out.strip()
    assert KeyFile(tmp_path / "keys.json").principal(secret) == Principal(
        name="bi", grants=("prod-*", "dev"), source=Source.KEY
    )

    assert main(["keys", "list", *file]) == 0
    assert capsys.readouterr().out.split("\t")[:2] == ["bi", "prod-* dev"]
    assert main(["keys", "revoke", "bi", *file]) == 0
    assert main(["keys", "revoke", "bi", *file]) == 2
    assert main(["keys", "list"]) == 2


# ---- the gate ----


@pytest.mark.parametrize("kind", thorough(WRONG_CREDENTIALS, ["none", "wrong"]))
def test_nothing_is_answered_without_the_right_credentials(door: Door, kind: str) -> None:
    credentials = {
        "none": None,
        "wrong": f"Bearer {PREFIX}{'A' * 43}",
        "expired": f"Bearer {door.keys['gone']}",
        "basic": basic("analyst", door.keys["owner"]),
        "empty": "Bearer",
        "scheme": f"Digest {door.keys['owner']}",
        "bytes": "Basic !!!",
    }[kind]
    closed = [(method, path) for method, path in door.routes if path not in OPEN]

    for method, path in (*closed, ("GET", "/nothing"), ("PUT", "/api/databases/native")):
        answer = door.ask(method, re.sub(r"\{[^}]*\}", "0", path), credentials, content=b"SELECT 1")

        assert (method, path, answer.status_code) == (method, path, 401)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        if method != "HEAD":
            assert answer.json()["error"]["code"] == "UNAUTHORIZED"


def test_whoever_opens_a_link_gets_a_page_that_shows_nothing_of_it(door: Door) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    links = ("/db/native/aggregate?key=key_662", "/db/nobody/aggregate?key=key_662")
    for credentials in (None, f"Bearer {PREFIX}{'A' * 43}", f"Bearer {door.keys['guest']}"):
        pages = [door.ask("GET", link, credentials, headers=browser) for link in links]

        assert [page.status_code for page in pages] == [200, 200]
        assert pages[0].content == pages[1].content
        assert "www-authenticate" not in pages[0].headers
    for link in (*links, "/db", "/db/native"):
        for suffix in (".csv", ".json"):
            path, _, query = link.partition("?")
            answer = door.ask("GET", f"{path}{suffix}?{query}", headers=browser)
            assert (link, answer.status_code) == (link, 401)
        assert door.ask("GET", link, headers={"accept": "text/html, */*"}).status_code == 401
        assert door.ask("POST", link, headers=browser).status_code == 401


def test_every_part_of_the_service_is_asked_for_credentials(door: Door) -> None:
    closed = {path for _, path in door.routes} - OPEN

    assert {
        "/api/query",
        "/api/queries/{query_id}/result",
        "/api/databases/{database:path}",
        "/v1/statement",
        "/metrics",
        "/docs",
        "/openapi.json",
    } <= closed


def test_the_page_and_health_need_no_credentials(door: Door) -> None:
    paths = [path for method, path in door.routes if path in OPEN and method == "GET"]

    assert {"/", "/healthz", "/v1/info"} <= set(paths)
    wait_until(lambda: door.ask("GET", "/readyz").status_code == 200)
    for path in paths:
        assert door.ask("GET", path.format(name="app.js")).status_code == 200


@pytest.mark.parametrize("name", ["owner", "analyst", "guest"])
def test_a_key_opens_as_bearer_and_as_password(door: Door, name: str) -> None:
    for credentials in (
        f"Bearer {door.keys[name]}",
        f"bearer  {door.keys[name]}",
        basic(name, door.keys[name]),
    ):
        assert door.ask("GET", "/api/queries", credentials).status_code == 200


@pytest.mark.parametrize(
    ("method", "origin", "status"),
    [
        ("POST", "http://evil.example", 403),
        ("POST", "null", 403),
        ("DELETE", "https://evil.example", 403),
        ("POST", None, 400),
        ("GET", "http://evil.example", 405),
    ],
)
def test_pages_of_other_origins_ask_nothing(door: Door, method: str, origin: str | None, status: int) -> None:
    headers = {} if origin is None else {"origin": origin}

    answer = door.ask(method, "/api/query", f"Bearer {door.keys['owner']}", headers=headers)

    assert answer.status_code == (status if method != "DELETE" or status == 403 else 405)


def test_the_services_own_page_asks(door: Door) -> None:
    answer = door.ask(
        "POST",
        "/api/query",
        f"Bearer {door.keys['owner']}",
        headers={"origin": door.address},
        json={"sql": "SELECT 1"},
    )

    assert answer.json()["rows"] == [[1]]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "[", "127.0.0.1.evil.example"])
def test_without_keys_another_host_is_refused(client: httpx.Client, host: str) -> None:
    answer = client.get("/api/databases", headers={"host": host})

    assert answer.status_code in (400, 403)
    assert answer.status_code == 400 or answer.json()["error"]["code"] == "FORBIDDEN"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8080"])
def test_without_keys_this_machine_is_answered(client: httpx.Client, host: str) -> None:
    assert client.get("/api/databases", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com"])
def test_others_are_not_served_without_keys(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--root", str(FLINK), "--host", host]) == 2
    assert "expected keys or an identity provider" in capsys.readouterr().err


# ---- grants ----


@pytest.mark.parametrize(
    ("name", "native", "canonical"),
    [("owner", 200, 200), ("analyst", 200, 404), ("guest", 404, 404), (None, 401, 401)],
)
def test_links_have_the_grants_of_their_reader(
    door: Door, name: str | None, native: int, canonical: int
) -> None:
    credentials = None if name is None else f"Bearer {door.keys[name]}"
    tags = {}
    for database, status in (("native", native), ("canonical", canonical)):
        links = [
            f"/db/{database}/aggregate.csv?key=key_662&columns=value",
            f"/db/{database}.csv?sql=SELECT value FROM aggregate WHERE key = 'key_662'",
            f"/db.csv?sql=SELECT value FROM {database}.aggregate WHERE key = 'key_662'",
        ]
        for link in links:
            answer = door.ask("GET", link, credentials)
            assert answer.status_code == status, (link, answer.text)
            assert door.ask("HEAD", link, credentials).status_code == status
            tags[link] = door.ask("GET", link, f"Bearer {door.keys['owner']}").headers["etag"]
            unchanged = door.ask("GET", link, credentials, headers={"if-none-match": tags[link]})
            assert unchanged.status_code == (304 if status == 200 else status)
            if status == 200:
                assert answer.text.split() == ['"value"', "11290"]
            else:
                other = door.ask("GET", link.replace(database, "nothing"), credentials)
                refusal, expected = (one.json()["error"] for one in (answer, other))
                assert refusal["code"] == expected["code"]
                assert refusal["message"].replace(database, "nothing") == expected["message"]
                assert refusal.get("hint") == expected.get("hint")
    listed = door.ask("GET", "/db", credentials)
    if listed.is_success:
        seen = {row[0] for row in listed.json()["rows"]}
        assert ("native" in seen, "canonical" in seen) == (native == 200, canonical == 200)


@pytest.mark.parametrize(
    ("name", "native", "canonical"),
    [("owner", True, True), ("analyst", True, False), ("guest", False, False)],
)
def test_the_names_of_flinks_state_catalog_widen_no_grant(
    door: Door, name: str, native: bool, canonical: bool
) -> None:
    def asked(sql: str, who: str = name) -> Any:
        body = {"sql": sql, "compat": "flink"}
        return door.ask("POST", "/api/query", f"Bearer {door.keys[who]}", json=body)

    for database, sees in (("native", native), ("canonical", canonical)):
        known = door.ask("GET", f"/api/databases/{database}", f"Bearer {door.keys['owner']}").json()["path"]
        for sql in (
            f"SELECT `operator-name` FROM {database}.metadata",
            f"SELECT state_key FROM state.{database}.uid_aggregate_keyed LIMIT 1",
            f"USE {database}; SELECT state_key FROM uid_aggregate_keyed LIMIT 1",
            f"SELECT `operator-uid` FROM savepoint_metadata('{database}')",
            f"SELECT `operator-uid` FROM TABLE(savepoint_metadata('{known}'))",
            f"SELECT `operator-uid` FROM savepoint_metadata('file://{known}/_metadata')",
        ):
            answer = asked(sql)
            if sees:
                assert answer.json()["rows"], sql
                continue
            missing = asked(sql.replace(database, "nothing"))
            refusal, expected = (one.json()["error"] for one in (answer, missing))
            assert (answer.status_code, refusal["code"]) == (404, "DATABASE_NOT_FOUND"), sql
            assert refusal["message"].replace(database, "nothing") == expected["message"]
            assert refusal.get("hint") == expected.get("hint")
    listed = str(asked("SHOW DATABASES").json()["rows"])
    assert ("native" in listed, "canonical" in listed) == (native, canonical)


@pytest.mark.slow
def test_ungranted_databases_are_invisible_everywhere(door: Door) -> None:
    assert [row[0] for row in door.rows("owner", "SHOW SCHEMAS")] == [
        "canonical",
        "native",
        "latest",
        "savepointdb",
    ]
    assert [row[0] for row in door.rows("analyst", "SHOW SCHEMAS")] == ["native", "savepointdb"]
    assert door.rows("guest", "SHOW SCHEMAS") == [["savepointdb"]]
    listed = "SELECT DISTINCT table_schema FROM information_schema.tables ORDER BY 1"
    assert [row[0] for row in door.rows("owner", listed)] == ["canonical", "latest", "native", "savepointdb"]
    assert [row[0] for row in door.rows("analyst", listed)] == ["native", "savepointdb"]
    assert door.rows("guest", listed) == [["savepointdb"]]
    for sql in (
        "SELECT * FROM canonical.StateMeta",
        "SELECT * FROM CANONICAL.aggregate LIMIT 1",
        "DESCRIBE canonical.aggregate",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM canonical.files)",
        "EXPLAIN SELECT * FROM canonical.aggregate",
    ):
        assert door.rows("analyst", sql) == "DATABASE_NOT_FOUND"
    assert door.rows("analyst", "SELECT value FROM native.aggregate WHERE key = 'key_662'") == [[11290]]
    # The only one that is visible needs no name.
    assert door.rows("analyst", "SELECT value FROM aggregate WHERE key = 'key_662'") == [[11290]]


def test_errors_name_no_ungranted_database(door: Door) -> None:
    answer = door.ask(
        "POST", "/api/query", f"Bearer {door.keys['guest']}", json={"sql": "SELECT 1 FROM nativ.aggregate"}
    )

    assert answer.status_code == 404
    assert "native" not in answer.text
    assert "canonical" not in answer.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        (
            "owner",
            {("canonical", "native"), ("native", "canonical"), ("native", "latest"), ("native", "native")},
        ),
        ("analyst", {("native", "native")}),
        ("guest", set[tuple[str, str]]()),
    ],
)
def test_savepoints_are_compared_only_by_those_who_see_both(
    door: Door, name: str, pairs: set[tuple[str, str]]
) -> None:
    credentials = f"Bearer {door.keys[name]}"

    for before, after in (
        ("canonical", "native"),
        ("native", "canonical"),
        ("native", "latest"),
        ("native", "native"),
    ):
        asked = {"before": before, "after": after, "operator": "mod7-no-uid"}
        answer = door.ask("POST", "/api/diff", credentials, json=asked)
        rows = door.rows(name, f"SELECT count(*) FROM diff('{before}', '{after}', 'mod7-no-uid__seen')")
        seen = (before, after) in pairs or (name == "analyst" and after == "latest")
        assert answer.status_code == (200 if seen else 404), answer.text
        assert rows == ([[0]] if seen else "DATABASE_NOT_FOUND")
        if not seen:
            hidden = {"analyst": ["canonical"], "guest": ["canonical", "native"], "owner": list[str]()}[name]
            told = answer.json()["error"]["message"] + str(answer.json()["error"].get("hint"))
            assert [one for one in hidden if one in told and one not in (before, after)] == []


@pytest.mark.parametrize(
    ("name", "statuses"), [("owner", [200, 200]), ("analyst", [404, 200]), ("guest", [404, 404])]
)
def test_the_catalog_of_the_api_has_granted_databases_only(
    door: Door, name: str, statuses: list[int]
) -> None:
    credentials = f"Bearer {door.keys[name]}"

    for path in ("", "/tables", "/tables/StateMeta"):
        found = [
            door.ask("GET", f"/api/databases/{database}{path}", credentials).status_code
            for database in ("canonical", "native")
        ]
        assert found == statuses
    listed = door.ask("GET", "/api/databases", credentials).json()["databases"]
    names = [entry["name"] for entry in listed if entry["alias_of"] is None]
    assert names == [
        name for name, status in zip(("canonical", "native"), statuses, strict=True) if status == 200
    ]


def test_only_users_that_see_everything_register(door: Door) -> None:
    body = {"name": "native-again", "path": str(FLINK / "canonical")}

    answer = door.ask("POST", "/api/databases", f"Bearer {door.keys['analyst']}", json=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")


def test_a_query_is_there_for_its_user_only(door: Door) -> None:
    started = door.ask(
        "POST", "/api/queries", f"Bearer {door.keys['owner']}", json={"sql": "SELECT 1"}
    ).json()
    path = f"/api/queries/{started['query_id']}"

    assert started["user"] == "owner"
    for method, tail in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
        other = door.ask(method, path + tail, f"Bearer {door.keys['analyst']}")
        assert (other.status_code, other.json()["error"]["code"]) == (404, "QUERY_NOT_FOUND")
    listed = door.ask("GET", "/api/queries", f"Bearer {door.keys['analyst']}").json()["queries"]
    assert started["query_id"] not in [query["query_id"] for query in listed]
    assert door.ask("GET", path + "/result", f"Bearer {door.keys['owner']}").json()["rows"] == [[1]]


@pytest.mark.parametrize(
    ("pattern", "name", "seen"),
    [
        ("*", "anything/chk-1", True),
        ("prod-*", "PROD-a", True),
        ("prod-*", "xprod-a", False),
        ("a.c", "abc", False),
        ("a?c", "abc", True),
        ("job/*", "job/chk-1", True),
        ("job", "job/chk-1", False),
    ],
)
def test_patterns_are_whole_names_in_any_case(pattern: str, name: str, seen: bool) -> None:
    assert Principal(name="x", grants=(pattern,)).sees(name) is seen
    assert not Principal(name="x").sees(name)


# ---- Trino ----


def trino_rows(door: Door, key: str, user: str, sql: str) -> httpx.Response:
    return door.ask(
        "POST",
        "/v1/statement",
        basic(key, door.keys[key]),
        content=sql,
        headers={"x-trino-user": user, "x-trino-catalog": "flink"},
    )


def test_a_trino_user_is_whose_key_it_is(door: Door) -> None:
    assert trino_rows(door, "analyst", "analyst", "SELECT 1").status_code == 200
    answer = trino_rows(door, "analyst", "owner", "SELECT 1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")


def test_a_page_of_another_user_is_not_there(door: Door) -> None:
    following = trino_rows(door, "owner", "owner", "SELECT 1").json()["nextUri"]
    path = following.removeprefix(door.address)

    assert door.ask("GET", path, basic("analyst", door.keys["analyst"])).status_code == 404
    assert door.ask("GET", path).status_code == 401
    assert door.ask("GET", path, basic("owner", door.keys["owner"])).status_code == 200


FOREIGN = [
    "evil.example",
    "evil.example:80",
    "127.0.0.1/evil",
    "127.0.0.1.evil.example",
    "a@127.0.0.1",
    "127.0.0.1#",
]


@pytest.mark.parametrize("host", FOREIGN)
def test_no_address_of_an_answer_repeats_a_foreign_host(door: Door, host: str) -> None:
    headers = {"host": host, "x-trino-user": "owner"}

    answer = door.ask(
        "POST", "/v1/statement", f"Bearer {door.keys['owner']}", headers=headers, content="SELECT 1"
    )

    assert answer.status_code in (400, 403)
    assert answer.status_code == 400 or answer.json()["error"]["hint"].startswith("the setting allowed_hosts")


def test_a_page_asked_for_with_a_foreign_host_is_refused_and_not_lost(door: Door) -> None:
    credentials = f"Bearer {door.keys['owner']}"
    following = trino_rows(door, "owner", "owner", "SELECT 1").json()["nextUri"].removeprefix(door.address)

    assert door.ask("GET", following, credentials, headers={"host": "evil.example"}).status_code == 403
    assert door.ask("GET", following, credentials).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:99", "[::1]:8080", socket.gethostname()])
def test_addresses_of_an_answer_have_the_name_that_the_client_knows(door: Door, host: str) -> None:
    headers = {"host": host, "x-trino-user": "owner"}

    answer = door.ask(
        "POST", "/v1/statement", f"Bearer {door.keys['owner']}", headers=headers, content="SELECT 1"
    )

    assert answer.json()["nextUri"].startswith(f"http://{host}/v1/statement/")


def test_a_name_that_is_allowed_is_repeated_and_no_other_is(
    key_file: Path, serving: Serving, door: Door
) -> None:
    app = create_app(
        Settings.of(workers=1, allowed_hosts="savepoints.example"),
        Catalog([Root(path=str(FLINK))]),
        authenticator=Authenticator(KeyFile(key_file)),
    )
    with serving(app) as address:
        answers = [
            Door(address, {}).ask(
                "POST",
                "/v1/statement",
                f"Bearer {door.keys['owner']}",
                headers={"host": host, "x-trino-user": "owner"},
                content="SELECT 1",
            )
            for host in ("savepoints.example:443", "evil.example")
        ]

    assert answers[0].json()["nextUri"].startswith("http://savepoints.example:443/v1/statement/")
    assert answers[1].status_code == 403


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[int, Path, str]]:
    """Port, certificate and key of `bi` of a service that the command line started with TLS."""
    chain, key = certificate(tmp_path)
    secret = KeyFile(tmp_path / "keys.json").create("bi", ["wordcount-rocksdb-savepoints/native"])
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "service.cli", "serve", "--root", str(FLINK), "--port", "0"),
            *("--host", "0.0.0.0", "--keys-file", str(tmp_path / "keys.json")),
            *("--tls-certificate", str(chain), "--tls-key", str(key)),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"https://[\d.]+:(\d+)/", line)
        assert found is not None, line + process.stderr.read()
        yield int(found[1]), chain, secret
    finally:
        process.terminate()
        process.wait(60)
        process.stderr.close()


@pytest.mark.slow
def test_trinos_client_comes_in_over_tls_with_a_password(
    secure: tuple[int, Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, chain, secret = secure
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # they override the arguments of the client
        monkeypatch.delenv(name, raising=False)
    connection = trino.dbapi.connect(
        host="localhost",
        port=port,
        user="bi",
        catalog="flink",
        schema="native",
        http_scheme="https",
        auth=trino.auth.BasicAuthentication("bi", secret),
        verify=str(chain),
    )
    cursor = connection.cursor()

    cursor.execute("SELECT value FROM aggregate WHERE key = 'key_662'")
    assert cursor.fetchall() == [[11290]]
    cursor.execute("SHOW SCHEMAS")
    assert cursor.fetchall() == [
        ["information_schema"],
        ["savepointdb"],
        ["wordcount-rocksdb-savepoints__native"],
    ]
    connection.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"https://localhost:{port}/healthz", timeout=60)
    trusted = ssl.create_default_context(cafile=str(chain))
    assert certificate_names(str(chain), str(chain.with_name("key.pem"))) == {"localhost", ".example"}
    for name, headers, found in [
        ("localhost", {}, "https://localhost/"),
        ("a.example", {}, "https://a.example/"),
        ("evil.com", {}, ""),
        ("evil.com", {"x-forwarded-for": "192.0.2.1"}, "https://evil.com/"),
        ("evil.com", {"x-forwarded-for": "192.0.2.1", "x-forwarded-proto": "http"}, "http://evil.com/"),
    ]:
        answer = httpx.post(
            f"https://localhost:{port}/v1/statement",
            headers={"host": name, "authorization": f"Bearer {secret}", **headers},
            content="SHOW SESSION",
            verify=trusted,
            timeout=60,
        )
        assert answer.json().get("nextUri", "").startswith(found)
        assert answer.status_code == (200 if found else 403)
    assert httpx.get(f"https://localhost:{port}/healthz", verify=trusted, timeout=60).status_code == 200


# ---- tokens ----


class IdentityProvider:
    """Publishes its keys as OpenID Connect says, and signs tokens."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.requests: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.requests.append(self.path)
                body = json.dumps(provider.documents()[self.path]).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def documents(self) -> dict[str, Any]:
        keys = [
            json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.rsa.public_key()))
            | {"kid": "r", "use": "sig"},
            json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.ec.public_key())) | {"kid": "e", "use": "sig"},
        ]
        return {
            "/.well-known/openid-configuration": {"jwks_uri": f"{self.issuer}/keys"},
            "/keys": {"keys": keys},
        }

    def claims(self, **other: Any) -> dict[str, Any]:
        now = int(time.time())
        return {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "exp": now + 600,
            "sub": "ada",
            "savepointdb": ["nat*"],
        } | other

    def token(self, key: Any = None, algorithm: str = "RS256", kid: str = "r", **claims: Any) -> str:
        return jwt.encode(
            {name: value for name, value in self.claims(**claims).items() if value is not None},
            key or self.rsa,
            algorithm,
            {"kid": kid},
        )


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    found = IdentityProvider()
    yield found
    found.server.shutdown()
    found.thread.join()
    found.server.server_close()


@pytest.fixture(scope="module")
def lobby(provider: IdentityProvider, serving: Serving) -> Iterator[Door]:
    """A service that the provider's tokens open."""
    verifier = TokenVerifier(Provider(issuer=provider.issuer, audience=AUDIENCE))
    app = create_app(
        Settings.of(workers=1),
        Catalog([Root(path=str(FLINK / name)) for name in ("canonical", "native")]),
        authenticator=Authenticator(tokens=verifier),
    )
    with serving(app) as address:
        yield Door(address, {})


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "kid"), [("RS256", "r"), ("PS512", "r"), ("ES256", "e")])
def test_a_token_of_the_provider_opens_with_its_grants(
    lobby: Door, provider: IdentityProvider, algorithm: str, kid: str
) -> None:
    token = provider.token(provider.ec if kid == "e" else provider.rsa, algorithm, kid)

    answer = lobby.ask("POST", "/api/query", f"Bearer {token}", json={"sql": "SHOW SCHEMAS"})

    assert answer.json()["rows"] == [["native"], ["savepointdb"]]
    assert lobby.ask("GET", "/api/queries", basic("ada", token)).status_code == 200


def forged(provider: IdentityProvider) -> dict[str, str]:
    """Tokens that are not valid, each for another reason."""

    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    public = provider.rsa.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    shared = f"{part({'alg': 'HS256', 'kid': 'r'})}.{part(provider.claims())}"
    mac = hmac.new(public, shared.encode(), hashlib.sha256).digest()
    good = provider.token()
    return {
        "alg none": f"{part({'alg': 'none', 'kid': 'r'})}.{part(provider.claims())}.",
        "alg None": f"{part({'alg': 'None'})}.{part(provider.claims())}.",
        "public key as secret": f"{shared}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}",
        "stranger's key": provider.token(provider.stranger),
        "unknown key": provider.token(kid="x"),
        "other audience": provider.token(aud="other"),
        "no audience": provider.token(aud=None),
        "other issuer": provider.token(iss="https://evil.example"),
        "expired": provider.token(exp=int(time.time()) - 3600),
        "never expires": provider.token(exp=None),
        "not yet": provider.token(nbf=int(time.time()) + 3600),
        "EC algorithm, RSA key": provider.token(provider.ec, "ES256", kid="r"),
        "RSA algorithm, EC key": provider.token(provider.rsa, "PS256", kid="e"),
        "control characters in the user": provider.token(sub="a\0b"),
        "half a surrogate pair in the user": provider.token(sub="\ud800"),
        "no user": provider.token(sub=None),
        "empty user": provider.token(sub=""),
        "changed claims": ".".join(
            [good.split(".")[0], part(provider.claims(sub="root")), good.split(".")[2]]
        ),
        "no signature": good.rpartition(".")[0] + ".",
        "no token": "abc",
        "two dots": "..",
        "too long": good + "A" * 20_000,
    }


@pytest.mark.parametrize(
    "kind",
    [
        *("alg none", "alg None", "public key as secret", "stranger's key", "unknown key", "other audience"),
        *("no audience", "other issuer", "expired", "never expires", "not yet", "no user", "empty user"),
        *("changed claims", "no signature", "no token", "two dots", "too long"),
        *("EC algorithm, RSA key", "RSA algorithm, EC key"),
        *("control characters in the user", "half a surrogate pair in the user"),
    ],
)
def test_a_token_that_is_not_valid_opens_nothing(lobby: Door, provider: IdentityProvider, kind: str) -> None:
    answer = lobby.ask("GET", "/api/databases", f"Bearer {forged(provider)[kind]}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize(
    ("grants", "seen"), [(None, []), ([], []), ("nat* can*", 2), (["*"], 2), (7, []), ([7, "native"], 1)]
)
def test_a_token_sees_what_its_claim_grants(
    lobby: Door, provider: IdentityProvider, grants: Any, seen: Any
) -> None:
    token = provider.token(savepointdb=grants)

    answer = lobby.ask("GET", "/api/databases", f"Bearer {token}")

    names = [entry["name"] for entry in answer.json()["databases"] if entry["alias_of"] is None]
    assert len(names) == (seen or 0)


MASKS = 'version = 1\n[[mask]]\ncolumns = ["aggregate.key"]\nwith = "pseudonym"\n[[mask]]\ncolumns = ["*.value"]\nwith = "null"\n'


@pytest.fixture(scope="module")
def masked_lobby(provider: IdentityProvider, serving: Serving) -> Iterator[Door]:
    """A service with a mask, which a claim of another name than by default names."""
    verifier = TokenVerifier(Provider(issuer=provider.issuer, audience=AUDIENCE, mask_claim="sight"))
    app = create_app(
        Settings.of(workers=1),
        Catalog([Root(path=str(FLINK / "native"))], masks={"analyst": Masks.parse(MASKS)}),
        authenticator=Authenticator(tokens=verifier),
    )
    with serving(app) as address:
        yield Door(address, {})


@pytest.mark.parametrize(
    ("sight", "found"),
    [
        (None, [["key_662", 11290]]),
        ("analyst", []),
        ("stranger", "FORBIDDEN"),
        (["analyst"], "UNAUTHORIZED"),
    ],
)
def test_a_claim_of_a_token_masks_what_its_user_sees(
    masked_lobby: Door, provider: IdentityProvider, sight: Any, found: Any
) -> None:
    door = Door(masked_lobby.address, {"ada": provider.token(sight=sight)})

    assert door.rows("ada", "SELECT key, value FROM aggregate WHERE key = 'key_662'") == found
    if sight == "analyst":
        sql = "SELECT count(*), count(DISTINCT key), count(value), count(*) FILTER (key LIKE 'key_%') FROM aggregate"
        [[rows, keys, values, plain]] = door.rows("ada", sql)
        assert (rows, keys, values) == (1000, 1000, 0)
        # A pseudonym may look like a key.
        assert plain < 10


def test_keys_are_fetched_where_the_provider_says_and_kept(lobby: Door, provider: IdentityProvider) -> None:
    lobby.ask("GET", "/api/databases", f"Bearer {provider.token()}")
    before = len(provider.requests)

    for _ in range(3):
        lobby.ask("GET", "/api/databases", f"Bearer {provider.token()}")

    assert provider.requests[:2] == ["/.well-known/openid-configuration", "/keys"]
    assert len(provider.requests) == before


def test_a_provider_that_does_not_answer_is_an_error(serving: Serving, provider: IdentityProvider) -> None:
    verifier = TokenVerifier(Provider(issuer="http://127.0.0.1:9", audience=AUDIENCE))
    app = create_app(
        Settings.of(workers=1),
        Catalog([Root(path=str(FLINK / name)) for name in ("canonical", "native")]),
        authenticator=Authenticator(tokens=verifier),
    )

    with serving(app) as address:
        answer = Door(address, {}).ask("GET", "/api/databases", f"Bearer {provider.token()}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ENGINE_UNAVAILABLE")


def test_browsers_ask_for_a_password_except_on_the_page_which_asks_itself(door: Door) -> None:
    challenges = [
        door.ask("GET", "/api/databases", headers=headers).headers["www-authenticate"]
        for headers in ({}, {"x-requested-with": "savepointdb"})
    ]

    assert challenges == [
        'Bearer realm="savepointdb", Basic realm="savepointdb"',
        'Bearer realm="savepointdb"',
    ]


# ---- users of two sources ----


class Hall(Door):
    """A service that keys and the provider's tokens open; the key of `ada` is not the provider's user `ada`."""

    def __init__(self, address: str, provider: IdentityProvider, keys: KeyFile) -> None:
        super().__init__(address, {})
        self.key_file = keys
        self.key = f"Bearer {keys.create('ada', ['can*'])}"
        self._provider = provider

    def token(self, *grants: str) -> str:
        """Credentials of the provider's user `ada`."""
        return f"Bearer {self._provider.token(savepointdb=list(grants))}"

    def start(self, credentials: str, sql: str) -> str:
        """Start a query, and return its address."""
        answer = self.ask("POST", "/api/queries", credentials, json={"sql": sql})
        return f"/api/queries/{answer.json()['query_id']}"

    def first(self, credentials: str, sql: str) -> str:
        """Start a statement of Trino's protocol, and return the address of its next page."""
        headers = {"x-trino-user": "ada", "x-trino-catalog": "flink"}
        answer = self.ask("POST", "/v1/statement", credentials, content=sql, headers=headers)
        address: str = answer.json()["nextUri"]
        return address.removeprefix(self.address)

    def last(self, credentials: str, path: str) -> dict[str, Any]:
        """Read the pages of a statement, and return the last one, with the rows of all of them if there are any."""
        rows: list[Any] = []
        while True:
            page: dict[str, Any] = self.ask("GET", path, credentials).json()
            rows += page.get("data", [])
            if "nextUri" not in page:
                return page | ({"data": rows} if rows else {})
            path = page["nextUri"].removeprefix(self.address)

    def listed(self, credentials: str) -> list[str]:
        """The statements in the list of the caller's queries."""
        return [each["sql"] for each in self.ask("GET", "/api/queries", credentials).json()["queries"]]


@pytest.fixture
def hall(provider: IdentityProvider, serving: Serving, tmp_path: Path) -> Iterator[Hall]:
    keys = KeyFile(tmp_path / "keys.json")
    verifier = TokenVerifier(Provider(issuer=provider.issuer, audience=AUDIENCE))
    app = create_app(
        Settings.of(workers=1),
        Catalog([Root(path=str(FLINK / name)) for name in ("canonical", "native")]),
        authenticator=Authenticator(keys, verifier),
    )
    with serving(app) as address:
        yield Hall(address, provider, keys)


ONE = "SELECT value FROM canonical.aggregate WHERE key = 'key_662'"
OTHER = "SELECT value FROM native.aggregate WHERE key = 'key_662'"
SEEN = "SELECT query FROM system.runtime.queries WHERE query NOT LIKE '%runtime%'"


def not_found(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.json()["error"]["code"]) == (404, "QUERY_NOT_FOUND")


@pytest.mark.slow
def test_a_key_and_a_token_of_one_name_are_two_users(hall: Hall) -> None:
    token = hall.token("*")
    path, page = hall.start(hall.key, ONE), hall.first(hall.key, ONE)
    query_id = path.rpartition("/")[2]
    killed = hall.last(token, hall.first(token, f"CALL system.runtime.kill_query('{query_id}')"))

    for method, tail in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
        assert not_found(hall.ask(method, path + tail, token))
    for method in ("GET", "DELETE"):
        assert not_found(hall.ask(method, page, token))
    assert hall.ask("HEAD", page, token).status_code == 404
    assert killed["error"]["errorName"] == "NOT_FOUND"
    assert ONE not in hall.listed(token)
    assert hall.last(token, hall.first(token, SEEN)).get("data", []) == []
    assert hall.listed(hall.key).count(ONE) == 2
    assert hall.ask("GET", path + "/result", hall.key).json()["rows"] == [[11290]]
    assert hall.last(hall.key, page)["data"] == [[11290]]


@pytest.mark.slow
def test_an_answer_is_there_for_whom_its_databases_are_there(hall: Hall) -> None:
    more, less = hall.token("*"), hall.token("can*")
    path, kept = hall.start(more, OTHER), hall.start(more, ONE)
    page = hall.first(more, OTHER)

    for method, tail in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
        assert not_found(hall.ask(method, path + tail, less))
    assert hall.last(less, page)["error"]["code"] == "QUERY_NOT_FOUND"
    assert hall.listed(less) == [ONE]
    assert hall.ask("GET", kept + "/result", less).json()["rows"] == [[11290]]
    assert hall.ask("GET", path + "/result", more).json()["rows"] == [[11290]]
    assert hall.last(more, page)["data"] == [[11290]]


@pytest.mark.slow
def test_a_key_that_lost_a_grant_reads_no_answer_of_before(hall: Hall) -> None:
    path = hall.start(hall.key, ONE)
    hall.key_file.revoke("ada")
    again = f"Bearer {hall.key_file.create('ada', ['nat*'])}"

    assert not_found(hall.ask("GET", path, again))
    assert not_found(hall.ask("GET", path + "/result", again))
    assert hall.listed(again) == []
