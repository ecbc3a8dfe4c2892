"""Operators: who sees everybody's queries, and ends them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
import trino
from fastapi import FastAPI

from catalog import Catalog
from catalog.catalog import Root
from service.base.principal import Principal
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from tests.support.paths import DATA
from tests.support.waiting import wait_until

Serving = Callable[[FastAPI], AbstractContextManager[str]]
FLINK = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints"
GRANTS = {
    "all": ["operator:*"],
    "some": ["operator:native", "canonical"],
    "user": ["*"],
    "other": ["*", "write:*", "savepoints:*", "saved:*"],
}
# It reads `native` and does not end by itself.
FOREVER = "SELECT count(*) FROM native.aggregate, range(1000000000000) t(a) WHERE a % 7 = 9 + value * 0"


class Door:
    """A service over two savepoints, and the keys of operators and users."""

    def __init__(self, address: str, keys: dict[str, str]) -> None:
        self.address = address
        self.keys = keys

    def ask(self, method: str, path: str, name: str, **request: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.keys[name]}"}
        return httpx.request(method, self.address + path, headers=headers, timeout=60, **request)

    def started(self, name: str, sql: str) -> str:
        answer = self.ask("POST", "/api/queries", name, json={"sql": sql})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["query_id"])

    def state(self, name: str, query_id: str) -> str:
        return str(self.ask("GET", f"/api/queries/{query_id}", name).json()["state"])

    def listed(self, name: str) -> dict[str, dict[str, Any]]:
        answer = self.ask("GET", "/api/queries?all=true", name)
        assert answer.status_code == 200, answer.text
        return {query["query_id"]: query for query in answer.json()["queries"]}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[Door]:
    keys = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    secrets = {name: keys.create(name, grants) for name, grants in GRANTS.items()}
    app = create_app(
        Settings.of(workers=1, audit_log=True),
        Catalog([Root(path=str(FLINK / name)) for name in ("canonical", "native")]),
        authenticator=Authenticator(keys),
    )
    with serving(app) as address:
        yield Door(address, secrets)


@pytest.mark.slow
def test_operators_see_the_queries_of_their_databases(door: Door) -> None:
    of_native = door.started("user", "SELECT count(*) FROM native.aggregate")
    of_canonical = door.started("user", "SELECT count(*) FROM canonical.aggregate")
    of_both = door.started("user", "SELECT 1 FROM canonical.aggregate, native.aggregate LIMIT 1")
    of_none = door.started("user", "SELECT 1")
    own = door.started("some", "SELECT 2")
    asked = {of_native, of_canonical, of_both, of_none, own}

    assert door.listed("all").keys() & asked == asked
    assert door.listed("some").keys() & asked == {of_native, own}
    shown = door.listed("all")[of_native]
    assert (shown["user"], shown["sql"]) == ("user", "SELECT count(*) FROM native.aggregate")
    # Without `all` a list has one's own.
    assert door.ask("GET", "/api/queries", "all").json()["queries"] == []
    few = door.ask("GET", "/api/queries?all=true&limit=2", "all").json()
    assert (few["may_see_all"], len(few["queries"])) == (True, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["user", "other"])
def test_nobody_else_sees_or_ends_queries_of_others(door: Door, name: str) -> None:
    query_id = door.started("all", "SELECT 1")

    listed = door.ask("GET", "/api/queries?all=true", name)
    assert (listed.status_code, listed.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert door.ask("GET", "/api/queries?limit=0", name).json() == {"may_see_all": False, "queries": []}
    for known in (query_id, "0" * 32):
        refused = door.ask("DELETE", f"/api/queries/{known}", name)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "QUERY_NOT_FOUND")
        assert refused.json()["error"]["message"] == "there is no such query"
    assert door.ask("GET", f"/api/queries/{query_id}/result", "all").json()["rows"] == [[1]]


@pytest.mark.slow
def test_an_operator_ends_a_query_and_its_user_reads_why(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    query_id = door.started("user", FOREVER)
    of_canonical = door.started("user", FOREVER.replace("native", "canonical"))
    wait_until(lambda: door.state("user", query_id) == "running")

    with caplog.at_level(logging.INFO, "savepointdb.audit"):
        assert door.ask("DELETE", f"/api/queries/{of_canonical}", "some").status_code == 404
        assert door.ask("DELETE", f"/api/queries/{query_id}", "some").status_code == 204
        wait_until(lambda: door.state("user", query_id) == "cancelled")
        # Once more: it has ended.
        assert door.ask("DELETE", f"/api/queries/{query_id}", "some").status_code == 204

    result = door.ask("GET", f"/api/queries/{query_id}/result", "user")
    assert (result.status_code, result.json()["error"]["code"]) == (409, "KILLED")
    assert result.json()["error"]["message"] == "an operator ended the query"
    [killed] = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "query killed"]
    assert killed == {
        "query_id": query_id,
        "user": "some",
        "user_source": "key",
        "owner": "user",
        "owner_source": "key",
        "databases": ["native"],
    }
    assert door.ask("DELETE", f"/api/queries/{of_canonical}", "all").status_code == 204
    wait_until(lambda: door.state("user", of_canonical) == "cancelled")


@pytest.mark.slow
def test_an_operator_reads_no_answers_of_others(door: Door) -> None:
    query_id = door.started("user", "SELECT value FROM native.aggregate WHERE key = 'key_662'")

    for path in ("", "/result"):
        answer = door.ask("GET", f"/api/queries/{query_id}{path}", "all")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "QUERY_NOT_FOUND")
    assert door.ask("GET", f"/api/queries/{query_id}/result", "user").json()["rows"] == [[11290]]


@pytest.mark.slow
def test_queries_of_trinos_clients_are_listed(door: Door) -> None:
    host, port = door.address.removeprefix("http://").split(":")
    client = trino.dbapi.connect(
        host=host,
        port=int(port),
        user="user",
        catalog="flink",
        http_headers={"authorization": f"Bearer {door.keys['user']}"},
    )

    cursor = client.cursor()
    assert cursor.execute("SELECT count(*) FROM native.aggregate").fetchall() == [[1000]]

    shown = door.listed("some")[cursor.query_id]
    assert (shown["user"], shown["state"], shown["databases"][0]["name"]) == ("user", "finished", "native")
    assert "trino" in shown["source"]


@pytest.mark.slow
@pytest.mark.parametrize(("anonymous", "status"), [(False, 200), (True, 403)])
def test_without_credentials_everybody_operates_this_machine_and_nobody_what_is_open_to_all(
    serving: Serving, anonymous: bool, status: int
) -> None:
    app = create_app(Settings.of(workers=1, allow_anonymous=anonymous), Catalog())

    with serving(app) as address:
        assert httpx.get(f"{address}/api/queries?all=true", timeout=60).status_code == status
        assert httpx.get(f"{address}/api/queries", timeout=60).json()["may_see_all"] is (status == 200)


@pytest.mark.slow
def test_half_a_character_in_a_statement_spoils_no_list(door: Door) -> None:
    body = b'{"sql": "SELECT \'\\ud800\'"}'
    headers = {"authorization": f"Bearer {door.keys['user']}", "content-type": "application/json"}
    answer = httpx.post(f"{door.address}/api/query", content=body, headers=headers, timeout=60)

    assert answer.is_client_error
    assert "SELECT '?'" in [query["sql"] for query in door.listed("all").values()]


@pytest.mark.parametrize(
    ("grants", "databases", "operates"),
    [
        (("operator:*",), (), True),
        (("operator:*",), ("a", "b"), True),
        (("operator:a",), ("a",), True),
        (("operator:a",), ("a", "b"), False),
        (("operator:a",), (), False),
        (("*", "write:*", "saved:*", "savepoints:*"), ("a",), False),
        ((), (), False),
    ],
)
def test_an_operator_operates_what_the_grant_names(
    grants: tuple[str, ...], databases: tuple[str, ...], operates: bool
) -> None:
    principal = Principal(name="x", grants=grants)

    assert principal.operates(databases) is operates
    assert principal.may_save("a") is ("saved:*" in grants)
    assert principal.sees("a") is bool(grants)
