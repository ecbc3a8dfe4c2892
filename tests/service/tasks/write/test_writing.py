"""`savepointdb write`: from a script to a savepoint whose rows are what the script says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from readers import Savepoint, operator_id_of, source_offsets
from tests.support.commands import Ended, WriteCommand
from tests.support.paths import DATA
from tests.support.retained import with_offset
from tests.support.unpacked import unpacked

WORDCOUNT = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
EVERYTHING = DATA / "flink/1.20.3/everything-rocksdb-savepoints/native"
REWIND = "UPDATE source_offsets SET starting_offset = 24000 WHERE topic = 'words' AND \"partition\" = 2"
BEFORE = {0: 24750, 1: 25000, 2: 36445, 3: 25500}


@pytest.fixture
def write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> WriteCommand:
    return WriteCommand(WORDCOUNT, tmp_path / "new", capsys)


def offsets(path: Path) -> dict[int, int]:
    rows = source_offsets(Savepoint(path)).to_pylist()
    return {row["partition"]: row["starting_offset"] for row in rows}


def test_offsets_are_rewound_by_one_update(write: WriteCommand) -> None:
    ended = write(REWIND)

    assert ended == Ended(
        0,
        "1 row of source_offsets changes\n"
        "  source, topic words, partition 2: starting_offset 36445 → 24000\n"
        "3 operators; all state is in _metadata (33 kB); no other file is needed\n"
        f"written: {write.target}\n"
        "checked: Flink 2.3.0 with hashmap restores it with the same values; rocksdb alike\n"
        f"restore it: flink run -s {write.target} …\n",
        "",
    )
    assert offsets(write.target) == BEFORE | {2: 24000}
    assert offsets(WORDCOUNT) == BEFORE


def test_each_statement_sees_what_the_earlier_ones_did(write: WriteCommand) -> None:
    ended = write(
        "UPDATE source_offsets SET starting_offset = starting_offset + partition; "
        "UPDATE source_offsets SET starting_offset = 2 * (SELECT max(starting_offset) FROM source_offsets) WHERE partition = 0"
    )

    assert ended.code == 0
    assert offsets(write.target) == {0: 2 * 36447, 1: 25001, 2: 36447, 3: 25503}


def test_a_row_that_ends_as_it_began_is_no_change(write: WriteCommand) -> None:
    ended = write(
        "UPDATE source_offsets SET starting_offset = 0; UPDATE source_offsets SET starting_offset = 24750 WHERE partition = 0"
    )

    assert ended.output.splitlines()[:5] == [
        "4 rows of source_offsets change",
        "1 row of source_offsets changes",
        "  source, topic words, partition 2: starting_offset 36445 → 0",
        "  source, topic words, partition 1: starting_offset 25000 → 0",
        "  source, topic words, partition 3: starting_offset 25500 → 0",
    ]
    assert offsets(write.target) == {0: 24750, 1: 0, 2: 0, 3: 0}


def test_operators_are_dropped_and_renamed(write: WriteCommand) -> None:
    ended = write("DROP TABLE aggregate; ALTER TABLE \"mod7-no-uid\" RENAME TO 'aggregate'")

    assert ended.code == 0
    assert ended.output.splitlines()[:2] == [
        "aggregate is dropped: a job that has this operator starts it without state",
        "mod7-no-uid has the uid 'aggregate': a job without such an operator restores only with allowNonRestoredState, "
        "and leaves this state out",
    ]
    found = {operator.metadata.uid: operator.metadata.name for operator in Savepoint(write.target).operators}
    assert found == {"source": "Source: word-source", "aggregate": "mod7-no-uid"}


def test_a_renamed_source_has_its_new_offsets(write: WriteCommand) -> None:
    ended = write(f"{REWIND}; ALTER TABLE source RENAME TO 'words'; {REWIND.replace('24000', '7')}")

    assert ended.code == 0
    assert offsets(write.target) == BEFORE | {2: 7}
    assert {one.metadata.uid for one in Savepoint(write.target).operators} == {"words", "aggregate", None}


def test_a_dry_run_writes_nothing(write: WriteCommand) -> None:
    ended = write(REWIND, "--dry-run")

    assert ended.code == 0
    assert ended.output.endswith("nothing was written: a dry run\n")
    assert not write.target.exists()


@pytest.mark.parametrize(("rows", "code"), [(1, 0), (2, 1)])
def test_the_number_of_changed_rows_is_a_condition(rows: int, code: int, write: WriteCommand) -> None:
    ended = write(REWIND, "--expect", f"source_offsets={rows}")

    assert ended.code == code
    assert write.target.exists() == (code == 0)
    if code:
        assert "expected 2 rows of source_offsets to change, found 1; nothing was written" in ended.errors


@pytest.mark.parametrize(("flink", "version"), [("1.20", 4), ("1.15.2", 3), ("2.0", 5), ("2.3", 6)])
def test_an_older_flink_gets_metadata_that_it_reads(flink: str, version: int, write: WriteCommand) -> None:
    assert write("DROP TABLE aggregate", "--flink", flink).code == 0

    assert Savepoint(write.target).metadata.version == version


@pytest.mark.parametrize("files", ["link", "copy", "reference"])
def test_files_come_along(files: str, write: WriteCommand) -> None:
    ended = write("DROP TABLE broadcast", "--files", files, source=EVERYTHING)

    assert ended.code == 0
    assert ("; it needs files of the source\n" in ended.output) == (files == "reference")
    source, new = Savepoint(EVERYTHING), Savepoint(write.target, roots=[str(EVERYTHING)])
    # Flink 1.20 stores no uids, so an operator is found by the id of its uid.
    kept = [operator for operator in source.operators if operator.operator_id != operator_id_of("broadcast")]
    assert len(kept) == len(source.operators) - 1
    assert [operator.operator_id for operator in new.operators] == [operator.operator_id for operator in kept]
    for ours, theirs in zip(new.operators, kept, strict=True):
        found = {
            state.name: [batch.serialize().to_pybytes() for batch in state.read()] for state in ours.states
        }
        assert found == {
            state.name: [batch.serialize().to_pybytes() for batch in state.read()] for state in theirs.states
        }


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("DROP TABLE agregate", "there is no table 'agregate'"),
        ("DROP TABLE aggregate; DROP TABLE aggregate", "an earlier statement dropped 'aggregate'"),
        ("DROP TABLE other.aggregate", "expected a table of 'canonical', found one of 'other'"),
        ("ALTER TABLE source RENAME TO 'aggregate'", "has an operator with the uid 'aggregate' already"),
        ("ALTER TABLE source RENAME TO ''", "expected a uid, found an empty text"),
        ("UPDATE source_offsets SET topic = 'x'", "topic of source_offsets cannot be set"),
        (
            "UPDATE source_offsets SET starting_offset = NULL",
            "expected a BIGINT for starting_offset, found None",
        ),
        ("UPDATE source_offsets SET starting_offset = 1.5", "expected a BIGINT for starting_offset, found"),
        (
            "UPDATE source_offsets SET starting_offset = 'x'",
            "expected a BIGINT for starting_offset, found 'x'",
        ),
        (
            "UPDATE source_offsets SET starting_offset = true",
            "expected a BIGINT for starting_offset, found True",
        ),
        (
            "UPDATE source_offsets SET starting_offset = 9223372036854775807::HUGEINT + 1",
            "expected a BIGINT for starting_offset, found 9223372036854775808",
        ),
        (
            "UPDATE source_offsets SET starting_offset = 1, starting_offset = 2",
            "starting_offset is set twice",
        ),
        ("UPDATE source_offsets SET starting_offset = read_text('/etc/passwd')", "read_text"),
        ("UPDATE source_offsets SET starting_offset = 1 WHERE nothing = 1", "nothing"),
    ],
)
def test_one_wrong_statement_writes_nothing(script: str, message: str, write: WriteCommand) -> None:
    ended = write(f"{REWIND}; {script}")

    assert ended.code == 1
    assert message in ended.errors
    assert not write.target.exists()


def test_an_existing_target_is_refused(write: WriteCommand) -> None:
    write.target.mkdir()

    ended = write(REWIND)

    assert ended.code == 1
    assert "expected a new directory, found one that exists" in ended.errors
    assert list(write.target.iterdir()) == []


def test_several_savepoints_are_no_source(write: WriteCommand, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(WORDCOUNT, tmp_path / "many" / name)

    ended = write(REWIND, source=tmp_path / "many")

    assert ended.code == 1
    assert "expected one savepoint to write from, found 2" in ended.errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--flink", "new"), "expected a version of Flink such as 1.20 or 2.3, found 'new'"),
        (("--flink", "1.9"), "expected Flink 1.11 or later, found 1.9"),
        (("--expect", "source_offsets"), "--expect: expected TABLE=ROWS, found 'source_offsets'"),
    ],
)
def test_wrong_options_write_nothing(options: tuple[str, ...], message: str, write: WriteCommand) -> None:
    ended = write(REWIND, *options)

    assert ended.code in (1, 2)
    assert message in ended.errors
    assert not write.target.exists()


def test_offsets_in_compressed_operator_state_are_rewound(write: WriteCommand, tmp_path: Path) -> None:
    source = unpacked("1.20.3-words-compressed-canonical", tmp_path).directory

    ended = write('UPDATE source_offsets SET starting_offset = 24000 WHERE "partition" = 2', source=source)

    assert ended.code == 0
    assert offsets(write.target) == BEFORE | {2: 24000}


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (
            "1.20.3-source-file-canonical",
            "FileSource counts the records behind an offset of the file's format",
        ),
    ],
)
def test_offsets_that_are_no_numbers_are_refused_with_the_reason(
    archive: str, message: str, write: WriteCommand, tmp_path: Path
) -> None:
    ended = write(
        "UPDATE source_offsets SET starting_offset = 0", source=unpacked(archive, tmp_path).directory
    )

    assert ended.code == 1
    assert message in ended.errors
    assert not write.target.exists()


def test_a_check_that_fails_stands_out(write: WriteCommand, tmp_path: Path) -> None:
    source = with_offset(tmp_path / "source", -250)

    ended = write("DELETE FROM aggregate__count WHERE key = 'key_1'", source=source)

    assert ended.code == 0
    lines = ended.output.splitlines()
    assert lines[-5] == f"written: {write.target}"
    assert lines[-4].startswith("CHECK: Flink 2.3.0 with hashmap fails at access")
    assert lines[-3].startswith(
        "  fails: source › topic-partition-offset-states: topic words, partition 0: expected an offset"
    )
    assert lines[-2].startswith(
        "  do not stop the old job for this restore yet (1 finding); first: set an offset"
    )
    assert lines[-1] == f"after that: flink run -s {write.target} …"


IMPOSSIBLE = "expected an offset from 0 on"


@pytest.mark.parametrize(
    ("archive", "script", "message"),
    [
        (
            None,
            "UPDATE source_offsets SET starting_offset = starting_offset - 25000",
            f"topic words, partition 0 cannot be set: {IMPOSSIBLE}",
        ),
        (None, "UPDATE source_offsets SET starting_offset = -1 WHERE partition = 3", IMPOSSIBLE),
        (
            None,
            'UPDATE "source__topic-partition-offset-states" SET value.f2 = value.f2 - 25000 WHERE value.f1 = 0',
            f"{IMPOSSIBLE}, or -915623761776 (NOT_SET)",
        ),
        (
            None,
            "INSERT INTO \"source__topic-partition-offset-states\" (value) VALUES ({'f0': 'words', 'f1': 4, 'f2': -4})",
            "found -4: no source can read on from there",
        ),
        (
            None,
            'UPDATE "source__topic-partition-offset-states" SET value.f1 = -1 WHERE value.f1 = 0',
            "expected a partition from 0 on, found -1: no source can read on from there",
        ),
        (
            "2.3.0-source-kafka-hashmap-canonical",
            "UPDATE source_offsets SET starting_offset = starting_offset - 25000",
            f"{IMPOSSIBLE}, or -1 (LATEST), or -2 (EARLIEST), or -3 (COMMITTED), found -24",
        ),
        (
            "2.3.0-source-kafka-hashmap-canonical",
            'UPDATE "kafka-source__SourceReaderState" SET value.starting_offset = -7',
            "expected a value that a KafkaPartitionSplit holds",
        ),
        (
            "1.20.3-source-numberseq-canonical",
            "UPDATE source_offsets SET starting_offset = starting_offset - 100000",
            "cannot be set: expected an offset from 0 to",
        ),
        (
            "1.20.3-source-numberseq-canonical",
            "UPDATE source_offsets SET starting_offset = stopping_offset + 1",
            "cannot be set: expected an offset from 0 to",
        ),
        (
            "1.20.3-source-datagen-canonical",
            "UPDATE source_offsets SET starting_offset = -1",
            "cannot be set: expected an offset from 0 to",
        ),
    ],
)
def test_an_offset_that_a_source_cannot_have_is_refused(
    archive: str | None, script: str, message: str, write: WriteCommand, tmp_path: Path
) -> None:
    source = None if archive is None else unpacked(archive, tmp_path).directory

    ended = write(script, source=source)

    assert ended.code == 1
    assert message in ended.errors
    assert not write.target.exists()


def test_an_offset_with_a_name_is_written_and_named(write: WriteCommand, tmp_path: Path) -> None:
    source = unpacked("2.3.0-source-kafka-hashmap-canonical", tmp_path).directory

    ended = write("UPDATE source_offsets SET starting_offset = -2 WHERE partition = 1", source=source)

    assert ended.code == 0
    assert "partition 1: starting_offset 21 → -2 (EARLIEST)" in ended.output


def test_a_source_that_stops_at_the_first_record_is_written(write: WriteCommand) -> None:
    ended = write("UPDATE source_offsets SET starting_offset = greatest(starting_offset - 25000, 0)")

    assert ended.code == 0
    assert offsets(write.target) == {0: 0, 1: 0, 2: 11445, 3: 500}


def test_a_kafka_source_is_rewound_by_a_call(write: WriteCommand) -> None:
    ended = write("CALL rewind_kafka('source', 'words', MAP {0: 5, 1: 20})")

    assert ended.code == 0
    assert ended.output.splitlines()[:3] == [
        "2 rows of source_offsets change",
        "  source, topic words, partition 0: starting_offset 24750 → 5",
        "  source, topic words, partition 1: starting_offset 25000 → 20",
    ]
    assert offsets(write.target) == BEFORE | {0: 5, 1: 20}


def test_both_halves_of_a_kafka_source_are_checked(write: WriteCommand, tmp_path: Path) -> None:
    source = unpacked("2.3.0-source-kafka-hashmap-canonical", tmp_path).directory

    ended = write("CALL rewind_kafka('kafka-source', 'words-2.3.0-hashmap', MAP {2: 1 + 1})", source=source)

    assert ended.code == 0
    assert offsets(write.target)[2] == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("CALL rewind('source')", "there is no procedure 'rewind'"),
        ("CALL rewind_kafka", "expected ( and arguments, found the end"),
        ("CALL rewind_kafka('source', 'words')", "found arguments of the types string, string"),
        ("CALL rewind_kafka('source', 'words', 5)", "found arguments of the types string, string, int32"),
        ("CALL rewind_kafka('source', 'words', MAP {})", "found"),
        ("CALL rewind_kafka('source', 'words', MAP {0: -1})", "an offset from 0 on, found 0 and -1"),
        (
            "CALL rewind_kafka('source', 'words', MAP {4: 1, 0: 1})",
            "topic 'words' has no partition 4 in 'source'",
        ),
        (
            "CALL rewind_kafka('source', 'word', MAP {0: 1})",
            "of topic 'word' in 'source', found those of words",
        ),
        ("CALL rewind_kafka('aggregate', 'words', MAP {0: 1})", "found none of a Kafka source"),
        ("CALL rewind_kafka('sink', 'words', MAP {0: 1})", "there is no table 'sink'"),
        ("CALL rewind_kafka('source', read_text('/etc/passwd'), MAP {0: 1})", "read_text"),
        (
            "DROP TABLE source; CALL rewind_kafka('source', 'words', MAP {0: 1})",
            "an earlier statement dropped",
        ),
    ],
)
def test_wrong_calls_write_nothing(call: str, message: str, write: WriteCommand) -> None:
    ended = write(call)

    assert ended.code == 1
    assert message in ended.errors
    assert not write.target.exists()
