"""Scripts over operator state: list, union and broadcast states, splits of sources, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from readers import Savepoint
from service.cli import main
from tests.support.paths import DATA
from tests.support.restoring import Restore
from tests.support.unpacked import unpacked

EVERYTHING = DATA / "flink/2.3.0/everything-rocksdb-savepoints/native"


def rows(path: Path, state: str) -> list[Any]:
    """Subtask and value, or map key and value, of each row, sorted."""
    found = next(
        one for operator in Savepoint(path).operators for one in operator.states if one.name == state
    )
    return sorted(
        (row.get("map_key", row["_subtask"]), *_values(row["value"]))
        for batch in found.read()
        for row in batch.to_pylist()
    )


def _values(value: Any) -> tuple[Any, ...]:
    return tuple(value.values()) if isinstance(value, dict) else (value,)


def written(script: str, target: Path, source: Path = EVERYTHING) -> Path:
    assert main(["write", str(source), script, "--to", str(target)]) == 0
    return target


def test_elements_of_list_and_union_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = written(
        'UPDATE "events__last-numbers" SET value.f1 = value.f1 + 100 WHERE list_index = 0; '
        "DELETE FROM \"events__last-numbers\" WHERE value.f0 IN ('k2', 'k3'); "
        "INSERT INTO \"events__last-numbers\" (value, _subtask) SELECT {'f0': 'new', 'f1': count(*)}, 1 "
        'FROM "events__last-numbers"; '
        "INSERT INTO events__readers VALUES ('made up')",
        tmp_path / "new",
    )

    assert rows(new, "last-numbers") == [
        (0, "k0", 103),
        (0, "k4", 3),
        (1, "k1", 103),
        (1, "k5", 3),
        (1, "new", 4),
    ]
    assert rows(new, "readers") == [(0, "made up"), (0, "reader-0"), (1, "reader-1")]
    assert "1 row of events__readers is added" in capsys.readouterr().out


def test_entries_of_a_broadcast_state(tmp_path: Path) -> None:
    new = written(
        "MERGE INTO broadcast__rules AS r USING (VALUES ('k0', 7), ('k9', 9)) AS s(k, n) ON r.map_key = s.k "
        "WHEN MATCHED THEN UPDATE SET value.f0 = s.n "
        "WHEN NOT MATCHED THEN INSERT (map_key, value) VALUES (s.k, {'f0': s.n, 'f1': 'merged'}); "
        "DELETE FROM broadcast__rules WHERE map_key > 'k1' AND map_key < 'k9'",
        tmp_path / "new",
    )

    assert rows(new, "rules") == [("k0", 7, "rule-3"), ("k1", 3, "rule-3"), ("k9", 9, "merged")]


def test_offsets_change_by_the_splits_of_a_source(tmp_path: Path) -> None:
    source = unpacked("2.3.0-source-kafka-hashmap-canonical", tmp_path).directory
    before = rows(source, "SourceReaderState")

    new = written(
        'UPDATE "kafka-source__SourceReaderState" SET value.starting_offset = 5 WHERE value.partition = 2',
        tmp_path / "new",
        source,
    )

    expected = [row if row[2] != 2 else (*row[:3], 5, *row[4:]) for row in before]
    assert rows(new, "SourceReaderState") == expected != before


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "INSERT INTO events__readers (value, _subtask) VALUES ('x', 7)",
            "expected rows in subtasks that have the state readers (0, 1), found subtask 7",
        ),
        (
            "INSERT INTO broadcast__rules (map_key, value) VALUES ('k1', {'f0': 1, 'f1': 'x'})",
            "rules: expected each key of a broadcast state once, found 'k1' twice",
        ),
        ("UPDATE broadcast__rules SET map_key = 'same'", "found 'same' twice"),
        (
            "UPDATE broadcast__rules SET map_key = NULL WHERE map_key = 'k1'",
            "map_key k1, _subtask 0, map_key: expected a value, found NULL",
        ),
        ("UPDATE broadcast__rules SET value.f0 = 3000000000", "expected a value of type INTEGER"),
        ('UPDATE "events__last-numbers" SET _subtask = 1', "_subtask of events__last-numbers cannot be set"),
    ],
)
def test_rows_that_flink_would_lose_are_refused(
    script: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["write", str(EVERYTHING), script, "--to", str(tmp_path / "new")])

    assert code == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            'DELETE FROM "kafka-source__SourceReaderState"',
            "cannot be removed or added: the source's enumerator",
        ),
        (
            'INSERT INTO "kafka-source__SourceReaderState" SELECT value FROM "kafka-source__SourceReaderState"',
            "cannot be removed or added: the source's enumerator",
        ),
        (
            'UPDATE "kafka-source__SourceReaderState" SET value.partition = 9',
            "in which only starting_offset and stopping_offset changes",
        ),
        ('DROP TABLE "kafka-source__SourceReaderState"', "two halves of one source"),
        (
            'UPDATE "kafka-source__SourceReaderState" SET value.starting_offset = 5; '
            "UPDATE source_offsets SET starting_offset = 6",
            "source_offsets shows the offsets in the rows of the state SourceReaderState, and the script changes both",
        ),
        (
            'DELETE FROM "Sink Committer: kafka-sink__streaming_committer_raw_states"',
            "it holds transactions or files of a sink",
        ),
        ('DELETE FROM "kafka-source__coordinator state"', "rows of coordinator state cannot be changed"),
        (
            'UPDATE "kafka-source__coordinator state" SET value.initial_discovery_finished = false',
            "rows of coordinator state cannot be changed",
        ),
        ('TRUNCATE "kafka-source__coordinator state"', "cannot be changed by this statement"),
        ('TRUNCATE "kafka-sink__writer_raw_states"', "it holds transactions or files of a sink"),
    ],
)
def test_halves_of_sources_and_transactions_stay(
    script: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = unpacked("2.3.0-source-kafka-hashmap-canonical", tmp_path).directory

    code = main(["write", str(source), script, "--to", str(tmp_path / "new")])

    assert code == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("operator", "warns"),
    [("Sink Committer: kafka-sink", True), ("kafka-sink", True), ("kafka-source", False)],
)
def test_a_sink_is_dropped_with_a_warning(
    operator: str, warns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = unpacked("2.3.0-source-kafka-hashmap-canonical", tmp_path).directory

    written(f'DROP TABLE "{operator}"', tmp_path / "new", source)

    assert ("what it has written and not committed is never committed" in capsys.readouterr().out) == warns


@pytest.mark.flink
@pytest.mark.parametrize(("version", "backend"), [("1.20.3", "rocksdb"), ("2.3.0", "hashmap")])
def test_a_savepoint_that_flink_takes_then_has_the_same_elements(
    version: str, backend: str, tmp_path: Path
) -> None:
    state = "topic-partition-offset-states"
    new = written(
        f'DELETE FROM "source__{state}" WHERE value.f1 = 3; '
        f'UPDATE "source__{state}" SET value.f2 = 5 WHERE value.f1 = 0; '
        f"INSERT INTO \"source__{state}\" VALUES ({{'f0': 'words', 'f1': 9, 'f2': 0}})",
        tmp_path / "new",
        DATA / f"flink/{version}/wordcount-{backend}-savepoints/canonical",
    )
    restore = Restore(
        name="",
        version=version,
        backend=backend,
        source="",
        script="",
        restoring=("--savepoint", "canonical", "--to", str(tmp_path / "taken")),
    )

    *_, last = restore.restored(new)

    taken = rows(Path(last["path"].removeprefix("file:")), state)
    assert taken == rows(new, state)
    assert (0, "words", 9, 0) in taken
