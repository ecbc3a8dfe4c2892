"""`POST /api/checks`: clients that check, over a real service, each check in a process of its own."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from tests.support.checking import stop_check
from tests.support.compatpairs import unpack_pairs
from tests.support.waiting import wait_until

Serving = Callable[[FastAPI], AbstractContextManager[str]]
JAR_BYTES = 1_500_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), ["uid-changed"]) / "uid-changed"


@pytest.fixture(scope="module")
def roots(pair: Path) -> list[Root]:
    return [
        Root(path=str(pair / "savepoints" / f"{job}-2.3.0-hashmap-canonical"), label=label)
        for job, label in (("A", "prod"), ("B", "next"))
    ]


@pytest.fixture(scope="module")
def client(roots: list[Root], serving: Serving) -> Iterator[httpx.Client]:
    app = create_app(Settings.of(max_jar_bytes=JAR_BYTES, workers=1), Catalog(roots))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def checked(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post("/api/checks", json=body)
    assert response.status_code == 200, response.text
    report: dict[str, Any] = response.json()
    return report


def refused(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_a_database_is_compared_with_another(
    client: httpx.Client, pair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="savepointdb.audit"):
        report = checked(client, database="prod", against="next")
    metrics = client.get("/metrics").text

    assert (report["outcome"], report["stage"]) == ("fails", "graph")
    assert (report["savepoint"], report["against"]) == ("prod", ["next"])
    assert set(report["backends"]) == {"hashmap", "rocksdb"}
    [missing] = [one for one in report["operators"] if one["outcome"] == "fails"]
    assert (missing["uid"], missing["severity"]) == ("a", "fails")
    assert {state["severity"] for state in missing["states"]} == {"fails"}
    assert report["headline"] == "Flink 2.3.0 with hashmap fails at graph, before any task starts"
    assert report["advice"].startswith("do not stop the old job")
    assert str(pair) not in str(report)
    [record] = [one for one in caplog.records if one.getMessage() == "check fails"]
    assert vars(record)["fields"]["against"] == ["next"]
    assert 'savepointdb_checks_total{code="",outcome="fails"} 1.0' in metrics
    assert "savepointdb_checks_open 0.0" in metrics


def test_options_are_those_of_the_command_line(client: httpx.Client) -> None:
    report = checked(
        client,
        savepoint="prod",
        against=["next"],
        flink="2.3",
        backend="rocksdb",
        allow_non_restored=True,
    )

    assert (report["flink"], report["backend"], report["backends"]) == ("2.3", "rocksdb", {})
    assert [one["rule"] for one in report["operators"] if one["uid"] == "a"] == ["operator-dropped"]


@pytest.mark.slow
def test_stored_values_are_read_where_they_are_asked_for(tmp_path: Path, serving: Serving) -> None:
    pair = unpack_pairs(tmp_path, ["kryo-type-arraylist"]) / "kryo-type-arraylist"
    catalog = Catalog([Root(path=str(pair / "savepoints/A-1.20.3-rocksdb-canonical"), label="prod")])

    def rules(client: httpx.Client, **body: Any) -> set[str | None]:
        report = checked(client, database="prod", backend="rocksdb", **body)
        return {state["rule"] for operator in report["operators"] for state in operator["states"]}

    app = create_app(Settings.of(max_jar_bytes=JAR_BYTES, workers=1), catalog)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        assert "values-lost" not in rules(client)
        assert "values-lost" in rules(client, values="all")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"database": "nothing"}, 404, "DATABASE_NOT_FOUND"),
        ({"database": "prod", "against": "nothing"}, 404, "DATABASE_NOT_FOUND"),
        ({"database": "prod", "against": "/etc/passwd"}, 404, "DATABASE_NOT_FOUND"),
        ({"database": "prod", "against": ["next"] * 21}, 400, "INVALID_REQUEST"),
        ({"database": "prod", "flink": "two"}, 400, "INVALID_REQUEST"),
        ({"database": "prod", "backend": "memory"}, 400, "INVALID_REQUEST"),
        ({"database": "prod", "values": "some"}, 400, "INVALID_REQUEST"),
        ({"database": "prod", "agianst": "next"}, 400, "INVALID_REQUEST"),
    ],
)
def test_what_makes_no_sense_is_refused(client: httpx.Client, body: Any, status: int, code: str) -> None:
    assert refused(client.post("/api/checks", json=body)) == (status, code)


def test_paths_of_this_machine_are_no_databases(client: httpx.Client, pair: Path) -> None:
    path = str(pair / "savepoints" / "B-2.3.0-hashmap-canonical")

    assert refused(client.post("/api/checks", json={"database": "prod", "against": path}))[0] == 404
    assert refused(client.post("/api/checks", json={"database": path}))[0] == 404


def test_what_is_sent_as_a_jar_and_is_none_is_refused(client: httpx.Client) -> None:
    def sent(body: bytes, **query: str) -> tuple[int, str]:
        return refused(client.post("/api/checks/jar", params={"database": "prod", **query}, content=body))

    assert sent(b"") == (400, "INVALID_REQUEST")
    assert sent(b"not a jar") == (422, "NOT_A_SAVEPOINT")
    assert sent(b"PK\x03\x04" + bytes(100))[0] == 422
    assert sent(b"PK", name="a\nb") == (400, "INVALID_REQUEST")
    assert sent(bytes(JAR_BYTES + 1)) == (413, "LIMIT_EXCEEDED")
    # Only a jar may be longer than other requests.
    assert refused(client.post("/api/checks", content=bytes(JAR_BYTES))) == (413, "LIMIT_EXCEEDED")


def test_a_jar_is_compared_with(client: httpx.Client, pair: Path) -> None:
    jar = (pair / "jars" / "B-2.3.0.jar").read_bytes()
    query = {"database": "prod", "name": "orders.jar", "backend": "hashmap"}

    alone = client.post("/api/checks/jar", params=query, content=jar)
    both = client.post("/api/checks/jar", params={**query, "against": "next"}, content=jar)

    assert alone.json()["against"] == ["orders.jar"]
    assert alone.json()["severity"] != "fine"
    assert (both.json()["against"], both.json()["stage"]) == (["next", "orders.jar"], "graph")
    assert "/tmp" not in alone.text + both.text


@pytest.mark.slow
def test_a_user_compares_only_what_the_user_may_see(
    roots: list[Root], serving: Serving, tmp_path: Path
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    secrets = {name: keys.create(name, [grant]) for name, grant in (("one", "prod"), ("all", "*"))}
    app = create_app(Settings.of(workers=1), Catalog(roots), authenticator=Authenticator(keys))
    body = {"database": "prod", "against": "next", "backend": "hashmap"}
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        answers = {
            name: client.post("/api/checks", json=body, headers={"authorization": f"Bearer {secret}"})
            for name, secret in secrets.items()
        }
        anonymous = client.post("/api/checks", json=body)
        foreign = client.post(
            "/api/checks",
            json=body,
            headers={"authorization": f"Bearer {secrets['all']}", "origin": "https://elsewhere.example"},
        )

    assert refused(answers["one"]) == (404, "DATABASE_NOT_FOUND")
    assert answers["all"].json()["outcome"] == "fails"
    assert refused(anonymous) == (401, "UNAUTHORIZED")
    assert refused(foreign) == (403, "FORBIDDEN")


@pytest.mark.slow
def test_a_check_ends_with_its_client(roots: list[Root], serving: Serving) -> None:
    app = create_app(Settings.of(workers=1), Catalog(roots))
    body = {"database": "prod", "backend": "hashmap"}
    with serving(app) as address:
        url = httpx.URL(address)
        with closing(HTTPConnection(url.host, url.port)) as leaving:
            leaving.request("POST", "/api/checks", json.dumps(body), {"content-type": "application/json"})
            stop_check(app.state.service.checks)
        cancelled = 'savepointdb_checks_total{code="CANCELLED",outcome=""} 1.0'
        wait_until(lambda: cancelled in httpx.get(f"{address}/metrics", timeout=60).text)
        again = httpx.post(f"{address}/api/checks", json=body, timeout=60)

    assert app.state.service.checks.open == 0
    assert again.json()["outcome"] == "restores"


@pytest.mark.slow
def test_limits_hold(roots: list[Root], serving: Serving) -> None:
    body = {"database": "prod", "backend": "hashmap"}
    for settings, status, code in (
        (Settings.of(max_checks=0, max_queued_checks=0, workers=1), 429, "TOO_MANY_CHECKS"),
        (Settings.of(check_timeout_s=0.01, workers=1), 504, "EXCEEDED_TIME_LIMIT"),
    ):
        with (
            serving(create_app(settings, Catalog(roots))) as address,
            httpx.Client(base_url=address, timeout=60) as client,
        ):
            assert refused(client.post("/api/checks", json=body)) == (status, code)
            assert f'savepointdb_checks_total{{code="{code}",outcome=""}} 1.0' in client.get("/metrics").text
