"""`POST /api/diff`: the same answer as `savepointdb diff --format json`; limits, grants, and savepoints that go."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from catalog import Catalog, Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.support.differing import BEFORE

TYPE = "VALUE(key String, namespace VoidNamespace, value Long)"

Serving = Callable[[FastAPI], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, after: Path) -> Path:
    made = tmp_path_factory.mktemp("differing")
    for name in ("before", "gone"):
        shutil.copytree(BEFORE, made / name)
    shutil.copytree(after, made / "after")
    return made


@pytest.fixture(scope="module")
def client(serving: Serving, folder: Path) -> Iterator[httpx.Client]:
    roots = [Root(path=str(folder / name)) for name in ("before", "after", "gone")]
    app = create_app(Settings.of(max_scan_bytes=1 << 20), Catalog(roots))
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as made:
        yield made


@pytest.mark.slow
def test_operators_states_offsets_and_sizes(client: httpx.Client) -> None:
    answer = client.post("/api/diff", json={"before": "before", "after": "after"}).json()

    assert (answer["before"], answer["after"], answer["is_equal"]) == ("before", "after", False)
    operators = {operator["name"]: operator for operator in answer["operators"]}
    assert {name: operator["change"] for name, operator in operators.items()} == {
        "mod7-no-uid": "same",
        "aggregate": "changed",
        "source": "changed",
    }
    [count] = operators["aggregate"]["states"]
    assert (count["table_name"], count["type_before"], count["type_after"]) == (
        "aggregate__count",
        TYPE,
        TYPE,
    )
    assert (count["added"], count["removed"], count["changed"]) == (1, 1, 1)
    assert {"change": "changed", "identity": "key_662", "before": "11290", "after": "11291"} in count[
        "samples"
    ]
    assert [
        {name: offset[name] for name in ("operator", "topic", "partition", "before", "after")}
        for offset in answer["offsets"]
    ] == [{"operator": "source", "topic": "words", "partition": 2, "before": 36445, "after": 24000}]
    assert answer["sizes"]["before"] > 0


def test_the_one_before_in_its_job_is_previous(serving: Serving, tmp_path: Path, after: Path) -> None:
    for name, savepoint in (("chk-1", BEFORE), ("chk-3", after)):
        shutil.copytree(savepoint, tmp_path / "job" / name)
    (tmp_path / "job" / "chk-2").mkdir()
    (tmp_path / "job" / "chk-2" / "_metadata").write_bytes(b"broken")
    app = create_app(Settings(), Catalog([Root(path=str(tmp_path / "job"))]))

    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        found = client.post("/api/diff", json={"before": "previous", "after": "latest"}).json()
        alone = client.post("/api/diff", json={"before": "previous", "after": "job__chk-1"})

    assert (found["before"], found["after"]) == ("job__chk-1", "job__chk-3")
    assert [
        '"job__chk-2" is newer than "previous", and cannot be read' in text for text in found["skipped"]
    ] == [True]
    assert alone.status_code == 404
    assert "no savepoint before 'job__chk-1' in its job" in alone.json()["error"]["message"]


@pytest.mark.slow
def test_one_operator_alone(client: httpx.Client) -> None:
    body = {"before": "before", "after": "after", "operator": "mod7-no-uid"}

    answer = client.post("/api/diff", json=body).json()

    assert answer["is_equal"]
    assert answer["offsets"] == []
    assert [operator["name"] for operator in answer["operators"]] == ["mod7-no-uid"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"before": "before", "after": "afte"}, 404, "DATABASE_NOT_FOUND"),
        ({"before": "before", "after": "after", "operator": "agregate"}, 404, "TABLE_NOT_FOUND"),
        ({"before": "before", "after": "after", "max_byte": 1}, 400, "INVALID_REQUEST"),
        ({"before": "before", "after": "after", "max_bytes": 10}, 413, "LIMIT_EXCEEDED"),
    ],
)
def test_what_is_refused(client: httpx.Client, body: dict[str, object], status: int, code: str) -> None:
    answer = client.post("/api/diff", json=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.slow
def test_it_stands_in_the_history_as_a_query(client: httpx.Client) -> None:
    answer = client.post("/api/diff", json={"before": "before", "after": "after"}).json()

    record = client.get(f"/api/queries/{answer['query_id']}").json()

    assert record["sql"] == "SELECT * FROM diff('before', 'after')"
    assert [database["name"] for database in record["databases"]] == ["before", "after"]


@pytest.mark.slow
def test_a_savepoint_that_is_gone_is_named(client: httpx.Client, folder: Path) -> None:
    # What it has is known; its rows are not.
    client.get("/api/databases/gone/tables/aggregate__count").raise_for_status()
    shutil.rmtree(folder / "gone")

    answers = [
        client.post("/api/diff", json={"before": "before", "after": "gone"}),
        client.post("/api/query", json={"sql": "SELECT * FROM diff('gone', 'before', 'aggregate__count')"}),
    ]

    for answer in answers:
        assert answer.status_code == 410
        assert answer.json()["error"]["code"] == "SAVEPOINT_GONE"
        assert answer.json()["error"]["message"].startswith('savepoint "gone" was removed while ')
