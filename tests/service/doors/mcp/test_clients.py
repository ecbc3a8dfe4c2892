"""The client of the SDK against the real service: over HTTP, and over standard input and output of the program."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from catalog import Catalog, Root
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import PREFIX, KeyFile
from tests.support.agents import HEADERS, VERSION, Agent, conversation, job_in, recorded
from tests.support.checking import stop_check
from tests.support.paths import DATA, PROJECT
from tests.support.waiting import awaited, wait_until

FLINK = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints"
# The count is of no interest, and takes minutes.
ENDLESS = "SELECT count(*) FROM range(100000000000) a WHERE hash(a.range) = 1"
Serving = Callable[[FastAPI], AbstractContextManager[str]]
SAVED = """
[queries.count-of]
database = "native"
description = "The count of one key."
sql = "SELECT value FROM aggregate WHERE key = :key AND value > :least"
parameters.least = {type = "integer", default = 0}

[queries.hidden]
database = "canonical"
sql = "SELECT 1 FROM aggregate"

[queries.elsewhere]
sql = "SELECT value FROM canonical.aggregate WHERE key = 'key_662'"
"""
pytestmark = pytest.mark.slow


class Doors:
    """A service with keys of several people over `canonical` and `native`."""

    def __init__(self, http: httpx.Client, app: FastAPI, keys: dict[str, str]) -> None:
        self.http = http
        self.address = str(http.base_url).rstrip("/")
        self.state = app.state.service
        self.keys = keys

    def agent(self, name: str) -> Agent:
        return Agent(self.http, {"authorization": f"Bearer {self.keys[name]}"})


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("keys")
    keys = KeyFile(folder / "keys.json")
    (folder / "queries.toml").write_text(SAVED)
    secrets = {
        "owner": keys.create("owner", ["*"]),
        "analyst": keys.create("analyst", ["nat*"]),
        "guest": keys.create("guest", ["other-*"]),
        "writer": keys.create("writer", ["write:nat*"]),
        "gone": keys.create("gone", ["*"], datetime.now(UTC) - timedelta(seconds=1)),
    }
    app = create_app(
        Settings.of(workers=1, mcp_sessions=40, saved_queries=str(folder / "queries.toml")),
        Catalog([Root(path=str(FLINK / name)) for name in ("canonical", "native")]),
        authenticator=Authenticator(keys),
    )
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as http:
        yield Doors(http, app, secrets)


def program(*arguments: object) -> Any:
    """The program as an agent starts it."""
    from mcp.client.stdio import StdioServerParameters

    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "savepointdb", "mcp", *map(str, arguments)],
        env=environment | {"PYTHONPATH": str(PROJECT)},
    )


# ---- a conversation ----


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_finds_the_wrong_value_over_http(tmp_path: Path, serving: Serving, mode: str) -> None:
    job = job_in(tmp_path)
    catalog = Catalog([Root(path=str(job))])

    with serving(create_app(Settings.of(workers=1), catalog)) as address:
        assert conversation(f"{address}/mcp", recorded(), mode=mode) == recorded()


def test_an_agent_finds_the_wrong_value_by_the_program(tmp_path: Path) -> None:
    assert conversation(program(job_in(tmp_path)), recorded()) == recorded()


def test_the_recorded_answers_name_the_key() -> None:
    said = recorded()

    assert [one["tool"] for one in said[:3]] == ["list_databases", "describe_database", "query"]
    assert not any(one["is_error"] for one in said[:-1])
    assert said[-1]["content"]["rows"] == [["key_662", 6774, 11290]]


_MASKS = 'version = 1\n[[mask]]\ncolumns = ["aggregate.key"]\nwith = "pseudonym"\n[[mask]]\ncolumns = ["*.value"]\nwith = "null"\n'


def test_a_mask_hides_values_from_the_agent_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "masks.toml").write_text(_MASKS, encoding="utf-8")
    calls: list[dict[str, Any]] = [
        {
            "tool": "query",
            "arguments": {"sql": "SELECT count(*), count(value) FROM aggregate WHERE key = 'key_662'"},
        },
        {"tool": "query", "arguments": {"sql": "SELECT key FROM aggregate ORDER BY key LIMIT 3"}},
        {"tool": "lookup_key", "arguments": {"key": "key_662"}},
        {"tool": "describe_table", "arguments": {"table": "aggregate"}},
        {"tool": "preview_write", "arguments": {"sql": "DELETE FROM aggregate__count WHERE key = 'key_662'"}},
    ]

    plain = conversation(program(FLINK / "native"), calls)
    masked = conversation(program(FLINK / "native", "--mask", tmp_path / "masks.toml"), calls)

    assert plain[0]["content"]["rows"] == [[1, 1]]
    assert masked[0]["content"]["rows"] == [[0, 0]]
    assert "11290" in str(plain[2])
    assert "11290" not in str(masked)
    assert "'key_" in str(plain[1]["content"])
    assert "'key_" not in str(masked[1]["content"])
    assert masked[2]["content"]["rows"] == []
    assert masked[4]["content"]["error"]["code"] == "FORBIDDEN"


# ---- grants ----


@pytest.mark.parametrize(
    ("name", "databases"),
    [("owner", ["canonical", "native"]), ("analyst", ["native"]), ("writer", ["native"]), ("guest", [])],
)
def test_an_agent_sees_what_its_key_sees(doors: Doors, name: str, databases: list[str]) -> None:
    agent = doors.agent(name)
    listed = agent.call("list_databases")["structuredContent"]
    own = [entry["name"] for entry in listed["databases"] if "alias_of" not in entry]
    assert sorted(own) == databases
    calls: list[tuple[str, dict[str, Any]]] = [
        (tool, arguments)
        for database in ("canonical", "native")
        for tool, arguments in (
            ("describe_database", {"database": database}),
            ("describe_table", {"database": database, "table": "aggregate"}),
            ("query", {"sql": f"SELECT value FROM {database}.aggregate WHERE key = 'key_662'"}),
            ("query", {"sql": "SELECT 1 FROM aggregate", "database": database}),
            ("lookup_key", {"database": database, "key": "key_662"}),
            ("diff", {"before": database, "after": database}),
            ("history", {"job": database, "key": "key_662"}),
        )
    ]
    # A check that is allowed takes a second.
    calls += [("check", {"database": "canonical"})] if name != "owner" else []
    calls += [("check", {"database": "native", "against": ["canonical"]})] if name != "owner" else []
    for tool, arguments in calls:
        answer = agent.call(tool, **arguments)
        named = json.dumps(arguments)
        allowed = all(database in databases for database in ("canonical", "native") if database in named)
        assert answer["isError"] is not allowed, (tool, arguments, answer)
        if not allowed:
            assert answer["structuredContent"]["error"]["code"] in ("DATABASE_NOT_FOUND", "JOB_NOT_FOUND")


@pytest.mark.parametrize(
    ("name", "databases"),
    [("owner", ["canonical", "native"]), ("analyst", ["native"]), ("writer", ["native"]), ("guest", [])],
)
def test_resources_are_those_that_the_key_sees(doors: Doors, name: str, databases: list[str]) -> None:
    agent = doors.agent(name)
    listed = agent.send("resources/list").json()["result"]["resources"]

    assert sorted(one["uri"] for one in listed) == [f"savepointdb://{database}" for database in databases]
    for database in ("canonical", "native"):
        for path in (database, f"{database}/aggregate", f"{database}/nothing"):
            answer = agent.send("resources/read", {"uri": f"savepointdb://{path}"}).json()
            if database not in databases:
                nowhere = agent.send("resources/read", {"uri": f"savepointdb://{'x' * len(database)}"})
                told = nowhere.json()["error"]["message"].replace("x" * len(database), database)
                assert answer["error"]["message"] == told
            else:
                assert ("error" in answer) is path.endswith("nothing")


def test_saved_queries_run_with_the_grants_of_the_key(doors: Doors) -> None:
    owner, analyst = doors.agent("owner"), doors.agent("analyst")

    def names(agent: Agent) -> list[str]:
        return [one["name"] for one in agent.call("run_saved_query")["structuredContent"]["saved_queries"]]

    assert [names(owner), names(analyst)] == [["count-of", "elsewhere", "hidden"], ["count-of", "elsewhere"]]
    assert analyst.text("run_saved_query", name="count-of", parameters={"key": "key_662", "least": 5}) == (
        "value BIGINT\n11290"
    )
    assert (
        analyst.text("run_saved_query", name="count-of", parameters={"key": "x' OR true --"})
        == "value BIGINT"
    )
    assert analyst.text("run_saved_query", name="elsewhere").startswith("DATABASE_NOT_FOUND: ")
    assert analyst.text("run_saved_query", name="hidden").startswith("SAVED_QUERY_NOT_FOUND: ")
    assert analyst.text("run_saved_query", name="count-of").startswith("INVALID_PARAMETER: ")


@pytest.mark.parametrize("method", ["POST", "DELETE", "GET"])
@pytest.mark.parametrize("credentials", [None, f"Bearer {PREFIX}{'A' * 43}", "gone", "Bearer", "Basic !!!"])
def test_no_message_is_read_without_a_key(doors: Doors, method: str, credentials: str | None) -> None:
    secret = f"Bearer {doors.keys['gone']}" if credentials == "gone" else credentials
    headers = HEADERS if secret is None else HEADERS | {"authorization": secret}

    answer = httpx.request(method, f"{doors.address}/mcp", headers=headers, content=b"{", timeout=60)

    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "UNAUTHORIZED"


def test_a_session_is_its_owners(doors: Doors) -> None:
    owner, guest = doors.agent("owner"), doors.agent("guest")
    stolen = {"mcp-session-id": owner.session}

    assert guest.send("tools/list", headers=stolen).status_code == 404
    assert owner.send("tools/list").status_code == 200
    assert owner.end().status_code == 200
    assert owner.send("tools/list").status_code == 404


def test_one_user_leaves_sessions_to_others(doors: Doors) -> None:
    owner = doors.agent("owner")
    opened = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    }
    headers = HEADERS | {"authorization": f"Bearer {doors.keys['writer']}"}

    answers = [doors.http.post("/mcp", headers=headers, json=opened) for _ in range(1000)]

    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(answers) - len(refused) <= 20
    assert {(answer.status_code, answer.json()["error"]["code"]) for answer in refused} == {
        (429, "TOO_MANY_SESSIONS")
    }
    assert owner.call("query", sql="SELECT 1")["structuredContent"]["rows"] == [[1]]
    doors.agent("analyst").end()


def test_an_idle_session_ends_and_makes_room(serving: Serving) -> None:
    opened = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opened}
    app = create_app(Settings.of(workers=1, mcp_sessions=4, mcp_idle_s=1.0), Catalog([]))

    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as http:

        def opening(_: int) -> int:
            return http.post("/mcp", headers=HEADERS, json=message).status_code

        def opened_together() -> set[int]:
            codes = set(pool.map(opening, range(48)))
            assert codes <= {200, 429}
            return codes

        with ThreadPoolExecutor(16) as pool:
            awaited(lambda: 429 in opened_together(), pause_s=0)
            awaited(lambda: 200 in opened_together(), pause_s=0.3)
        agent = awaited(lambda: agent_of(http))
        # Each request keeps the session for another second.
        awaited(lambda: agent.send("tools/list").status_code == 404, pause_s=2.5)


def agent_of(http: httpx.Client) -> Agent | None:
    """An agent, if there is room for its session."""
    try:
        return Agent(http)
    except AssertionError:
        return None


def test_queries_of_agents_are_in_the_history_and_in_the_audit_log(
    doors: Doors, caplog: pytest.LogCaptureFixture
) -> None:
    doors.agent("analyst").call("query", sql="SELECT value FROM native.aggregate WHERE key = 'key_662'")

    own = {"authorization": f"Bearer {doors.keys['analyst']}"}
    listed = doors.http.get("/api/queries", headers=own).json()["queries"]
    assert listed[0]["source"].startswith("mcp query: python-httpx/")
    assert listed[0]["state"] == "finished"


def test_names_that_are_no_text_are_listed_as_far_as_they_are(
    tmp_path: Path, serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    # Reports of tests are sent as UTF-8, and a warning names the folder.
    caplog.set_level(logging.ERROR, logger="savepointdb")
    root = tmp_path / "a\udcffb"
    shutil.copytree(FLINK / "native", root / "c\x1b[2J")
    (root / "broken").mkdir()
    (root / "broken" / "_metadata").write_bytes(b"no savepoint")
    app = create_app(Settings.of(workers=1), Catalog([Root(path=str(root), label="l\udcff")]))

    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as http:
        (fine,) = [
            one["name"]
            for one in http.get("/api/databases").json()["databases"]
            if one["checkpoint_id"] == 2 and not one["alias_of"]
        ]
        jobs = http.get("/api/jobs").json()["jobs"]
        listed = Agent(http).call("list_databases")

    assert (
        next(entry["name"] for entry in listed["structuredContent"]["databases"] if "kind" in entry) == fine
    )
    assert [job["name"] for job in listed["structuredContent"]["jobs"]] == [job["name"] for job in jobs]
    assert "\x1b" not in listed["content"][0]["text"]
    assert "expected a _metadata file that begins with" in listed["content"][0]["text"]


def test_columns_and_rows_without_room_are_both_said(tmp_path: Path, serving: Serving) -> None:
    statements = [
        f"CREATE TABLE \"op__s{number}{'x' * 11_000}\" (key VARCHAR, value BIGINT) WITH (kind = 'VALUE', operator_uid = 'op') "
        "AS SELECT 'a' AS key, 1 AS value"
        for number in range(20)
    ]
    assert main(["create", str(tmp_path / "made"), ";".join(statements), "--flink", "2.3"]) == 0
    app = create_app(Settings.of(workers=1), Catalog([Root(path=str(tmp_path / "made"))]))

    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as http:
        content = Agent(http).call("describe_table", table="op__wide")["structuredContent"]

    assert content["notes"] == [
        "cut: 19 columns of 22 shown; DESCRIBE shows all",
        "no rows are shown: expected columns of which a row has room in 20000 bytes, found 22 columns",
    ]


# ---- ends ----


def running(doors: Doors) -> int:
    return len([state for state in doors.state.queries.open_states() if not state.has_ended])


def endless(doors: Doors) -> list[str]:
    """The states of the endless queries, the latest first."""
    own = {"authorization": f"Bearer {doors.keys['owner']}"}
    listed = doors.http.get("/api/queries", headers=own).json()["queries"]
    return [one["state"] for one in listed if one["sql"] == ENDLESS]


def test_a_client_that_goes_cancels_its_query(doors: Doors) -> None:
    agent = doors.agent("owner")
    call = {"name": "query", "arguments": {"sql": ENDLESS}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
    with closing(HTTPConnection(doors.http.base_url.host, doors.http.base_url.port)) as leaving:
        leaving.request("POST", "/mcp", body=json.dumps(message), headers=agent._headers)
        wait_until(lambda: running(doors) == 1)

    wait_until(lambda: running(doors) == 0)
    assert endless(doors)[0] == "cancelled"
    assert agent.call("query", sql="SELECT 1")["structuredContent"]["rows"] == [[1]]


def test_a_request_that_is_cancelled_cancels_its_query(doors: Doors) -> None:
    agent = doors.agent("owner")
    answers: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(
            agent.send("tools/call", {"name": "query", "arguments": {"sql": ENDLESS}})
        )
    )
    asking.start()
    wait_until(lambda: running(doors) == 1)

    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    assert agent.post(json.dumps(cancelled).encode()).status_code == 202

    asking.join(timeout=60)
    assert not asking.is_alive()
    wait_until(lambda: running(doors) == 0)


def test_a_check_that_is_cancelled_ends_before_it_is_done(doors: Doors) -> None:
    agent = doors.agent("owner")
    answers: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(
            agent.send("tools/call", {"name": "check", "arguments": {"database": "native"}})
        )
    )
    asking.start()
    stop_check(doors.state.checks)

    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    assert agent.post(json.dumps(cancelled).encode()).status_code == 202

    asking.join(timeout=60)
    assert not asking.is_alive()
    wait_until(lambda: doors.state.checks.open == 0)
    metrics = doors.http.get("/metrics", headers={"authorization": f"Bearer {doors.keys['owner']}"}).text
    assert 'savepointdb_checks_total{code="CANCELLED",outcome=""} 1.0' in metrics


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_call_that_times_out_cancels_its_query(doors: Doors, mode: str) -> None:
    known = len(endless(doors))

    message = told_when_late(
        f"{doors.address}/mcp", doors.keys["owner"], mode, lambda: len(endless(doors)) > known
    )

    assert message == "Request 'tools/call' timed out"
    wait_until(lambda: running(doors) == 0)
    assert endless(doors)[0] == "cancelled"


# Reads the savepoint, and then goes on without end.
READING = "SELECT count(*) FROM aggregate a, range(100000000000) r WHERE hash(a.key, r.range) = 1"


@pytest.mark.parametrize("door", ["http", "program"])
def test_a_client_hears_how_far_its_query_is(doors: Doors, door: str) -> None:
    told = told_until_cancelled(
        program(FLINK / "native") if door == "program" else f"{doors.address}/mcp", doors.keys["owner"]
    )

    (progress, total, message) = told[0]
    assert 0 < progress <= total
    assert re.fullmatch(r"[\d.]+ kB of about [\d.]+ kB read", message)
    assert [each[0] for each in told] == sorted({each[0] for each in told})
    wait_until(lambda: running(doors) == 0)


def told_until_cancelled(server: Any, key: str) -> list[tuple[float, float, str]]:
    """Run an endless query until there is progress; return what was told."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    told: list[tuple[float, float, str]] = []

    async def speak() -> None:
        heard = asyncio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, total or 0.0, message or ""))
            heard.set()

        async with create_mcp_http_client(headers={"authorization": f"Bearer {key}"}) as http:
            target = streamable_http_client(server, http_client=http) if isinstance(server, str) else server
            async with Client(target) as client:
                asking = asyncio.create_task(
                    client.call_tool("query", {"sql": READING}, progress_callback=hear)
                )
                await asyncio.wait_for(heard.wait(), 60)
                asking.cancel()
                # The connection is as good as before.
                rows = await client.call_tool("query", {"sql": "SELECT 1"})
        assert rows.structured_content is not None
        assert rows.structured_content["rows"] == [[1]]

    asyncio.run(speak())
    return told


def told_when_late(address: str, key: str, mode: str, has_begun: Callable[[], bool]) -> str:
    """Run an endless query for longer and longer, until it begins before its time is over; return what the client is told."""
    from anyio import BrokenResourceError, ClosedResourceError
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client
    from mcp.shared.exceptions import MCPError

    told: list[str] = []
    answers: list[Any] = []

    async def speak() -> None:
        async with (
            create_mcp_http_client(headers={"authorization": f"Bearer {key}"}) as http,
            Client(streamable_http_client(address, http_client=http), mode=mode) as client,
        ):
            while not told or not has_begun():
                with pytest.raises(MCPError) as raised:
                    await client.call_tool("query", {"sql": ENDLESS}, read_timeout_seconds=2.0 ** len(told))
                told.append(raised.value.message)
            answers.append(await client.call_tool("query", {"sql": "SELECT 1"}))

    try:
        asyncio.run(speak())
    except* (BrokenResourceError, ClosedResourceError):
        # What is answered to the late call while the client closes goes to a stream of the client that nobody reads any more.
        pass
    # The connection was as good as before.
    assert [answer.structured_content["rows"] for answer in answers] == [[[1]]]
    return told[-1]


def test_the_service_ends_while_agents_wait(serving: Serving) -> None:
    app = create_app(Settings.of(workers=1), Catalog([Root(path=str(FLINK / "native"))]))
    results: list[Any] = []
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as http:
        agent = Agent(http)
        asking = threading.Thread(
            target=lambda: results.append(
                agent.send("tools/call", {"name": "query", "arguments": {"sql": ENDLESS}})
            )
        )
        asking.start()
        wait_until(lambda: len(app.state.service.queries.open_states()) == 1)
        app.state.service.queries.drain(0)
        asking.join(timeout=60)

    assert results[0].json()["result"]["structuredContent"]["error"]["code"] == "SERVICE_ENDING"


# ---- the program ----


@contextmanager
def spoken(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], Callable[..., None]]]:
    """The program, after the greeting, and what writes messages to it; texts are written as they are."""
    opened = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    with subprocess.Popen(
        [sys.executable, "-m", "savepointdb", "mcp", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        incoming = process.stdin

        def write(*messages: dict[str, Any] | str) -> None:
            for message in messages:
                text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
                incoming.write(f"{text}\n")
            incoming.flush()

        write({"id": 1, "method": "initialize", "params": opened})
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "savepointdb"
        write({"method": "notifications/initialized"})
        yield process, write


def asking(number: int, sql: str) -> dict[str, Any]:
    return {"id": number, "method": "tools/call", "params": {"name": "query", "arguments": {"sql": sql}}}


def answer_to(process: subprocess.Popen[str], number: int) -> dict[str, Any]:
    """The answer with this number; all that is written before it must be messages, too."""
    assert process.stdout is not None
    answer: dict[str, Any] = {}
    while answer.get("id") != number:
        answer = json.loads(process.stdout.readline())
        assert answer["jsonrpc"] == "2.0"
    return answer


def test_standard_output_belongs_to_the_protocol(tmp_path: Path) -> None:
    with spoken("--root", job_in(tmp_path)) as (process, write):
        write("{ no message", asking(2, "SELECT 1"))
        answer = answer_to(process, 2)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        rest = process.stdout.read()

        assert process.wait(timeout=60) == 0
    assert answer["result"]["structuredContent"]["rows"] == [[1]]
    assert rest == ""


def test_a_signal_ends_the_program_and_a_cancelled_query_makes_room(tmp_path: Path) -> None:
    with spoken(tmp_path) as (process, write):
        write(asking(2, ENDLESS), {"method": "notifications/cancelled", "params": {"requestId": 2}})
        write(asking(3, ENDLESS), asking(4, "SELECT 1"))
        assert answer_to(process, 4)["result"]["structuredContent"]["rows"] == [[1]]
        process.send_signal(signal.SIGINT)

        assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        assert process.stderr.read() == f"savepointdb: there is no savepoint yet in {tmp_path}\n"


def test_the_program_wants_savepoints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp"]) == 2

    assert capsys.readouterr().err == (
        "savepointdb: expected PATH or --root: a savepoint, a checkpoint, or a folder with some\n"
    )


# ---- without the SDK ----


WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mcp", "mcp_types"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def test_without_the_sdk_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    program = f"{WITHOUT}\nfrom service.cli import main\nsys.exit(main(['mcp', {str(FLINK)!r}]))"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (
        2,
        "",
        "savepointdb: the Model Context Protocol needs the extra mcp: pip install 'savepointdb[mcp]'\n",
    )


def test_a_service_without_agents_imports_no_sdk_and_a_closed_door_says_so(serving: Serving) -> None:
    program = """
import sys
from service import cli
from service.doors import app
from service.doors.cli import serve, mcp
sys.exit(any(name.split(".")[0] in ("mcp", "mcp_types") for name in sys.modules))
"""
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    assert subprocess.run([sys.executable, "-c", program], check=False, env=environment).returncode == 0

    with serving(create_app(Settings.of(workers=1, mcp="off"), Catalog([]))) as address:
        answer = httpx.post(f"{address}/mcp", headers=HEADERS, content=b"{}", timeout=60)

    assert (answer.status_code, answer.json()["error"]["hint"]) == (404, "the setting mcp turns it on")
