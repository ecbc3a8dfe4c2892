"""`savepointdb.create`: a new savepoint, from files and queries, in Python."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import savepointdb
from tests.support.paths import DATA

WORDCOUNT = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"


def test_a_file_and_a_savepoint_become_a_new_savepoint(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"key": ["key_1", "key_2"], "factor": [2, 3]}), tmp_path / "factors.parquet")

    result = savepointdb.create(
        tmp_path / "new",
        "CREATE TABLE totals__sum AS SELECT key, value * factor AS value "
        f"FROM old.aggregate JOIN '{tmp_path}/factors.parquet' USING (key)",
        savepoints={"old": WORDCOUNT},
        flink="2.3",
        parallelism=2,
    )

    assert result.rows == 2
    with savepointdb.connect(WORDCOUNT) as old, savepointdb.connect(result) as new:
        before: dict[str, int] = dict(old.sql("SELECT key, value FROM aggregate").fetchall())
        found: dict[str, int] = dict(new.sql("SELECT key, value FROM totals__sum").fetchall())
    assert found == {"key_1": 2 * before["key_1"], "key_2": 3 * before["key_2"]}


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    result = savepointdb.create(None, "CREATE TABLE a__b AS SELECT 1 AS key, 2 AS value", dry_run=True)

    assert (result.rows, result.target) == (1, None)
    assert list(tmp_path.iterdir()) == []


def test_a_savepoint_that_a_script_reads_may_have_any_name() -> None:
    script = "CREATE TABLE a__b AS SELECT key, value FROM new.aggregate"

    assert savepointdb.create(None, script, savepoints={"new": WORDCOUNT}, dry_run=True).rows == 1000


def test_a_wrong_request_is_an_error(tmp_path: Path) -> None:
    script = "CREATE TABLE a__b AS SELECT 1 AS key, 2 AS value"
    with pytest.raises(
        savepointdb.InvalidRequestError, match="expected DIR, the directory of the new savepoint"
    ):
        savepointdb.create(None, script)
    with pytest.raises(savepointdb.InvalidQueryError, match="expected a table named operator__state"):
        savepointdb.create(tmp_path / "new", "CREATE TABLE a AS SELECT 1 AS key, 2 AS value")
    with pytest.raises(TypeError, match="expected a script as str, found int"):
        savepointdb.create(tmp_path / "new", 7)  # type: ignore[arg-type]
    (tmp_path / "new").mkdir()
    with pytest.raises(savepointdb.ConflictError, match="expected a new directory"):
        savepointdb.create(tmp_path / "new", script)
