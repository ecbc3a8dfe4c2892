"""Pages, tokens, cancellation, limits, and refused requests."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from catalog import connect
from service.base.settings import Settings
from service.doors.app import create_app
from tests.support.paths import DATA
from tests.support.waiting import wait_until

NATIVE = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
ENDLESS = "SELECT count(*) FROM range(1000000000000)"

Serving = Callable[[FastAPI], AbstractContextManager[str]]


@pytest.fixture
def small(serving: Serving, trino: Any) -> Iterator[Any]:
    """A service with low limits: one query at a time, one that waits."""
    settings = Settings.of(workers=1, max_running=1, max_queued=1)
    with serving(create_app(settings, connect(NATIVE))) as address, type(trino)(address) as speaker:
        yield speaker


def test_the_first_answer_comes_at_once_and_names_the_next(trino: Any) -> None:
    answer = trino.post(ENDLESS).json()

    assert answer["stats"]["state"] == "QUEUED"
    assert "data" not in answer
    trino.http.delete(answer["nextUri"])


@pytest.mark.slow
def test_a_page_without_rows_comes_while_the_query_runs(trino: Any) -> None:
    page = trino.running(ENDLESS)

    assert "data" not in page
    trino.http.delete(page["nextUri"])


def test_statistics_have_all_numbers_that_jdbc_takes_for_granted(trino: Any) -> None:
    stats = trino.pages("SELECT count(*) FROM aggregate")[-1]["stats"]
    numbers = ["nodes", "totalSplits", "queuedSplits", "runningSplits", "completedSplits", "cpuTimeMillis"]
    numbers += ["wallTimeMillis", "queuedTimeMillis", "elapsedTimeMillis", "processedRows", "processedBytes"]
    numbers += ["peakMemoryBytes", "progressPercentage"]

    assert all(isinstance(stats[name], int | float) for name in numbers)
    assert (stats["state"], stats["progressPercentage"], stats["processedRows"]) == ("FINISHED", 100.0, 1000)


@pytest.mark.slow
def test_the_same_token_gives_the_same_page(trino: Any) -> None:
    page = trino.post("SELECT * FROM range(300000) t(x)").json()
    rows: list[Any] = []
    while "nextUri" in page:
        address = page["nextUri"]
        page = trino.http.get(address).json()
        assert trino.http.get(address).json() == page
        rows += page.get("data", [])

    assert rows == [[number] for number in range(300_000)]


def test_the_same_token_asked_twice_at_once_gives_the_same_page(trino: Any) -> None:
    address = trino.post("SELECT * FROM range(100000)").json()["nextUri"]

    with ThreadPoolExecutor(4) as pool:
        pages = list(pool.map(lambda _: trino.http.get(address).text, range(4)))

    assert len(set(pages)) == 1


@pytest.mark.slow
def test_tokens_that_are_stale_or_too_far_are_gone(trino: Any) -> None:
    address = trino.post("SELECT * FROM range(300000)").json()["nextUri"]
    first = trino.http.get(address).json()
    second = trino.http.get(first["nextUri"]).json()
    trino.http.get(second["nextUri"])
    base, token = address.rsplit("/", 1)

    assert trino.http.get(address).status_code == 410
    assert trino.http.get(f"{base}/{int(token) + 100}").status_code == 410
    assert trino.http.get(f"{base}/-1").status_code in (404, 410)
    assert trino.http.get(f"{base}/x").status_code == 400


@pytest.mark.slow
def test_another_users_query_cannot_be_read_or_ended(trino: Any, address: str) -> None:
    page = trino.running(ENDLESS)
    uri, query_id = page["nextUri"], page["id"]
    mallory = {"X-Trino-User": "mallory"}
    base, slug, token = uri.rsplit("/", 2)

    assert httpx.get(uri, headers=mallory, timeout=60).status_code == 404
    assert httpx.delete(uri, headers=mallory, timeout=60).status_code == 404
    assert httpx.get(f"{base}/{slug[::-1]}/{token}", timeout=60).status_code == 404
    assert httpx.delete(f"{base}/x/{token}", timeout=60).status_code == 404
    assert httpx.get(f"{address}/api/queries/{query_id}", timeout=60).status_code == 404
    assert httpx.get(f"{address}/api/queries/{query_id}/result", timeout=60).status_code == 404
    kill = f"CALL system.runtime.kill_query(query_id => '{query_id}', message => 'x')"
    assert trino.error(kill, **mallory)["errorName"] == "NOT_FOUND"
    assert (
        trino.rows(f"SELECT state FROM system.runtime.queries WHERE query_id = '{query_id}'", **mallory) == []
    )
    assert trino.http.get(uri).json()["stats"]["state"] == "RUNNING"
    assert trino.http.delete(uri).status_code == 204


@pytest.mark.slow
def test_an_operator_ends_a_query_of_another_user(trino: Any, address: str) -> None:
    page = trino.running(ENDLESS)

    # Without credentials everybody on this machine is an operator.
    ended = httpx.delete(f"{address}/api/queries/{page['id']}", timeout=60)
    while "nextUri" in page:
        page = trino.http.get(page["nextUri"]).json()

    assert ended.status_code == 204
    assert (page["error"]["errorName"], page["error"]["message"]) == (
        "ADMINISTRATIVELY_KILLED",
        "an operator ended the query",
    )


def test_ids_and_slugs_cannot_be_guessed(trino: Any) -> None:
    uris = {trino.post("SELECT 1").json()["nextUri"] for _ in range(20)}
    parts = [uri.rsplit("/", 3)[1:3] for uri in uris]

    assert all(len(query_id) == 32 and len(slug) >= 20 for query_id, slug in parts)
    assert len({query_id for query_id, _ in parts}) == len({slug for _, slug in parts}) == 20


@pytest.mark.slow
def test_a_query_is_cancelled_by_delete(trino: Any) -> None:
    page = trino.running(ENDLESS)

    assert trino.http.delete(page["nextUri"]).status_code == 204
    error = trino.http.get(page["nextUri"]).json()["error"]
    assert facts(error) == ("USER_CANCELED", 3, "USER_ERROR", "the query was cancelled")
    assert state(trino, page["id"]) == "FAILED"


@pytest.mark.slow
def test_a_request_that_waits_for_a_page_hears_of_the_cancel(trino: Any) -> None:
    page = trino.running(ENDLESS)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(trino.http.get, page["nextUri"])
        trino.http.delete(page["nextUri"])
        page = waiting.result().json()
    # The page may have been on its way already.
    page = page if "error" in page else trino.http.get(page["nextUri"]).json()

    assert facts(page["error"]) == ("USER_CANCELED", 3, "USER_ERROR", "the query was cancelled")


@pytest.mark.slow
def test_a_partial_cancel_ends_the_whole_query(trino: Any) -> None:
    page = trino.running(ENDLESS)

    assert trino.http.delete(page["partialCancelUri"]).status_code == 204
    error = trino.http.get(page["nextUri"]).json()["error"]
    assert facts(error) == ("USER_CANCELED", 3, "USER_ERROR", "the query was cancelled")


def test_a_cancel_between_rows_is_an_error_not_an_early_end(trino: Any) -> None:
    page = trino.post("SELECT * FROM range(3000000) t(x)").json()
    while "data" not in page:
        page = trino.http.get(page["nextUri"]).json()

    trino.http.delete(page["nextUri"])
    while "nextUri" in page:
        page = trino.http.get(page["nextUri"]).json()

    assert facts(page["error"]) == ("USER_CANCELED", 3, "USER_ERROR", "the query was cancelled")


def test_a_statement_of_the_session_is_cancelled_too(trino: Any) -> None:
    page = trino.post("SHOW CATALOGS").json()

    trino.http.delete(page["nextUri"])

    assert trino.http.get(page["nextUri"]).json()["error"]["errorName"] == "USER_CANCELED"


@pytest.mark.slow
def test_a_delete_through_the_api_is_a_cancel(trino: Any) -> None:
    # Without keys a client of the API has the name of its address.
    me = {"X-Trino-User": "127.0.0.1"}
    page = trino.running(ENDLESS, **me)

    assert trino.http.delete(f"/api/queries/{page['id']}").status_code == 204
    error = trino.http.get(page["nextUri"], headers=me).json()["error"]
    assert facts(error) == ("USER_CANCELED", 3, "USER_ERROR", "the query was cancelled")


def test_a_query_that_was_not_planned_yet_is_cancelled_too(trino: Any) -> None:
    page = trino.post(ENDLESS).json()
    trino.http.delete(page["nextUri"])

    wait_until(lambda: state(trino, page["id"]) in ("FAILED", None))


@pytest.mark.slow
def test_a_query_is_ended_by_kill_query(trino: Any) -> None:
    page = trino.running(ENDLESS)

    killed = trino.pages(
        f"CALL system.runtime.kill_query(query_id => '{page['id']}', message => 'Superset')"
    )[-1]

    assert "error" not in killed
    error = trino.http.get(page["nextUri"]).json()["error"]
    assert facts(error) == (
        "ADMINISTRATIVELY_KILLED",
        38,
        "USER_ERROR",
        "Query killed. Message: Superset",
    )


@pytest.mark.slow
def test_the_deadline_of_the_session_holds_and_can_only_be_lower(small: Any) -> None:
    error = small.error(ENDLESS, **{"X-Trino-Session": "query_max_run_time=0.5s,unknown=1"})

    assert facts(error)[:3] == ("EXCEEDED_TIME_LIMIT", 131_075, "INSUFFICIENT_RESOURCES")


def test_a_scan_larger_than_the_session_allows_is_refused(trino: Any) -> None:
    session = {"X-Trino-Session": "query_max_scan_physical_bytes=1kB"}
    error = trino.error("SELECT * FROM aggregate", **session)

    assert "at most 1024 bytes" in error["message"]
    assert facts(error)[:3] == ("EXCEEDED_SCAN_LIMIT", 131_081, "INSUFFICIENT_RESOURCES")
    assert trino.rows("SELECT 1", **session) == [[1]]


@pytest.mark.slow
def test_a_query_that_is_not_read_ends(serving: Serving, trino: Any) -> None:
    app = create_app(Settings.of(workers=1, abandoned_after_s=1), connect(NATIVE))
    with serving(app) as address, type(trino)(address) as speaker:
        page = speaker.post(ENDLESS).json()

        wait_until(lambda: state(speaker, page["id"]) == "FAILED")


@pytest.mark.slow
def test_too_many_queries_get_a_time_to_retry(small: Any) -> None:
    pages = [small.post(ENDLESS).json() for _ in range(2)]
    wait_until(lambda: small.post("SELECT 1").status_code == 429)
    refused = small.post("SELECT 1")
    for page in pages:
        small.http.delete(page["nextUri"])

    assert int(refused.headers["retry-after"]) >= 1
    wait_until(lambda: small.post("SELECT 1").status_code == 200)


@pytest.mark.slow
def test_many_clients_at_once(address: str, trino: Any) -> None:
    def one(number: int) -> Any:
        with type(trino)(address, **{"X-Trino-User": f"user-{number % 5}"}) as speaker:
            return speaker.rows(f"SELECT count(*) FROM aggregate WHERE key = 'key_{number}'")

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(one, range(60))) == [[[1]]] * 60


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Trino-User": ""}, 401),
        ({"X-Trino-User": "x" * 2000}, 431),
        ({"X-Trino-Schema": "x" * 2000}, 431),
        ({"X-Trino-Session": "query_max_run_time"}, 400),
        ({"X-Trino-Prepared-Statement": "x"}, 400),
    ],
)
def test_headers_that_are_not_as_documented_are_refused(
    trino: Any, headers: dict[str, str], status: int
) -> None:
    assert trino.post("SELECT 1", **headers).status_code == status


def test_a_head_that_is_too_long_is_refused(trino: Any) -> None:
    host, port = trino.http.base_url.host, trino.http.base_url.port
    head = "POST /v1/statement HTTP/1.1\r\nHost: x\r\nX-Trino-User: " + "x" * 200_000
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(100)

    assert answer.split()[1] in (b"400", b"431")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"SELECT '" + b"x" * 70_000 + b"'", 413),
        (b"SELECT '" + b"x" * 200_000 + b"'", 413),
        (b"SELECT \xff", 400),
    ],
)
def test_bodies_that_are_too_long_or_no_text_are_refused(trino: Any, body: bytes, status: int) -> None:
    response = trino.http.post("/v1/statement", content=body, headers=trino.headers)

    assert response.status_code == status
    assert response.json()["error"]["code"]


def test_a_statement_nested_too_deeply_is_refused(trino: Any) -> None:
    error = trino.error("SELECT " + "(" * 5000 + "1" + ")" * 5000)

    assert facts(error)[:3] == ("QUERY_TEXT_TOO_LARGE", 35, "USER_ERROR")
    assert trino.rows("SELECT 1") == [[1]]


def test_the_service_says_what_it_is(trino: Any) -> None:
    info = trino.http.get("/v1/info").json()

    assert info["coordinator"] is True
    assert info["starting"] is False
    assert info["nodeVersion"]["version"]


@pytest.mark.parametrize(
    ("capability", "types", "row"),
    [
        (
            "PARAMETRIC_DATETIME",
            ["timestamp(9)", "time(9)", "timestamp(9)", "array(timestamp(9))", "map(timestamp(9), time(6))"],
            [
                "2023-11-14 22:13:20.123456789",
                "23:59:58.123456789",
                "2024-02-29 12:34:56.000000007",
                ["2023-11-14 22:13:20.123456789"],
                {"2023-11-14 22:13:20.123456789": "01:02:03.123456"},
            ],
        ),
        (
            "",
            ["timestamp", "time", "timestamp", "array(timestamp)", "map(timestamp, time)"],
            [
                "2023-11-14 22:13:20.123",
                "23:59:58.123",
                "2024-02-29 12:34:56.000",
                ["2023-11-14 22:13:20.123"],
                {"2023-11-14 22:13:20.123": "01:02:03.123"},
            ],
        ),
    ],
)
def test_nanoseconds_are_for_clients_that_know_them(
    everything: str, trino: Any, capability: str, types: list[str], row: list[Any]
) -> None:
    sql = """SELECT i.value, t.value, d.value, ARRAY[i.value], MAP(ARRAY[i.value], ARRAY[TIME '01:02:03.123456'])
        FROM types__v_instant i, types__v_local_time t, types__v_local_date_time d
        WHERE i.key = 'k0' AND t.key = 'k0' AND d.key = 'k0'"""
    with type(trino)(everything, **{"X-Trino-Schema": "canonical"}) as speaker:
        pages = speaker.pages(sql, **{"X-Trino-Client-Capabilities": capability})
    [page] = [page for page in pages if "data" in page]

    assert [column["type"] for column in page["columns"]] == types
    assert page["data"] == [row]


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("TIMESTAMP '2026-01-02 03:04:05.123456'", "2026-01-02 03:04:05.123"),
        ("TIMESTAMP '2026-01-02 03:04:05.1235'", "2026-01-02 03:04:05.124"),
        ("TIMESTAMP '2026-12-31 23:59:59.999999999'", "2027-01-01 00:00:00.000"),
        ("TIMESTAMP '1969-12-31 23:59:59.9995'", "1970-01-01 00:00:00.000"),
        ("TIMESTAMP '1969-12-31 23:59:59.99949'", "1969-12-31 23:59:59.999"),
        ("TIMESTAMP '2026-01-02 03:04:05'", "2026-01-02 03:04:05.000"),
        ("TIMESTAMP '2026-01-02 03:04:05.1235 UTC'", "2026-01-02 03:04:05.124 UTC"),
        ("TIME '03:04:05.9996'", "03:04:06.000"),
        ("TIME '23:59:59.9996'", "00:00:00.000"),
    ],
)
def test_a_client_without_parametric_types_gets_rounded_milliseconds(
    trino: Any, moment: str, shown: str
) -> None:
    assert trino.rows(f"SELECT {moment}, NULL", **{"X-Trino-Client-Capabilities": ""}) == [[shown, None]]


def facts(error: dict[str, Any]) -> tuple[str, int, str, str]:
    """Name, number, type and message of an error."""
    return error["errorName"], error["errorCode"], error["errorType"], error["message"]


def state(trino: Any, query_id: str) -> Any:
    found = trino.rows(f"SELECT state FROM system.runtime.queries WHERE query_id = '{query_id}'")
    return found[0][0] if found else None
