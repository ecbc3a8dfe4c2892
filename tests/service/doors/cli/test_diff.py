"""`savepointdb diff` as people and scripts call it: outputs and exit codes."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

import savepointdb
from service.cli import main
from tests.support.differing import BEFORE, ROWS
from tests.support.retained import changed


def diff(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = main(["diff", *map(str, words)])
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_summary_says_which_states_differ_and_how(
    after: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = diff(BEFORE, after, capsys=capsys)

    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith("before   canonical, savepoint 1, ")
    assert lines[1].startswith("after    after, savepoint 1, ")
    assert lines[3] == "2 of 3 states differ; rows: 1 changed, 2 added, 2 removed; 1 offset moved"
    [begin] = [
        number for number, line in enumerate(lines) if line.startswith("CHANGED  aggregate › count  +1 -1 ~1")
    ]
    assert sorted(line.strip() for line in lines[begin + 1 : begin + 4]) == [
        "+ new: 5",
        "- key_0: 1",
        "~ key_662: 11290 → 11291",
    ]
    assert any(line.startswith("same     mod7-no-uid › seen") for line in lines)
    assert lines[-2:] == ["offsets", "         source words 2: 36445 → 24000  (-12,445)"]


def test_samples_of_many_rows_say_what_shows_all_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "UPDATE aggregate__count SET value = value + 1"
    after = changed(tmp_path / "after", script)

    code, out, _ = diff(BEFORE, after, capsys=capsys)

    assert code == 1
    assert "and 997 more rows: --state aggregate__count\n" in out
    shown = repr(savepointdb.diff(BEFORE, after))
    assert 'and 997 more rows: .rows("aggregate__count")' in shown


@pytest.mark.slow
def test_equal_savepoints_end_with_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copytree(BEFORE, tmp_path / "canonical")

    code, out, _ = diff(BEFORE, tmp_path / "canonical", capsys=capsys)

    assert code == 0
    assert out.splitlines()[0].startswith("before   before, ")
    assert out.splitlines()[-1] == "the same: 3 states, no row differs"


@pytest.mark.slow
def test_backends_and_formats_are_no_differences(capsys: pytest.CaptureFixture[str]) -> None:
    native = BEFORE.parent.parent / "wordcount-rocksdb-savepoints" / "native"

    code, out, _ = diff(BEFORE, f"rocksdb={native}", "--operator", "mod7-no-uid", capsys=capsys)

    assert (code, out.splitlines()[-1]) == (0, "the same: 1 state, no row differs")


@pytest.mark.slow
def test_json_has_the_members_of_the_call_over_http(after: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = diff(f"a={BEFORE}", f"b={after}", "--format", "json", capsys=capsys)

    found = json.loads(out)
    assert code == 1
    assert (found["before"], found["after"]) == ("a", "b")
    states = {state["table_name"]: state for operator in found["operators"] for state in operator["states"]}
    count = states["aggregate__count"]
    assert (count["change"], count["added"], count["removed"], count["changed"]) == ("changed", 1, 1, 1)
    assert count["rows_before"] == count["rows_after"]
    assert states["mod7-no-uid__seen"]["change"] == "same"
    assert [(one["topic"], one["before"], one["after"]) for one in found["offsets"]] == [
        ("words", 36445, 24000)
    ]


@pytest.mark.slow
def test_the_rows_of_a_state_come_in_every_format(
    after: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = diff(BEFORE, after, "--state", "count", "--format", "csv", capsys=capsys)
    file = tmp_path / "rows.jsonl"
    again, _, _ = diff(
        BEFORE, after, "--state", "aggregate__count", "--format", "jsonl", "--output", file, capsys=capsys
    )

    rows = [
        (row["change"], row["key"], row["value_before"], row["value_after"])
        for row in csv.DictReader(io.StringIO(out))
    ]
    assert (code, again) == (1, 1)
    assert sorted(rows) == [tuple("" if value is None else str(value) for value in row) for row in ROWS]
    assert {json.loads(line)["key"] for line in file.read_text().splitlines()} == {"new", "key_662", "key_0"}


@pytest.mark.parametrize("format_name", ["csv", "jsonl", "table"])
def test_a_state_that_does_not_differ_has_no_rows(
    format_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, errors = diff(
        f"a={BEFORE}", f"b={BEFORE}", "--state", "count", "--format", format_name, capsys=capsys
    )

    header = {"csv": '"change","key","namespace","value_before","value_after","_key_group"\r\n', "jsonl": ""}
    assert (code, errors) == (0, "")
    assert out == header.get(format_name, out)


def test_the_rows_of_a_key(after: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = diff(BEFORE, "--key", "key_662", after, "--format", "jsonl", capsys=capsys)
    unchanged = diff(BEFORE, after, "--key", "key_1", "--state", "count", capsys=capsys)

    [row] = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert (row["operator"], row["state"], row["change"]) == ("aggregate", "count", "changed")
    assert (row["value_before"], row["value_after"]) == (11290, 11291)
    assert unchanged[0] == 0
    assert "the key 'key_1' differs in nothing: both have the same of it, or neither has it" in unchanged[2]


@pytest.mark.slow
def test_rows_of_a_table_without_keys(after: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = diff(BEFORE, after, "--state", "source_offsets", "--format", "jsonl", capsys=capsys)

    [row] = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert (row["change"], row["starting_offset_before"], row["starting_offset_after"]) == (
        "changed",
        36445,
        24000,
    )


@pytest.mark.slow
def test_of_a_folder_the_newest_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    job = BEFORE.parent.parent / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"

    code, out, err = diff(job / "chk-1", job, "--operator", "source", capsys=capsys)

    both = diff(job, "--operator", "source", capsys=capsys)
    alone = diff(job / "chk-1", capsys=capsys)

    assert (code, both[0], both[2]) == (1, 1, "")
    assert "savepointdb: the newest of 2 is compared: " in err
    assert "chk-2" in out.splitlines()[1]
    assert out.splitlines()[2:] == both[1].splitlines()[2:]
    assert alone[0] == 2
    assert "there is no savepoint before 'chk-1' in its job that can be read (name the savepoint" in alone[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--state", "cuont"], 2, "--state: there is no state 'cuont' (did you mean \"count\""),
        (
            ["--operator", "agregate"],
            2,
            "--operator: there is no operator 'agregate' (did you mean \"aggregate\"",
        ),
        (["--operator", "source", "--state", "count"], 2, "--state: there is no state 'count'"),
        (["--key", "key_1", "--operator", "source"], 2, "expected a state with keys, found none"),
        (["--format", "xml"], 2, "invalid choice"),
    ],
)
def test_what_is_wrong_with_the_command_line_is_said(
    after: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = diff(BEFORE, after, *words, capsys=capsys)

    assert (found, out) == (code, "")
    assert message in err


@pytest.mark.slow
def test_what_cannot_be_read_ends_with_3(
    after: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = diff(BEFORE, tmp_path / "nothing", capsys=capsys)
    damaged = tmp_path / "damaged"
    shutil.copytree(after, damaged)
    for file in damaged.iterdir():
        if file.name != "_metadata":
            file.write_bytes(b"\0" * 10)

    code, out, _ = diff(BEFORE, damaged, capsys=capsys)

    shown = diff(BEFORE, damaged, "--format", "json", capsys=capsys)[1]
    changes = {one["name"]: one["change"] for one in json.loads(shown)["operators"]}

    assert changes["aggregate"] is None
    assert nothing[0] == 3
    assert "nothing" in nothing[2]
    assert code == 3
    assert "UNKNOWN  aggregate › count" in out or "cannot be compared" in out
