"""`tools.roundtrip`: entries of real savepoints, decoded and encoded to the same bytes."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from readers import Savepoint
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from tools.roundtrip import UNDER_NULL, main, outcomes

FLINK = DATA / "flink"
TOTALS = re.compile(
    r"(\d+) savepoints: (\d+) entries, (\d+) equal, (\d+) refused, (\d+) different, (\d+) failed"
)
SQL = ("sql-groupagg-distinct", "sql-topn", "sql-leftjoin", "sql-window")


def totals_of(path: Path) -> tuple[Counter[str], dict[str, str]]:
    """Entries, equal and different ones, and those refused by reason; the first of each state that differs."""
    totals: Counter[str] = Counter()
    samples = {}
    for outcome in outcomes(Savepoint(path), "it"):
        totals.update({"entries": outcome.entries, "equal": outcome.equal, "different": outcome.different})
        totals.update(outcome.refused)
        if outcome.sample:
            samples[outcome.state] = outcome.sample
    return +totals, samples


@pytest.mark.parametrize(
    ("folder", "losses"),
    [
        ("1.20.3/everything-hashmap-savepoints/canonical", {UNDER_NULL: 6}),
        ("2.3.0/everything-hashmap-savepoints/native", {}),
        ("1.20.3/everything-rocksdb-savepoints/native", {}),
        ("2.3.0/wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2", {}),
    ],
)
def test_every_entry_of_a_savepoint_is_encoded_as_flink_wrote_it(folder: str, losses: dict[str, int]) -> None:
    totals, samples = totals_of(FLINK / folder)

    assert samples == {}
    assert totals - Counter(entries=totals["entries"], equal=totals["equal"]) == Counter(losses)
    assert totals["entries"] == totals["equal"] + sum(losses.values()) > 100


@pytest.mark.parametrize("job", SQL)
def test_every_binary_row_of_a_sql_job_is_encoded_as_flink_wrote_it(job: str, tmp_path: Path) -> None:
    snapshot = unpacked(f"1.20.3-{job}-hashmap-canonical", tmp_path)

    totals, samples = totals_of(snapshot.directory)

    assert samples == {}
    assert totals["entries"] == totals["equal"] > 0


def test_it_prints_the_states_with_losses_and_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    folder = FLINK / "1.20.3" / "everything-hashmap-savepoints" / "canonical"

    code = main(["--brief", str(folder)])

    line, totals = capsys.readouterr().out.splitlines()
    assert code == 0
    assert f"6 refused: {UNDER_NULL}" in line
    assert TOTALS.fullmatch(totals)


def test_it_fails_where_there_is_no_savepoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert TOTALS.fullmatch(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.slow
def test_every_entry_of_all_savepoints_of_the_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for archive in [*(DATA / "snapshots").glob("*.tar.xz"), *(DATA / "versions").glob("s[aq]*s.tar.xz")]:
        with tarfile.open(archive) as tar:
            tar.extractall(tmp_path / archive.name.removesuffix(".tar.xz"), filter="data")

    code = main(["--brief", str(FLINK), str(tmp_path)])

    *lines, last = capsys.readouterr().out.splitlines()
    totals = TOTALS.fullmatch(last)
    assert totals
    savepoints, entries, equal, refused, different, failed = map(int, totals.groups())
    assert (code, different, failed) == (0, 0, 0), lines
    assert savepoints > 100
    assert entries == equal + refused
    assert refused < 40
