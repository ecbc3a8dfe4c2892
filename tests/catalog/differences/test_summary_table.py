"""The summary of a diff as a table: its rows, what it reads for them, and what it says of what it cannot read."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from catalog import Catalog, Database, Predicate, Root, Scan, SummaryTable, diff_table
from catalog.references import open_savepoint
from readers import SavepointGoneError
from tests.support.differing import BEFORE
from tests.support.paths import DATA

EVERYTHING = DATA / "flink" / "2.3.0"
COUNTS = ["added", "removed", "changed"]
COUNT = ["table_name", "change", *COUNTS]


def database(path: Path, name: str) -> Database:
    return Catalog([Root(path=str(path), label=name)]).database(name)


def summary(before: Path, after: Path) -> SummaryTable:
    return SummaryTable(database(before, "before"), database(after, "after"))


def rows(scan: Scan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    return found


def test_a_row_for_each_state(after: Path) -> None:
    found = rows(summary(BEFORE, after).scan())

    assert [[row[name] for name in COUNT] for row in found] == [
        ["mod7-no-uid__seen", "same", 0, 0, 0],
        ["aggregate__count", "changed", 1, 1, 1],
        ["source__topic-partition-offset-states", "changed", 1, 1, 0],
    ]
    assert {tuple(sample.values()) for sample in found[1]["samples"]} == {
        ("added", "new", None, "5"),
        ("changed", "key_662", "11290", "11291"),
        ("removed", "key_0", "1", None),
    }


@pytest.mark.slow
def test_it_counts_the_rows_of_the_tables_of_differences() -> None:
    sides = [
        EVERYTHING / "everything-rocksdb-savepoints" / "canonical",
        EVERYTHING / "everything-hashmap-savepoints" / "native",
    ]
    before, after = (database(side, "x") for side in sides)

    found = [row for row in rows(summary(*sides).scan()) if row["table_name"] != "timers"]

    assert len(found) > 35
    for row in found:
        differing = diff_table(before, after, row["table_name"]).scan(["change"]).to_arrow().column("change")
        counts = Counter(differing.to_pylist())
        assert [row[change] for change in COUNTS] == [counts[change] for change in COUNTS], row


def test_names_and_types_read_no_state(after: Path) -> None:
    table = summary(BEFORE, after)
    scan = table.scan(["table_name", "type_before", "size_after"])

    assert [row["table_name"] for row in rows(scan)][1] == "aggregate__count"
    assert (scan.bytes_total, scan.bytes_read) == (0, 0)
    one = table.plan(Predicate({"table_name": ("aggregate__count",)}))
    assert [row["added"] for row in rows(one)] == [1]
    assert 0 < one.bytes_total < table.size_bytes
    assert rows(table.plan(Predicate({"operator": ("nobody",)}))) == []


def test_nobody_counts_on_for_those_who_have_gone(after: Path) -> None:
    class _GoneError(Exception):
        pass

    def gone() -> None:
        raise _GoneError

    scan = summary(BEFORE, after).scan()
    scan.counter.on_check(gone)

    with pytest.raises(_GoneError):
        rows(scan)


@pytest.mark.slow
def test_a_state_that_cannot_be_read_has_its_error_and_the_others_their_counts(tmp_path: Path) -> None:
    job = EVERYTHING / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
    shutil.copytree(job, tmp_path / "job")
    broken = tmp_path / "job" / "chk-2"
    table = summary(job / "chk-1", broken)
    for file in (tmp_path / "job" / "shared").iterdir():
        file.unlink()

    found = {row["table_name"]: row for row in rows(table.scan())}

    offsets = found["source__topic-partition-offset-states"]
    assert (offsets["error"], offsets["change"]) == (None, "changed")
    count = found["aggregate__count"]
    assert count["error"]
    assert [count[name] for name in ("change", "added", "removed", "changed", "rows_before")] == [None] * 5


@pytest.mark.slow
def test_a_savepoint_that_goes_is_no_damage(tmp_path: Path) -> None:
    native = EVERYTHING / "wordcount-rocksdb-savepoints" / "native"
    gone = shutil.copytree(native, tmp_path / "gone")
    scan = summary(native, gone).scan()
    # What is open is there as a whole: another process has nothing open.
    open_savepoint.cache_clear()
    shutil.rmtree(gone)

    with pytest.raises(SavepointGoneError):
        rows(scan)
