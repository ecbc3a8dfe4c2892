"""`--expect`: tables have the names that statements have for them, and every way to change their rows counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import WriteCommand
from tests.support.paths import DATA

# It has no uids: `aggregate` is another name of the operator, and not that of its tables.
OLDER = DATA / "flink/1.20.3/wordcount-hashmap-savepoints/canonical"
EVERYTHING = DATA / "flink/2.3.0/everything-hashmap-savepoints/canonical"
WORDS = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
_ONE = "UPDATE aggregate SET value = 1 WHERE key = 'key_2'"


@pytest.fixture
def write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> WriteCommand:
    return WriteCommand(OLDER, tmp_path / "new", capsys)


@pytest.mark.parametrize(
    ("source", "table", "rows", "script"),
    [
        (OLDER, "aggregate__count", 1, _ONE),
        (OLDER, "AGGREGATE", 1, _ONE),
        (OLDER, "f7c20420360e0172e54933e6abdd481a", 1, _ONE),
        (WORDS, "aggregate", 1, _ONE.replace("aggregate", "AGGREGATE__COUNT")),
        (OLDER, "aggregate", 1, "DELETE KEY 'key_2'"),
        (OLDER, "aggregate", 1, "RENAME KEY 'key_2' TO 'new'"),
        (OLDER, "aggregate", 1000, "TRUNCATE aggregate__count"),
        (OLDER, "aggregate", 1000, "DROP TABLE aggregate__count"),
        (OLDER, "aggregate", 1000, "DROP TABLE aggregate"),
        (OLDER, "aggregate", 1000, "DROP TABLE aggregate__count; DROP TABLE aggregate"),
        (OLDER, "aggregate", 1000, f"{_ONE.replace('UPDATE', 'DELETE FROM').replace('SET value = 1', '')}; "
         "DROP TABLE aggregate"),
        (WORDS, "source_offsets", 0, _ONE),
        (WORDS, "source_offsets", 4, "UPDATE source_offsets SET starting_offset = 1"),
        (WORDS, "source_offsets", 4, "DROP TABLE source"),
        (WORDS, "aggregate", 1, "ALTER TABLE aggregate RENAME TO 'sum'; "
         "UPDATE sum__count SET value = 1 WHERE key = 'key_2'"),
        (WORDS, "sum", 1, "ALTER TABLE aggregate RENAME TO 'sum'; UPDATE sum SET value = 1 WHERE key = 'key_2'"),
        (WORDS, "new__made", 1000, "CREATE TABLE new__made AS SELECT key, value FROM aggregate"),
        (EVERYTHING, "timers", 48, "DROP TABLE kinds"),
    ],
)  # fmt: skip
def test_rows_are_counted_by_table(
    source: Path, table: str, rows: int, script: str, write: WriteCommand
) -> None:
    wrong = write(script, "--dry-run", "--expect", f"{table}={rows + 7}", source=source)
    right = write(script, "--dry-run", "--expect", f"{table}={rows}", source=source)

    message = f"expected {rows + 7} rows of {table} to change, found {rows}; nothing was written"
    assert (wrong.code, wrong.errors) == (1, f"savepointdb: {message}\n")
    assert (right.code, right.errors) == (0, "")


@pytest.mark.parametrize(
    ("source", "table", "message"),
    [
        (OLDER, "agregate__count", "there is no table 'agregate__count'"),
        (EVERYTHING, "kinds", "kinds shows all states of an operator and cannot be changed"),
        (EVERYTHING, "StateMeta", "lists facts about the savepoint and cannot be changed"),
    ],
)
def test_tables_whose_rows_nothing_changes_are_refused(
    source: Path, table: str, message: str, write: WriteCommand
) -> None:
    script = "DELETE FROM aggregate__count" if source == OLDER else "DELETE FROM kinds__value"

    ended = write(script, "--expect", f"{table}=0", source=source)

    assert (ended.code, ended.output) == (1, "")
    assert message in ended.errors
    assert not write.target.exists()


def test_an_unknown_table_has_near_names(write: WriteCommand) -> None:
    ended = write("DELETE FROM aggregate__count", "--expect", "agregate__count=0", source=WORDS)

    assert ended.code == 1
    assert "aggregate__count" in ended.errors.replace("agregate__count", "")


def test_a_statement_may_find_nothing_in_a_table_that_is_counted(write: WriteCommand) -> None:
    nothing = "UPDATE aggregate__count SET value = 1 WHERE key = 'nope'"

    alone = write(nothing, "--expect", "AGGREGATE=0", source=WORDS)
    other = write(
        f"{nothing}; DELETE FROM aggregate", "--dry-run", "--expect", "AGGREGATE=1000", source=WORDS
    )

    assert (alone.code, alone.output) == (1, "")
    assert "the script changes nothing: no statement finds a row to change (--allow-empty" in alone.errors
    assert (other.code, other.errors) == (0, "")


@pytest.mark.parametrize("script", ["DELETE FROM source_offsets", "INSERT INTO source_offsets SELECT 1"])
def test_a_statement_that_source_offsets_lacks_names_the_one_that_it_has(
    script: str, write: WriteCommand
) -> None:
    ended = write(script, source=WORDS)

    assert (ended.code, ended.output) == (1, "")
    assert (
        "source_offsets can be changed by UPDATE and rewind_kafka only (UPDATE source_offsets SET"
        in ended.errors
    )
