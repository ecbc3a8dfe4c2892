"""`savepointdb lookup`: keys of all types, and keys that are not there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service import cli
from tests.support.paths import DATA

WORDCOUNT = str(DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native")
ALL_STATES = str(DATA / "corpus" / "1.20.3" / "allstates-hashmap-compressed" / "canonical")
SQL = str(DATA / "corpus" / "1.20.3" / "sql-window-hashmap" / "canonical")
KINDS = ("uuid-kryo", "tuple2", "tuple-nested", "row", "instant", "pojo", "local-date", "bigdec")
UUID = "00000000-0000-0001-ffff-ffffffffffff"


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Any:
    """Looks a key up: (exit code, rows, standard error)."""
    uids = tmp_path / "uids"
    uids.write_text("".join(f"kinds-{kind}\n" for kind in KINDS))

    def call(path: str, key: str) -> tuple[int, list[dict[str, Any]], str]:
        code = cli.main(["lookup", path, key, "--format", "jsonl", "--uids", str(uids)])
        sys.stdout.flush()
        output, errors = capfdbinary.readouterr()
        return code, [json.loads(line) for line in output.splitlines()], errors.decode()

    return call


@pytest.mark.parametrize(
    ("kind", "key", "entries", "timers"),
    [
        ("uuid-kryo", UUID, 18, 9),
        ("uuid-kryo", f'"{UUID}"', 18, 9),
        ("instant", "1970-01-01T00:00:01.000000001", 18, 9),
        ("instant", "1970-01-01T00:00:01.000000001Z", 18, 9),
        ("tuple2", '{"f0": "t1", "f1": 1}', 18, 9),
        ("tuple2", '["t1", 1]', 18, 9),
        ("tuple2", "(t1,1)", 18, 9),
        ("row", "+I[r1, 1]", 18, 9),
        ("row", '{"f0": "r1", "f1": 1}', 18, 9),
        ("row", '{"__row_kind": "+I", "f0": "r1", "f1": 1}', 18, 9),
        ("pojo", '{"b": "p1", "a": 1}', 18, 9),
        ("local-date", "2024-03-01", 18, 9),
        ("bigdec", "0.01", 18, 9),
    ],
)
def test_a_key_is_found_with_its_timers(run: Any, kind: str, key: str, entries: int, timers: int) -> None:
    code, rows, errors = run(ALL_STATES, key)
    own = [row["kind"].endswith(" TIMER") for row in rows if row["operator"] == f"kinds-{kind}"]

    assert (code, errors) == (0, "")
    assert (own.count(False), own.count(True)) == (entries, timers)


def test_an_unknown_key_fails_and_shows_what_keys_look_like(run: Any) -> None:
    code, rows, errors = run(WORDCOUNT, "nothing")

    assert (code, rows) == (1, [])
    assert re.fullmatch(
        r"savepointdb: no state has the key 'nothing'; "
        r"keys here look like: \d \(mod7-no-uid\), key_\d+ \(aggregate\)\n",
        errors,
    )


@pytest.mark.parametrize("key", ['{"f0": "t1"', "(t1,1", "no such key"])
def test_what_is_no_key_of_any_operator_is_not_found(run: Any, key: str) -> None:
    code, rows, errors = run(ALL_STATES, key)

    assert (code, rows) == (1, [])
    assert errors.startswith(f"savepointdb: no state has the key {key!r}; keys here look like: ")
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ('{"f0": "t1"}', "expected the fields f0, f1; f1 is missing"),
        ('["t1"]', "expected the fields f0, f1, found 1 value"),
        ("(t1,x)", "f1: expected an integer, found 'x'"),
    ],
)
def test_part_of_a_struct_is_told_what_is_missing(run: Any, key: str, reason: str) -> None:
    code, rows, errors = run(ALL_STATES, key)

    assert (code, rows) == (1, [])
    assert errors.startswith(f"savepointdb: no state has the key {key!r}: ")
    assert f"{reason} (kinds-" in errors
    assert "; keys here look like: " in errors
    assert len(errors.splitlines()) == 1


def test_a_key_of_a_sql_job_is_found_in_its_states_and_timers(run: Any) -> None:
    for key in ("k1", '{"f0": "k1"}', '["k1"]'):
        code, rows, errors = run(SQL, key)

        assert (code, errors) == (0, "")
        assert [row["state"] for row in rows] == ["window-aggs"] * 5 + ["window-timers"] * 5
        # The ends of windows, which these operators store as milliseconds.
        assert {row["namespace"] for row in rows} == {f"2024-01-01T00:0{n}:00.000" for n in range(3, 8)}


@pytest.mark.parametrize(
    ("operator", "key"),
    [
        ("kinds-tuple2", "'t1'"),
        ("kinds-tuple2", "5"),
        ("kinds-row", "'r1'"),
        ("kinds-instant", "'yesterday'"),
        ("kinds-local-date", "'monday'"),
    ],
)
def test_an_error_of_a_query_shows_a_key_that_it_finds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, operator: str, key: str
) -> None:
    uids = tmp_path / "uids"
    uids.write_text(f"{operator}\n")
    count = f'SELECT count(*) FROM "{operator}" WHERE key = '
    options = ("--savepoint", ALL_STATES, "--uids", str(uids), "--format", "csv")

    assert cli.main(["query", count + key, *options]) == 1
    told = capsys.readouterr().err
    assert f"line 1, column {count.index('key') + 1}: " in told
    shown = re.search(rf"\(keys of '{operator}' look like ('.*')\)$", told.strip())
    assert shown is not None
    assert cli.main(["query", count + shown[1], *options]) == 0
    assert int(capsys.readouterr().out.splitlines()[1]) > 0


def test_namespaces_of_timers_are_values_beside_namespaces_of_other_types(run: Any) -> None:
    _, rows, _ = run(ALL_STATES, "w1")
    namespaces = [row["namespace"] for row in rows if row["kind"] == "EVENT TIMER"]

    assert {tuple(sorted(one)) for one in namespaces if isinstance(one, dict)} == {("end", "start")}
    assert [one for one in namespaces if isinstance(one, str) and one.startswith(("{", '"'))] == []


def test_an_error_that_nobody_expects_is_one_line(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    def broken(_options: Any) -> int:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("service.doors.cli.task.main", broken)

    code, _, errors = run(WORDCOUNT, "key_1")

    assert code == 1
    assert (
        errors
        == "savepointdb: unexpected RuntimeError: two lines (--verbose shows where; please report it)\n"
    )


@pytest.mark.slow
def test_a_port_that_is_none_is_one_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "service.cli", "serve", "--root", WORDCOUNT, "--port", "99999"],
        capture_output=True,
        check=False,
        text=True,
    )

    assert ended.returncode == 2
    assert ended.stderr == "savepointdb: expected a port from 0 to 65535, found 99999\n"
