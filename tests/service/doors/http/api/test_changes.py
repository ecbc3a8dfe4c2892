"""`GET /api/jobs/{job}/changes`: a stream of events or lines, shared by all who follow."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from fastapi import FastAPI

from catalog import Catalog, Root
from catalog.masks.masks import Masks
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import _LOOK_EVERY_S, KeyFile
from tests.support.changing import CHANGES, TABLE, make_job, numbered
from tests.support.serving import listening

ROWS = [(number, *row) for number, rows in CHANGES.items() for row in rows]
LINES = {"Accept": "application/jsonl"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_job(tmp_path_factory.mktemp("changes") / "job")


@pytest.fixture
def job(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "root" / "job"))


@pytest.fixture
def app(job: Path) -> FastAPI:
    return create_app(Settings(), Catalog([Root(path=str(job.parent), label="prod")]))


@pytest.fixture
def url(app: FastAPI) -> Iterator[str]:
    with listening(app, 5) as found:
        yield found


def address(url: str, job: str = "job") -> str:
    return f"{url}/api/jobs/{job}/changes"


def rows_of(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("checkpoint_id", "change", "key", "value_before", "value_after")
    return sorted((tuple(map(one.get, names)) for one in events if "change" in one), key=str)


def get(url: str, **options: Any) -> httpx.Response:
    return httpx.get(url, timeout=60, **options)


def lines_of(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200
    return [orjson.loads(line) for line in answer.text.splitlines() if line]


def test_events_have_names_and_a_checkpoint_the_id_to_go_on_from(url: str) -> None:
    answer = get(address(url), params={"table": TABLE, "since": "2", "once": "true"})

    events = [
        dict(line.split(": ", 1) for line in one.splitlines()) for one in answer.text.strip().split("\n\n")
    ]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert [(one["event"], one.get("id")) for one in events] == [
        ("change", None),
        ("change", None),
        ("checkpoint", "3"),
        ("change", None),
        ("checkpoint", "4"),
    ]
    assert rows_of([orjson.loads(one["data"]) for one in events]) == sorted(
        [row for row in ROWS if row[0] > 2], key=str
    )
    assert orjson.loads(events[-1]["data"]) == {"checkpoint": 4, "complete": True, "rows": 1, "token": "4"}


def test_lines_are_those_of_the_command_line_and_the_last_event_goes_before_since(url: str) -> None:
    asked: dict[str, str] = {"table": TABLE, "since": "1", "once": "true"}
    lines = lines_of(get(address(url), params=asked, headers=LINES))
    later = lines_of(get(address(url), params=asked, headers={**LINES, "Last-Event-ID": "3"}))
    answers = lines_of(
        get(
            address(url),
            params={"sql": f"SELECT sum(value) AS s FROM {TABLE}", "since": "3", "once": "true"},
            headers=LINES,
        )
    )

    assert rows_of(lines) == sorted(ROWS, key=str)
    assert rows_of(later) == [(4, "removed", "new", 5, None)]
    assert [(one["change"], one["s"]) for one in answers[:-1]] == [("removed", 111666), ("added", 111661)]


@pytest.mark.parametrize(
    ("job_name", "params", "status", "code"),
    [
        ("job", {}, 400, "INVALID_REQUEST"),
        ("job", {"table": TABLE, "sql": "SELECT 1"}, 400, "INVALID_REQUEST"),
        ("job", {"table": "aggregate__cont"}, 404, "TABLE_NOT_FOUND"),
        ("job", {"sql": "SELECT * FROM aggregate__cont"}, 404, "TABLE_NOT_FOUND"),
        ("job", {"sql": "DROP TABLE x"}, 404, "TABLE_NOT_FOUND"),
        ("job", {"table": TABLE, "since": "77"}, 400, "INVALID_REQUEST"),
        ("jobs", {"table": TABLE}, 404, "JOB_NOT_FOUND"),
        ("job", {"table": TABLE, "engine": "no"}, 400, "INVALID_REQUEST"),
    ],
)
def test_what_means_nothing_has_a_status(
    url: str, job_name: str, params: dict[str, str], status: int, code: str
) -> None:
    answer = get(address(url, job_name), params=params)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_token_of_a_checkpoint_that_was_not_found_yet_is_looked_for(
    url: str, job: Path, tmp_path: Path
) -> None:
    assert get(address(url), params={"table": TABLE, "since": "6", "once": "true"}).status_code == 400
    numbered(Path(shutil.copytree(job / "chk-4", tmp_path / "5")), 5).rename(job / "chk-5")

    lines = lines_of(get(address(url), params={"table": TABLE, "since": "5", "once": "true"}, headers=LINES))

    assert lines == []


@asynccontextmanager
async def following(client: httpx.AsyncClient, url: str, **params: str) -> AsyncIterator[AsyncIterator[str]]:
    async with client.stream("GET", address(url), params=params, headers=LINES) as answer:
        assert answer.status_code == 200
        yield (line async for line in answer.aiter_lines() if line)


async def next_checkpoint(lines: AsyncIterator[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async for line in lines:
        found.append(orjson.loads(line))
        if "checkpoint" in found[-1] or "error" in found[-1]:
            break
    return found


def test_a_hundred_followers_of_a_table_cost_one_diff(
    app: FastAPI, url: str, job: Path, tmp_path: Path
) -> None:
    followers = app.state.service.followers
    later = shutil.move(job / "chk-4", tmp_path / "kept")

    async def read() -> list[list[dict[str, Any]]]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=60) as client:

            async def one() -> list[dict[str, Any]]:
                async with following(client, url, table=TABLE) as lines:
                    return await next_checkpoint(lines)

            tasks = [asyncio.create_task(one()) for _ in range(100)]
            while followers.count < 100:
                await asyncio.sleep(0.05)
            shutil.move(later, job / "chk-4")
            return await asyncio.gather(*tasks)

    found = asyncio.run(asyncio.wait_for(read(), 100))

    assert followers.diffs == 1
    assert len(found) == 100
    assert all(rows_of(one) == [(4, "removed", "new", 5, None)] for one in found)


def test_credentials_grants_and_masks_are_asked_at_each_checkpoint(job: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    file = KeyFile(keys)
    secrets = {
        "all": file.create("all", ["*"]),
        "masked": file.create("masked", ["*"], mask="m"),
        "other": file.create("other", ["elsewhere/*"]),
    }
    masks = Masks.parse('version = 1\n[[mask]]\ncolumns = ["aggregate__count.value"]\nwith = "null"\n')
    catalog = Catalog([Root(path=str(job.parent), label="prod")], masks={"m": masks})
    app = create_app(Settings(), catalog, authenticator=Authenticator(KeyFile(keys)))
    later = shutil.move(job / "chk-4", tmp_path / "kept")

    async def read(url: str) -> tuple[list[dict[str, Any]], ...]:
        async with httpx.AsyncClient(timeout=60) as client:

            def asked(name: str) -> Any:
                headers = {**LINES, "Authorization": f"Bearer {secrets[name]}"}
                return client.stream(
                    "GET", address(url), params={"table": TABLE, "since": "2"}, headers=headers
                )

            async with asked("other") as refused:
                assert refused.status_code == 404
            async with asked("all") as plain, asked("masked") as masked:
                lines = [(line async for line in one.aiter_lines() if line) for one in (plain, masked)]
                seen = [await next_checkpoint(one) for one in lines]
                file.revoke("all")
                await asyncio.sleep(_LOOK_EVERY_S)
                shutil.move(later, job / "chk-4")
                return (*seen, *[await next_checkpoint(one) for one in lines])

    with listening(app, 5) as url:
        plain, masked, revoked, still = asyncio.run(asyncio.wait_for(read(url), 100))

    assert rows_of(plain) == [(3, "added", "new", None, 5), (3, "changed", "key_662", 11291, 11292)]
    assert {one.get("value_after") for one in masked if "change" in one} == {None}
    assert revoked[-1]["error"]["code"] == "UNAUTHORIZED"
    assert revoked[-1]["token"] == "3"
    assert {one.get("value_before") for one in still if "change" in one} == {None}
    assert app.state.service.followers.diffs == 3
