"""The first questions, on savepoints of every format, answered by the whole service."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog import Catalog, connect
from tests.support.paths import DATA

FLINK = DATA / "flink"
SNAPSHOTS = sorted(path.parent for path in FLINK.rglob("_metadata") if "wordcount" in str(path))


def case_of(snapshot: Path) -> Path:
    return snapshot.parents[1] if snapshot.name.startswith("chk-") else snapshot.parent


def expected_rows(snapshot: Path, state_name: str) -> list[dict[str, Any]]:
    folder = case_of(snapshot) / "expected" / (snapshot.name if snapshot.name.startswith("chk-") else "")
    lines = (folder / "all.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["state_name"] == state_name]


# Every format once in every run, the other version of Flink beside the slow tests.
@pytest.fixture(
    params=[
        pytest.param(path, marks=() if "2.3.0" in path.parts else pytest.mark.slow) for path in SNAPSHOTS
    ],
    ids=lambda path: str(path.relative_to(FLINK)),
)
def snapshot(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def wordcount(snapshot: Path, ask_of: Callable[[Catalog], Any]) -> Any:
    """The savepoint; its operators answer to their uids also where `_metadata` has none (before version 5)."""
    return ask_of(connect(snapshot, uids=["source", "aggregate"]))


def test_state_meta_lists_every_state_with_its_types(wordcount: Any) -> None:
    rows = wordcount.rows(
        "SELECT operator_uid, state_name, state_kind, key_type, value_type FROM StateMeta"
        " WHERE operator_uid IS NOT NULL ORDER BY 1"
    )

    assert rows == [
        ("aggregate", "count", "VALUE", "String", "Long"),
        ("source", "topic-partition-offset-states", "OPERATOR_LIST", None, "Tuple3<String, Integer, Long>"),
    ]


def test_source_state_says_up_to_where_each_partition_was_read(wordcount: Any, snapshot: Path) -> None:
    rows = wordcount.rows(
        'SELECT value.f0 AS topic, value.f1 AS "partition", value.f2 AS "offset"'
        ' FROM "source__topic-partition-offset-states" ORDER BY 1, 2'
    )

    expected = [tuple(row["value"]) for row in expected_rows(snapshot, "topic-partition-offset-states")]
    assert rows == sorted(expected)


def test_one_key_is_found_by_reading_its_key_group_only(wordcount: Any, snapshot: Path) -> None:
    [expected] = [row["value"] for row in expected_rows(snapshot, "count") if row["key"] == "key_662"]
    everything = wordcount.rows("SELECT count(*) FROM aggregate")
    all_bytes = wordcount.bytes_read

    rows = wordcount.rows("SELECT value FROM aggregate WHERE key = 'key_662'")

    assert rows == [(expected,)]
    assert wordcount.bytes_read < all_bytes / 10
    assert everything == [(len(expected_rows(snapshot, "count")),)]


@pytest.mark.slow
def test_all_rows_of_a_state_are_those_the_job_wrote(wordcount: Any, snapshot: Path) -> None:
    rows = wordcount.rows("SELECT key, value FROM aggregate__count")

    assert sorted(rows) == sorted((row["key"], row["value"]) for row in expected_rows(snapshot, "count"))


def test_two_operators_join(wordcount: Any, snapshot: Path) -> None:
    case = json.loads((case_of(snapshot) / "case.json").read_text())
    [operator_id] = [each["operator_id"] for each in case["operators"] if each["uid"] is None]

    rows = wordcount.rows(
        f'SELECT count(*), sum(a.value)::BIGINT FROM aggregate a JOIN "{operator_id}" b'
        " ON CAST(substr(a.key, 5) AS INTEGER) % 7 = b.key"
    )

    counts = expected_rows(snapshot, "count")
    assert rows == [(len(counts), sum(row["value"] for row in counts))]


def test_two_savepoints_join(two: Any) -> None:
    rows = two.rows(
        "SELECT count(*), count(*) FILTER (WHERE a.value = b.value)"
        " FROM canonical.aggregate a FULL JOIN native.aggregate b USING (key)"
    )

    assert rows == [(1000, 1000)]


def test_two_checkpoints_show_what_changed_between_them(ask_of: Callable[[Catalog], Any]) -> None:
    folder = FLINK / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
    before, after = (
        {row["key"]: row["value"] for row in expected_rows(folder / name, "count")}
        for name in ("chk-1", "chk-2")
    )

    rows = ask_of(connect(folder)).rows(
        'SELECT key, o.value, n.value FROM "chk-1".aggregate o FULL JOIN "chk-2".aggregate n USING (key)'
        " WHERE o.value IS DISTINCT FROM n.value"
    )

    assert sorted(rows) == sorted(
        (key, before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    )
