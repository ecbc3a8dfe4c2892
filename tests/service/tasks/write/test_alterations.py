"""ALTER TABLE, DROP TABLE and TRUNCATE of states: each statement sees what the earlier ones did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import savepointdb
from service.cli import main
from tests.support.paths import DATA

SOURCE = DATA / "flink/2.3.0/everything-hashmap-savepoints/canonical"
ROCKSDB = DATA / "flink/1.20.3/everything-rocksdb-savepoints/native"
Write = Callable[..., list[str]]


@pytest.fixture
def write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Write:
    """Writes a script over a savepoint; returns the lines of the command, or of its error."""

    def written(script: str, source: Path = SOURCE) -> list[str]:
        code = main(["write", str(source), script, "--to", str(tmp_path / "new")])
        captured = capsys.readouterr()
        assert (code == 0) == (tmp_path / "new").exists()
        return (captured.out if code == 0 else captured.err).splitlines()

    return written


def rows(path: Path, sql: str) -> list[Any]:
    with savepointdb.connect(path) as connection:
        return connection.sql(sql).fetchall()


def test_a_state_takes_the_name_of_one_that_was_dropped(write: Write, tmp_path: Path) -> None:
    before = rows(SOURCE, "SELECT key, value FROM kinds__reducing ORDER BY key")

    texts = write("DROP TABLE kinds__value; ALTER TABLE kinds__reducing RENAME TO value")

    assert texts[0] == "kinds__value is dropped: a job that declares this state starts it empty"
    assert rows(tmp_path / "new", "SELECT key, value FROM kinds__value ORDER BY key") == before
    names = {name for (name,) in rows(tmp_path / "new", "SELECT state_name FROM StateMeta")}
    assert "reducing" not in names


@pytest.mark.parametrize(
    ("table", "type_", "message"),
    [
        ("int", "BOOLEAN", "expected a value of type BOOLEAN, found"),
        ("double", "FLOAT", "expected a value of type FLOAT, found"),
        ("local_date_time", "DATE", "expected a value of type DATE, found"),
        ("instant", "BIGINT", "expected a column of type BIGINT, found TIMESTAMP_NS"),
        ("local_date_time", "TIME", "found TIMESTAMP_NS"),
        ("long", "DATE", "expected a column of type DATE, found BIGINT"),
    ],
)
def test_a_type_that_cannot_hold_the_values_is_refused(
    write: Write, table: str, type_: str, message: str
) -> None:
    (error,) = write(f"ALTER TABLE types__v_{table} ALTER COLUMN value TYPE {type_}")

    assert message in error


def test_types_change_one_after_the_other(write: Write, tmp_path: Path) -> None:
    write(
        "ALTER TABLE kinds__aggregating ADD COLUMN value.f2 VARCHAR DEFAULT 'x' || 'y';"
        "ALTER TABLE kinds__aggregating DROP COLUMN value.f0;"
        "ALTER TABLE kinds__aggregating ALTER COLUMN value.f0 TYPE 'Long'"
    )

    before = rows(SOURCE, "SELECT key, value.f1 FROM kinds__aggregating ORDER BY key")
    after = rows(tmp_path / "new", "SELECT key, value.f0, value.f1 FROM kinds__aggregating ORDER BY key")
    assert after == [(key, count, "xy") for key, count in before]


@pytest.mark.parametrize("source", [SOURCE, ROCKSDB], ids=["canonical", "rocksdb"])
def test_ttl_is_switched(source: Path, write: Write, tmp_path: Path) -> None:
    before = rows(source, "SELECT key, value FROM kinds__value ORDER BY key")

    write(
        'ALTER TABLE kinds__value SET (ttl = true); ALTER TABLE "kinds__ttl-value" SET (ttl = false)', source
    )

    found = rows(
        tmp_path / "new",
        "SELECT key, value, ttl_timestamp > TIMESTAMP '2026-01-01' FROM kinds__value ORDER BY key",
    )
    assert found == [(*row, True) for row in before]
    assert rows(tmp_path / "new", 'SELECT count(*) FROM "kinds__ttl-value"') == [(len(before),)]


def test_a_truncated_state_says_how_many_rows_go(write: Write, tmp_path: Path) -> None:
    assert write("TRUNCATE kinds__map")[0] == "kinds__map is empty: 18 rows are removed"
    assert rows(tmp_path / "new", "SELECT count(*) FROM kinds__map") == [(0,)]


def test_windows_without_contents_are_warned_of(write: Write) -> None:
    text, *_ = write('DROP TABLE "tumbling-window__window-contents"')

    assert text.endswith("the timers of its windows stay, and fire over windows without contents")


def test_states_of_an_operator_with_another_uid_have_its_name(write: Write, tmp_path: Path) -> None:
    write(
        "ALTER TABLE kinds RENAME TO 'all'; ALTER TABLE all__value RENAME TO number; DROP TABLE events__readers"
    )

    assert rows(tmp_path / "new", "SELECT count(*) FROM all__number") == [(6,)]


def test_an_operator_has_other_key_groups_and_subtasks(write: Write, tmp_path: Path) -> None:
    text, *_ = write(
        "ALTER TABLE kinds SET (max_parallelism = 10 * 100); ALTER TABLE kinds SET (parallelism = 3)"
    )

    assert text.startswith(
        "kinds has 1000 key groups in 2 subtasks: every entry goes to the group of its key"
    )
    found = rows(tmp_path / "new", "SELECT count(DISTINCT _subtask), max(_key_group) > 128 FROM kinds__value")
    assert found == [(3, True)]
    assert rows(tmp_path / "new", "SELECT value FROM kinds__value WHERE key = 'k3'") == [(3,)]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("DROP TABLE kinds__value; TRUNCATE kinds__value", "an earlier statement dropped 'kinds__value'"),
        (
            "ALTER TABLE kinds__value RENAME TO v; DROP TABLE kinds__value",
            "an earlier statement gave 'kinds__value' the name 'v'",
        ),
        ("ALTER TABLE kinds__value RENAME TO map", "the operator has a state 'map' already"),
        ("ALTER TABLE kinds__value SET (ttl = '1 day')", "expected ttl = true or ttl = false, found '1 day'"),
        ("ALTER TABLE kinds__value SET (size = 1)", "expected the option ttl of a state, found size"),
        (
            "ALTER TABLE kinds__value ADD COLUMN key.x INT",
            "expected a field of the column value, such as value.x",
        ),
        ("ALTER TABLE kinds__value ADD COLUMN value.x INT", "expected a POJO, Row or Tuple, found Long"),
        ("ALTER TABLE kinds__value ALTER COLUMN value TYPE 'Lon'", "expected a type of SQL such as BIGINT"),
        ("ALTER TABLE kinds__value ALTER COLUMN value TYPE FOO", "expected a type of SQL such as BIGINT"),
        (
            "ALTER TABLE events__readers ALTER COLUMN value TYPE INT",
            "types of operator state cannot be changed yet",
        ),
        (
            "ALTER TABLE kinds__map ALTER COLUMN value TYPE INT",
            "expected a value of type INTEGER, found 'text-0'",
        ),
        ("ALTER TABLE types__v_map ALTER COLUMN value TYPE 'Kryo'", "expected a type of SQL such as BIGINT"),
        (
            "ALTER TABLE kinds__value ALTER COLUMN value TYPE TEXT; TRUNCATE kinds__nothing",
            "'kinds__nothing'",
        ),
    ],
)
def test_what_means_nothing_is_refused(script: str, message: str, write: Write, tmp_path: Path) -> None:
    assert message in " ".join(write(script))
    assert not (tmp_path / "new").exists()
