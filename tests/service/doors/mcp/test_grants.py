"""Rules and previews of a key that sees one checkpoint of a job, neither the one before it nor the newest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from catalog import Catalog, Root
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from tests.support.agents import Agent
from tests.support.retained import JOB, changed, retain

Serving = Callable[[FastAPI], AbstractContextManager[str]]
Test = Callable[..., dict[str, Any]]
BEFORE, SEEN, AFTER = (f"job__{JOB}__chk-{number}" for number in (1, 2, 3))
# Rule → the table that it reads, and its status.
RULES = {
    "own": ("aggregate", "passed"),
    "current": ("current.aggregate", "passed"),
    "previous": ("previous.aggregate", "skipped"),
    "before": (f'"{BEFORE}".aggregate', "error"),
    "after": (f'"{AFTER}".aggregate', "error"),
    # It is the newest one that the rule sees: in the hidden one a value is negative.
    "latest": ("latest.aggregate WHERE value < 0", "violated"),
}
TEXT = "".join(
    f"[[rule]]\nname = '{name}'\nsql = 'SELECT count(*) FROM {table}'\nexpect = {{ min = 1 }}\n"
    for name, (table, _) in RULES.items()
)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[httpx.Client]:
    """A client whose key sees the second of three checkpoints."""
    folder = tmp_path_factory.mktemp("grants")
    bad = changed(folder / "bad", "UPDATE aggregate__count SET value = -3 WHERE key = 'key_1'")
    retain(folder / "job" / JOB, range(1, 3))
    retain(folder / "job" / JOB, range(3, 4), bad)
    keys = KeyFile(folder / "keys.json")
    secret = keys.create("analyst", ["*chk-2"])
    app = create_app(
        Settings.of(workers=1),
        Catalog([Root(path=str(folder / "job"))]),
        authenticator=Authenticator(keys),
    )
    authorization = {"authorization": f"Bearer {secret}"}
    with serving(app) as address, httpx.Client(base_url=address, timeout=60, headers=authorization) as client:
        yield client


@pytest.fixture(scope="module")
def agent(http: httpx.Client) -> Agent:
    return Agent(http)


@pytest.fixture(params=["http", "mcp"])
def tested(request: pytest.FixtureRequest, http: httpx.Client, agent: Agent) -> Test:
    """Test rules at one of the doors."""
    if request.param == "http":
        return lambda **body: dict(http.post("/api/tests", json=body).json())
    return lambda **arguments: dict(agent.call("test", **arguments)["structuredContent"])


@pytest.mark.parametrize("options", [{}, {"all": True}, {"database": SEEN}], ids=["newest", "all", "named"])
def test_rules_see_the_savepoints_of_the_key(tested: Test, options: dict[str, Any]) -> None:
    [found] = tested(rules=TEXT, **options)["savepoints"]

    assert (found["name"], found["previous"]) == (SEEN, None)
    assert {one["rule"]: one["status"] for one in found["results"]} == {
        name: status for name, (_, status) in RULES.items()
    }


@pytest.mark.parametrize("name", [BEFORE, AFTER, "previous", "current"])
@pytest.mark.parametrize("option", ["database", "previous"])
def test_a_hidden_savepoint_is_no_savepoint_to_rules(tested: Test, option: str, name: str) -> None:
    assert tested(rules=TEXT, **{option: name})["error"]["code"] == "DATABASE_NOT_FOUND"


def test_a_preview_is_made_of_the_savepoint_of_the_key(agent: Agent) -> None:
    told = agent.call("preview_write", sql="DELETE FROM aggregate__count WHERE key = 'key_662'")

    assert (told["structuredContent"]["database"], told["structuredContent"]["rows"]) == (SEEN, 1)


@pytest.mark.parametrize("name", [BEFORE, AFTER, "previous", "current"])
def test_a_hidden_savepoint_is_no_savepoint_to_a_preview(agent: Agent, name: str) -> None:
    told = agent.call("preview_write", sql="DELETE FROM aggregate__count", database=name)

    assert told["structuredContent"]["error"]["code"] == "DATABASE_NOT_FOUND"


@pytest.mark.parametrize("name", [AFTER, "previous"])
def test_the_script_of_a_preview_reads_no_hidden_savepoint(agent: Agent, name: str) -> None:
    script = f'DELETE FROM aggregate__count WHERE key IN (SELECT key FROM "{name}".aggregate)'
    told = agent.call("preview_write", sql=script)

    assert told["structuredContent"]["error"]["code"] == "DATABASE_NOT_FOUND"
