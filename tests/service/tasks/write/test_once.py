"""What a statement reads is evaluated once: no row falls between its clauses, or between the states of its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import catalog
from tests.support.commands import WriteCommand
from tests.support.paths import DATA

WORDS = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
EVERYTHING = DATA / "flink/2.3.0/everything-rocksdb-savepoints/canonical"


@pytest.fixture
def write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> WriteCommand:
    return WriteCommand(WORDS, tmp_path / "new", capsys)


def counts(path: Path) -> dict[str, int]:
    found = catalog.connect(str(path)).table("aggregate__count").scan().to_arrow()
    return dict(zip(found.column("key").to_pylist(), found.column("value").to_pylist(), strict=True))


@pytest.mark.parametrize(
    "merge",
    [
        "USING (SELECT key, random() AS r FROM aggregate__count) s ON t.key = s.key "
        "WHEN MATCHED AND s.r < 0.5 THEN DELETE WHEN MATCHED AND s.r >= 0.5 THEN UPDATE SET value = -1",
        "USING aggregate__count ON t.key = aggregate__count.key "
        "WHEN MATCHED AND random() < 0.5 THEN DELETE WHEN MATCHED THEN UPDATE SET value = -1",
        "USING (SELECT key FROM aggregate__count USING SAMPLE 50%) s ON t.key = s.key "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET value = -1",
        "USING aggregate__count s ON t.key = s.key AND random() < 0.5 "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET value = -1",
        "USING (SELECT 'none' AS key) s ON t.key = s.key WHEN NOT MATCHED BY SOURCE AND random() < 0.5 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET value = -1",
    ],
    ids=["source", "condition", "sample", "on", "by source"],
)
def test_each_row_takes_one_clause_of_a_merge(merge: str, write: WriteCommand) -> None:
    ended = write(f"MERGE INTO aggregate__count t {merge}")

    assert ended.code == 0, ended.errors
    left = counts(write.target)
    assert 0 < len(left) < len(counts(WORDS))
    assert set(left.values()) == {-1}


def test_each_row_of_the_source_of_a_merge_takes_one_clause(write: WriteCommand) -> None:
    ended = write(
        "MERGE INTO aggregate__count t USING (SELECT 'new' || range AS k, random() AS r FROM range(500)) s ON t.key = s.k "
        "WHEN NOT MATCHED AND s.r < 0.3 THEN INSERT VALUES (s.k, -1) "
        "WHEN NOT MATCHED AND random() < 0.5 THEN INSERT (value, key) VALUES (-1, s.k) "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.k, -1)"
    )

    assert ended.code == 0, ended.errors
    assert counts(write.target) == counts(WORDS) | {f"new{number}": -1 for number in range(500)}


@pytest.mark.parametrize(
    "condition",
    [
        "USING (SELECT key FROM kinds__value ORDER BY random() LIMIT 1) s WHERE s.key = timers.key",
        "WHERE key = (SELECT key FROM kinds__value ORDER BY random() LIMIT 1)",
    ],
    ids=["source", "condition"],
)
def test_the_timers_of_all_operators_are_those_of_one_sample(condition: str, write: WriteCommand) -> None:
    ended = write(f"DELETE FROM timers {condition}", "--json", source=EVERYTHING)

    assert ended.code == 0, ended.errors
    [statement] = json.loads(ended.output)["statements"]
    assert statement["removed"] == len(statement["samples"]) == 10
    assert len({sample["place"]["key"] for sample in statement["samples"]}) == 1


def test_all_states_of_a_table_get_values_of_the_same_source(write: WriteCommand) -> None:
    ended = write(
        "UPDATE timers SET timestamp = s.time FROM (SELECT TIMESTAMP '2030-01-01' + INTERVAL 1 SECOND * (random() * 1e6)::INT AS time) s "
        "WHERE key = 'k1' AND timer_service = 'window-timers' OR key = 'k1' AND timestamp = '2100-01-01'",
        source=EVERYTHING,
    )

    assert ended.code == 0, ended.errors
    rows = catalog.connect(str(write.target)).table("timers").scan().to_arrow()
    keys, times = rows.column("key").to_pylist(), rows.column("timestamp").to_pylist()
    new = [time for key, time in zip(keys, times, strict=True) if key == "k1" and time.year == 2030]
    assert len(new) > 1
    assert len(set(new)) == 1


def test_an_offset_gets_one_value(write: WriteCommand) -> None:
    ended = write(
        'UPDATE source_offsets SET starting_offset = s.new FROM (VALUES (1), (2)) s(new) WHERE "partition" = 2'
    )

    assert ended.code == 1
    assert (
        "expected to change each row of source_offsets once in a statement, found topic words, partition 2 twice"
        in ended.errors
    )
    assert not write.target.exists()


def test_the_source_of_a_merge_has_one_name(write: WriteCommand) -> None:
    ended = write(
        "MERGE INTO aggregate__count t USING aggregate__count a JOIN aggregate__count b USING (key) ON t.key = a.key "
        "WHEN MATCHED THEN DELETE"
    )

    assert ended.code == 1
    assert (
        "expected one table, or one query in parentheses, as the source of MERGE, found a join"
        in ended.errors
    )
    assert not write.target.exists()


def test_the_source_of_a_merge_may_have_any_columns(write: WriteCommand) -> None:
    ended = write(
        "MERGE INTO aggregate__count t USING (SELECT 'key_1' AS a, 2 AS _SOURCE_ROW, 3 AS _source_row_, 4 AS _clause) s ON t.key = s.a "
        "WHEN MATCHED THEN UPDATE SET value = s._source_row + s._source_row_ + s._clause"
    )

    assert ended.code == 0, ended.errors
    assert counts(write.target) == counts(WORDS) | {"key_1": 9}
