"""A statement, or a script, that finds nothing to change writes nothing, unless the client allows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import savepointdb
from tests.support.commands import WriteCommand
from tests.support.paths import DATA

EVERYTHING = DATA / "flink/2.3.0/everything-rocksdb-savepoints/canonical"
WORDS = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
OLDER = DATA / "flink/1.20.3/wordcount-hashmap-savepoints/canonical"
STATEMENTS = [
    (
        EVERYTHING,
        "DELETE FROM kinds__value WHERE key = 'nope'",
        "no row of kinds__value matches key = 'nope'",
    ),
    (
        EVERYTHING,
        "UPDATE kinds__value SET value = 1\nFROM kinds__map m WHERE m.key || 'x'\n  = kinds__value.key",
        "no row of kinds__value matches m.key || 'x' = kinds__value.key",
    ),
    (
        EVERYTHING,
        "INSERT INTO kinds__value SELECT key, value FROM kinds__value WHERE false",
        "the query has no rows to add to kinds__value",
    ),
    (
        EVERYTHING,
        "MERGE INTO kinds__value t USING kinds__map s ON t.key = s.key || 'x' WHEN MATCHED THEN DELETE",
        "no clause of MERGE applies to a row of kinds__value or of its source",
    ),
    (EVERYTHING, "DELETE FROM timers WHERE operator_uid = 'nope'", "no row of timers matches"),
    (WORDS, "DELETE FROM timers", "timers has no rows to change"),
    (
        WORDS,
        "UPDATE source_offsets SET starting_offset = 1 WHERE topic = 'wrods'",
        "no row of source_offsets matches topic = 'wrods' (near values of topic: words; --allow-empty",
    ),
]
SAME = [
    (EVERYTHING, "UPDATE kinds__value SET value = value"),
    (EVERYTHING, "UPDATE kinds__list SET key = key WHERE list_index = 0"),
    (EVERYTHING, "UPDATE timers SET timestamp = timestamp"),
    (EVERYTHING, "INSERT INTO kinds__value SELECT key, value FROM kinds__value ON CONFLICT DO NOTHING"),
    (
        EVERYTHING,
        "MERGE INTO kinds__value t USING kinds__value s ON t.key = s.key WHEN MATCHED THEN DO NOTHING",
    ),
    (WORDS, "UPDATE source_offsets SET starting_offset = starting_offset"),
    (WORDS, "UPDATE aggregate__count SET value = value + 1; UPDATE aggregate__count SET value = value - 1"),
    (WORDS, "INSERT INTO aggregate__count VALUES ('new', 1); DELETE FROM aggregate__count WHERE key = 'new'"),
    (
        WORDS,
        "MERGE INTO aggregate__count t USING (SELECT key AS k, value AS v FROM aggregate__count) s ON false "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED THEN INSERT (key, value) VALUES (s.k, s.v)",
    ),
    (WORDS, "ALTER TABLE aggregate__count ALTER COLUMN value TYPE BIGINT"),
    (EVERYTHING, "ALTER TABLE types__v_pojo ALTER COLUMN value.age TYPE INT"),
    (
        EVERYTHING,
        "ALTER TABLE types__v_pojo RENAME COLUMN value.age TO x; ALTER TABLE types__v_pojo RENAME COLUMN value.x TO age",
    ),
    (WORDS, 'ALTER TABLE aggregate__count RENAME TO x; ALTER TABLE aggregate__x RENAME TO "count"'),
    (WORDS, "ALTER TABLE aggregate RENAME TO 'aggregate'"),
    (WORDS, "ALTER TABLE aggregate SET (max_parallelism = 128, parallelism = 2)"),
    (OLDER, "ALTER TABLE f7c20420360e0172e54933e6abdd481a RENAME TO 'aggregate'"),
]


@pytest.fixture
def write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> WriteCommand:
    return WriteCommand(EVERYTHING, tmp_path / "new", capsys)


@pytest.mark.parametrize(("source", "script", "message"), STATEMENTS)
def test_a_statement_that_finds_nothing_is_an_error(
    source: Path, script: str, message: str, write: WriteCommand
) -> None:
    for options in ((), ("--dry-run",)):
        ended = write(script, *options, source=source)

        assert (ended.code, ended.output) == (1, "")
        assert f"line 1, column 1: {message}" in ended.errors
        assert "--allow-empty" in ended.errors
    assert not write.target.exists()


@pytest.mark.parametrize(("source", "script"), [one[:2] for one in STATEMENTS] + SAME)
def test_it_is_written_where_that_is_allowed(source: Path, script: str, write: WriteCommand) -> None:
    ended = write(script, "--allow-empty", source=source)

    assert ended.code == 0, ended.errors
    assert (write.target / "_metadata").exists()


@pytest.mark.parametrize(("source", "script"), SAME)
def test_a_script_that_leaves_all_rows_as_they_are_is_an_error(
    source: Path, script: str, write: WriteCommand
) -> None:
    for options in ((), ("--dry-run",)):
        ended = write(script, *options, source=source)

        assert (ended.code, ended.output) == (1, "")
        assert "the script changes nothing: the savepoint has all of its values already" in ended.errors
    assert not write.target.exists()


@pytest.mark.parametrize(
    ("script", "place"),
    [
        (
            "DELETE FROM kinds__value; \n DELETE FROM kinds__value",
            "line 2, column 2: kinds__value has no rows to change",
        ),
        (
            "TRUNCATE kinds__value; TRUNCATE kinds__value",
            "line 1, column 24: kinds__value has no rows to change",
        ),
        (
            "TRUNCATE broadcast__rules;DELETE FROM kinds__map WHERE key=''",
            "line 1, column 27: no row of kinds__map matches key=''",
        ),
    ],
)
def test_the_error_names_the_statement(script: str, place: str, write: WriteCommand) -> None:
    ended = write(script)

    assert ended.code == 1
    assert place in ended.errors


def test_other_statements_may_leave_rows_as_they_are(write: WriteCommand) -> None:
    ended = write(
        "UPDATE kinds__value SET value = value; UPDATE kinds__value SET value = CASE key WHEN 'k5' THEN -1 ELSE value END"
    )

    assert ended.code == 0, ended.errors


@pytest.mark.parametrize(
    "script",
    [
        "ALTER TABLE types__v_pojo DROP COLUMN value.age; ALTER TABLE types__v_pojo ADD COLUMN value.age INT DEFAULT 7",
        'ALTER TABLE "kinds__ttl-value" SET (ttl = false); ALTER TABLE "kinds__ttl-value" SET (ttl = true)',
    ],
)
def test_a_type_that_comes_back_without_its_values_is_a_change(script: str, write: WriteCommand) -> None:
    ended = write(script)

    assert ended.code == 0, ended.errors


def test_rows_with_ttl_are_accessed_though_they_keep_their_values(write: WriteCommand) -> None:
    ended = write('UPDATE "kinds__ttl-value" SET value = value')

    assert ended.code == 0, ended.errors


def test_a_number_of_rows_that_the_client_expects_may_be_none(write: WriteCommand) -> None:
    script = (
        "DELETE FROM kinds__value WHERE key = 'nope'; UPDATE kinds__map SET value = 'x' WHERE map_key = 'm0'"
    )

    ended = write(script, "--expect", "kinds__value=2")
    assert "expected 2 rows of kinds__value to change, found 0" in ended.errors
    ended = write(script, "--expect", "kinds__value=0")

    assert ended.code == 0, ended.errors


def test_another_version_of_the_metadata_is_a_change(write: WriteCommand) -> None:
    script = "UPDATE kinds__value SET value = value"
    ended = write(script, "--flink", "2.3")
    assert "the script changes nothing" in ended.errors
    ended = write(script, "--flink", "1.20")

    assert ended.code == 0, ended.errors


def test_it_is_the_same_in_python(tmp_path: Path) -> None:
    with savepointdb.connect(WORDS) as db:
        with pytest.raises(savepointdb.QueryError, match="no row of aggregate__count matches") as found:
            db.write(tmp_path / "new", "DELETE FROM aggregate__count WHERE key = 'nope'", dry_run=True)
        result = db.write(
            tmp_path / "new", "DELETE FROM aggregate__count WHERE key = 'nope'", allow_empty=True
        )

    assert found.value.code == "NOTHING_CHANGES"
    assert result.rows == 0
    assert json.loads(json.dumps(result.to_dict()))["rows"] == 0


def test_an_overflow_has_no_hint_about_keys(write: WriteCommand) -> None:
    ended = write(
        "UPDATE aggregate SET value = 9223372036854775807 + 1 WHERE key = 'key_2'", "--dry-run", source=WORDS
    )

    assert ended.code == 1
    assert ended.errors.endswith("Overflow in addition of INT64 (9223372036854775807 + 1)!\n")
