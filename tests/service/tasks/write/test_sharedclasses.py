"""ALTER of a class that several states have: the job has one class for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import savepointdb
from savepointdb import QueryError
from service.cli import main

POINT = "Pojo(acme.Point: x Integer, y Integer)"
CREATED = "; ".join(
    f"CREATE TABLE {table} WITH (kind = '{kind}', value_type = '{type_}') AS SELECT 'k' AS key, {columns}"
    for table, kind, type_, columns in (
        ("a__one", "VALUE", POINT, "{'x': 1, 'y': 2} AS value"),
        ("a__many", "LIST", POINT, "{'x': 3, 'y': 4} AS value"),
        (
            "b__line",
            "VALUE",
            f"Pojo(acme.Line: name String, to {POINT})",
            "{'name': 'n', 'to': {'x': 5, 'y': 6}} AS value",
        ),
        ("b__other", "VALUE", "Pojo(acme.Other: x Integer)", "{'x': 7} AS value"),
    )
)
EACH = ("a__one", "value", "a__many", "value", "b__line", "value.to")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[savepointdb.Connection]:
    path = tmp_path_factory.mktemp("shared") / "source"
    assert main(["create", str(path), CREATED, "--flink", "2.3"]) == 0
    with savepointdb.connect(path) as connection:
        yield connection


def altered(change: str, count: int) -> str:
    tables = zip(EACH[::2], EACH[1::2], strict=True)
    return "; ".join(f"ALTER TABLE {table} {change.format(column)}" for table, column in list(tables)[:count])


@pytest.mark.parametrize("change", ["ALTER COLUMN {}.x TYPE BIGINT", "RENAME COLUMN {}.x TO z"])
@pytest.mark.parametrize(("count", "left"), [(1, "a__many, b__line"), (2, "b__line")])
def test_a_field_that_other_states_keep_is_not_changed(
    change: str, count: int, left: str, connection: savepointdb.Connection, tmp_path: Path
) -> None:
    message = (
        f"the field x of acme.Point changes in a__one, and stays as it was in {left}: the job has one class"
    )

    with pytest.raises(QueryError, match=message):
        connection.write(tmp_path / "new", altered(change, count))

    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "CREATE TABLE c__new WITH (value_type = 'Pojo(acme.Point: y Integer, x Long)') AS "
            "SELECT 'k' AS key, {'y': 1, 'x': 2} AS value",
            "the field x of acme.Point is Long in c__new, and Integer in a__one",
        ),
        (
            "CREATE TABLE c__new WITH (value_type = 'Pojo(acme.New: x Long)') AS SELECT 'k' AS key, {'x': 2} AS value; "
            "CREATE TABLE d__new WITH (value_type = 'List<Pojo(acme.New: x String)>') AS SELECT 'k' AS key, [{'x': 'a'}] AS value",
            "the field x of acme.New is Long in c__new, and String in d__new",
        ),
    ],
)
def test_a_new_state_has_the_fields_of_a_class_in_the_types_of_the_others(
    script: str, message: str, connection: savepointdb.Connection, tmp_path: Path
) -> None:
    with pytest.raises(QueryError, match=message):
        connection.write(tmp_path / "new", script)

    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE c__new WITH (value_type = 'Pojo(acme.Point: x Integer, z Long)') AS "
        "SELECT 'k' AS key, {'x': 1, 'z': 2} AS value",
        altered("ALTER COLUMN {}.x TYPE BIGINT", 3),
        altered("RENAME COLUMN {}.x TO z", 3),
        # Flink fills a field that a state lacks, and leaves out one that the class lacks.
        altered("ADD COLUMN {}.z BIGINT DEFAULT 0", 1),
        altered("DROP COLUMN {}.x", 1),
        altered("ALTER COLUMN {}.x TYPE BIGINT", 2) + "; DROP TABLE b__line",
        altered("ALTER COLUMN {}.x TYPE BIGINT", 2) + "; DROP TABLE b",
        "ALTER TABLE b__other ALTER COLUMN value.x TYPE BIGINT",
        "ALTER TABLE a__one ALTER COLUMN value TYPE 'Row(x Integer, y Integer)'",
    ],
)
def test_other_changes_are_written(script: str, connection: savepointdb.Connection) -> None:
    assert connection.write(None, script, dry_run=True).effects
