"""`savepointdb xray` as people and scripts call it, and the x-ray tables through SQL and Trino."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import savepointdb
from service.cli import main
from tests.support.checkpoints import put
from tests.support.paths import DATA

FLINK = DATA / "flink" / "2.3.0"
WORDCOUNT = FLINK / "wordcount-hashmap-savepoints"
EVERYTHING = FLINK / "everything-rocksdb-savepoints" / "canonical"
PAGE = """\

3 operators
  operator     entries  size
  ───────────  ───────  ──────
  aggregate    1,000    27 kB
  source       4        1.1 kB
  mod7-no-uid  7        910 B

3 states, the largest first
  operator     state                          kind           entries  keys   size   largest / median key group  largest / median subtask
  ───────────  ─────────────────────────────  ─────────────  ───────  ─────  ─────  ──────────────────────────  ────────────────────────
  aggregate    count                          VALUE          1,000    1,000  26 kB  2.1 ×                       1.0 ×
  mod7-no-uid  seen                           VALUE          7        7      154 B  1.0 ×                       1.4 ×
  source       topic-partition-offset-states  OPERATOR_LIST  4        -      72 B   -                           1.0 ×

the largest keys (10 of 27; xray_largest has more)
  operator   state  key      entries  size  key group  subtask
  ─────────  ─────  ───────  ───────  ────  ─────────  ───────
"""


def xray(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = main(["xray", *map(str, words)])
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_page_has_sizes_skew_and_the_largest_keys(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = xray(WORDCOUNT / "canonical", capsys=capsys)

    head, _, page = out.partition("\n")
    assert (code, err) == (0, "")
    assert head.startswith("canonical: savepoint 1, ")
    assert page.startswith(PAGE)
    assert page.removeprefix(PAGE).splitlines()[0].split() == [
        "aggregate", "count", "key_100", "1", "18", "B", "0", "0",
    ]  # fmt: skip


def test_a_quick_page_reads_no_entry_of_rocksdb(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = xray(FLINK / "wordcount-rocksdb-savepoints" / "native", "--quick", capsys=capsys)

    assert code == 0
    assert "~1,000" in out
    assert "~ is an estimate" in out
    assert "largest keys" not in out
    assert "keys  size" not in out


def test_json_has_the_rows_of_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = xray(EVERYTHING, "--format", "json", capsys=capsys)

    found = json.loads(out)
    assert code == 0
    assert list(found) == [
        "name", "path", "kind", "checkpoint_id", "created_at",
        "xray", "xray_keys", "xray_largest", "xray_orphan_timers",
    ]  # fmt: skip
    assert {row["level"] for row in found["xray"]} == {"operator", "state", "subtask", "key_group"}
    assert {row["distinct_keys"] for row in found["xray_keys"] if row["state_name"] == "ttl-map"} == {6}


def test_of_several_savepoints_the_newest_is_shown_and_the_growth_of_its_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        put(tmp_path / "job" / f"chk-{number}", number)

    code, out, err = xray(tmp_path / "job", "--quick", capsys=capsys)

    assert code == 0
    assert err == f"savepointdb: the newest of 2 is used: {tmp_path / 'job' / 'chk-2'}\n"
    growth = out[out.index("\ngrowth\n") :].splitlines()[4:]
    assert [line.split()[:2] for line in growth] == [["job__chk-2", "2"], ["job__chk-1", "1"]]


def test_nothing_to_show_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = xray(tmp_path / "nowhere", capsys=capsys)

    assert (code, out) == (3, "")
    assert err.startswith("savepointdb: ")


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "job" / "chk-1", 1)
    folders = (tmp_path / "job" / "chk-1", tmp_path / "job" / "shared")
    files = [path for folder in folders for path in folder.iterdir() if path.name != "_metadata"]
    largest = max(files, key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-100])

    code, _, err = xray(tmp_path / "job" / "chk-1", capsys=capsys)

    assert code == 3
    assert largest.name in err


@pytest.mark.slow
def test_deleted_state_leaves_orphan_timers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "; ".join(
        f"DELETE FROM \"kinds__{name}\" WHERE key IN ('k1', 'k4')"
        for name in ("value", "list", "map", "reducing", "aggregating", "ttl-value", "ttl-list", "ttl-map")
    )
    with savepointdb.connect(EVERYTHING) as db:
        timers = db.sql(
            "SELECT time_domain, key, count(*), min(timestamp) FROM timers "
            "WHERE operator_uid = 'kinds' AND key IN ('k1', 'k4') GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        written = db.write(tmp_path / "new", script)

    with savepointdb.connect(written) as db:
        orphans = db.sql(
            "SELECT time_domain, key, timers, first_timestamp FROM xray_orphan_timers ORDER BY ALL"
        ).fetchall()
    code, out, _ = xray(tmp_path / "new", capsys=capsys)

    assert len(timers) == 4
    assert orphans == timers
    assert code == 0
    assert "\n16 orphan timers, of 4 keys without other state\n" in out
