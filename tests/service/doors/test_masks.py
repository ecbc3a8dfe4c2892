"""Ways to read a value that a mask hides, at every door: no answer has it, in no byte; for a user without a mask each has it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from catalog import Catalog, Root
from catalog.masks.masks import Masks
from service.base.errors import QueryError
from service.base.principal import Principal
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.cli.serve import write_savepoints
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.running.request import QueryRequest
from service.query.serving.registry import Queries
from service.tasks.write.serving.targets import WriteRoot
from tests.support.agents import Agent

Serving = Callable[[FastAPI], AbstractContextManager[str]]
JOB = "48e8699f2db5157b8448330694723bbe"
NEW, OLD = (f"orders__{JOB}__chk-{number}" for number in (5, 4))
HISTORY = f"orders__{JOB}__history"
T, P, W, ALL = (f'"{NEW}"."customers{tail}"' for tail in ("__account", "__products", "__wide", ""))
TIMERS = f'"{NEW}".timers'
MASKS = """
version = 1
[[mask]]
columns = ["customers.key"]
with = "pseudonym"
[[mask]]
columns = ["customers__products.map_key"]
with = "hash"
[[mask]]
columns = ["*.value.lastOrder"]
with = "bucket(year)"
[[mask]]
columns = ["*.value.totalCents"]
with = "null"
[[mask]]
columns = ["source_offsets.topic", "orders-source.value.**"]
with = "null"
"""
# Keys, keys of maps, times of orders and a total, as answers would show them; and what statements say if a condition holds.
RULE = '[[rule]]\nname = "r"\nsql = "SELECT key FROM customers__account WHERE value.orders > 0"\n'
ANY_KEY = f"SELECT `key` FROM `{NEW}`.customers__account LIMIT 1"
COUNT_OF_KEY = f"SELECT count(*) || ' is it' FROM {T} WHERE key = ?"
MAP_IN_FLINK = f'SELECT * FROM "{NEW}"."uid_customers_products_keyed_flat" LIMIT 1'
TOTAL = "SELECT key FROM customers__account WHERE value.totalCents > 100000000"
PLAIN = re.compile(
    rb"customer-\d|customer-[^\w]|olives|coffee|pasta|cheese|2026-11-01T1[12]|11-01 1[12]:\d|100008312|it is true"
)
TRUE = "'it is ' || 'true'"


class Door:
    """A service, a user without a mask, and a user with one."""

    def __init__(self, address: str, keys: dict[str, str]) -> None:
        self.address = address
        self.clients = {
            name: httpx.Client(base_url=address, timeout=60, headers={"authorization": f"Bearer {secret}"})
            for name, secret in keys.items()
        }
        self.keys = keys

    def agent(self, name: str) -> Agent:
        return Agent(self.clients[name])

    def raw(self, name: str, method: str, path: str, body: Any = None) -> bytes:
        """All bytes of an answer, those of its headers among them; texts of JSON without escapes."""
        answer = self.clients[name].request(method, path, json=body)
        return bytes(repr(answer.headers), "utf-8") + answer.content


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Two checkpoints of the demo's job, and a mask."""
    folder = tmp_path_factory.mktemp("demo")
    write_savepoints(folder / "demo")
    for number in (4, 5):
        shutil.copytree(folder / f"demo/orders/{JOB}/chk-{number}", folder / f"orders/{JOB}/chk-{number}")
    # Under one secret in a hundred a pseudonym begins as a key does.
    masks = replace(Masks.parse(MASKS), secret=b"0123456789abcdef")
    return Catalog([Root(path=str(folder / "orders"))], masks={"analyst": masks})


@pytest.fixture(scope="module")
def door(served: Catalog, tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("masks")
    keys = KeyFile(folder / "keys.json")
    everything = ["*", "write:*", "saved:*", "operator:*"]
    secrets = {
        "owner": keys.create("owner", everything),
        "analyst": keys.create("analyst", everything, mask="analyst"),
        "lost": keys.create("lost", ["*"], mask="unknown"),
    }
    (folder / "saved.toml").touch()
    app = create_app(
        Settings.of(workers=1, saved_queries=str(folder / "saved.toml"), save_queries=True),
        served,
        write_roots=[WriteRoot(path=str(folder), label="written")],
        authenticator=Authenticator(keys),
    )
    with serving(app) as address:
        made = Door(address, secrets)
        saved = {"sql": f"SELECT key FROM {T} ORDER BY key LIMIT 3", "database": NEW}
        assert made.clients["owner"].put("/api/saved/mine", json=saved).status_code == 200
        yield made
        for client in made.clients.values():
            client.close()


# Requests whose answers have no hidden value but the one that they name.
ECHOED = {"parameters"}


def condition(where: str, table: str = T) -> str:
    """A statement that says whether rows meet a condition."""
    return f"SELECT CASE WHEN count(*) > 0 THEN {TRUE} ELSE 'no' END AS said FROM {table} WHERE {where}"


# Name → a statement whose answer has a hidden value, or says that it is so, for a user without a mask.
STATEMENTS = {
    "plain": f"SELECT key FROM {T} LIMIT 3",
    "star": f"SELECT * FROM {T} LIMIT 3",
    "literal": condition("key = 'customer-42'"),
    "in": condition("key IN ('customer-41', 'customer-42')"),
    "not equal": f"SELECT CASE WHEN count(*) < (SELECT count(*) FROM {T}) THEN {TRUE} END FROM {T} WHERE key <> 'customer-42'",
    "like": condition("key LIKE 'customer-4%'"),
    "ladder": condition("substr(key, 1, 4) = 'cust'"),
    "starts with": condition("starts_with(key, 'customer')"),
    "glob": condition("key GLOB 'cust*'"),
    "regex": condition("regexp_matches(key, '^customer-[0-9]+$')"),
    "similar": condition("key SIMILAR TO 'customer.*'"),
    "ilike": condition("key ILIKE 'CUSTOMER-42'"),
    "near": condition("levenshtein(key, 'customer-42') < 2"),
    "jaccard": condition("jaccard(key, 'customer-42') > 0.95"),
    "ascii": condition("ascii(key) = ascii('c') AND length(key) > 9 AND key[2] = 'u' AND key[3] = 's'"),
    "hash": condition("md5(key) = md5('customer-42')"),
    "hash of another kind": condition("hash(key) = hash('customer-42')"),
    "join with literals": f"SELECT CASE WHEN count(*) > 0 THEN {TRUE} END FROM {T} JOIN (VALUES ('customer-42')) v(k) ON key = k",
    "guesses": f"SELECT CASE WHEN count(*) > 0 THEN {TRUE} END FROM {T} JOIN range(1000) r(n) ON key = 'customer-' || n",
    "semi join": condition("key IN (SELECT 'customer-' || n FROM range(1000) r(n))"),
    "set operation": f"SELECT CASE WHEN count(*) > 0 THEN {TRUE} END FROM (SELECT key FROM {T} INTERSECT SELECT 'customer-42')",
    "minimum": f"SELECT min(key) FROM {T}",
    "maximum": f"SELECT max(key), max(value) FROM {T}",
    "extreme": f"SELECT arg_max(key, value.orders) FROM {T}",
    "first": f"SELECT first(key), last(key), any_value(key) FROM {T}",
    "sorted": f"SELECT key FROM {T} ORDER BY key LIMIT 1",
    "sorted by": f"SELECT CASE WHEN (SELECT key FROM {T} ORDER BY value.totalCents DESC LIMIT 1) = 'customer-42' THEN {TRUE} END AS said",
    "largest hidden number": f"SELECT max(value.totalCents) AS most FROM {T}",
    "sum of hidden numbers": f"SELECT CASE WHEN sum(value.totalCents) > 100000000 THEN {TRUE} END FROM {T}",
    "hidden number in a range": condition("value.totalCents > 100000000"),
    "all texts": f"SELECT string_agg(key, ',') FROM {T}",
    "list": f"SELECT list(key) FROM {T}",
    "json": f"SELECT to_json({T.split('.')[1]}) FROM {T} LIMIT 2",
    "row as text": f"SELECT t::VARCHAR FROM {T} t LIMIT 2",
    "value as text": f"SELECT value::VARCHAR FROM {T} LIMIT 2",
    "bytes": f"SELECT decode(key::BLOB) FROM {T} LIMIT 2",
    "unnest": f"SELECT unnest(string_split(key, '-')) || '-' FROM {T} LIMIT 2",
    "histogram": f"SELECT histogram(key) FROM {T}",
    "mode": f"SELECT mode(key), approx_top_k(key, 3) FROM {T}",
    "quantile": f"SELECT quantile_disc(key, 0.5) FROM {T}",
    "group by": f"SELECT key, count(*) FROM {P} GROUP BY key LIMIT 2",
    "map key": f"SELECT DISTINCT map_key FROM {P}",
    "map key by literal": condition("map_key = 'olives'", P),
    "window": f"SELECT lag(key) OVER (ORDER BY key) FROM {T} LIMIT 3",
    "lateral": f"SELECT x.k FROM {T} t, LATERAL (SELECT t.key AS k) x LIMIT 2",
    "scalar subquery": f"SELECT (SELECT min(key) FROM {T})",
    "case with an error": f"SELECT CASE WHEN key LIKE 'customer-4%' THEN error({TRUE}) ELSE '' END AS said FROM {T}",
    "error with the value": f"SELECT error(key) FROM {T} LIMIT 1",
    "cast": f"SELECT key::INTEGER FROM {T}",
    "cast to a time": f"SELECT key::TIMESTAMP FROM {T}",
    "strict conversion": f"SELECT strptime(key, '%Y') FROM {T}",
    "division by zero": condition(f"isinf((SELECT sum(1 / (key <> 'customer-42')::INTEGER) FROM {T}))"),
    "enumeration": f"SELECT enum_range(NULL::ENUM('a')), min(key) FROM {T}",
    "json path": f"SELECT json_extract_string(to_json(value), '$.lastOrder') FROM {T} LIMIT 2",
    "hidden time": f"SELECT value.lastOrder FROM {T} LIMIT 2",
    "hidden time by literal": condition("value.lastOrder BETWEEN '2026-11-01 11:00:00' AND '2026-11-01 13:00:00'"),
    "operator table": f"SELECT * FROM {ALL} LIMIT 5",
    "operator table as JSON text": f"SELECT value FROM {ALL} WHERE state_name = 'account' LIMIT 2",
    "wide table": f"SELECT * FROM {W} LIMIT 2",
    "wide table by key": condition("key = 'customer-42'", W),
    "wide table's map": condition("len(map_keys(products)) > 0 AND list_contains(map_keys(products), 'olives')", W),
    "timers": f"SELECT * FROM {TIMERS} LIMIT 2",
    "timers by key": condition("key = 'customer-42'", TIMERS),
    "largest keys": f'SELECT * FROM "{NEW}".xray_largest',
    "history": f'SELECT * FROM "{HISTORY}".customers__account LIMIT 2',
    "history by key": condition("key = 'customer-42'", f'"{HISTORY}".customers__account'),
    "alias": "SELECT key FROM latest.customers__account LIMIT 1",
    "savepoint's name in Flink": f"SELECT key FROM \"orders/{JOB}/chk-5\".customers__account LIMIT 1",
    "summary": f"SUMMARIZE {T}",
    "sample": f"SELECT key FROM {T} USING SAMPLE 3",
    "key group of a key": condition(
        f"_key_group = (SELECT _key_group FROM {T} WHERE _key_group = 0 LIMIT 1)"
    ),
    "subtask": condition("_subtask = 0"),
    "order of rows": f"SELECT CASE WHEN min(_key_group) IS NOT NULL THEN {TRUE} END FROM (SELECT _key_group FROM {T} LIMIT 1)",
}  # fmt: skip


@pytest.fixture(scope="module")
def ask(served: Catalog) -> Iterator[Callable[[str, str | None], bytes]]:
    """Asks a statement in this process for a user with a mask or without; returns all that the user is told."""
    settings = Settings()
    queries = Queries(served, {"duckdb": DuckDBEngine(settings)}, settings)

    def told(sql: str, mask: str | None) -> bytes:
        principal = Principal(name="user", grants=("*",), mask=mask)
        try:
            with queries.start(QueryRequest(sql=sql, principal=principal)) as query:
                rows = [batch.to_pylist() for batch in query.batches()]
                return repr((rows, query.schema, query.progress)).encode()
        except QueryError as error:
            return repr((error.message, error.hint, error.detail)).encode()

    yield told
    queries.close()


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_shows_a_hidden_value(ask: Callable[[str, str | None], bytes], name: str) -> None:
    plain, masked = (ask(STATEMENTS[name], mask) for mask in (None, "analyst"))

    assert PLAIN.search(plain) is not None, plain[:2000]
    assert PLAIN.search(masked) is None, masked[:2000]


# Name → a request that shows a hidden value to a user without a mask.
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "query": ("POST", "/api/query", {"sql": f"SELECT key FROM {T} ORDER BY key LIMIT 3"}),
    "short statement": ("POST", "/api/query", {"sql": f"SELECT * FROM {T} WHERE key = 'customer-42'"}),
    "query in Trino's dialect": ("POST", "/api/query", {"sql": f"SELECT key FROM {T} LIMIT 1", "dialect": "trino"}),
    "query in Flink's dialect": ("POST", "/api/query", {"sql": ANY_KEY, "dialect": "flink"}),
    "parameters": ("POST", "/api/query", {"sql": COUNT_OF_KEY, "parameters": ["customer-42"]}),
    "maps by the names of Flink's catalog": ("POST", "/api/query", {"sql": MAP_IN_FLINK, "compat": "flink"}),
    "names of Flink's catalog": ("POST", "/api/query", {"sql": f'SELECT * FROM "{NEW}"."uid_customers_keyed" LIMIT 1', "compat": "flink"}),
    "link to a table": ("GET", f"/db/{NEW}/customers__account.csv?limit=3", None),
    "link with a sort": ("GET", f"/db/{NEW}/customers__account.json?sort=key&limit=1", None),
    "link with a condition": ("GET", f"/db/{NEW}/customers__products.jsonl?where=map_key%3D'olives'&limit=1", None),
    "link to statement": ("GET", f"/db/{NEW}.csv?sql=SELECT%20min(key)%20FROM%20customers__account", None),
    "link to an Arrow file": ("GET", f"/db/{NEW}/customers__account.arrow?limit=3", None),
    "lookup": ("POST", "/api/lookup", {"key": "customer-42", "database": NEW}),
    "keys that look like it": ("POST", "/api/lookup", {"key": "nobody", "database": NEW}),
    "lookup in all databases": ("POST", "/api/lookup", {"key": "customer-42"}),
    "difference": ("POST", "/api/diff", {"before": OLD, "after": NEW}),
    "timeline": ("POST", f"/api/jobs/orders__{JOB}/timeline", {"key": "customer-42"}),
    "x-ray": ("POST", "/api/xray", {"database": NEW}),
    "bisect": ("POST", "/api/bisect", {"sql": TOTAL}),
    "test": ("POST", "/api/tests", {"database": NEW, "rules": RULE}),
    "saved query": ("GET", "/saved/mine.csv", None),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_no_request_shows_a_hidden_value(door: Door, name: str) -> None:
    plain, masked = (door.raw(user, *REQUESTS[name]) for user in ("owner", "analyst"))

    echoed = json.dumps(REQUESTS[name][2] or REQUESTS[name][1]).encode()
    said = PLAIN.findall(echoed)
    assert [one for one in PLAIN.findall(plain) if one not in said] or name in ECHOED, plain[:3000]
    assert [one for one in PLAIN.findall(masked) if one not in said] == [], masked[:3000]


TOOLS: dict[str, dict[str, Any]] = {
    "query": {"sql": f"SELECT key FROM {T} ORDER BY key LIMIT 3"},
    "lookup_key": {"key": "nobody", "database": NEW},
    "diff": {"before": OLD, "after": NEW},
    "history": {"key": "customer-42", "job": f"orders__{JOB}"},
    "xray": {"database": NEW},
    "test": {"database": NEW, "rules": RULE},
    "run_saved_query": {"name": "mine"},
    "describe_table": {"database": NEW, "table": "customers__account"},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_no_tool_of_an_agent_shows_a_hidden_value(door: Door, tool: str) -> None:
    said = set(PLAIN.findall(json.dumps(TOOLS[tool]).encode()))
    plain, masked = (
        door.agent(user).send("tools/call", {"name": tool, "arguments": TOOLS[tool]}).content
        for user in ("owner", "analyst")
    )

    assert set(PLAIN.findall(plain)) - said, plain[:2000]
    assert set(PLAIN.findall(masked)) - said == set(), masked[:2000]


@pytest.mark.parametrize("table", [T, W, TIMERS, P])
def test_no_statement_of_trino_shows_a_hidden_value(door: Door, table: str) -> None:
    def told(user: str) -> bytes:
        headers = {"x-trino-user": user}
        page = door.clients[user].post(
            "/v1/statement", content=f"SELECT * FROM {table} LIMIT 3", headers=headers
        )
        found = page.content
        while next_uri := page.json().get("nextUri"):
            page = door.clients[user].get(next_uri, headers=headers)
            found += page.content
        return found

    assert PLAIN.search(told("owner"))
    assert PLAIN.search(told("analyst")) is None


def test_the_true_key_is_found_by_nobody_with_a_mask_and_the_masked_one_is(door: Door) -> None:
    (masked,) = (
        door.clients["analyst"]
        .post("/api/query", json={"sql": f"SELECT min(key) AS k FROM {T}"})
        .json()["rows"][0]
    )
    rows = {
        key: door.clients["analyst"].post("/api/lookup", json={"key": key, "database": NEW}).json()["rows"]
        for key in ("customer-42", masked)
    }

    assert rows["customer-42"] == []
    assert len(rows[masked]) > 2


def test_joins_of_masked_keys_hold_in_all_tables_of_an_operator(
    ask: Callable[[str, str | None], bytes],
) -> None:
    sql = (
        f"SELECT count(*) || ' keys' AS n FROM {T} a WHERE EXISTS (SELECT * FROM {P} p WHERE p.key = a.key) "
        f"AND EXISTS (SELECT * FROM {TIMERS} t WHERE t.key = a.key) "
        f'AND EXISTS (SELECT * FROM "{OLD}".customers__account o WHERE o.key = a.key)'
    )

    assert b"200 keys" in ask(sql, "analyst")
    assert b"200 keys" in ask(sql, None)


def test_the_size_of_a_scan_does_not_depend_on_a_condition_on_a_masked_key(door: Door) -> None:
    def planned(user: str, where: str) -> Any:
        sql = f"EXPLAIN SELECT * FROM {T} WHERE {where}"
        told = door.clients[user].post("/api/query", json={"sql": sql}).json()
        return [
            {name: one[name] for name in one if name != "predicate"} for one in told["explanation"]["tables"]
        ]

    wheres = (
        "key = 'customer-42'",
        "key = 'customer-xy'",
        "_key_group = 5",
        "_subtask = 1",
        "value.orders > -1",
    )
    assert len({json.dumps(planned("analyst", where)) for where in wheres}) == 1
    assert len({json.dumps(planned("owner", where)) for where in wheres}) > 2


def test_a_difference_counts_what_masks_leave(door: Door) -> None:
    """Only the hidden total differs, which is null on both sides."""
    sql = f"SELECT count(*) AS n FROM diff('{OLD}', '{NEW}', 'customers__account')"
    found = [door.clients[user].post("/api/query", json={"sql": sql}).json() for user in ("owner", "analyst")]

    assert found[0]["rows"][0][0] >= found[1]["rows"][0][0]


def test_tags_of_links_differ_and_a_masked_client_gets_no_answer_of_another(door: Door) -> None:
    path = f"/db/{NEW}/customers__account.csv?limit=3"
    tags = [door.clients[user].get(path).headers["etag"] for user in ("owner", "analyst")]

    assert tags[0] != tags[1]
    assert door.clients["analyst"].get(path, headers={"if-none-match": tags[0]}).status_code == 200
    assert door.clients["analyst"].get(path, headers={"if-none-match": tags[1]}).status_code == 304


def test_queries_of_others_are_hidden_with_their_statements_and_rows(door: Door) -> None:
    started = (
        door.clients["owner"]
        .post("/api/queries", json={"sql": f"SELECT key FROM {T} WHERE key = 'customer-42'"})
        .json()
    )
    asked = door.clients["analyst"]

    assert asked.get(f"/api/queries/{started['query_id']}/result").status_code == 404
    assert asked.get(f"/api/queries/{started['query_id']}").status_code == 404
    assert b"customer-42" not in asked.get("/api/queries?all=true").content


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/savepoints", {"sql": "DELETE FROM customers__account WHERE key = 'x'", "source": NEW, "dry_run": True}),
        ("/api/checks", {"database": NEW, "values": "sample"}),
    ],
)  # fmt: skip
def test_what_would_show_values_below_the_masks_is_refused(
    door: Door, path: str, body: dict[str, Any]
) -> None:
    answer = door.clients["analyst"].post(path, json=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN"), answer.text
    assert "mask" in answer.json()["error"]["message"]


def test_an_agent_with_a_mask_previews_no_write(door: Door) -> None:
    told = door.agent("analyst").call("preview_write", sql="DELETE FROM customers__account", database=NEW)

    assert told["structuredContent"]["error"]["code"] == "FORBIDDEN"


def test_a_check_of_types_needs_no_values(door: Door) -> None:
    answer = door.clients["analyst"].post("/api/checks", json={"database": NEW})

    assert answer.status_code == 200, answer.text
    assert PLAIN.search(answer.content) is None


@pytest.mark.parametrize(("method", "path", "body"), [
    ("POST", "/api/query", {"sql": "SELECT 1"}), ("GET", "/api/databases", None), ("POST", "/api/lookup", {"key": "x"}),
    ("GET", f"/db/{NEW}/customers__account.csv", None), ("GET", "/api/jobs", None),
])  # fmt: skip
def test_a_key_with_a_mask_that_the_service_does_not_have_sees_nothing(
    door: Door, method: str, path: str, body: Any
) -> None:
    answer = door.clients["lost"].request(method, path, json=body)

    assert answer.status_code == 403
    assert "start the service with --mask unknown=FILE" in answer.text
