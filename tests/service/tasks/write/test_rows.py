"""Statements that change rows of states: what SELECT finds in the new savepoint is what the statement says."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import catalog
from readers.metadata import OperatorState, read_metadata
from tests.support.commands import WriteCommand
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from writers.metadata import write_metadata

CANONICAL = DATA / "flink/2.3.0/everything-rocksdb-savepoints/canonical"
NATIVE = DATA / "flink/2.3.0/everything-rocksdb-savepoints/native"


@pytest.fixture
def write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> WriteCommand:
    return WriteCommand(CANONICAL, tmp_path / "new", capsys)


def rows(path: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a table, in order; without the places of rows."""
    found = catalog.connect(str(path)).table(table).scan().to_arrow()
    names = columns or tuple(
        name for name in found.schema.names if name not in ("namespace", "_key_group", "_subtask")
    )
    return sorted(zip(*(found.column(name).to_pylist() for name in names), strict=True), key=repr)


def test_values_are_set(write: WriteCommand) -> None:
    ended = write("UPDATE kinds__reducing SET value = value * 10 WHERE key IN ('k3', 'k1') OR value % 2 = 1")

    assert ended.code == 0, ended.errors
    assert ended.output.splitlines()[:3] == [
        "2 rows of kinds__reducing change",
        "  key k3: value 6 → 60",
        "  key k1: value 6 → 60",
    ]
    before = dict(rows(CANONICAL, "kinds__reducing"))
    assert dict(rows(write.target, "kinds__reducing")) == before | {"k1": 60, "k3": 60}
    assert rows(write.target, "kinds__value") == rows(CANONICAL, "kinds__value")


@pytest.mark.parametrize("source", [CANONICAL, NATIVE], ids=["canonical", "rocksdb"])
@pytest.mark.parametrize(
    ("script", "table", "expected"),
    [
        (
            "UPDATE kinds__aggregating a SET value.f1 = 7 + (SELECT count(*) FROM kinds__value) WHERE a.key < 'k2'",
            "kinds__aggregating",
            lambda row: (row[0], row[1] | {"f1": 13}) if row[0] < "k2" else row,
        ),
        (
            "UPDATE kinds__map SET value = map_key || value; DELETE FROM kinds__map WHERE value = 'm0text-0'",
            "kinds__map",
            lambda row: None if row[2] == "m0" else (row[0], row[1] and row[2] + row[1], row[2]),
        ),
        (
            "UPDATE kinds__value SET value = m.value::BIGINT FROM (SELECT key, count(*) + 7 AS value FROM kinds__map GROUP BY key) m "
            "WHERE m.key = kinds__value.key AND kinds__value.key <> 'k0'",
            "kinds__value",
            lambda row: row if row[0] == "k0" else (row[0], 10),
        ),
        (
            "DELETE FROM kinds__value USING kinds__map m WHERE m.key = kinds__value.key AND m.key IS DISTINCT FROM 'k5'",
            "kinds__value",
            lambda row: row if row[0] == "k5" else None,
        ),
        (
            "UPDATE \"tumbling-window__window-contents\" w SET value.f0 = 5 WHERE w.namespace.start > '1970-01-01 00:00:05'",
            "tumbling-window__window-contents",
            lambda row: (row[0], row[1] | {"f0": 5}) if row[1]["f1"] == 1 else row,
        ),
    ],
)
def test_rows_are_those_of_the_script(
    script: str, table: str, expected: Any, source: Path, write: WriteCommand
) -> None:
    before = rows(source, table)

    ended = write(script, source=source)

    assert ended.code == 0, ended.errors
    found = [row for row in map(expected, before) if row is not None]
    assert rows(write.target, table) == sorted(found, key=repr)


def test_a_changed_value_has_been_accessed_now(write: WriteCommand) -> None:
    script = (
        "UPDATE \"kinds__ttl-value\" SET value = 1 WHERE key = 'k1'; "
        "UPDATE \"kinds__ttl-value\" SET ttl_timestamp = TIMESTAMP '2026-01-01' WHERE key = 'k2'"
    )
    before = {key: (value, time) for key, value, time in rows(CANONICAL, "kinds__ttl-value")}

    assert write(script).code == 0

    after = {key: (value, time) for key, value, time in rows(write.target, "kinds__ttl-value")}
    assert after["k2"] == (before["k2"][0], datetime(2026, 1, 1))
    assert after["k1"][0] == 1
    assert after["k1"][1] > before["k1"][1]
    assert {key: row for key, row in after.items() if key not in ("k1", "k2")} == {
        key: row for key, row in before.items() if key not in ("k1", "k2")
    }


def test_timers_are_removed_and_put_off(write: WriteCommand) -> None:
    names = ("timer_service", "time_domain", "key", "timestamp")
    before = rows(CANONICAL, "timers", *names)

    ended = write(
        "DELETE FROM timers WHERE key = 'k1'; "
        "UPDATE timers SET timestamp = timestamp + INTERVAL 1 HOUR WHERE time_domain = 'PROCESSING'"
    )

    assert ended.code == 0, ended.errors
    expected = [
        (service, domain, key, time + timedelta(hours=1) if domain == "PROCESSING" else time)
        for service, domain, key, time in before
        if key != "k1"
    ]
    assert rows(write.target, "timers", *names) == sorted(expected, key=repr)


def test_rows_are_added_or_changed_where_they_are_there(write: WriteCommand) -> None:
    before = dict(rows(CANONICAL, "kinds__value"))

    ended = write(
        "INSERT INTO kinds__value SELECT 'new', 5; "
        "INSERT INTO kinds__value AS t (value, key) VALUES (8, 'k7'), (5, 'k1'), (6, 'k2') "
        "ON CONFLICT (key) DO UPDATE SET value = t.value + excluded.value WHERE excluded.value < 6; "
        "INSERT INTO kinds__value BY NAME SELECT 'k1' AS key, 9 AS value ON CONFLICT DO NOTHING; "
        "UPDATE kinds__value SET value = 100 WHERE key = 'new'"
    )

    assert ended.code == 0, ended.errors
    expected = before | {"new": 100, "k7": 8, "k1": before["k1"] + 5}
    assert dict(rows(write.target, "kinds__value")) == expected


def test_merge_does_what_the_first_clause_that_holds_says(write: WriteCommand) -> None:
    before = dict(rows(CANONICAL, "kinds__value"))

    ended = write(
        "MERGE INTO kinds__value t USING (VALUES ('k1', 50), ('k2', 60), ('k3', 1), ('z', 70), ('y', 0)) s(key, value) "
        "ON t.key = s.key "
        "WHEN MATCHED AND s.value > 55 THEN DELETE "
        "WHEN MATCHED AND s.value < 10 THEN DO NOTHING "
        "WHEN MATCHED THEN UPDATE SET value = s.value "
        "WHEN NOT MATCHED AND s.value > 0 THEN INSERT (key, value) VALUES (s.key, s.value) "
        "WHEN NOT MATCHED BY SOURCE AND t.key = 'k0' THEN UPDATE SET value = -1"
    )

    assert ended.code == 0, ended.errors
    assert ended.output.splitlines()[0] == (
        "2 rows of kinds__value change, 1 row of kinds__value is added, 1 row of kinds__value is removed"
    )
    expected = before | {"k1": 50, "z": 70, "k0": -1}
    del expected["k2"]
    assert dict(rows(write.target, "kinds__value")) == expected


def test_another_key_makes_another_entry(write: WriteCommand) -> None:
    before = rows(CANONICAL, "kinds__map")

    ended = write(
        "UPDATE kinds__map SET map_key = 'M' || map_key, value = upper(value) WHERE key = 'k1'; "
        "UPDATE kinds__map SET key = 'new' WHERE key = 'k2'"
    )

    assert ended.code == 0, ended.errors
    expected = [
        (key, value and value.upper(), f"M{name}")
        if key == "k1"
        else ("new" if key == "k2" else key, value, name)
        for key, value, name in before
    ]
    assert rows(write.target, "kinds__map") == sorted(expected, key=repr)


def test_the_table_of_an_operator_with_one_state_is_that_of_the_state(write: WriteCommand) -> None:
    source = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
    before = dict(rows(source, "aggregate__count"))

    ended = write(
        "UPDATE aggregate SET value = value + 1 WHERE key = 'key_1'; DELETE FROM aggregate a WHERE a.key = 'key_2'; "
        "INSERT INTO aggregate VALUES ('new', (SELECT count(*) FROM aggregate)); "
        "MERGE INTO aggregate USING (SELECT 'key_3' AS k) ON k = aggregate.key WHEN MATCHED THEN DELETE; "
        "ALTER TABLE aggregate RENAME TO 'words'; UPDATE words SET value = -1 WHERE key = 'key_4'",
        source=source,
    )

    assert ended.code == 0, ended.errors
    expected = before | {"key_1": before["key_1"] + 1, "new": len(before) - 1, "key_4": -1}
    del expected["key_2"], expected["key_3"]
    assert dict(rows(write.target, "words__count")) == expected


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "ALTER TABLE aggregate__count ALTER COLUMN value TYPE 'String'; UPDATE aggregate SET value = 5",
            "an earlier statement altered 'aggregate__count'",
        ),
        ("DROP TABLE aggregate; DELETE FROM aggregate", "an earlier statement dropped 'aggregate'"),
        ("UPDATE aggregate SET state_name = 'x'", "there is no column 'state_name'"),
    ],
)
def test_the_table_of_an_operator_has_no_more_rights_than_that_of_its_state(
    script: str, message: str, write: WriteCommand
) -> None:
    ended = write(script, source=DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical")

    assert ended.code == 1
    assert message in ended.errors


def test_entries_of_maps_are_added_by_the_names_of_their_columns(write: WriteCommand) -> None:
    before = rows(CANONICAL, "kinds__map")

    ended = write(
        "INSERT INTO kinds__map (key, map_key, value) VALUES ('k1', 'name', 'v1'); "
        "INSERT INTO kinds__map BY NAME SELECT 'k2' AS key, 'v2' AS value, 'name' AS map_key"
    )

    assert ended.code == 0, ended.errors
    expected = [*before, ("k1", "v1", "name"), ("k2", "v2", "name")]
    assert rows(write.target, "kinds__map") == sorted(expected, key=repr)


def test_elements_of_lists_come_and_go(write: WriteCommand) -> None:
    before = rows(CANONICAL, "kinds__list")

    ended = write(
        "DELETE FROM kinds__list WHERE value = 1 AND key <> 'k1'; "
        "INSERT INTO kinds__list (key, value) VALUES ('k3', 100), ('new', 1), ('new', 2); "
        "INSERT INTO kinds__list (key, value, list_index) VALUES ('k1', 77, 0)"
    )

    assert ended.code == 0, ended.errors
    lists: dict[str, list[int]] = {}
    for key, value, _ in sorted(before, key=lambda row: (row[0], row[2])):
        if value != 1 or key == "k1":
            lists.setdefault(key, []).append(value)
    lists["k3"].append(100)
    lists["k1"].insert(0, 77)
    lists["new"] = [1, 2]
    expected = [(key, value, index) for key, values in lists.items() for index, value in enumerate(values)]
    assert rows(write.target, "kinds__list") == sorted(expected, key=repr)


@pytest.mark.parametrize(
    ("script", "changed"),
    [
        (
            "UPDATE kinds__list SET key = key, value = value + 100 WHERE list_index = 0",
            {"k1": [100, 1, 2, 3]},
        ),
        (
            "UPDATE kinds__list SET key = CASE list_index WHEN 1 THEN 'new' ELSE key END, value = value + 100 WHERE key = 'k1'",
            {"k1": [100, 102, 103], "new": [101]},
        ),
        (
            "MERGE INTO kinds__list t USING (SELECT 'k1' AS key) s ON t.key = s.key AND list_index < 2 "
            "WHEN MATCHED THEN UPDATE SET key = s.key, value = 50 - value",
            {"k1": [50, 49, 2, 3]},
        ),
    ],
)
def test_elements_that_keep_their_key_keep_their_index(
    script: str, changed: dict[str, list[int]], write: WriteCommand
) -> None:
    ended = write(script)

    assert ended.code == 0, ended.errors
    found = [(key, index, value) for key, value, index in rows(write.target, "kinds__list") if key in changed]
    expected = [(key, index, value) for key, values in changed.items() for index, value in enumerate(values)]
    assert sorted(found) == sorted(expected)


def test_elements_are_inserted_with_the_indexes_of_another_list(write: WriteCommand) -> None:
    ended = write(
        "INSERT INTO kinds__list (key, value, list_index) SELECT 'copy', value * 10, list_index FROM kinds__list WHERE key = 'k1'; "
        "INSERT INTO kinds__list (key, value, list_index) VALUES ('k1', 7, 4), ('k1', 8, 5), ('k1', 9, NULL)"
    )

    assert ended.code == 0, ended.errors
    found = {(key, index): value for key, value, index in rows(write.target, "kinds__list")}
    assert [found["copy", index] for index in range(4)] == [0, 10, 20, 30]
    assert [found["k1", index] for index in range(7)] == [0, 1, 2, 3, 7, 8, 9]


def test_elements_and_broadcast_entries_change(write: WriteCommand) -> None:
    ended = write(
        'UPDATE "events__last-numbers" SET value.f1 = 100 WHERE _subtask = 1; '
        "UPDATE broadcast__rules SET value.f1 = 'x' WHERE map_key = 'k3'; DELETE FROM broadcast__rules WHERE map_key = 'k4'"
    )

    assert ended.code == 0, ended.errors
    subtasks = rows(write.target, "events__last-numbers", "value", "_subtask")
    assert {subtask: value["f1"] for value, subtask in subtasks} == {0: 3, 1: 100}
    rules = {key: value["f1"] for value, key in rows(write.target, "broadcast__rules")}
    assert rules["k3"] == "x"
    assert "k4" not in rules
    assert len(rules) == 5


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("UPDATE kinds SET value = 1", "kinds shows all states of an operator and cannot be changed"),
        ("DELETE FROM StateMeta", "StateMeta lists facts about the savepoint and cannot be changed"),
        ("DELETE FROM nothing", "nothing"),
        ("UPDATE kinds__value SET nothing = 1", "nothing"),
        ("UPDATE kinds__value SET _key_group = 1", "_key_group of kinds__value cannot be set"),
        ("UPDATE kinds__aggregating SET value.f7 = 1", "value of kinds__aggregating has no field 'f7'"),
        (
            "UPDATE kinds__value SET value = 'x' WHERE key = 'k3'",
            "key k3, value: expected a value of type BIGINT, found 'x'",
        ),
        (
            "UPDATE kinds__reducing SET value = CASE key WHEN 'k2' THEN 1e19 ELSE 1 END",
            "key k2, value: expected a value of type BIGINT, found 1e+19 (DOUBLE)",
        ),
        (
            "INSERT INTO kinds__reducing SELECT 'new' || range, 10::HUGEINT ** (16 + range) FROM range(5)",
            "key new3, value: expected a value of type BIGINT, found",
        ),
        (
            'UPDATE "events__last-numbers" SET value.f1 = 1e20 WHERE list_index = 1 AND _subtask = 1',
            "list_index 1, _subtask 1, value.f1: expected a value of type BIGINT, found 1e+20 (DOUBLE)",
        ),
        ("UPDATE kinds__value SET value = 0.5", "expected a value of type BIGINT"),
        ("UPDATE kinds__value SET value = 1, value = 2", "value and value"),
        (
            "UPDATE kinds__value SET value = 1 FROM kinds__map m WHERE m.key = kinds__value.key",
            "expected to change each row once in a statement",
        ),
        ("DELETE FROM kinds__value WHERE\n value > nothing", "line 2, column 10"),
        ("DROP TABLE kinds; DELETE FROM kinds__value", "an earlier statement dropped 'kinds__value'"),
        (
            "DROP TABLE kinds; UPDATE types__v_long SET value = (SELECT max(value) FROM kinds__value)",
            "an earlier statement dropped 'kinds__value'",
        ),
        ("INSERT INTO kinds__value (key) SELECT 'k9'", "expected values for the columns key, value"),
        (
            "INSERT INTO kinds__value VALUES ('k1', 5)",
            "expected rows with new keys, found key 'k1', which is there already",
        ),
        ("INSERT INTO kinds__value VALUES ('k9', 5), ('k9', 6)", "found key 'k9' twice among the new rows"),
        ("INSERT INTO kinds__value VALUES (NULL, 5)", "NULL"),
        ("INSERT INTO kinds__value VALUES ('k9', 5, 6)", "expected 2 values in a row, found 3"),
        (
            "INSERT INTO kinds__value VALUES ('k9', 5) ON CONFLICT (value) DO NOTHING",
            "expected ON CONFLICT (key)",
        ),
        ("INSERT INTO kinds__list (key, value) VALUES ('k9', 5) ON CONFLICT DO NOTHING", "may be alike"),
        (
            "MERGE INTO kinds__value t USING kinds__map m ON m.key = t.key WHEN MATCHED THEN DELETE",
            "expected at most one row of the source for each row of kinds__value",
        ),
        (
            "INSERT INTO kinds__map VALUES ('k1', 'value', 'name')",
            "write INSERT … (key, map_key, value) …, or INSERT … BY NAME SELECT …; SELECT * shows them as key, value, map_key",
        ),
        (
            "INSERT INTO kinds__map SELECT key, value, map_key FROM kinds__map ON CONFLICT DO NOTHING",
            "expected a list of columns for the values of kinds__map",
        ),
        (
            "INSERT INTO broadcast__rules SELECT 'k9', {'f0': 1, 'f1': 'x'}",
            "expected a list of columns for the values of broadcast__rules",
        ),
        (
            "MERGE INTO kinds__map t USING (SELECT 'k9' AS key, 'v' AS value, 'm' AS map_key) s ON t.key = s.key "
            "WHEN NOT MATCHED THEN INSERT *",
            "write INSERT … (key, map_key, value) …; SELECT * shows",
        ),
        (
            "INSERT INTO kinds__map (key, map_key, value) VALUES ('k1', 'm', 'v'), ('k2', NULL, 'v')",
            "key k2, map_key: expected a value, found NULL",
        ),
        (
            "UPDATE kinds__map SET map_key = nullif(map_key, 'm0') WHERE key = 'k1'",
            "key k1, map_key m0, map_key: expected a value, found NULL",
        ),
        (
            "INSERT INTO kinds__list (key, value, list_index) VALUES ('k1', 5, 0), ('k1', 5, 99)",
            "key k1: expected a list_index from 0 to 5, the end of the list, found 99",
        ),
        (
            "INSERT INTO kinds__list (key, value, list_index) VALUES ('k1', 5, -1)",
            "key k1: expected a list_index from 0 to 4, the end of the list, found -1",
        ),
        (
            "INSERT INTO kinds__list (key, value, list_index) VALUES ('new', 5, 1)",
            "key new: expected a list_index from 0 to 0, the end of the list, found 1",
        ),
        (
            "INSERT INTO \"events__last-numbers\" (value, _subtask, list_index) VALUES ({'f0': 'new', 'f1': 5}, 1, 7)",
            "_subtask 1: expected a list_index from 0 to 3, the end of the list, found 7",
        ),
        ("INSERT INTO timers SELECT 1", "expected 9 values in a row, found 1"),
        (
            "MERGE INTO timers t USING timers s ON s.key = t.key WHEN MATCHED THEN DELETE",
            "rows cannot be added to timers",
        ),
    ],
)
def test_wrong_statements_write_nothing(script: str, message: str, write: WriteCommand) -> None:
    ended = write(script)

    assert ended.code == 1
    assert message in ended.errors
    assert not write.target.exists()


def test_views_of_sql_operators_are_as_writable_as_what_they_show(
    write: WriteCommand, tmp_path: Path
) -> None:
    source = unpacked("1.20.3-sql-groupagg-hashmap-canonical", tmp_path).directory
    view = '"23eaad2bb152dd975bbc63554c2ca61f__aggregate"'
    before = {row[0]: row[1:] for row in rows(source, view.strip('"'))}

    ended = write(
        f"UPDATE {view} SET f0 = f0 + 1, f1 = 7.5 WHERE k0 = 'k1'; DELETE FROM {view} WHERE k0 = 'k2'; "
        f"UPDATE {view} SET k0 = 'other' WHERE k0 = 'k3'",
        source=source,
    )

    assert ended.code == 0, ended.errors
    expected = dict(before)
    del expected["k2"]
    expected["k1"] = (before["k1"][0] + 1, Decimal("7.50"), *before["k1"][2:])
    expected["other"] = expected.pop("k3")
    assert {row[0]: row[1:] for row in rows(write.target, view.strip('"'))} == expected


def test_rows_change_before_and_after_a_state_is_emptied_or_renamed(write: WriteCommand) -> None:
    ended = write(
        "UPDATE kinds__value SET value = 1; TRUNCATE kinds__value; INSERT INTO kinds__value VALUES ('a', 1), ('b', 2); "
        "UPDATE kinds__value SET value = (SELECT sum(value) FROM kinds__value) WHERE key = 'a'; "
        "UPDATE kinds__reducing SET value = 9; ALTER TABLE kinds__reducing RENAME TO sums; "
        "DELETE FROM kinds__sums WHERE key <> 'k1'"
    )

    assert ended.code == 0, ended.errors
    assert rows(write.target, "kinds__value") == [("a", 3), ("b", 2)]
    assert rows(write.target, "kinds__sums") == [("k1", 9)]


def test_a_renamed_operator_has_its_tables_by_its_new_name(write: WriteCommand) -> None:
    ended = write(
        "ALTER TABLE kinds RENAME TO 'other'; DELETE FROM other__value WHERE key <> 'k1'; "
        "UPDATE other__value SET value = 5"
    )

    assert ended.code == 0, ended.errors
    assert rows(write.target, "other__value") == [("k1", 5)]


def test_as_many_rows_as_expected_change(write: WriteCommand) -> None:
    script = "UPDATE kinds__value SET value = 0 WHERE key < 'k2'; DELETE FROM kinds__value WHERE key = 'k5'"

    assert "found 3; nothing was written" in write(script, "--expect", "kinds__value=2").errors
    assert write(script, "--expect", "kinds__value=3").code == 0


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("INSERT INTO kinds__value (key, value) VALUES ('k1', NULL)", "k1"),
        ("UPDATE kinds__reducing SET value = NULL", "value"),
        ("UPDATE kinds__reducing SET key = 'k' || (value - value)", "key"),
    ],
)
def test_a_dry_run_names_what_the_write_would_refuse(script: str, message: str, write: WriteCommand) -> None:
    preview, written = write(script, "--dry-run"), write(script)

    assert (preview.code, preview.output) == (written.code, written.output) == (1, "")
    assert preview.errors == written.errors
    assert message in preview.errors


def test_a_key_group_in_two_files_is_refused(write: WriteCommand, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(CANONICAL, source)
    data = (source / "_metadata").read_bytes()
    metadata = read_metadata(data, "_metadata")

    def doubled(operator: OperatorState) -> OperatorState:
        first, *others = operator.subtasks
        copies = [replace(one, managed_keyed_state=first.managed_keyed_state) for one in others]
        return replace(operator, subtasks=(first, *copies))

    operators = tuple(doubled(one) if one.uid == "kinds" else one for one in metadata.operators)
    (source / "_metadata").write_bytes(write_metadata(replace(metadata, operators=operators)))

    ended = write("DELETE FROM kinds__value WHERE key = 'k3'", source=source)

    assert ended.code == 1
    assert "in one place each, found _key_group" in ended.errors
    assert not write.target.exists()
