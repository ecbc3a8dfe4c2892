"""The rules of a running service: who sees what of them, who silences them, and what Prometheus gets."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from catalog import Catalog, Root
from catalog.masks.masks import Masks
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from tests.support.changing import TABLE, make_job
from tests.support.receiving import Receiver
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

Serving = Callable[[FastAPI], AbstractContextManager[str]]
RULES = f"""
[[rule]]
name = "no new/word"
severity = "warning"
sql = '''SELECT key, after.value FROM {TABLE} AS after ANTI JOIN previous.{TABLE} AS before USING (key)'''
"""
MASKS = 'version = 1\n[[mask]]\ncolumns = ["*.key"]\nwith = "null"\n'
GRANTS = {
    "owner": ["operator:*"],
    "operator": ["*", "operator:prod__other*"],
    "reader": ["prod__job__chk-3", "prod__job__chk-2"],
    "partly": ["prod__job__chk-3"],
    "stranger": ["prod__other*"],
}
FIRING, OK = ("prod__job", "firing"), ("prod__other", "ok")


class Door:
    """A service over two jobs with a rule: of one job it fires since checkpoint 3."""

    def __init__(self, address: str, keys: dict[str, str], root: Path, receiver: Receiver) -> None:
        self.address = address
        self.keys = keys
        self.root = root
        self.receiver = receiver

    def ask(self, name: str, method: str, path: str, **request: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.keys[name]}"}
        return httpx.request(method, self.address + path, headers=headers, timeout=60, **request)

    def listed(self, name: str) -> list[dict[str, Any]]:
        answer = self.ask(name, "GET", "/api/rules")
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["rules"]
        return found

    def states(self, name: str) -> list[tuple[str, str]]:
        return [(one["job"], one["state"]) for one in self.listed(name)]

    def metrics(self, name: str, metric: str) -> dict[str, float]:
        families = text_string_to_metric_families(self.ask(name, "GET", "/metrics").text)
        return {
            sample.labels["job"]: sample.value
            for family in families
            for sample in family.samples
            if sample.name == metric and sample.labels["rule"] == "no new/word"
        }


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("rules")
    root = folder / "root"
    make_job(root / "job")
    shutil.move(root / "job" / "chk-4", folder / "chk-4")
    for number in (1, 2):
        shutil.copytree(root / "job" / "chk-2", root / "other" / f"chk-{number}")
    (folder / "rules.toml").write_text(RULES)
    keys = KeyFile(folder / "keys.json")
    secrets = {name: keys.create(name, grants) for name, grants in GRANTS.items()}
    secrets["masked"] = keys.create("masked", ["operator:*"], mask="analyst")
    with closing(Receiver([200])) as receiver:
        settings = Settings.of(
            workers=1, rescan_after_s=0.1, rules=str(folder / "rules.toml"), rules_webhook=receiver.url
        )
        catalog = Catalog([Root(path=str(root), label="prod")], masks={"analyst": Masks.parse(MASKS)})
        app = create_app(settings, catalog, authenticator=Authenticator(keys))
        with serving(app) as address:
            made = Door(address, secrets, folder, receiver)
            wait_until(lambda: len(made.listed("owner")) == 2 and receiver.requests)
            yield made


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("owner", [FIRING, OK]),
        ("masked", [FIRING, OK]),
        ("reader", [FIRING]),
        # The rows are those of two checkpoints.
        ("partly", []),
        ("stranger", [OK]),
    ],
)
def test_a_user_sees_the_jobs_of_the_grants(door: Door, name: str, expected: list[tuple[str, str]]) -> None:
    assert door.states(name) == expected
    firing = {job: float(state == "firing") for job, state in expected}
    assert door.metrics(name, "savepointdb_rule_firing") == firing
    assert door.metrics(name, "savepointdb_rule_error") == dict.fromkeys(firing, 0.0)


def test_first_rows_and_the_link_to_all_are_for_users_without_a_mask(door: Door) -> None:
    (seen,) = door.listed("reader")
    masked, _ = door.listed("masked")

    (result,) = seen["results"]
    assert result["rows"]["rows"] == [["new", 5]]
    answer = door.ask("reader", "GET", result["all_rows"])
    assert answer.json()["rows"] == [["new", 5]]
    assert seen["message"] == "expected no row, found 1 row"
    assert (seen["since"]["checkpoint_id"], seen["tested"]["database"]) == (3, "prod__job__chk-3")
    assert (masked["message"], masked["results"]) == (None, [])


SILENCE = "/api/rules/no new%2Fword/silence"


def test_only_operators_of_the_job_silence_a_rule(door: Door) -> None:
    def refused(name: str, job: str = "prod__job", **request: Any) -> tuple[int, str]:
        body = {"job": job, "minutes": 5, **request}
        answer = door.ask(name, "POST", SILENCE, json=body)
        return answer.status_code, answer.json()["error"]["code"]

    assert refused("reader") == refused("masked") == refused("operator") == (403, "FORBIDDEN")
    assert refused("owner", "prod__nope") == (404, "JOB_NOT_FOUND")
    assert (
        door.ask("owner", "POST", "/api/rules/nope/silence", json={"job": "job", "minutes": 1}).status_code
        == 404
    )
    for minutes in (-1, 1e9, "NaN"):
        assert refused("owner", minutes=minutes)[0] == 400
    assert refused("owner", until="x")[0] == 400
    assert all(one["silenced_until"] is None for one in door.listed("owner"))


def test_a_silence_ends_when_an_operator_says_so(door: Door) -> None:
    for end in (("POST", {"json": {"job": "OTHER", "minutes": 0}}), ("DELETE", {"params": {"job": "other"}})):
        answer = door.ask("operator", "POST", SILENCE, json={"job": "other", "minutes": 5})
        assert answer.json()["silenced_until"] is not None
        method, request = end
        assert door.ask("operator", method, SILENCE, **request).json()["silenced_until"] is None


def test_a_service_posts_what_changes_once(door: Door) -> None:
    shutil.move(door.root / "chk-4", door.root / "root" / "job" / "chk-4")
    wait_until(lambda: len(door.receiver.requests) == 2)
    wait_until(lambda: door.states("owner") == [("prod__job", "ok"), OK])

    assert [(one["job"], one["event"]) for one in door.receiver.bodies] == [FIRING, ("prod__job", "ok")]
    assert door.metrics("owner", "savepointdb_rule_firing") == {"prod__job": 0, "prod__other": 0}
