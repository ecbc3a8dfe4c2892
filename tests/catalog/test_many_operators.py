"""What is read of a savepoint of many operators to answer for one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import catalog
from catalog import Database, NoSuchTableError
from readers import MissingFileError, UnsupportedVersionError, operator_id_of
from tests.support.many_operators import (
    files_of,
    keep_files_of,
    opened_files,
    uid_of,
    write_many_operators,
    write_operators,
)

OPERATORS, ASKED = 500, 250
ONE_ROW = [{"key": "key_662", "value": 11290}]
NAMES: list[Callable[[int], str]] = [
    uid_of,
    lambda number: f"{uid_of(number)}__count",
    lambda number: uid_of(number).upper(),
    lambda number: f"NAME-{number}",
    lambda number: f"name-{number}__Count",
    lambda number: operator_id_of(uid_of(number)),
    lambda number: operator_id_of(uid_of(number)).upper() + "__count",
]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    write_many_operators(folder, OPERATORS)
    return folder


def opened(folder: Path) -> Database:
    database = catalog.connect(folder).default
    assert database is not None
    return database


def one_row(database: Database, table: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = (
        database.table(table).scan(["key", "value"], key="key_662").to_arrow().to_pylist()
    )
    return rows


@pytest.mark.parametrize("name_of", NAMES)
def test_a_table_opens_the_files_of_its_operator(many: Path, name_of: Callable[[int], str]) -> None:
    with opened_files(many) as found:
        table = opened(many).table(name_of(ASKED))
        scan = table.scan(["key", "value"], key="key_662")
        rows = scan.to_arrow().to_pylist()

    own = files_of(many, ASKED)
    assert rows == ONE_ROW
    assert sorted(found) == own
    assert 0 < scan.bytes_read <= sum(path.stat().st_size for path in own)


def test_a_table_needs_no_file_of_another_operator(tmp_path: Path) -> None:
    write_many_operators(tmp_path, 20)
    keep_files_of(tmp_path, 7)
    database = opened(tmp_path)

    for name_of in NAMES:
        assert one_row(database, name_of(7)) == ONE_ROW
    with pytest.raises(MissingFileError):
        one_row(database, uid_of(8))


def test_facts_of_metadata_need_no_state_file(tmp_path: Path) -> None:
    write_many_operators(tmp_path, 3)
    keep_files_of(tmp_path, 3)
    database = opened(tmp_path)

    assert database.scan("operators").to_arrow().num_rows == 3
    assert not any(database.scan("files").to_arrow().column("exists").to_pylist())


def test_a_lookup_and_a_listing_have_the_same_tables(many: Path) -> None:
    alone, listed = opened(many), opened(many)
    names = listed.tables

    assert names[-3:] == ["operator-499", "operator-499__count", "operator-499__wide"]
    assert len(names) == len(set(names)) == 11 + 3 * OPERATORS
    for name in names[:5] + names[-4:]:
        assert alone.table(name).schema == listed.table(name).schema
        assert listed.table(name) is listed.table(name.upper())


@pytest.mark.parametrize(
    "uids",
    [
        ["x", "x__count"],
        ["x__count", "x"],
        ["x", "x__count", "x__count__count"],
        ["same", "SAME", "other"],
        ["files", "Timers", "StateMeta"],
        ["", "_", "__count", "a__"],
    ],
)
def test_names_that_collide_mean_the_same_in_a_lookup_and_in_a_listing(
    tmp_path: Path, uids: list[str]
) -> None:
    write_operators(tmp_path, uids)
    listed = opened(tmp_path)
    names = listed.tables

    for name in names:
        alone = opened(tmp_path).table(name.upper())
        known = listed.table(name)
        assert (alone.name, type(alone), alone.comment) == (known.name, type(known), known.comment)


def test_the_later_of_two_operators_has_the_table_of_a_name_of_both(tmp_path: Path) -> None:
    write_operators(tmp_path, ["x", "x__count"])
    keep_files_of(tmp_path, 1)
    database = opened(tmp_path)

    assert database.table("x__count").comment == "all states of operator x__count"
    assert one_row(database, "x__count") == ONE_ROW


def test_a_name_that_no_operator_has_gives_near_names(tmp_path: Path) -> None:
    write_many_operators(tmp_path, 3)

    for name in ("operator-3", "operator-2__counts", "operators-2"):
        with pytest.raises(NoSuchTableError) as caught:
            opened(tmp_path).table(name)
        assert caught.value.near


def test_a_corrupt_file_of_another_operator_is_no_matter(tmp_path: Path) -> None:
    write_many_operators(tmp_path, 3)
    for path in files_of(tmp_path, 2):
        path.write_bytes(b"\xff" * path.stat().st_size)
    database = opened(tmp_path)

    assert one_row(database, uid_of(1)) == ONE_ROW
    with pytest.raises(UnsupportedVersionError):
        one_row(database, uid_of(2))
