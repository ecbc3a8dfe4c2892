"""`tools.rewritten`: keyed state of real savepoints, written anew with the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from tools.rewritten import main

FLINK = DATA / "flink/1.20.3"


@pytest.mark.slow
def test_rows_of_what_is_written_anew_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([str(FLINK / "wordcount-hashmap-savepoints"), str(FLINK / "wordcount-rocksdb-savepoints")])

    assert capsys.readouterr().out == "4 savepoints, 8 operators: 8 equal, 0 refused, 0 different, 0 failed\n"
    assert code == 0


def test_the_reason_of_a_refusal_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unpacked("1.20.3-changelog-hashmap-chk-1", tmp_path)

    assert main([str(tmp_path)]) == 0
    assert "expected a changelog with one materialized base, found 0" in capsys.readouterr().out


def test_nothing_to_read_is_told(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 2
