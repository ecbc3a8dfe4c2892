"""`savepointdb check` as people and CI systems call it: outputs and exit codes, on labelled restores in real Flink."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from service.cli import main
from tests.support.compatpairs import unpack_pairs
from tests.support.paths import DATA

A, B = "A-2.3.0-hashmap-canonical", "B-2.3.0-hashmap-canonical"


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), ["uid-changed"]) / "uid-changed" / "savepoints"


def check(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = main(["check", *map(str, words)])
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_missing_operator_fails(savepoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(savepoints / A, "--against", savepoints / B, capsys=capsys)

    lines = out.splitlines()
    assert code == 2
    assert (
        lines[3] == "FAILS    Flink 2.3.0 with hashmap fails at graph, before any task starts; rocksdb alike"
    )
    assert lines[5] == "FAILS    a  (at graph)"
    assert lines[6].startswith("         Cannot map checkpoint/savepoint state for operator 'a'")
    assert lines[-1].startswith(
        "What to do: do not stop the old job for this restore yet (1 finding); first: "
    )


def test_what_is_dropped_is_not_fine(savepoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [savepoints / A, "--against", savepoints / B, "--allow-non-restored", "--backend", "rocksdb"]
    code, out, _ = check(*words, "--format", "json", capsys=capsys)

    report = json.loads(out)
    assert code == 1 or report["outcome"] == "unknown"
    assert report["backends"] == {}
    [dropped] = [one for one in report["operators"] if one["uid"] == "a"]
    assert dropped["loses_data"]
    assert {state["outcome"] for state in dropped["states"]} == {"dropped"}


def test_reports_are_files(savepoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [savepoints / A, "--against", savepoints / B]
    for name in ("html", "junit", "json", "text"):
        code, out, _ = check(*words, "--format", name, "--output", tmp_path / name, capsys=capsys)
        assert (code, out) == (2, "")
    for name, suffix in (("html", "html"), ("junit", "xml"), ("json", "json"), ("text", "txt")):
        check(*words, "--output", tmp_path / f"report.{suffix}", capsys=capsys)
        assert (tmp_path / f"report.{suffix}").read_text()[:40] == (tmp_path / name).read_text()[:40]

    assert (tmp_path / "html").read_text().startswith("<!doctype html>")
    assert ElementTree.parse(tmp_path / "junit").getroot().get("failures") == "2"
    assert set(json.loads((tmp_path / "json").read_text())["backends"]) == {"hashmap", "rocksdb"}
    assert "FAILS    a  (at graph)" in (tmp_path / "text").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "expected a savepoint or a folder of savepoints, found nothing"),
        (
            [A, "--against", "nowhere"],
            "expected a savepoint, a jar, a job plan or a stateInfo file, found nothing",
        ),
        (
            [A, "--against", __file__],
            "expected a savepoint, a jar, a job plan or a stateInfo file, found another file",
        ),
        (
            [A, "--against", str(Path(__file__).parent)],
            "expected a savepoint, a jar, a job plan or a stateInfo file, found a folder without jars and without _metadata",
        ),
        ([A, "--flink", "flunk"], "expected a version of Flink such as 2.3.0, found 'flunk'"),
        ([A, "--flink", "3.0"], "expected a version of Flink from 1.8 to 2.x"),
        ([A, "--backend", "memory"], "invalid choice: 'memory'"),
        ([A, "--flink"], "argument --flink: expected one argument"),
        ([A, "--nonsense"], "unrecognized arguments: --nonsense"),
        ([], "the following arguments are required: PATH"),
        (
            [A, "--output", "no/such/folder"],
            "cannot write no/such/folder: No such file or directory",
        ),
    ],
)
def test_bad_input_has_an_exit_code_of_its_own(
    words: list[str],
    message: str,
    savepoints: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(savepoints)
    code, out, err = check(*words, capsys=capsys)

    assert (code, out) == (4, "")
    assert message in err


def test_files_of_a_native_savepoint_are_checked_with_their_backend(
    capsys: pytest.CaptureFixture[str],
) -> None:
    native = DATA / "flink/2.3.0/wordcount-rocksdb-savepoints/native"

    code, out, _ = check(native, capsys=capsys)
    assert code == 0
    assert out.splitlines()[2] == "backend    rocksdb, whose own files these are: hashmap does not read them"

    code, out, _ = check(native, "--backend", "both", capsys=capsys)
    assert code == 2
    assert "fails at restore" in out


def test_of_several_savepoints_the_newest_is_checked(
    savepoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = check(savepoints, "--flink", "1.20.3", capsys=capsys)

    assert code in (0, 1, 2, 3)
    assert "the newest of" in err
    assert out.startswith(f"savepoint  {savepoints}/")


def test_a_reader_that_has_seen_enough_changes_no_exit_code(
    savepoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        code = main(["check", str(savepoints / A), "--against", str(savepoints / B)])

    assert code == 2
