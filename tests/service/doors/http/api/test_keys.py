"""`POST /api/databases/{database}/keys`: keys as people write them, and the queries that find them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from catalog import connect
from service.base.settings import Settings
from service.doors.app import create_app
from tests.support.damaged import write_in_files
from tests.support.paths import DATA

ALL_STATES = DATA / "corpus" / "1.20.3" / "allstates-hashmap-compressed" / "canonical"
WORDCOUNT = DATA / "flink" / "2.3.0" / "wordcount-hashmap-savepoints" / "canonical"
UUID = "00000000-0000-0001-ffff-ffffffffffff"
KINDS = ("uuid-kryo", "tuple2", "tuple-nested", "row", "instant", "pojo", "local-date", "bigdec")

Serving = Callable[[FastAPI], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def all_states(serving: Serving) -> Iterator[httpx.Client]:
    catalog = connect(ALL_STATES, uids=[f"kinds-{kind}" for kind in KINDS])
    with (
        serving(create_app(Settings(), catalog)) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield client


def places(client: httpx.Client, key: str, database: str = "canonical") -> list[dict[str, Any]]:
    """The states of a database with the key."""
    response = client.post(f"/api/databases/{database}/keys", json={"key": key})
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["states"]
    return found


def ask(client: httpx.Client, sql: str) -> list[list[Any]]:
    response = client.post("/api/query", json={"sql": sql})
    assert response.status_code == 200, f"{sql}: {response.text}"
    rows: list[list[Any]] = response.json()["rows"]
    return rows


def found(client: httpx.Client, key: str, operator: str) -> Counter[bool]:
    """The number of entries and of timers of a key of an operator: {False: entries, True: timers}."""
    own = [one for one in places(client, key) if one["operator"] == operator and one["sql"]]
    numbers: Counter[bool] = Counter()
    for place in own:
        numbers[place["state_kind"].endswith(" TIMER")] += len(ask(client, place["sql"]))
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("uuid-kryo", UUID),
        ("uuid-kryo", f'"{UUID}"'),
        ("tuple2", "(t1,1)"),
        ("tuple2", '{"f1": 1, "f0": "t1"}'),
        ("row", "+I[r1, 1]"),
        ("instant", "1970-01-01T00:00:01.000000001Z"),
        ("bigdec", "0.01"),
    ],
)
def test_a_key_is_found_in_all_its_states_and_timers(all_states: httpx.Client, kind: str, key: str) -> None:
    assert found(all_states, key, f"kinds-{kind}") == {False: 18, True: 9}


@pytest.mark.slow
def test_an_example_of_each_state_is_found_again(all_states: httpx.Client) -> None:
    """Every type of keys that Flink's jobs of the corpus have."""
    types = set()
    for place in places(all_states, "no such key"):
        if place["key_type"] in types or place["state_kind"].endswith(" TIMER"):
            continue
        types.add(place["key_type"])
        [[example]] = ask(all_states, place["example_sql"])
        text = example if isinstance(example, str) else json.dumps(example)
        [again] = [
            one
            for one in places(all_states, text)
            if (one["operator"], one["state_name"]) == (place["operator"], place["state_name"])
        ]
        rows = ask(all_states, again["sql"])
        assert rows, (place["key_type"], text)
        assert {json.dumps(row[again["columns"].index("key")]) for row in rows} == {json.dumps(example)}

    assert len(types) >= 10


def test_a_text_that_is_no_key_of_a_state_has_the_reason(all_states: httpx.Client) -> None:
    [place] = [
        one
        for one in places(all_states, '{"f0": "t1"}')
        if (one["operator"], one["state_name"]) == ("kinds-tuple2", "val")
    ]

    assert place == {
        "operator_id": place["operator_id"],
        "operator": "kinds-tuple2",
        "table_name": "kinds-tuple2__val",
        "state_name": "val",
        "state_kind": "VALUE",
        "key_type": "STRUCT(f0 VARCHAR, f1 INTEGER)",
        "columns": ["key", "namespace", "value", "_key_group", "_subtask"],
        "sql": None,
        "condition": None,
        "reason": "expected the fields f0, f1; f1 is missing",
        "is_close": True,
        "example_sql": 'SELECT key FROM "canonical"."kinds-tuple2__val" WHERE key IS NOT NULL LIMIT 1',
    }


def test_a_query_of_a_key_reads_the_key_group_alone(all_states: httpx.Client) -> None:
    [place] = [
        one
        for one in places(all_states, "(t1,1)")
        if (one["operator"], one["state_name"]) == ("kinds-tuple2", "val")
    ]

    answer = all_states.post("/api/query", json={"sql": place["sql"], "explain": True}).json()

    assert (
        place["sql"] == "SELECT * FROM \"canonical\".\"kinds-tuple2__val\" WHERE key = {'f0': 't1', 'f1': 1}"
    )
    assert answer["explanation"]["tables"][0]["key_groups"] == 1


def test_an_operator_of_which_no_file_can_be_opened_is_listed(serving: Serving, tmp_path: Path) -> None:
    savepoint = write_in_files(WORDCOUNT, tmp_path / "savepoint")
    for file in savepoint.glob("aggregate-*"):
        file.unlink()

    with serving(create_app(Settings(), connect(savepoint))) as address:
        response = httpx.post(f"{address}/api/databases/savepoint/keys", json={"key": "5"}, timeout=60)

    answer = response.json()
    assert [(one["operator"], one["code"]) for one in answer["unread"]] == [("aggregate", "MISSING_FILE")]
    assert str(tmp_path) not in response.text
    assert {one["operator"] for one in answer["states"]} == {"mod7-no-uid"}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("canonical", {"key": 5}, 400),
        ("canonical", {}, 400),
        ("canonical", {"key": "5", "sql": "SELECT 1"}, 400),
        ("nothing", {"key": "5"}, 404),
        ("%00", {"key": "5"}, 404),
    ],
)
def test_a_wrong_request_is_refused(
    all_states: httpx.Client, path: str, body: dict[str, Any], status: int
) -> None:
    assert all_states.post(f"/api/databases/{path}/keys", json=body).status_code == status


@pytest.mark.slow
@pytest.mark.parametrize(
    "key", ["'", "' OR 1=1 --", "\0", "9" * 5000, "(" * 5000, "[" * 5000 + "]" * 5000, "\ud800"]
)
def test_a_hostile_key_finds_nothing(all_states: httpx.Client, key: str) -> None:
    body = json.dumps({"key": key})
    response = all_states.post(
        "/api/databases/canonical/keys", content=body, headers={"Content-Type": "application/json"}
    )

    assert response.status_code in (200, 400)
    for place in response.json().get("states", []):
        assert not place["sql"] or ask(all_states, place["sql"]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "key"), [("uuid-kryo", UUID), ("tuple2", "(t1,1)"), ("row", "+I[r1, 1]"), ("bigdec", "0.01")]
)
def test_a_link_reads_a_key_as_the_queries_do(all_states: httpx.Client, kind: str, key: str) -> None:
    operator = f"kinds-{kind}"
    own = [one for one in places(all_states, key) if one["operator"] == operator and one["sql"]]

    answer = all_states.get(f"/db/canonical/{operator}__val", params={"key": key, "columns": "key,value"})
    timers = all_states.get("/db/canonical/timers", params={"key": key})
    wrong = all_states.get(f"/db/canonical/{operator}__val", params={"key": '{"no": "key"'})

    [sql] = [one["sql"] for one in own if one["table_name"] == f"{operator}__val"]
    assert len(answer.json()["rows"]) == len(ask(all_states, sql)) > 0
    names = [column["name"] for column in timers.json()["columns"]]
    mine = [row for row in timers.json()["rows"] if row[names.index("operator_id")] == own[0]["operator_id"]]
    assert len(mine) == found(all_states, key, operator)[True]
    if kind in ("uuid-kryo", "bigdec"):
        assert wrong.json()["rows"] == []  # the column holds texts
        return
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "INVALID_VALUE")
    assert "look like" in wrong.json()["error"]["hint"]
