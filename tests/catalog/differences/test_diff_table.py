"""Tables of differences: exact rows, of states of every kind, in every format, and of savepoints with other types."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Database, NoSuchTableError, Predicate, connect, diff_table
from catalog.differences.splits import Role, compared_columns
from catalog.statetables import StatesTable
from catalog.views import WideTable
from readers import MissingFileError, Source
from readers.formats.full.source import FullSource
from readers.formats.heap.source import HeapSource
from readers.formats.rocksdb.source import RocksSource
from service.cli import main
from tests.support.commands import WriteCommand
from tests.support.paths import DATA
from tests.support.unpacked import unpacked

FLINK = DATA / "flink" / "1.20.3"
WORDCOUNT = FLINK / "wordcount-hashmap-savepoints"
EVERYTHING = FLINK / "everything-hashmap-savepoints"
IDENTITY = ("state_name", "key", "namespace", "map_key", "list_index", "timestamp")
FACTS = ("_key_group", "operator_id", "operator_uid", "timer_service", "time_domain")


def database(path: Path) -> Database:
    found = connect(path).default
    assert found is not None
    return found


SCRIPT = """
UPDATE kinds__map SET value = 'new' WHERE key = 'k3' AND map_key = 'm0';
DELETE FROM kinds__map WHERE key = 'k3' AND map_key = 'm3';
INSERT INTO kinds__map (key, map_key, value) VALUES ('k9', 'm7', NULL);
INSERT INTO kinds__list (key, value) VALUES ('k3', 77);
UPDATE "kinds__ttl-value" SET ttl_timestamp = TIMESTAMP '2030-01-01 00:00:00' WHERE key = 'k4';
UPDATE "events__last-numbers" SET value.f1 = 99 WHERE value.f0 = 'k2';
UPDATE timers SET timestamp = timestamp + INTERVAL 1 DAY WHERE key = 'k3' AND timestamp = TIMESTAMP '2100-01-01 00:00:00';
UPDATE kinds__value SET value = 8 WHERE key = 'k1';
DROP TABLE kinds__reducing
"""


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the script makes of the savepoint of all kinds of state."""
    target = tmp_path_factory.mktemp("edited") / "new"
    assert main(["write", str(EVERYTHING / "canonical"), SCRIPT, "--to", str(target)]) == 0
    return target


@pytest.fixture
def write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> WriteCommand:
    return WriteCommand(EVERYTHING / "canonical", tmp_path / "new", capsys)


def rows(before: Path, after: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        diff_table(database(before), database(after), table).scan().to_arrow().to_pylist()
    )
    return found


def changed(before: Path, write: WriteCommand, table: str, script: str) -> list[dict[str, Any]]:
    """The differences in a table of what a script makes of a savepoint."""
    ended = write(script)
    assert ended.code == 0, ended
    return rows(before, write.target, table)


def by_hand(before: Path, after: Path, table: str) -> Counter[str]:
    """What differs, found by comparing all rows in Python."""
    sides = []
    for path in (before, after):
        known = database(path).table(table).scan().to_arrow()
        sides.append([{name: row[name] for name in row if name != "_subtask"} for row in known.to_pylist()])
    old, new = (Counter(map(repr, side)) for side in sides)
    return Counter({f"- {row}": count for row, count in (old - new).items()}) + Counter(
        {f"+ {row}": count for row, count in (new - old).items()}
    )


def as_by_hand(found: list[dict[str, Any]], columns: list[str]) -> Counter[str]:
    """Rows of a table of differences, in the same form."""
    texts: Counter[str] = Counter()
    for row in found:
        for sign, tail, absent in (("-", "_before", "added"), ("+", "_after", "removed")):
            if row["change"] != absent:
                own = {name: row[name] if name in row else row[name + tail] for name in columns}
                texts[f"{sign} {own!r}"] += 1
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("form", ["canonical", "native"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_savepoint_does_not_differ_from_itself(backend: str, form: str) -> None:
    known = database(FLINK / f"everything-{backend}-savepoints" / form)
    # A wide table shows what the tables of its states have, and has no diff of its own.
    compared = [name for name in known.tables if not isinstance(known.table(name), WideTable)]

    assert len(compared) > 20
    assert {name for name in compared if diff_table(known, known, name).scan().to_arrow().num_rows} == set()


@pytest.mark.slow
@pytest.mark.parametrize("table", ["kinds", "timers", "events", "broadcast"])
def test_the_same_rows_in_another_format_are_no_differences(table: str) -> None:
    paths = [
        FLINK / f"everything-{backend}-savepoints" / form
        for backend in ("hashmap", "rocksdb")
        for form in ("canonical", "native")
    ]
    first, *others = paths
    for other in others:
        expected = by_hand(first, other, table)
        columns = [name for name in database(first).table(table).schema.names if name != "_subtask"]

        assert as_by_hand(rows(first, other, table), columns) == expected


def test_changed_removed_and_added_rows_come_with_before_and_after(edited: Path) -> None:
    found = rows(EVERYTHING / "canonical", edited, "kinds__map")

    group = {"namespace": None, "_key_group": 10}
    assert sorted(found, key=lambda row: str(row["change"])) == [
        {"change": "added", "key": "k9", "map_key": "m7", "value_before": None, "value_after": None}
        | {"namespace": None, "_key_group": 6},
        {"change": "changed", "key": "k3", "map_key": "m0", "value_before": "text-0", "value_after": "new"}
        | group,
        {"change": "removed", "key": "k3", "map_key": "m3", "value_before": None, "value_after": None}
        | group,
    ]


def test_a_list_that_grew_has_one_added_element(edited: Path) -> None:
    found = rows(EVERYTHING / "canonical", edited, "kinds__list")

    assert [(row["change"], row["key"], row["list_index"], row["value_after"]) for row in found] == [
        ("added", "k3", 4, 77)
    ]


def test_a_time_of_access_is_a_difference_with_a_ttl(edited: Path) -> None:
    (row,) = rows(EVERYTHING / "canonical", edited, "kinds__ttl-value")

    assert (row["change"], row["key"], row["value_before"], row["value_after"]) == ("changed", "k4", 3, 3)
    assert str(row["ttl_timestamp_after"]) == "2030-01-01 00:00:00"
    assert str(row["ttl_timestamp_before"]) == "2026-11-21 08:21:23.991000"


def test_elements_of_operator_state_are_added_and_removed_wherever_they_stand(edited: Path) -> None:
    found = rows(EVERYTHING / "canonical", edited, "events__last-numbers")

    assert sorted(found, key=lambda row: str(row["change"])) == [
        {"change": "added", "value_before": None, "value_after": {"f0": "k2", "f1": 99}},
        {"change": "removed", "value_before": {"f0": "k2", "f1": 3}, "value_after": None},
    ]


def test_a_timer_that_moved_is_removed_and_added(edited: Path) -> None:
    found = rows(EVERYTHING / "canonical", edited, "timers")

    assert [(row["change"], row["key"], str(row["timestamp"])) for row in found] == [
        ("removed", "k3", "2100-01-01 00:00:00"),
        ("added", "k3", "2100-01-02 00:00:00"),
    ]


def test_the_table_of_an_operator_has_what_differs_in_each_of_its_states(edited: Path) -> None:
    found = rows(EVERYTHING / "canonical", edited, "kinds")

    assert Counter((row["state_name"], row["change"]) for row in found) == {
        ("map", "added"): 1,
        ("map", "changed"): 1,
        ("map", "removed"): 1,
        ("list", "added"): 1,
        ("ttl-value", "changed"): 1,
        ("value", "changed"): 1,
        ("reducing", "removed"): 6,
    }


@pytest.mark.slow
@pytest.mark.parametrize("parallelisms", ["parallelism = 1", "parallelism = 3", "max_parallelism = 1000"])
def test_another_parallelism_is_no_difference(write: WriteCommand, parallelisms: str) -> None:
    found = changed(EVERYTHING / "canonical", write, "kinds", f"ALTER TABLE kinds SET ({parallelisms})")

    assert found == []


@pytest.mark.slow
def test_an_edit_is_found_across_another_parallelism(
    write: WriteCommand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert write("UPDATE kinds__value SET value = 8 WHERE key = 'k1'").code == 0
    again = WriteCommand(write.target, tmp_path / "rescaled", capsys)
    found = changed(
        EVERYTHING / "canonical", again, "kinds__value", "ALTER TABLE kinds SET (max_parallelism = 1000)"
    )

    assert [(row["change"], row["key"], row["value_before"], row["value_after"]) for row in found] == [
        ("changed", "k1", 3, 8)
    ]


@pytest.mark.slow
def test_values_of_other_types_are_compared_as_values(
    write: WriteCommand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """INT → BIGINT: each side keeps its type, and equal numbers are no difference."""
    assert write("UPDATE kinds__list SET value = 8 WHERE key = 'k1' AND list_index = 2").code == 0
    wider = WriteCommand(write.target, tmp_path / "wider", capsys)
    script = ";".join(
        f"ALTER TABLE {name} ALTER COLUMN value TYPE BIGINT" for name in ("kinds__list", "types__v_int")
    )
    found = changed(EVERYTHING / "canonical", wider, "kinds__list", script)
    known = diff_table(database(EVERYTHING / "canonical"), database(wider.target), "kinds__list")

    shown = [(row["key"], row["list_index"], row["value_before"], row["value_after"]) for row in found]
    assert shown == [("k1", 2, 2, 8)]
    types = [str(known.schema.field(f"value_{side}").type) for side in ("before", "after")]
    assert types == ["int32", "int64"]
    assert rows(EVERYTHING / "canonical", wider.target, "types__v_int") == []


def test_a_state_that_only_one_savepoint_has_is_removed_or_added_as_a_whole(edited: Path) -> None:
    before = EVERYTHING / "canonical"
    found = rows(before, edited, "kinds__reducing")

    assert Counter(row["change"] for row in found) == {"removed": 6}
    assert Counter(row["change"] for row in rows(edited, before, "kinds__reducing")) == {"added": 6}
    assert list(found[0]) == ["change", "key", "namespace", "value_before", "value_after", "_key_group"]


def test_conditions_find_the_same_rows_as_a_filter(edited: Path) -> None:
    known = diff_table(database(EVERYTHING / "canonical"), database(edited), "kinds")
    every = known.scan().to_arrow().to_pylist()

    for column, value in (("key", "k3"), ("key", "nobody"), ("_key_group", 10), ("state_name", "map")):
        found = known.scan(None, None, None, False, **{column: value}).to_arrow().to_pylist()
        expected = [row for row in every if row[column] == value]
        assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert len(known.plan(Predicate({"key": ("k1",)})).key_groups) == 1


def test_columns_are_narrowed(edited: Path) -> None:
    known = diff_table(database(EVERYTHING / "canonical"), database(edited), "kinds__value")

    assert known.scan(columns=["value_after", "change"]).to_arrow().to_pylist() == [
        {"value_after": 8, "change": "changed"}
    ]
    assert known.scan(columns=[]).to_arrow().num_rows == 1


def compared_both_ways(
    before: Path, after: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> Counter[str]:
    """The differences in a table, which are the same where no equal entry is left out by its bytes."""
    fast = Counter(map(repr, rows(before, after, table)))
    with monkeypatch.context() as patch:
        for source in (FullSource, HeapSource, RocksSource):
            patch.setattr(source, "differing", Source.differing)
            patch.setattr(source, "has_bytes_of", Source.has_bytes_of)
        assert Counter(map(repr, rows(before, after, table))) == fast
    return fast


@pytest.mark.parametrize("table", ["kinds", "timers"])
def test_what_bytes_tell_is_what_rows_tell(edited: Path, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared_both_ways(EVERYTHING / "canonical", edited, table, monkeypatch)
    assert compared_both_ways(edited, EVERYTHING / "canonical", table, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "script"),
    [
        (
            "1.20.3-kinds-compressed-canonical",
            "UPDATE kinds__value SET value = value + 1; DELETE FROM kinds__map WHERE map_key = 'm0'",
        ),
        (
            "1.20.3-wordcount-hashmap-maxpar1000-canonical",
            "UPDATE f7c20420360e0172e54933e6abdd481a__count SET value = value + 1 WHERE key < 'key_5'",
        ),
        (
            "1.20.3-allstates-hashmap-compressed-canonical",
            "DELETE FROM e0e1113689a400d25b7611dd94ef14a1__list WHERE list_index = 0",
        ),
        ("1.20.3-windows-canonical", "UPDATE timers SET timestamp = timestamp + INTERVAL 1 DAY"),
    ],
)
def test_every_layout_of_key_groups_is_compared_alike(
    name: str,
    script: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = unpacked(name, tmp_path / "old").directory
    write = WriteCommand(source, tmp_path / "new", capsys)
    ended = write(script)
    assert ended.code == 0, ended
    known = database(source)
    tables = [name for name in known.tables if isinstance(known.table(name), StatesTable)]
    found = [compared_both_ways(source, write.target, table, monkeypatch) for table in tables]

    assert any(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        FLINK / "kinds-hashmap-savepoints" / "canonical",
        FLINK / "everything-hashmap-savepoints" / "native",
        FLINK / "everything-rocksdb-savepoints" / "native",
    ],
    ids=["canonical", "heap", "rocksdb"],
)
def test_edits_are_found_from_every_format(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = WriteCommand(path, tmp_path / "new", capsys)
    ended = write(SCRIPT)
    assert ended.code == 0, ended
    assert sum(compared_both_ways(path, write.target, "kinds", monkeypatch).values()) == 12
    assert sum(compared_both_ways(path, write.target, "timers", monkeypatch).values()) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "before", "after"),
    [
        ("1.20.3/wordcount-hashmap-checkpoint-full", "checkpoint/chk-1", "checkpoint/chk-2"),
        ("1.20.3/wordcount-hashmap-rescaled-3", "checkpoint/chk-2", "checkpoint/chk-3"),
        ("1.20.3/allstates-hashmap-compressed", "checkpoint/chk-3", "native"),
        ("2.3.0/async-v2-hashmap", "checkpoint/chk-1", "checkpoint/chk-2"),
        ("2.3.0/alltypes-hashmap", "checkpoint/chk-1", "checkpoint/chk-4"),
    ],
)
def test_checkpoints_of_the_hashmap_backend_are_compared_alike(
    case: str, before: str, after: str, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = corpus / case / before, corpus / case / after
    known = database(old)
    for table in [
        name for name in known.tables if "__" not in name and isinstance(known.table(name), StatesTable)
    ]:
        compared_both_ways(old, new, table, monkeypatch)


@pytest.mark.slow
def test_facts_are_compared_by_what_they_are_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write = WriteCommand(WORDCOUNT / "canonical", tmp_path / "new", capsys)
    before = database(WORDCOUNT / "canonical").table("source_offsets").scan().to_arrow().to_pylist()
    topic, partition, offset = (before[0][name] for name in ("topic", "partition", "starting_offset"))
    (row,) = changed(
        WORDCOUNT / "canonical",
        write,
        "source_offsets",
        f"UPDATE source_offsets SET starting_offset = 7 WHERE topic = '{topic}' AND \"partition\" = {partition}",
    )

    assert (row["change"], row["topic"], row["partition"]) == ("changed", topic, partition)
    assert (row["starting_offset_before"], row["starting_offset_after"]) == (offset, 7)


def test_a_table_that_neither_savepoint_has_is_named() -> None:
    known = database(EVERYTHING / "canonical")

    with pytest.raises(NoSuchTableError, match="kinds__valeu"):
        diff_table(known, known, "kinds__valeu")


def test_a_file_that_is_missing_is_an_error_and_no_removed_rows(tmp_path: Path) -> None:
    native = FLINK / "everything-rocksdb-savepoints" / "native"
    shutil.copytree(native, tmp_path / "broken")
    known, broken = database(native), database(tmp_path / "broken")
    for file in (tmp_path / "broken").iterdir():
        if file.name != "_metadata":
            file.unlink()

    with pytest.raises(MissingFileError):
        diff_table(known, broken, "kinds__value").scan(allow_partial=True).to_arrow()


def test_a_key_called_change_is_another_column_than_the_change() -> None:
    schema = pa.schema([("change", pa.string()), ("value", pa.int64())])
    columns = compared_columns(schema, schema, {"change": Role.IDENTITY, "value": Role.CONTENT})
    before, after = (
        pa.RecordBatch.from_pylist([{"change": "added", "value": value}], schema) for value in (1, 2)
    )

    found = columns.rows("changed", before, after)

    assert found.to_pylist() == [
        {"change": "changed", "change_1": "added", "value_before": 1, "value_after": 2}
    ]
