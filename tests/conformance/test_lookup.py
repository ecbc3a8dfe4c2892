"""`lookup` at every door: one key, the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import savepointdb
from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from tests.conformance.conftest import NATIVE
from tests.support.agents import Agent
from tests.support.doors import Door, Told, doors_over, tellers
from tests.support.paths import DATA
from tests.support.serving import listening

EVERYTHING = DATA / "flink" / "2.3.0" / "everything-hashmap-savepoints" / "canonical"
ALL_STATES = DATA / "corpus" / "1.20.3" / "allstates-hashmap-compressed" / "canonical"
CHECKPOINT = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
SQL = DATA / "corpus" / "1.20.3" / "sql-window-hashmap" / "canonical"


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Savepoints with names of their own."""
    folder = tmp_path_factory.mktemp("lookups")
    for name, source in (
        ("everything", EVERYTHING),
        ("allstates", ALL_STATES),
        ("sql", SQL),
    ):
        shutil.copytree(source, folder / name)
    shutil.copytree(CHECKPOINT, folder / "job")
    for file in (folder / "job" / "shared").iterdir():
        file.unlink()
    return {path.parent.name: path.parent for path in folder.glob("*/_metadata")} | {
        "chk-2": folder / "job" / "chk-2"
    }


@pytest.fixture(scope="module")
def lookup_doors(savepoints: dict[str, Path]) -> Iterator[dict[str, Door]]:
    with doors_over(*savepoints.values()) as opened:
        yield opened


def told_by(doors: dict[str, Door], savepoint: Path, key: str) -> dict[str, Told]:
    return {door.name: door.run("lookup", savepoint, key=key) for door in tellers(doors, "lookup")}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("everything", "k0"),
        ("allstates", "w1"),
        ("allstates", "(t1,1)"),
        ("allstates", '{"b": "p1", "a": 1}'),
        ("allstates", "0.01"),
        ("allstates", "2024-03-01"),
        ("sql", "k1"),
    ],
)
def test_every_door_has_the_same_rows(
    lookup_doors: dict[str, Door], savepoints: dict[str, Path], name: str, key: str
) -> None:
    told = told_by(lookup_doors, savepoints[name], key)

    rows = told["cli"].outcome
    assert told["cli"].exit_code == 0
    assert {row["database"] for row in rows} == {name}
    first = told["http"].outcome
    assert first["rows"] == rows
    assert {door: one.outcome == first for door, one in told.items() if door != "cli"} == {
        "http": True,
        "mcp": True,
        "python": True,
    }


@pytest.mark.parametrize(
    ("key", "reason"),
    [("nothing", ""), ('{"f0": "t1"}', "f1 is missing"), ("(t1,x)", "expected an integer, found 'x'")],
)
def test_every_door_shows_keys_where_there_is_none_of_the_name(
    lookup_doors: dict[str, Door], savepoints: dict[str, Path], key: str, reason: str
) -> None:
    told = told_by(lookup_doors, savepoints["allstates"], key)

    assert (told["cli"].exit_code, told["cli"].outcome) == (1, None)
    first = told["http"].outcome
    assert (first["rows"], first["unread"]) == ([], [])
    assert len(first["examples"]) == 4
    assert all(text in told["cli"].message for text in first["examples"])
    assert any(reason in text for text in [*first["reasons"], ""])
    assert told["mcp"].outcome == told["python"].outcome == first


def test_every_door_reports_the_same_damage(doors: dict[str, Door], broken: Path) -> None:
    told = told_by(doors, broken, "key_662")

    assert told["cli"].exit_code == 3
    assert {one.code for name, one in told.items() if name != "cli"} == {"CORRUPT_SAVEPOINT"}
    assert {"expected 11928 bytes of inline state" in one.message for one in told.values()} == {True}


def test_every_door_names_what_it_cannot_read(
    lookup_doors: dict[str, Door], savepoints: dict[str, Path]
) -> None:
    told = told_by(lookup_doors, savepoints["chk-2"], "key_662")

    first = told["http"].outcome
    assert [(one["operator"], one["code"]) for one in first["unread"]] == [("aggregate", "MISSING_FILE")]
    assert (first["rows"], told["cli"].exit_code) == ([], 3)
    assert told["mcp"].outcome == told["python"].outcome == first
    assert told["cli"].message.startswith("savepointdb: not all of it can be read: chk-2: ")


@pytest.mark.parametrize("wrong", [{"key": "x", "word": "x"}, {"key": 3}, {}], ids=str)
def test_every_door_refuses_a_wrong_option(doors: dict[str, Door], wrong: dict[str, Any]) -> None:
    told = [doors[name].run("lookup", NATIVE, **wrong) for name in ("http", "mcp")]

    assert {one.code for one in told} == {"INVALID_REQUEST"}


def test_every_door_says_that_a_database_is_unknown(doors: dict[str, Door]) -> None:
    told = [doors[name].run("lookup", Path("nativ"), key="x") for name in ("http", "mcp")]

    assert {one.code for one in told} == {"DATABASE_NOT_FOUND"}


def test_without_a_database_all_are_searched(doors: dict[str, Door]) -> None:
    found, other = (
        doors[name].run("lookup", NATIVE, key="key_662", database=None).outcome for name in ("http", "mcp")
    )

    assert found == other
    assert sorted(found["databases"]) == ["broken", "canonical", "native"]
    assert {(row["database"], row["value"]) for row in found["rows"]} == {
        ("canonical", 11290),
        ("native", 11290),
    }
    assert [one["database"] for one in found["unread"]] == ["broken"]


def test_a_service_searches_the_newest_of_each_job_first(tmp_path: Path) -> None:
    for number in range(33):
        shutil.copytree(NATIVE, tmp_path / "words" / f"chk-{number}")
    shutil.copytree(EVERYTHING, tmp_path / "other" / "chk-1")
    catalog = Catalog([Root(path=str(tmp_path), label="jobs")])
    with (
        listening(create_app(Settings.of(workers=1), catalog)) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        found = Agent(client).call("lookup_key", key="k0")["structuredContent"]

    assert len(found["databases"]) == 32
    assert {row["database"] for row in found["rows"]} == {"jobs__other__chk-1"}
    assert found["databases_left_out"] == 2
    assert found["notes"][0] == "2 databases not searched; name one to search it"


def test_python_has_the_types_of_each_table() -> None:
    found = savepointdb.lookup(ALL_STATES, "w1")
    words = savepointdb.lookup(NATIVE, 4)

    assert len(found) == found.arrow().num_rows == len(found.df()) == len(found.pl())
    assert words["mod7-no-uid__seen"].df()["value"].tolist() == [25529]
    assert str(words["mod7-no-uid__seen"].arrow().schema.field("value").type) == "int64"
    assert words.arrow()["value"].to_pylist() == ["25529"]
    assert repr(words).startswith("savepointdb: key '4': 1 row\n")


@pytest.mark.parametrize(
    "name", ["table", "line", "markdown", "html", "json", "jsonl", "csv", "arrow", "parquet"]
)
def test_rows_are_written_in_every_format(tmp_path: Path, name: str) -> None:
    file = tmp_path / "rows"

    assert main(["lookup", str(NATIVE), "key_662", "--format", name, "--output", str(file)]) == 0
    assert b"aggregate" in file.read_bytes()
    assert main(["lookup", str(NATIVE), "nobody", "--format", name, "--output", str(tmp_path / "none")]) == 1
    assert not (tmp_path / "none").exists()
