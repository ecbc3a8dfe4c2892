"""What makes something, at every door that has it: one request, one outcome; and the new savepoint is the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import savepointdb
from tests.conformance.conftest import CANONICAL, NATIVE
from tests.support.compatpairs import unpack_pairs
from tests.support.doors import Door, Told, doors_over, tellers

PAIR = "kryo-type-arraylist"
CHANGE = "UPDATE aggregate__count SET value = -7 WHERE key IN ('key_1', 'key_2')"
SAME = "UPDATE aggregate__count SET value = value"
CREATED = "CREATE TABLE words__count (key VARCHAR, value BIGINT) AS SELECT 'a' AS key, 1::BIGINT AS value"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job in Flink 1.20 and in 2.3."""
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), [PAIR]) / PAIR / "savepoints"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@pytest.fixture(scope="module")
def writing_doors(root: Path) -> Iterator[dict[str, Door]]:
    with doors_over(NATIVE, CANONICAL, write_root=root) as opened:
        yield opened


def told_by(
    doors: dict[str, Door], task: str, savepoint: Path = CANONICAL, **options: Any
) -> dict[str, Told]:
    return {door.name: door.run(task, savepoint, **options) for door in tellers(doors, task)}


def previewed(doors: dict[str, Door], sql: str, **options: Any) -> dict[str, Told]:
    """What each door says of a dry run; that of agents is always one."""
    told = told_by(doors, "write", target=None, sql=sql, dry_run=True, **options)
    return told | {"mcp": doors["mcp"].run("write", CANONICAL, sql=sql, **options)}


@pytest.mark.parametrize(
    ("sql", "options", "rows"),
    [
        (CHANGE, {}, 2),
        (CHANGE, {"expect": {"aggregate__count": 2}}, 2),
        (SAME, {"allow_empty": True}, 1000),
        (SAME, {"flink": "1.20"}, 1000),
        (f"{CHANGE}; DROP TABLE aggregate", {}, 2),
    ],
    ids=["update", "expect", "allow_empty", "flink", "two statements"],
)
def test_every_door_previews_the_same_write(
    writing_doors: dict[str, Door], sql: str, options: dict[str, Any], rows: int
) -> None:
    told = {name: one.outcome for name, one in previewed(writing_doors, sql, **options).items()}

    first = told["cli"]
    assert (first["target"], first["dry_run"], first["rows"]) == (None, True, rows)
    assert told["mcp"].pop("database") == CANONICAL.name
    assert told["mcp"].pop("check")["verdict"] == "fine"  # agents read it before somebody writes
    assert told["mcp"] == {name: first[name] for name in told["mcp"]}
    assert told["http"] == told["python"] == first


@pytest.mark.parametrize(
    ("sql", "options", "code"),
    [
        (SAME, {}, "NOTHING_CHANGES"),
        (CHANGE, {"expect": {"aggregate__count": 3}}, "CONFLICT"),
        ("UPDATE nothing SET value = 1", {}, "TABLE_NOT_FOUND"),
        ("UPDATE aggregate__count SET value = 'x'", {}, "REFUSED_WRITE"),
        ("SELECT 1", {}, "FORBIDDEN"),
        (CHANGE, {"flink": "two"}, "INVALID_REQUEST"),
        (CHANGE, {"expect": {"aggregate__count": -1}}, "INVALID_REQUEST"),
    ],
    ids=["nothing", "expect", "table", "value", "select", "flink", "negative"],
)
def test_every_door_refuses_the_same_write(
    writing_doors: dict[str, Door], sql: str, options: dict[str, Any], code: str
) -> None:
    told = previewed(writing_doors, sql, **options)

    assert {name: one.code for name, one in told.items() if name != "cli"} == dict.fromkeys(
        ("http", "mcp", "python"), code
    )
    assert told["cli"].exit_code in (1, 2)


def test_every_door_previews_an_operator_of_another_savepoint(writing_doors: dict[str, Door]) -> None:
    sql = f"DROP TABLE aggregate; COPY OPERATOR {NATIVE.name}.aggregate"
    served = {
        name: writing_doors[name].run("write", CANONICAL, sql=sql, **options).outcome
        for name, options in (("http", {"dry_run": True, "target": None}), ("mcp", {}))
    }
    paths = {CANONICAL.name: CANONICAL, NATIVE.name: NATIVE}
    with savepointdb.connect(paths, database=CANONICAL.name) as db:
        alone = db.write(None, sql, dry_run=True).to_dict()

    assert served["mcp"].pop("check")["verdict"] == "fine"
    texts = [[one["text"] for one in told["statements"]] for told in (*served.values(), alone)]
    assert texts[0] == texts[1] == texts[2]
    assert f"aggregate is copied from {NATIVE.name}: count (VALUE)" in texts[0][1]


def test_every_door_writes_the_same_savepoint(writing_doors: dict[str, Door], root: Path) -> None:
    told = {
        name: writing_doors[name].run("write", CANONICAL, sql=CHANGE, target=root / f"write-{name}").outcome
        for name in ("cli", "http", "python")
    }

    targets = [one.pop("target") for one in told.values()]
    assert told["cli"] == told["http"] == told["python"]
    assert told["cli"]["check"]["verdict"] == "fine"
    for target in targets:
        with savepointdb.connect(target) as db:
            assert db.sql("SELECT count(*) FROM aggregate__count WHERE value = -7").fetchall() == [(2,)]


@pytest.mark.parametrize("dry_run", [False, True], ids=["written", "dry run"])
def test_every_door_creates_the_same_savepoint(
    writing_doors: dict[str, Door], root: Path, dry_run: bool
) -> None:
    told = {
        door.name: door.run(
            "create",
            NATIVE,
            target=root / f"create-{door.name}-{dry_run}",
            sql=CREATED,
            flink="2.3",
            parallelism=2,
            dry_run=dry_run,
        )
        for door in tellers(writing_doors, "create")
    }

    targets = [one.outcome.pop("target") for one in told.values()]
    assert list(told) == ["cli", "http", "python"]
    assert told["cli"].outcome == told["http"].outcome == told["python"].outcome
    assert told["cli"].outcome["rows"] == 1
    assert [target is None for target in targets] == [dry_run] * 3


@pytest.mark.parametrize("task", ["write", "create", "convert", "sample"])
def test_every_door_wants_a_target(writing_doors: dict[str, Door], task: str) -> None:
    own: dict[str, dict[str, Any]] = {
        "convert": {},
        "create": {"sql": CREATED, "flink": "2.3"},
        "sample": {"fraction": 0.5},
    }
    options = own.get(task, {"sql": CHANGE})
    told = told_by(writing_doors, task, target=None, **options)

    assert {one.code for name, one in told.items() if name != "cli"} == {"INVALID_REQUEST"}
    assert told["cli"].exit_code == 2
    if task == "create":  # the command line takes the script for the target
        del told["cli"]
    wanted = "expected DIR, the directory of the new savepoint"
    assert {name: wanted in one.message for name, one in told.items()} == dict.fromkeys(told, True)


@pytest.mark.parametrize("options", [{"dry_run": True}, {}], ids=["dry run", "written"])
def test_every_door_converts_the_same(
    doors: dict[str, Door], pair: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    old, new = (pair / f"A-{version}-hashmap-canonical" for version in ("1.20.3", "2.3.0"))
    told = {
        door.name: door.run("convert", old, target=tmp_path / door.name, against=str(new), **options).outcome
        for door in tellers(doors, "convert")
    }

    targets = [one.pop("target") for one in told.values()]
    assert list(told) == ["cli", "python"]
    assert told["cli"] == told["python"]
    assert [one["state_name"] for one in told["cli"]["converted"]] == ["s"]
    assert [target is None for target in targets] == [bool(options)] * 2


@pytest.mark.parametrize("dry_run", [False, True], ids=["written", "dry run"])
def test_every_door_takes_the_same_sample(doors: dict[str, Door], tmp_path: Path, dry_run: bool) -> None:
    told = {
        door.name: door.run(
            "sample", CANONICAL, target=tmp_path / door.name, fraction=0.1, parallelism=1, dry_run=dry_run
        ).outcome
        for door in tellers(doors, "sample")
    }

    targets = [one.pop("target") for one in told.values()]
    assert list(told) == ["cli", "python"]
    assert told["cli"] == told["python"]
    assert 0 < told["cli"]["entries"] < 200
    assert [target is None for target in targets] == [dry_run] * 2


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"flink": "two"}, "INVALID_REQUEST"),
        ({"files": "move"}, "INVALID_REQUEST"),
        ({"against": "/nothing"}, "MISSING_FILE"),
    ],
    ids=["flink", "files", "against"],
)
def test_every_door_refuses_the_same_conversion(
    doors: dict[str, Door], tmp_path: Path, options: dict[str, Any], code: str
) -> None:
    told = told_by(doors, "convert", target=tmp_path / "new", **options)

    assert (told["python"].code, told["cli"].exit_code != 0) == (code, True)
    assert "<" not in told["cli"].message


def test_every_door_exports_the_same(doors: dict[str, Door], tmp_path: Path) -> None:
    told = {
        door.name: door.run("export", CANONICAL, to=tmp_path / door.name, tables=["aggregate__count"]).outcome
        for door in tellers(doors, "export")
    }

    assert list(told) == ["cli", "python"]
    for name, one in told.items():
        assert one["target"] == str(tmp_path / name)
        (file,) = one["savepoints"][0]["tables"][0]["files"]
        assert parquet.read_table(tmp_path / name / file["path"]).num_rows == 1000
    tables = [one["savepoints"][0]["tables"][0] for one in told.values()]
    assert tables[0]["schema"] == tables[1]["schema"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"format": "csv"}, "INVALID_REQUEST"),
        ({"namespace": "x"}, "INVALID_REQUEST"),
        ({"engine": "abacus"}, "INVALID_REQUEST"),
        ({"to": ""}, "INVALID_REQUEST"),
        ({"to": str(CANONICAL / "inside")}, "TARGET_EXISTS"),
    ],
    ids=["format", "namespace", "engine", "nowhere", "inside"],
)
def test_every_door_refuses_the_same_export(
    doors: dict[str, Door], tmp_path: Path, options: dict[str, Any], code: str
) -> None:
    told = told_by(doors, "export", **{"to": str(tmp_path / "to"), **options})

    assert (told["python"].code, told["cli"].exit_code != 0) == (code, True)
