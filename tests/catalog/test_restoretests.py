"""Views over the savepoints of Flink's own restore tests, with column names from the compiled plans beside them."""

from __future__ import annotations

import datetime
import io
import lzma
import tarfile
from pathlib import Path
from typing import Any

import pytest

from catalog import Catalog, Root
from catalog.stateinfo import write
from tests.support.paths import DATA

ARCHIVE = DATA / "versions" / "sql.tar.xz"


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The savepoints, each with the `stateInfo` that its plan makes."""
    root = tmp_path_factory.mktemp("restore")
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(ARCHIVE.read_bytes()))) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file is not None
            (root / member.name).parent.mkdir(parents=True, exist_ok=True)
            (root / member.name).write_bytes(file.read())
    for plan in root.glob("*/*/*/plan/*.json"):
        write(plan.parents[1] / "savepoint", plan=plan)
    return root


def table_of(described: Path, test: str, view: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and the sorted rows of the only table of a test with the name `…__<view>`."""
    (path,) = described.glob(f"2.3.0/*/{test}/savepoint")
    known = Catalog([Root(path=str(path))])
    database = known.database(known.databases[0])
    (name,) = (name for name in database.tables if name.endswith(f"__{view}"))
    columns = [name for name in database.table(name).schema.names if not name.startswith("_")]
    rows = database.table(name).scan(columns).to_arrow().to_pylist()
    return columns, sorted((tuple(row.values()) for row in rows), key=repr)


def at(second: int) -> datetime.datetime:
    """Return a time of the tests' day."""
    return datetime.datetime(2020, 4, 15, 8, 0, second)


def test_both_sides_of_an_interval_join(described: Path) -> None:
    """A key column keeps its name unless the rows have it, too."""
    left, orders = table_of(described, "interval-join-event-time", "left")
    right, shipments = table_of(described, "interval-join-event-time", "right")

    assert left == ["k0", "row_time", "id", "order_ts_str", "order_ts", "is_matched", "list_index"]
    assert orders == [
        (order, at(order), order, f"2020-04-15 08:00:0{order}", at(order), order in (1, 2, 5), 0)
        for order in range(1, 6)
    ]
    assert right == [
        "id",
        "row_time",
        "order_id",
        "shipment_ts_str",
        "shipment_ts",
        "is_matched",
        "list_index",
    ]
    assert shipments == [
        (order, at(second), order, f"2020-04-15 08:00:{second:02}", at(second), False, 0)
        for order, second in ((1, 2), (2, 5), (4, 15), (5, 6), (6, 15))
    ]


def test_both_sides_of_a_window_join(described: Path) -> None:
    left, rows = table_of(described, "window-join-anti-tumble-event-time", "left")
    right, others = table_of(described, "window-join-anti-tumble-event-time", "right")

    window = tuple(datetime.datetime(2020, 10, 10, 0, 0, second) for second in (30, 35))
    assert left == ["k0", "id", "num", "name", "window_start", "window_end"]
    assert rows == [("b", "L12", 1, "b", *window), (None, "L11", 7, None, *window)]
    assert right == ["k0", "name", "window_start", "window_end"]
    assert others == [("b", "b", *window), (None, None, *window)]


def test_the_inputs_of_a_multi_join(described: Path) -> None:
    test = "three-way-inner-join-with-restore"
    _, users = table_of(described, test, "input_0")
    columns, orders = table_of(described, test, "input_1")
    _, payments = table_of(described, test, "input_2")

    assert users == [("1", "1", "Gus", 1), ("2", "2", "Bob", 1)]
    assert columns == ["k0", "user_id_key", "user_id", "order_id", "count"]
    assert orders == [(number, number, number, f"order{number}", 1) for number in "12"]
    assert payments == [(number, number, number, f"payment{number}", 1) for number in "12"]


@pytest.mark.parametrize(
    ("test", "view", "columns"),
    [
        ("changelog-normalize-source", "deduplicate", ["k0", "a", "b", "c"]),
        ("deduplicate-asc", "deduplicate", ["k0", "order_id", "user", "product", "order_time", "event_time"]),
        ("sort-limit-asc", "top_n", ["a", "b", "c", "list_index"]),
        ("limit", "top_n", ["a", "b", "c", "list_index"]),
        (
            "agg-with-state-ttl-hint",
            "aggregate",
            ["b", "cnt", "avg_a.sum", "avg_a.count", "min_c", "ttl_timestamp"],
        ),
        (
            "group-window-aggregate-hop-event-time",
            "windows",
            ["name", "window_start", "window_end", "COUNT(*)"],
        ),
        ("join-anti-join", "left", ["deptno", "name", "count", "associations"]),
    ],
)
def test_columns_have_the_names_of_the_plan(
    described: Path, test: str, view: str, columns: list[str]
) -> None:
    assert table_of(described, test, view)[0] == columns
