"""The views of SQL operators against what the jobs put in, row by row."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import catalog
from catalog import Database
from readers.description import write_state_info
from readers.stateinfo.plans import PlannedOperator, read_job_plan
from tests.support.expected import Snapshot
from tests.support.unpacked import unpacked

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?")
_EPOCH = datetime.datetime(1970, 1, 1)

Row = dict[str, Any]


def fields(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def milliseconds(value: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(milliseconds=value)


# The state, its view, the columns behind those of the key, and an expected row in their order.
VIEWS: list[tuple[str, str, str, list[str], Callable[[Row], list[Any]]]] = [
    (
        "sql-groupagg-hashmap",
        "accState",
        "aggregate",
        ["f0", "f1", "f2", "f3", "f4"],
        lambda row: fields(row["value"]),
    ),
    (
        "sql-groupagg-distinct-hashmap",
        "accState",
        "aggregate",
        ["f0", "f1", "f2"],
        lambda row: [*fields(row["value"])[:2], None],
    ),
    (
        "sql-groupagg-distinct-hashmap",
        "distinctAcc_0",
        "distinct_0",
        ["distinct_value", "count_or_mask"],
        lambda row: [row["map_key"], row["value"]],
    ),
    (
        "sql-window-hashmap",
        "window-aggs",
        "windows",
        ["slice_end", "f0", "f1"],
        lambda row: [milliseconds(row["namespace"]), *fields(row["value"])],
    ),
    (
        "sql-leftjoin-hashmap",
        "left-records",
        "left",
        ["f0", "f1", "f2", "count", "associations"],
        lambda row: [*row["map_key"], *row["value"]],
    ),
    (
        "sql-leftjoin-hashmap",
        "right-records",
        "right",
        ["f0", "f1", "count"],
        lambda row: [*row["map_key"], row["value"]],
    ),
    (
        "sql-join-hashmap",
        "left-records",
        "left",
        ["f0", "f1", "f2", "count"],
        lambda row: [*row["map_key"], row["value"]],
    ),
    (
        "sql-dedup-hashmap",
        "deduplicate-state",
        "deduplicate",
        [f"f{index}" for index in range(9)],
        lambda row: row["value"],
    ),
]


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[str], tuple[Database, Snapshot]]:
    def open_(case: str) -> tuple[Database, Snapshot]:
        snapshot = unpacked(f"1.20.3-{case}-canonical", tmp_path)
        database = catalog.connect(snapshot.directory).default
        assert database is not None
        return database, snapshot

    return open_


def plain(value: Any) -> Any:
    """Return a value to compare: decimals as text, times as times, structs as lists, maps as sorted pairs."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, str) and _TIME.fullmatch(value):
        return datetime.datetime.fromisoformat(value.removesuffix("Z"))
    if isinstance(value, dict):
        return (
            sorted(map(plain, value["$map"])) if "$map" in value else [plain(part) for part in value.values()]
        )
    if isinstance(value, list | tuple):
        parts = [plain(part) for part in value]
        return sorted(parts) if value and isinstance(value[0], tuple) else parts
    return value


def counted(rows: list[list[Any]]) -> Counter[str]:
    return Counter(repr([plain(value) for value in row]) for row in rows)


def view(database: Database, name: str) -> Any:
    (table,) = (table for table in database.tables if table.endswith(f"__{name}"))
    return database.table(table)


def expected_rows(snapshot: Snapshot, state: str) -> list[Row]:
    assert snapshot.expected is not None
    lines = snapshot.expected.read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["state_name"] == state]


@pytest.mark.parametrize(
    ("case", "state", "name", "columns", "expected"), VIEWS, ids=lambda value: str(value)[:24]
)
def test_a_view_has_the_rows_of_the_job(
    opened: Callable[[str], tuple[Database, Snapshot]],
    case: str,
    state: str,
    name: str,
    columns: list[str],
    expected: Callable[[Row], list[Any]],
) -> None:
    database, snapshot = opened(case)
    table = view(database, name)

    rows = table.scan(columns=["k0", *columns]).to_arrow().to_pylist()

    aside = ["_out_of_range"] if pa.timestamp("us") in table.schema.types else []
    assert table.schema.names == ["k0", *columns, *aside, "_key_group", "_subtask"]
    assert counted([list(row.values()) for row in rows]) == counted(
        [[*row["key"], *expected(row)] for row in expected_rows(snapshot, state)]
    )


def test_the_rows_of_a_top_n_are_a_row_each(opened: Callable[[str], tuple[Database, Snapshot]]) -> None:
    database, snapshot = opened("sql-topn-hashmap")
    columns = ["k0", *(f"f{index}" for index in range(6))]
    table = view(database, "top_n")

    found = counted([list(row.values()) for row in table.scan(columns=columns).to_arrow().to_pylist()])

    expected = counted(
        [
            [*row["key"], *element]
            for row in expected_rows(snapshot, "data-state-with-append")
            for element in row["value"]
        ]
    )
    assert table.schema.names == [*columns, "list_index", "_out_of_range", "_key_group", "_subtask"]
    assert found == expected
    indexes = table.scan(columns=["list_index"]).to_arrow()["list_index"].to_pylist()
    assert len(indexes) == sum(expected.values())
    assert min(indexes) == 0


@pytest.mark.parametrize("name", ["aggregate", "distinct_0"])
def test_a_condition_on_the_key_columns_reads_one_key_group(
    opened: Callable[[str], tuple[Database, Snapshot]], name: str
) -> None:
    table = view(opened("sql-groupagg-distinct-hashmap")[0], name)

    one, all_ = table.scan(k0="k3"), table.scan()

    assert one.to_arrow().to_pylist() == [row for row in all_.to_arrow().to_pylist() if row["k0"] == "k3"]
    assert 0 < one.bytes_read < all_.bytes_read / 4


def test_state_meta_names_the_views_and_the_states_keep_their_tables(
    opened: Callable[[str], tuple[Database, Snapshot]],
) -> None:
    database, _ = opened("sql-groupagg-distinct-hashmap")
    rows = database.table("StateMeta").scan(columns=["state_name", "table_name"]).to_arrow().to_pylist()

    tables = {row["state_name"]: row["table_name"].partition("__")[2] for row in rows}

    assert tables["accState"] == "aggregate"
    assert tables["distinctAcc_0"] == "distinct_0"
    assert tables["distinctAcc_0_null_state"] == "distinctAcc_0_null_state"
    assert view(database, "accState").scan().to_arrow().num_rows == 7


def test_a_compiled_plan_names_operator_keys_and_accumulators(
    opened: Callable[[str], tuple[Database, Snapshot]], tmp_path: Path
) -> None:
    database, snapshot = opened("sql-groupagg-distinct-hashmap")
    plan = read_job_plan(json.dumps(PLAN).encode())
    path = tmp_path / "stateInfo"
    path.write_text(write_state_info(database.savepoint, plan), encoding="utf-8")

    named = catalog.connect(snapshot.directory, state_info=path).default

    assert named is not None
    table = named.table("4_group-aggregate__aggregate")
    assert table.schema.names[:4] == ["k", "COUNT(*)", "numbers", "distinct_0"]
    assert table.scan(columns=["numbers"], k="k3").to_arrow().to_pylist() == [{"numbers": 3}]
    assert named.table("4_group-aggregate__distinct_0").schema.names[0] == "k"
    notes = named.table("StateMeta").scan(columns=["decode_note"]).to_arrow()["decode_note"].to_pylist()
    assert set(notes) == {None}


def test_a_key_column_with_the_name_of_a_column_of_the_history_hides_no_rows(
    opened: Callable[[str], tuple[Database, Snapshot]], tmp_path: Path
) -> None:
    database, snapshot = opened("sql-groupagg-distinct-hashmap")
    plan = read_job_plan(json.dumps(PLAN).replace("`k`", "`_database`").encode())
    path = tmp_path / "stateInfo"
    path.write_text(write_state_info(database.savepoint, plan), encoding="utf-8")
    known = catalog.Catalog([catalog.Root(path=str(snapshot.directory))], state_info=path)
    [job] = known.jobs()
    [name] = known.databases

    table = known.history(job).table("4_group-aggregate__aggregate")
    assert known.database(name).table("4_group-aggregate__aggregate").schema.names[0] == "_database"
    rows = table.scan(_database=name).to_arrow()
    assert rows.num_rows == table.scan().to_arrow().num_rows > 0
    assert set(rows["_database"].to_pylist()) == {name}


def test_a_compiled_plan_names_both_sides_of_a_join() -> None:
    left, right = ("id", "k", "d"), ("k", "big`")
    plan = {
        "flinkVersion": "1.20",
        "nodes": [
            {"id": 1, "type": "stream-exec-exchange_1", "outputType": "ROW<`id` BIGINT, `k` MAP<INT, ROW<`x` INT>>, `d` INT>"},
            {"id": 2, "type": "stream-exec-exchange_1", "outputType": {"type": "ROW", "fields": [{"name": name} for name in right]}},
            {"id": 79, "type": "stream-exec-join_1", "joinSpec": {"leftKeys": [1]}, "outputType": "ROW<>"},
        ],
        "edges": [{"source": 1, "target": 79}, {"source": 2, "target": 79}],
    }  # fmt: skip

    described = read_job_plan(json.dumps(plan).encode())

    assert described["a75eb435cef4fbeda8a245d17e26494b"] == PlannedOperator(
        uid="79_join",
        name="Join[79]",
        key=("k",),
        rows={"left-records": (left,), "right-records": (right,)},
    )


ROW = "ROW<`k` VARCHAR(2147483647), `$f1` INT>"
PLAN = {
    "flinkVersion": "1.20",
    "nodes": [
        {"id": 2, "type": "stream-exec-calc_1", "outputType": ROW},
        {"id": 3, "type": "stream-exec-exchange_1", "outputType": ROW},
        {
            "id": 4,
            "type": "stream-exec-group-aggregate_1",
            "grouping": [0],
            "aggCalls": [
                {"name": "EXPR$1", "internalName": "$COUNT$1", "argList": [], "distinct": False},
                {"name": "numbers", "internalName": "$COUNT$1", "argList": [1], "distinct": True},
            ],
            "outputType": "ROW<`k` VARCHAR(2147483647), `EXPR$1` BIGINT NOT NULL, `numbers` BIGINT NOT NULL>",
        },
    ],
    "edges": [{"source": 2, "target": 3}, {"source": 3, "target": 4}],
}
