"""`Connection.write`: a script over a savepoint, from Python."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import savepointdb
from tests.support.paths import DATA

JOB = DATA / "flink" / "2.3.0" / "wordcount-hashmap-savepoints"
WORDCOUNT = JOB / "canonical"
REWIND = "UPDATE source_offsets SET starting_offset = 24000 WHERE topic = 'words' AND \"partition\" = 2"
SCRIPT = f"{REWIND}; DROP TABLE aggregate"
LINES = """\
  1 row of source_offsets changes
  aggregate is dropped: a job that has this operator starts it without state
    source, topic words, partition 2: starting_offset 36445 → 24000
  2 operators; all state is in _metadata (4.6 kB); no other file is needed"""


def offset(path: str | Path) -> object:
    with savepointdb.connect(path) as db:
        row = db.sql("SELECT starting_offset FROM source_offsets WHERE partition = 2").fetchone()
    assert row is not None
    return row[0]


def test_a_script_becomes_a_new_savepoint(tmp_path: Path) -> None:
    with savepointdb.connect(WORDCOUNT) as db:
        result = db.write(tmp_path / "new", SCRIPT, expect={"source_offsets": 1})

    assert (result.target, result.is_dry_run, result.rows) == (str(tmp_path / "new"), False, 1)
    assert [(effect.table, effect.changed) for effect in result.effects] == [
        ("source_offsets", 1),
        ("aggregate", 0),
    ]
    assert result.summary.operators == 2
    assert repr(result) == (
        f"savepointdb: written: {tmp_path / 'new'}; 1 row\n{LINES}\n"
        "  checked: Flink 2.3.0 with hashmap restores it with the same values; rocksdb alike\n"
        f"  restore it: flink run -s {tmp_path / 'new'} …"
    )
    assert result.check is not None
    assert (result.check.verdict, result.check.findings) == ("fine", ())
    assert json.loads(json.dumps(result.to_dict()))["offsets"][0]["after"] == 24000
    with savepointdb.connect(result) as new:
        assert "aggregate" not in new.tables
    assert (offset(tmp_path / "new"), offset(WORDCOUNT)) == (24000, 36445)


def test_a_dry_run_writes_nothing_and_needs_no_target(tmp_path: Path) -> None:
    with savepointdb.connect(WORDCOUNT) as db:
        result = db.write(None, SCRIPT, dry_run=True)
        named = db.write(tmp_path / "new", SCRIPT, dry_run=True)

    assert repr(result) == repr(named) == f"savepointdb: nothing was written: a dry run; 1 row\n{LINES}"
    assert "<pre>1 row of source_offsets changes" in result._repr_html_()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError, match="found none"):
        savepointdb.connect(result)


def test_the_database_of_the_connection_is_written(tmp_path: Path) -> None:
    shutil.copytree(JOB, tmp_path / "job")
    script = "UPDATE source_offsets SET starting_offset = (SELECT count(*) FROM native.aggregate)"
    with savepointdb.connect(tmp_path / "job") as db:
        result = db.database("canonical").write(tmp_path / "new", script)

    with savepointdb.connect(result) as new:
        assert new.sql("SELECT DISTINCT checkpoint_id FROM operators").fetchall() == [(1,)]
    assert offset(tmp_path / "new") == 1000


def test_errors_have_their_classes_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    new = tmp_path / "new"
    with savepointdb.connect(WORDCOUNT) as db:
        with pytest.raises(savepointdb.ConflictError) as there:
            db.write(tmp_path / "there", REWIND)
        with pytest.raises(savepointdb.ConflictError, match="expected 2 rows of source_offsets to change"):
            db.write(new, REWIND, expect={"source_offsets": 2})
        with pytest.raises(savepointdb.InvalidQueryError, match="line 2"):
            db.write(new, f"{REWIND};\nDROP nothing")
        with pytest.raises(savepointdb.InvalidRequestError, match="files: expected one of link, copy"):
            db.write(new, REWIND, files="move")
        with pytest.raises(
            savepointdb.InvalidRequestError, match="expected DIR, the directory of the new savepoint"
        ):
            db.write(None, REWIND)
        with pytest.raises(TypeError, match="expected a script as str"):
            db.write(new, 1)  # type: ignore[arg-type]
    with pytest.raises(savepointdb.InvalidRequestError, match="the connection is closed"):
        db.write(new, REWIND)

    assert there.value.code == "TARGET_EXISTS"
    assert not new.exists()
