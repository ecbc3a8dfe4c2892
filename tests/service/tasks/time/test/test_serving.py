"""The rules of a service: what is told of a change, once; and what is kept over restarts."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from catalog import Catalog, Root
from service.base.errors import InvalidRequestError
from service.base.settings import InvalidSettingError, Settings
from service.query.encode.formats import Column
from service.query.engines.registry import open_engines
from service.query.running.session import FirstRows, Session
from service.tasks.time.test.rules import InvalidRulesError, Rule
from service.tasks.time.test.running import RuleResult, SavepointResult, Status
from service.tasks.time.test.serving import USER, ServedRules
from service.tasks.time.test.states import Condition, RuleStates, verdict_of
from tests.support.changing import TABLE, make_job
from tests.support.receiving import Receiver
from tests.support.waiting import wait_until

# Checkpoint 3 brings a key, and 4 takes it away.
RULES = f"""
[[rule]]
name = "no new word"
description = "All words are known."
sql = '''SELECT key, after.value FROM {TABLE} AS after ANTI JOIN previous.{TABLE} AS before USING (key)'''
[[rule]]
name = "every checkpoint has keys"
sql = "SELECT count(*) FROM {TABLE}"
expect = {{ min = 1 }}
[[rule]]
name = "of another job"
sql = "SELECT 1"
job = "prod__other*"
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_job(tmp_path_factory.mktemp("rules") / "job")


class Served:
    """A folder of checkpoints that come one by one, and the rules of a service over it."""

    def __init__(self, written: Path, folder: Path) -> None:
        self.written = written
        self.root = folder / "root"
        self.rules = folder / "rules.toml"
        self.rules.write_text(RULES)
        self.receiver = Receiver([200])
        self.add(1)
        self.add(2)

    def add(self, number: int) -> None:
        # Elsewhere first: Flink writes `_metadata` last, so a checkpoint appears at once.
        made = shutil.copytree(self.written / f"chk-{number}", self.root.parent / "new")
        (self.root / "job").mkdir(parents=True, exist_ok=True)
        made.rename(self.root / "job" / f"chk-{number}")

    def running(self, **settings: Any) -> Running:
        given = {"rules": str(self.rules), "rules_webhook": self.receiver.url, "rescan_after_s": 0.1}
        return Running(self, Settings.of(**given | settings))

    @property
    def told(self) -> list[tuple[str, str, int]]:
        bodies = self.receiver.bodies
        return [(one["rule"], one["event"], one["since"]["checkpoint_id"]) for one in bodies]


class Running:
    """The thread of a service."""

    def __init__(self, served: Served, settings: Settings) -> None:
        catalog = Catalog([Root(path=str(served.root), label="prod")])
        self._session = Session(catalog, open_engines(settings), settings)
        self.rules = ServedRules(settings, catalog, self._session.start)

    @property
    def states(self) -> RuleStates:
        assert self.rules.states is not None
        return self.rules.states

    def tested(self, number: int) -> bool:
        """True if checkpoint `number` was tested, and what it changes was told."""
        states = self.states.shown()
        return bool(states) and all(
            one.tested and one.tested.checkpoint_id == number and (one.told is one.state or one.is_silenced)
            for one in states
        )

    def __enter__(self) -> Running:
        self.rules.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.rules.close()
        self._session.close()


@pytest.fixture
def served(written: Path, tmp_path: Path) -> Iterator[Served]:
    made = Served(written, tmp_path)
    with closing(made.receiver):
        yield made


@pytest.mark.slow
def test_a_change_is_told_once_also_after_a_restart(served: Served) -> None:
    with served.running() as running:
        wait_until(lambda: running.tested(2))
        assert served.told == []
        served.add(3)
        wait_until(lambda: running.tested(3))
        assert served.told == [("no new word", "firing", 3)]
    with served.running() as running:
        wait_until(lambda: running.tested(3))
        assert served.told == [("no new word", "firing", 3)]
        served.add(4)
        wait_until(lambda: running.tested(4))
    with served.running() as running:
        wait_until(lambda: running.tested(4))

    assert served.told == [("no new word", "firing", 3), ("no new word", "ok", 4)]
    firing, fine = served.receiver.bodies
    assert firing == {
        "event": "firing",
        "text": "prod__job: no new word: firing: expected no row, found 1 row",
        "job": "prod__job",
        "rule": "no new word",
        "severity": "error",
        "description": "All words are known.",
        "state": "firing",
        "since": firing["tested"],
        "tested": {
            "database": "prod__job__chk-3",
            "checkpoint_id": 3,
            "created_at": "2026-09-01T12:00:03+00:00",
        },
        "message": "expected no row, found 1 row",
        "results": [
            {
                "table": None,
                "status": "violated",
                "message": "expected no row, found 1 row",
                "rows": {
                    "columns": [{"name": "key", "type": "VARCHAR"}, {"name": "value", "type": "BIGINT"}],
                    "rows": [["new", 5]],
                    "row_count": 1,
                    "is_cut": False,
                },
                "all_rows": firing["results"][0]["all_rows"],
            }
        ],
        "silenced_until": None,
    }
    assert firing["results"][0]["all_rows"].startswith("/db/prod__job__chk-3?sql=SELECT%20key")
    assert (fine["message"], fine["results"]) == (None, [])


def test_the_file_of_states_has_no_value(served: Served) -> None:
    served.add(3)
    with served.running() as running:
        wait_until(lambda: running.tested(3))
    kept = (served.rules.parent / "rules.toml.state.json").read_bytes()

    assert orjson.loads(kept)["rules"] == [
        {
            "job": "prod__job",
            "rule": rule,
            "state": state,
            "since": {
                "database": "prod__job__chk-3",
                "checkpoint_id": 3,
                "created_at": "2026-09-01T12:00:03+00:00",
            },
            "told": state,
            "silenced_until": None,
        }
        for rule, state in (("every checkpoint has keys", "ok"), ("no new word", "firing"))
    ]
    assert b"new'" not in kept


def test_what_the_receiver_does_not_take_is_told_later(served: Served) -> None:
    served.receiver.statuses.insert(0, 500)
    served.add(3)
    with served.running() as running:
        wait_until(lambda: running.tested(3))

    assert served.told == [("no new word", "firing", 3)] * 2


@pytest.mark.slow
def test_in_a_silence_nothing_is_told_also_after_a_restart(served: Served) -> None:
    silenced = datetime.now(UTC) + timedelta(minutes=5)
    with served.running() as running:
        wait_until(lambda: running.tested(2))
        (state,) = [one for one in running.states.shown() if one.rule.name == "no new word"]
        running.states.change(state, silenced_until=silenced)
        served.add(3)
        wait_until(lambda: running.tested(3))
    with served.running() as running:
        wait_until(lambda: running.tested(3))
        (state,) = [one for one in running.states.shown() if one.rule.name == "no new word"]
        assert (state.state, state.silenced_until, served.told) == (Condition.FIRING, silenced, [])
        running.states.change(state, silenced_until=None)
        wait_until(lambda: served.told)

    assert served.told == [("no new word", "firing", 3)]


@pytest.mark.parametrize(
    "damaged",
    [
        *(b"", b"\xff", b"[]", b"{}", b"[" * 100_000, b'{"version": 2, "rules": []}'),
        b'{"version": 1, "rules": [{"rule": []}]}',
        b'{"version": 1, "rules": [{"rule": "no new word", "job": 1}]}',
    ],
)
def test_a_damaged_file_is_named_and_begun_anew(
    damaged: bytes, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    path = served.root.parent / "states.json"
    path.write_bytes(damaged)

    states = RuleStates(path, [Rule(name="no new word", sql="SELECT 1")])

    assert states.shown() == []
    assert f"{path}: expected the states of rules, found a damaged file" in caplog.text
    assert orjson.loads(path.read_bytes()) == {"version": 1, "rules": []}


def test_a_root_that_is_away_and_a_checkpoint_that_vanishes_stop_nothing(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with served.running() as running:
        wait_until(lambda: running.tested(2))
        away = served.root.rename(served.root.parent / "away")
        wait_until(lambda: "new checkpoints cannot be looked for" in caplog.text)
        away.rename(served.root)
        (served.root / "job" / "chk-9").mkdir()
        (served.root / "job" / "chk-9" / "_metadata").symlink_to("nowhere")
        served.add(3)
        wait_until(lambda: running.tested(3))

    assert served.told == [("no new word", "firing", 3)]


def test_a_rule_that_cannot_be_tested_is_an_error_and_no_violation(served: Served) -> None:
    served.rules.write_text('[[rule]]\nname = "wrong"\nsql = "SELECT nope FROM StateMeta"')
    with served.running() as running:
        wait_until(lambda: running.tested(2))
        (state,) = running.states.shown()

    assert served.told == [("wrong", "error", 2)]
    assert "nope" in state.message


def test_a_query_that_runs_holds_up_no_shutdown(served: Served) -> None:
    forever = "SELECT count(*) FROM range(1000000000000) WHERE range % 7 = 9"
    served.rules.write_text(f'[[rule]]\nname = "slow"\nsql = "{forever}"')
    with served.running() as running:
        wait_until(lambda: any(thread.name == USER for thread in threading.enumerate()))
        time.sleep(0.3)
        started = time.monotonic()
        running.rules.close()

    assert time.monotonic() - started < 2
    assert not any(thread.name == USER for thread in threading.enumerate())


def test_without_rules_there_is_no_thread(served: Served) -> None:
    with served.running(rules="", rules_webhook="") as running:
        assert running.rules.states is None
        assert not any(thread.name == USER for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"rules": "nowhere.toml"}, InvalidRulesError, "nowhere.toml: expected a file of rules"),
        ({"rules": ""}, InvalidSettingError, "expected rules beside rules_state and rules_webhook"),
        ({"rules_webhook": "ftp://x"}, InvalidRequestError, "--rules-webhook: expected https://HOST/PATH"),
        ({"rules_webhook": "", "rules_webhook_header": "x"}, InvalidSettingError, "expected rules_webhook"),
        ({"rules_state": "/proc/states.json"}, InvalidSettingError, "rules_state: expected a file that can"),
        ({"rules_state": "/proc"}, InvalidSettingError, "rules_state: expected a file that can"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    settings: dict[str, str], kind: type[Exception], message: str, served: Served
) -> None:
    with pytest.raises(kind, match=message):
        served.running(**settings)


# ---- states ----


RULE = Rule(name="r", sql="SELECT 1")


def savepoint(number: int, *statuses: Status) -> SavepointResult:
    results = tuple(RuleResult(rule=RULE, status=one, table=f"t{at}") for at, one in enumerate(statuses))
    return SavepointResult(name=f"chk-{number}", path="/", job="job", checkpoint_id=number, results=results)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((Status.PASSED, Status.ERROR, Status.VIOLATED), Condition.FIRING),
        ((Status.PASSED, Status.UNREADABLE), Condition.ERROR),
        ((Status.SKIPPED, Status.PASSED), Condition.OK),
        ((Status.SKIPPED,), None),
        ((), None),
    ],
)
def test_the_worst_state_counts(statuses: tuple[Status, ...], expected: Condition | None) -> None:
    assert verdict_of(savepoint(1, *statuses), RULE).state is expected


def test_a_rule_that_is_skipped_is_as_it_was(tmp_path: Path) -> None:
    states = RuleStates(tmp_path / "states.json", [RULE])
    states.serve(frozenset({"job"}))

    def learned(*savepoints: SavepointResult) -> tuple[Condition, str, str | None]:
        for one in savepoints:
            states.learn("job", RULE, verdict_of(one, RULE), one)
        (state,) = states.shown()
        return state.state, state.since.database, state.tested.database if state.tested else None

    assert learned(savepoint(1, Status.SKIPPED)) == (Condition.OK, "chk-1", None)
    assert learned(savepoint(2, Status.VIOLATED), savepoint(3, Status.VIOLATED)) == (
        Condition.FIRING,
        "chk-2",
        "chk-3",
    )
    assert learned(savepoint(4, Status.SKIPPED)) == (Condition.FIRING, "chk-2", "chk-3")


def test_states_of_jobs_that_are_away_wait_until_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.tasks.time.test.states._MOST_STATES", 3)
    states = RuleStates(tmp_path / "states.json", [RULE])
    for job in ("a", "b", "c", "d"):
        states.learn(job, RULE, verdict_of(savepoint(1, Status.VIOLATED), RULE), savepoint(1))
    states.serve(frozenset({"a"}))
    states.save()

    assert [one.job for one in states.shown()] == ["a"]
    again = RuleStates(tmp_path / "states.json", [RULE])
    again.serve(frozenset("abcd"))
    assert [one.job for one in again.shown()] == ["a", "c", "d"]


def test_large_rows_are_left_out_of_a_report() -> None:
    batch = pa.RecordBatch.from_pydict({"v": [list(range(20_000))]})
    rows = FirstRows(columns=(Column("v", "BIGINT[]"),), batch=batch, row_count=1, is_cut=False)
    found = savepoint(1, Status.VIOLATED)
    result = replace(found.results[0], rows=rows, sql="SELECT v FROM previous.t")

    (shown,) = verdict_of(replace(found, results=(result,)), RULE).results

    assert (shown["rows"], shown["all_rows"]) == (None, "/db/chk-1?sql=SELECT%20v%20FROM%20previous.t")
    (far,) = verdict_of(replace(found, results=(replace(result, sql="SELECT " + "1" * 9000),)), RULE).results
    assert far["all_rows"] is None
