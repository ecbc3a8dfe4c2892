"""Fidelity: what a walk over folders of savepoints says of each state."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import DATA, PROJECT
from tools.fidelity import main

WORDCOUNT = DATA / "flink" / "1.20.3" / "wordcount-hashmap-savepoints"
INCREMENTAL = DATA / "flink" / "1.20.3" / "wordcount-rocksdb-checkpoint-incremental"
KRYO = DATA / "corpus" / "1.20.3" / "alltypes-hashmap" / "native"


def words_of(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[:-1]]


def test_every_state_of_every_savepoint_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([str(WORDCOUNT)])

    text = capsys.readouterr().out
    assert code == 0
    assert set(words_of(text)) == {"decoded"}
    assert len(words_of(text)) == 6
    assert text.splitlines()[-1] == "2 savepoints: 6 decoded, 0 partial, 0 raw, 0 failed"


@pytest.mark.slow
def test_a_process_of_its_own_reads_every_table() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.fidelity", str(WORDCOUNT)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines()[-1] == "2 savepoints: 6 decoded, 0 partial, 0 raw, 0 failed"


@pytest.mark.slow
def test_what_is_raw_has_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    main([str(KRYO), "--brief"])

    raw = [line for line in capsys.readouterr().out.splitlines() if line.startswith("raw")]
    assert len(raw) == 1
    assert "corpus.T$Generic: Kryo stores no field names" in raw[0]


def test_a_missing_file_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = shutil.copytree(INCREMENTAL / "checkpoint", tmp_path / "job")
    shutil.rmtree(Path(job) / "shared")

    code = main([str(job)])

    text = capsys.readouterr().out
    assert code == 1
    assert "failed" in words_of(text)
    assert "moved along to" in text


def test_a_savepoint_that_cannot_be_opened_fails_and_does_not_stop_the_walk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(WORDCOUNT / "canonical", tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "_metadata").write_bytes(b"nothing")

    code = main([str(tmp_path)])

    text = capsys.readouterr().out
    assert code == 1
    assert sorted(words_of(text)) == ["decoded"] * 3 + ["failed"]
    assert "expected a _metadata file" in text


def test_nothing_to_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert main([str(tmp_path / "none")]) == 2
    assert "found nothing" in capsys.readouterr().err
