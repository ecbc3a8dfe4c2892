"""`test` at every door: one request, one outcome."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import savepointdb
from service.base.errors import QueryError
from service.cli import main
from service.tasks.time.test.rules import given_params
from tests.conformance.conftest import NATIVE
from tests.support.doors import Door, Told, doors_over
from tests.support.retained import JOB, changed, retain


def rule(name: str, sql: str, more: str = "") -> str:
    return f"[[rule]]\nname = '{name}'\nsql = '''{sql}'''\n{more}\n"


HOLDS = rule("holds", "SELECT key FROM aggregate WHERE value < $least", "params = { least = 0 }")
VIOLATED = rule("violated", "SELECT key, value FROM aggregate WHERE value > 11000", "severity = 'warning'")
FAILS = rule("fails", "SELECT nothing FROM aggregate")
BEFORE = rule("before", "SELECT count(*) FROM previous.aggregate", "expect = { min = 1 }")


class _CommandLine(Door):
    """`savepointdb test RULES PATH --json -`: rules are files, and the savepoint is a path."""

    name = "cli"

    def __init__(self, folder: Path) -> None:
        self._rules = folder / "rules.toml"

    def run(self, task: str, savepoint: Path, **options: Any) -> Told:
        words = ["test", str(savepoint)]
        if rules := options.pop("rules", ""):
            self._rules.write_text(rules)
            words.append(str(self._rules))
        words += ["--json", "-"]
        for name, value in options.items():
            flag = "--param" if name == "params" else f"--{name.replace('_', '-')}"
            for one in value if isinstance(value, list) else [value]:
                words += [flag] if one is True else [flag, str(one)]
        out, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                code = main(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
        out.seek(0)
        text = out.read()
        return Told(json.loads(text) if text else None, errors.getvalue(), exit_code=code)


class _Python(Door):
    """`savepointdb.test(rules, path)`."""

    name = "python"

    def run(self, task: str, savepoint: Path, **options: Any) -> Told:
        rules, params = options.pop("rules", None), given_params(options.pop("params", ()))
        names = {"all": "all_savepoints"}
        how = {names.get(name, name): value for name, value in options.items()}
        try:
            return Told(savepointdb.test(rules, savepoint, params=params, **how).to_dict())
        except QueryError as error:
            return Told(None, error.message, error.code)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three checkpoints of a job; the last one has a negative value."""
    folder = tmp_path_factory.mktemp("test")
    bad = changed(folder / "bad", "UPDATE aggregate__count SET value = -3 WHERE key = 'key_1'")
    retain(folder / "job" / JOB, range(1, 3))
    retain(folder / "job" / JOB, range(3, 4), bad)
    return folder / "job"


@pytest.fixture(scope="module")
def job_doors(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    with doors_over(root) as opened:
        yield _with_own(opened, tmp_path_factory.mktemp("rules"))


def _with_own(doors: Mapping[str, Door], folder: Path) -> dict[str, Door]:
    return {**doors, "cli": _CommandLine(folder), "python": _Python()}


def _told(
    doors: Mapping[str, Door], savepoint: Path, database: str | None = None, **options: Any
) -> dict[str, Told]:
    """What each door answers; where a service has several savepoints, a request may name one."""
    named = {"http": {"database": database}, "mcp": {"database": database}}
    return {
        name: door.run("test", savepoint, **options, **named.get(name, {})) for name, door in doors.items()
    }


def _untimed(outcome: dict[str, Any]) -> dict[str, Any]:
    for savepoint in outcome["savepoints"]:
        for one in savepoint["results"]:
            del one["elapsed_s"]
    return outcome


@pytest.mark.parametrize(
    ("options", "statuses", "exit_code"),
    [
        ({"rules": HOLDS, "params": ["least=-5"]}, [["passed"]], 0),
        ({"rules": HOLDS}, [["violated"]], 1),
        ({"rules": VIOLATED}, [["violated"]], 0),
        ({"rules": VIOLATED, "fail_on": "warning"}, [["violated"]], 1),
        ({"rules": HOLDS + FAILS}, [["violated", "error"]], 2),
        ({"rules": HOLDS + FAILS + VIOLATED, "rule": ["v*"]}, [["violated"]], 0),
        ({"rules": BEFORE, "all": True}, [["skipped"], ["passed"], ["passed"]], 0),
        (
            {"rules": HOLDS, "standard": True, "rule": ["holds", "no partition lost"]},
            [["passed", "violated"]],
            1,
        ),
    ],
    ids=["params", "violated", "less severe", "fail_on", "error", "rule", "all", "standard"],
)
def test_every_door_tests_the_same(
    job_doors: dict[str, Door], root: Path, options: dict[str, Any], statuses: list[list[str]], exit_code: int
) -> None:
    told = {name: _untimed(one.outcome) for name, one in _told(job_doors, root, **options).items()}

    first = told["cli"]
    found = [[one["status"] for one in savepoint["results"]] for savepoint in first["savepoints"]]
    assert (found, first["exit_code"]) == (statuses, exit_code)
    assert {name: one == first for name, one in told.items()} == dict.fromkeys(told, True)


def test_every_door_names_a_savepoint_that_cannot_be_read(
    doors: dict[str, Door], broken: Path, tmp_path: Path
) -> None:
    told = _told(_with_own(doors, tmp_path), broken, broken.name, rules=HOLDS)

    assert {one.outcome["exit_code"] for one in told.values()} == {3}
    [reason] = {one.outcome["savepoints"][0]["error"] for one in told.values()}
    assert "expected 11928 bytes of inline state" in reason


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"rules": HOLDS, "fail_on": "bad"}, "INVALID_REQUEST"),
        ({"rules": HOLDS, "engine": "abacus"}, "INVALID_REQUEST"),
        ({"rules": HOLDS, "rule": ["x"]}, "INVALID_REQUEST"),
        ({"rules": HOLDS, "params": ["most=1"]}, "INVALID_RULES"),
        ({"rules": HOLDS + HOLDS}, "INVALID_RULES"),
        ({"rules": f"{'a.' * 50_000}a = 1\n"}, "INVALID_RULES"),
    ],
    ids=["fail_on", "engine", "rule", "params", "twice", "long key"],
)
def test_every_door_refuses_the_same(
    job_doors: dict[str, Door], root: Path, options: dict[str, Any], code: str
) -> None:
    told = _told(job_doors, root, **options)

    assert {name: one.code for name, one in told.items() if name != "cli"} == dict.fromkeys(
        ("http", "mcp", "python"), code
    )
    assert told["cli"].exit_code == 2


def test_a_service_names_the_savepoint_and_the_one_before(job_doors: dict[str, Door], root: Path) -> None:
    names = {"database": f"job__{JOB}__chk-3", "previous": f"job__{JOB}__chk-1"}
    told = [job_doors[name].run("test", root, rules=BEFORE, **names) for name in ("http", "mcp")]

    assert [one.outcome["savepoints"][0]["previous"] for one in told] == [names["previous"]] * 2
    refused = [
        job_doors["http"].run("test", root, **{"rules": BEFORE, "database": None, **options})
        for options in (
            {"database": "nothing"},
            {"previous": names["previous"]},
            {"database": names["database"], "all": True},
            {"rules": ""},
        )
    ]
    assert [one.code for one in refused] == ["DATABASE_NOT_FOUND", *["INVALID_REQUEST"] * 3]


def test_a_rule_sees_no_other_savepoint(doors: dict[str, Door]) -> None:
    told = doors["http"].run("test", NATIVE, rules=rule("other", "SELECT * FROM canonical.aggregate"))

    assert [one["status"] for one in told.outcome["savepoints"][0]["results"]] == ["error"]
