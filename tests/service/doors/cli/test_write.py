"""`savepointdb write` as people type it: where the script comes from, and how the result is shown."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from service.cli import main
from tests.support.paths import DATA
from tests.support.terminal import run_on_terminal

WORDCOUNT = str(DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical")
DROP = 'DROP TABLE aggregate; DROP TABLE "mod7-no-uid"'
SHOWN = (
    "aggregate is dropped: a job that has this operator starts it without state\n"
    "mod7-no-uid is dropped: a job that has this operator starts it without state\n"
    "1 operator; all state is in _metadata (2.4 kB); no other file is needed\n"
    "nothing was written: a dry run\n"
)


def test_a_script_comes_from_an_argument_a_file_or_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "script.sql"
    file.write_text(DROP)
    monkeypatch.setattr(sys, "stdin", io.StringIO(DROP))

    for words in ([DROP], ["--file", str(file)], ["-"]):
        assert main(["write", WORDCOUNT, *words, "--dry-run"]) == 0
        assert capsys.readouterr().out == SHOWN


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected a script, either as an argument or by --file"),
        (["DROP TABLE x", "--file", "y"], "expected a script, either as an argument or by --file"),
        (["--file", "none.sql"], "cannot read none.sql: No such file or directory"),
        (["--file", WORDCOUNT + "/_metadata"], "expected UTF-8"),
    ],
)
def test_a_script_that_is_none_is_wrong_usage(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["write", WORDCOUNT, *words, "--dry-run"]) == 2
    assert message in capsys.readouterr().err


def test_json_has_the_whole_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "new")
    assert main(["write", WORDCOUNT, DROP, "--dry-run", "--json"]) == 0
    dry = json.loads(capsys.readouterr().out)
    assert main(["write", WORDCOUNT, DROP, "--to", target, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)

    assert [one["table"] for one in dry["statements"]] == ["aggregate", "mod7-no-uid"]
    assert (dry["target"], dry["dry_run"], dry["summary"]["operators"]) == (None, True, 1)
    assert (written["check"]["verdict"], written["check"]["exit_code"]) == ("fine", 0)
    assert written == dry | {"target": target, "dry_run": False, "check": written["check"]}


@pytest.mark.slow
def test_a_terminal_shows_how_far_a_long_write_is(tmp_path: Path) -> None:
    count = "SELECT count(*) FROM range(1000000000) t(a) WHERE a % 7 = 3"
    script = f"{DROP}; UPDATE source_offsets SET starting_offset = ({count})"
    command = [sys.executable, "-m", "savepointdb", "write", WORDCOUNT, script, "--to", str(tmp_path / "new")]

    ended = run_on_terminal(command, errors_too=True)

    assert ended.code == 0
    assert re.search(r"\r\033\[Kstatement 3 of 3, \d+ s", ended.screen)
    assert "\r\033[Kaggregate is dropped" in ended.screen


def test_a_cluster_that_is_not_there_leaves_no_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "UPDATE aggregate__count SET value = 1"
    cluster = ["--engine", "spark", "--spark-master", "spark://127.0.0.1:1"]

    assert main(["write", WORDCOUNT, rows, "--to", str(tmp_path / "new"), *cluster]) == 1
    assert "nobody answers at spark://127.0.0.1:1" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

    # No state is made, so nobody is asked.
    assert main(["write", WORDCOUNT, "DROP TABLE source", "--to", str(tmp_path / "new"), *cluster]) == 0
    assert "Spark" not in capsys.readouterr().out


def test_this_machine_writes_if_the_cluster_is_not_there_and_nobody_asked_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "UPDATE aggregate__count SET value = 1"
    cluster = ["--spark-master", "spark://127.0.0.1:1", "--spark-threshold-bytes", "1"]

    assert main(["write", WORDCOUNT, rows, "--to", str(tmp_path / "new"), *cluster, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == ""
    assert (tmp_path / "new" / "_metadata").exists()


def test_an_engine_that_writes_nothing_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["write", WORDCOUNT, DROP, "--dry-run", "--engine", "duckdb"])

    assert "invalid choice: 'duckdb'" in capsys.readouterr().err


def test_a_number_out_of_its_limits_names_the_option_as_it_is_typed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["write", WORDCOUNT, DROP, "--dry-run", "--max-parallelism", "0"]) == 2

    assert "--max-parallelism: expected 1 or more, found 0" in capsys.readouterr().err
