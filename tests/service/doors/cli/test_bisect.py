"""`savepointdb bisect`: the first checkpoint for which a query returns a row."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from service.cli import main
from tests.support.retained import JOB, changed, retain

NEGATIVE = "SELECT key, value FROM aggregate WHERE value < 0"
_BAD = "UPDATE aggregate__count SET value = -3 WHERE key = 'key_662'"


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint with a negative value."""
    return changed(tmp_path_factory.mktemp("bad") / "bad", _BAD)


@pytest.fixture
def root(tmp_path: Path, bad: Path) -> Path:
    """Twelve checkpoints of a job; from the ninth on a value is negative."""
    retain(tmp_path / JOB, range(1, 9))
    retain(tmp_path / JOB, range(9, 13), bad)
    return tmp_path


class _Command:
    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._root, self._capsys = root, capsys

    def __call__(self, *options: str, sql: str = NEGATIVE) -> tuple[int, str, str]:
        code = main(["bisect", str(self._root), sql, *options])
        output, errors = self._capsys.readouterr()
        return code, output, errors

    def json(self, *options: str, sql: str = NEGATIVE) -> Any:
        code, output, errors = self("--format", "json", *options, sql=sql)
        assert errors == "", errors
        return {"code": code, **json.loads(output)}


@pytest.fixture
def bisect(root: Path, capsys: pytest.CaptureFixture[str]) -> _Command:
    return _Command(root, capsys)


def _short(found: Any) -> tuple[Any, ...]:
    return (
        found["code"],
        found["outcome"],
        found["first"] and found["first"]["database"].rpartition("__")[2],
        found["last"] and found["last"]["database"].rpartition("__")[2],
    )


def _asked(found: Any) -> list[str]:
    return [one["database"].rpartition("__")[2] for one in found["questions"]]


def test_the_first_bad_checkpoint_is_found_in_few_questions(bisect: _Command) -> None:
    found = bisect.json()

    assert _short(found) == (0, "found", "chk-9", "chk-8")
    assert _asked(found) == ["chk-12", "chk-6", "chk-9", "chk-8"]
    assert found["first"]["rows"]["rows"] == [["key_662", -3]]
    assert found["first"]["created_at"] is not None


@pytest.mark.slow
def test_people_read_each_question_and_the_rows(bisect: _Command) -> None:
    code, output, errors = bisect()

    assert (code, errors) == (0, "")
    title, *lines = output.splitlines()
    assert title.endswith(f"__{JOB}: 12 checkpoints")
    assert [line.split()[0] for line in lines[:4]] == ["1", "2", "3", "4"]
    assert [line.rpartition("UTC)  ")[2] for line in lines[:4]] == ["1 row", "no row", "1 row", "no row"]
    assert lines[5].startswith("4 questions to 12 checkpoints of ")
    assert lines[5].endswith(f"__{JOB}__chk-9")
    assert "  key_662     -3" in lines
    assert lines[-1].startswith("last without a row   ")


@pytest.mark.slow
def test_broken_and_deleted_checkpoints_are_left_out_and_named(root: Path, bisect: _Command) -> None:
    (root / JOB / "chk-12" / "_metadata").write_bytes(b"none")
    metadata = root / JOB / "chk-8" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:200])

    found = bisect.json()
    output = bisect()[1]

    assert _short(found) == (0, "found", "chk-9", "chk-7")
    assert [name.rpartition("__")[2] for name in found["unreadable"]] == ["chk-12", "chk-8"]
    assert [name.rpartition("__")[2] for name in found["maybe_first"]] == ["chk-8"]
    assert "chk-8 cannot be read; it may be the first itself: " in output


@pytest.mark.slow
def test_a_checkpoint_that_is_deleted_meanwhile_is_left_out(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import savepointdb
    from service.tasks.task import Context
    from service.tasks.time.bisect import BisectRequest, run

    with savepointdb.connect(root, rescan_after_s=0.001) as connection:
        opened = connection.opened

        def note(line: str) -> None:
            # After the first answer the next one that would be asked goes.
            if "chk-12" in line:
                shutil.rmtree(root / JOB / "chk-6", ignore_errors=True)

        context = Context(
            catalog=opened.catalog, settings=opened.sources.settings, start=opened.queries.start, note=note
        )
        found = run(BisectRequest(sql=NEGATIVE), context)

    assert found.first is not None
    assert found.first.database.path.endswith("chk-9")
    assert [one.database.path.rpartition("/")[2] for one in found.unreadable] == ["chk-6"]


@pytest.mark.slow
def test_the_newest_without_a_row_ends_the_search(bisect: _Command) -> None:
    found = bisect.json("--to", "chk-8")

    assert _short(found) == (1, "none", None, "chk-8")
    assert _asked(found) == ["chk-8"]
    assert "the newest has no row" in bisect("--to", "8")[1]


@pytest.mark.slow
def test_the_oldest_with_a_row_may_not_be_the_first(bisect: _Command) -> None:
    found = bisect.json("--from", "10")

    assert _short(found) == (0, "oldest", "chk-10", None)
    assert "it may be older than what was asked" in bisect("--from", "10")[1]


@pytest.mark.slow
def test_all_are_asked_where_a_row_comes_and_goes(root: Path, bad: Path, bisect: _Command) -> None:
    shutil.rmtree(root / JOB / "chk-3")
    retain(root / JOB, range(3, 4), bad)

    found = bisect.json("--check-all")

    assert _short(found) == (0, "found", "chk-3", "chk-2")
    assert len(found["questions"]) == 12
    assert [name.rpartition("__")[2] for name in found["came_back"]] == [f"chk-{n}" for n in range(4, 9)]
    assert "it does not stay: later checkpoints have no row: " in bisect("--check-all")[1]


@pytest.mark.slow
def test_a_state_that_an_old_checkpoint_lacks_has_no_row(
    root: Path, bisect: _Command, tmp_path: Path
) -> None:
    dropped = changed(tmp_path.parent / f"{tmp_path.name}-dropped", "DROP TABLE aggregate")
    for number in range(1, 5):
        shutil.rmtree(root / JOB / f"chk-{number}")
    retain(root / JOB, range(1, 5), dropped)

    found = bisect.json(sql="SELECT key FROM aggregate LIMIT 1")

    assert _short(found) == (0, "found", "chk-5", "chk-4")
    assert {one["reply"] for one in found["questions"]} == {"rows", "no such table"}


@pytest.mark.slow
def test_a_state_that_the_newest_checkpoint_lacks_has_no_row_in_it(
    root: Path, bisect: _Command, tmp_path: Path
) -> None:
    dropped = changed(tmp_path.parent / f"{tmp_path.name}-dropped", "DROP TABLE aggregate")
    for number in (1, 11, 12):
        shutil.rmtree(root / JOB / f"chk-{number}")
    retain(root / JOB, range(1, 2), dropped)
    retain(root / JOB, range(11, 13), dropped)

    few = bisect.json(sql="SELECT key FROM aggregate LIMIT 1")
    every = bisect.json("--check-all", sql="SELECT key FROM aggregate LIMIT 1")

    assert _short(few) == (1, "none", None, "chk-12")
    assert [one["reply"] for one in few["questions"]] == ["no such table"]
    assert _short(every) == (0, "found", "chk-2", "chk-1")
    assert bisect(sql="SELECT key FROM aggregates LIMIT 1")[0] == 2
    assert bisect("--check-all", sql="SELECT nothing FROM aggregate")[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "options", "message"),
    [
        ("SELECT * FROM nothing", [], "there is no table 'nothing'"),
        ("SELEC", [], "expected"),
        (
            NEGATIVE,
            ["--from", "soon"],
            "expected a checkpoint as its number, its name or a time, found 'soon'",
        ),
        (NEGATIVE, ["--from", "9", "--to", "3"], "expected checkpoints from 9 to 3, found none"),
        (
            NEGATIVE,
            ["--from", "2999-01-01"],
            "expected checkpoints from 2999-01-01 to the newest, found none",
        ),
        (NEGATIVE, ["--job", "jobX"], "'jobX'"),
    ],
)
def test_what_cannot_be_asked_is_an_error(
    sql: str, options: list[str], message: str, bisect: _Command
) -> None:
    code, _, errors = bisect(*options, sql=sql)

    assert code == 2
    assert message in errors


@pytest.mark.slow
def test_several_jobs_must_be_told_apart(root: Path, bisect: _Command) -> None:
    retain(root / "other", range(1, 4))

    code, _, errors = bisect()

    assert code == 2
    assert "--job: expected one, found 2 (name one of them: " in errors
    assert "__other (3)" in errors
    assert _short(bisect.json("--job", JOB)) == (0, "found", "chk-9", "chk-8")


@pytest.mark.slow
def test_no_checkpoint_that_can_be_read_is_an_error(root: Path, bisect: _Command) -> None:
    for folder in (root / JOB).iterdir():
        (folder / "_metadata").write_bytes(b"none")

    code, _, errors = bisect()

    assert code == 3
    assert "none of 12 checkpoints can be read" in errors


def test_a_query_that_always_has_a_row_is_warned_of(bisect: _Command) -> None:
    sql = "SELECT count(*) FROM aggregate WHERE value < 0"

    code, output, _ = bisect(sql=sql)
    found = bisect.json(sql=sql)

    assert code == 0
    assert "warning: the query has a row for every checkpoint that has its tables" in output
    assert "HAVING count(*) > 0" in found["warnings"][0]
    assert bisect.json()["warnings"] == []
    assert _short(bisect.json(sql=f"{sql} HAVING count(*) > 0"))[2:] == ("chk-9", "chk-8")
