"""`savepointdb sample`: a new savepoint with some of the keys, which restores as the source does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import savepointdb
from service.cli import main
from tests.support.paths import DATA
from tools.synthetic.savepoints import write_savepoint

SOURCE = DATA / "flink/2.3.0/wordcount-rocksdb-savepoints/native"
UNTIL = "aggregate__count: key < 'key_2' AND value > 100"
COUNT = "SELECT key, value FROM aggregate__count"


def sample(*options: str, source: Path = SOURCE) -> int:
    return main(["sample", str(source), *options])


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with savepointdb.connect(path) as savepoint:
        return sorted(savepoint.sql(sql).fetchall())


def refused(capsys: pytest.CaptureFixture[str], *options: str, source: Path = SOURCE) -> str:
    assert sample(*options, source=source) != 0
    return capsys.readouterr().err


def test_keys_of_rows_stay_and_the_job_restores_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample("--to", str(tmp_path / "new"), "--where", UNTIL, "--json") == 0
    told = json.loads(capsys.readouterr().out)

    expected = rows(SOURCE, f"{COUNT} WHERE key < 'key_2' AND value > 100")
    assert rows(tmp_path / "new", COUNT) == expected
    assert told["target"] == str(tmp_path / "new")
    assert {one["state"]: one["entries"] for one in told["states"]} == {"count": len(expected), "seen": 0}
    assert told["check"]["verdict"] in ("fine", "risk")
    assert main(["check", str(SOURCE), "--against", str(tmp_path / "new"), "--flink", "2.3"]) == 0


def test_a_list_of_keys_stays(tmp_path: Path) -> None:
    (tmp_path / "keys.csv").write_text("key,name\nkey_662,a\nkey_7,b\n", encoding="utf-8")

    assert sample("--to", str(tmp_path / "new"), "--keys", str(tmp_path / "keys.csv")) == 0

    assert [key for key, _ in rows(tmp_path / "new", COUNT)] == ["key_662", "key_7"]


def test_a_dry_run_tells_what_a_sample_has(tmp_path: Path) -> None:
    with savepointdb.connect(SOURCE) as savepoint:
        planned = savepoint.sample(None, 0.3, dry_run=True)
        made = savepoint.sample(tmp_path / "new", 0.3)
        others = savepoint.sample(None, 0.3, seed="other", dry_run=True)

    assert planned.target is None
    assert list(planned.states) == list(made.states)
    assert list(planned.states) != list(others.states)


def test_sources_and_states_go_by_their_names(tmp_path: Path) -> None:
    made = savepointdb.sample(
        SOURCE, tmp_path / "new", 0.5, offsets="latest", drop=["aggregate__count"], parallelism=1
    )

    with savepointdb.connect(made) as savepoint:
        assert savepoint.sql("SELECT count(*) FROM source_offsets").fetchall() == [(0,)]
        assert "aggregate__count" not in [name for (name,) in savepoint.sql("SHOW TABLES").fetchall()]


def test_one_subtask_has_the_offsets_of_all(tmp_path: Path) -> None:
    savepointdb.sample(SOURCE, tmp_path / "new", 0.5, parallelism=1)

    sql = 'SELECT topic, "partition", starting_offset FROM source_offsets'
    assert rows(tmp_path / "new", sql) == rows(SOURCE, sql)
    assert len(rows(SOURCE, sql)) > 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--fraction", "0"), "fraction: expected a number above 0 and up to 1, found 0"),
        (("--fraction", "2"), "fraction: expected a number above 0 and up to 1, found 2"),
        ((), "expected one of fraction, keys and where, found none"),
        (("--fraction", "0.1", "--where", UNTIL), "found fraction and where"),
        (("--fraction", "0.5", "--drop", "nothing"), "drop: expected an operator, or the table of a state"),
        (("--where", "aggregate__count"), "where: expected a table, a colon and a condition"),
        (
            ("--where", "aggregate__count: key = 'no such key'"),
            "found that no key stays; nothing was written",
        ),
        (("--where", "aggregate__count: 1) OR (1"), "where: expected one condition, found '1) OR (1'"),
        (("--keys", "/nowhere.csv"), "keys: expected a CSV file of keys, found /nowhere.csv"),
    ],
)
def test_what_means_nothing_is_refused(
    options: tuple[str, ...], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in refused(capsys, "--to", str(tmp_path / "new"), *options)
    assert not (tmp_path / "new").exists()


def test_a_key_that_fits_no_type_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keys.csv").write_text("7\nseven\n", encoding="utf-8")

    # The keys that are left are numbers.
    told = refused(
        capsys, "--to", str(tmp_path / "new"), "--keys", str(tmp_path / "keys.csv"), "--drop", "aggregate"
    )

    assert "expected keys of the types that the operators have, found 'seven', which fits none" in told


def test_state_that_cannot_be_read_is_not_kept_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_savepoint(tmp_path / "source", 20)
    for number in (0, 1):
        (tmp_path / "source" / f"subtask-{number}").unlink()

    told = refused(capsys, "--to", str(tmp_path / "new"), "--fraction", "0.5", source=tmp_path / "source")

    assert "keyed state of aggregate cannot be read" in told
