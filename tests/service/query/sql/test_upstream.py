"""`compat=flink`: the databases, tables and functions of Flink's State Catalog, over savepoints of real Flink."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catalog import Catalog, Root
from readers.keygroups import operator_id_of
from service.base.errors import DatabaseNotFoundError, InvalidRequestError, QueryError, TableNotFoundError
from service.query.sql.plan import Plan
from service.query.sql.planner import planned
from tests.support.paths import DATA
from tests.support.unpacked import unpacked

FLINK = DATA / "flink" / "2.3.0"
EVERYTHING = FLINK / "everything-rocksdb-savepoints" / "native"
METADATA = [
    "checkpoint-id",
    "operator-name",
    "operator-uid",
    "operator-uid-hash",
    "operator-parallelism",
    "operator-max-parallelism",
    "operator-subtask-state-count",
    "operator-coordinator-state-size-in-bytes",
    "operator-total-size-in-bytes",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as Flink's State Catalog would have it: two savepoints, one of them deeper."""
    folder = tmp_path_factory.mktemp("state")
    shutil.copytree(EVERYTHING, folder / "savepoint-a")
    shutil.copytree(FLINK / "wordcount-rocksdb-savepoints" / "native", folder / "job" / "savepoint-b")
    return folder


@pytest.fixture(scope="module")
def catalog_(root: Path) -> Catalog:
    return Catalog([Root(path=str(root), label="app")])


def plan_of(catalog: Catalog, sql: str, compat: str = "flink") -> Plan:
    return planned(sql, catalog, dialect="duckdb", max_sql_bytes=1 << 20, constants={}, compat=compat)


def rows(catalog: Catalog, sql: str, compat: str = "flink") -> list[dict[str, Any]]:
    """The rows that a query reads of its table: what stands around them is the planner's and the engine's."""
    [reference] = plan_of(catalog, sql, compat).tables
    found: list[dict[str, Any]] = reference.scan.to_arrow().to_pylist()
    return found


def columns(catalog: Catalog, sql: str) -> list[tuple[str, str]]:
    plan = plan_of(catalog, sql)
    return [(field.name, str(field.type)) for field in plan.tables[0].table.schema]


A = '"app/savepoint-a"'


def test_metadata_has_exactly_the_columns_of_the_function(catalog_: Catalog, root: Path) -> None:
    made = datetime.fromtimestamp(int((root / "savepoint-a" / "_metadata").stat().st_mtime), UTC)
    names = [
        f"SELECT * FROM {A}.metadata",
        f'SELECT * FROM "app/{made:%Y-%m-%dT%H:%M:%SZ}/savepoint-a".metadata',
        f"SELECT * FROM state.{A}.metadata",
        f"SELECT * FROM TABLE(savepoint_metadata('{root}/savepoint-a'))",
        f"SELECT * FROM savepoint_metadata('file://{root}/savepoint-a/_metadata') AS m",
        "SELECT * FROM savepoint_metadata('app/savepoint-a')",
    ]
    found = [rows(catalog_, sql) for sql in names]

    assert all(one == found[0] for one in found)
    assert [list(row) for row in found[0]] == [METADATA] * 5
    by_uid = {row["operator-uid"]: row for row in found[0]}
    assert by_uid["kinds"]["operator-max-parallelism"] == 128
    assert by_uid["kinds"]["operator-uid-hash"] == operator_id_of("kinds")
    assert by_uid.keys() == {"events", "kinds", "types", "tumbling-window", "broadcast"}


def test_a_keyed_table_has_a_row_a_key_and_a_column_a_state(catalog_: Catalog) -> None:
    sql = f"SELECT * FROM {A}.uid_kinds_keyed"
    found = {row["state_key"]: row for row in rows(catalog_, sql)}
    narrow = {row["key"]: row["value"] for row in rows(catalog_, f"SELECT * FROM {A}.kinds__value")}

    assert [name for name, _ in columns(catalog_, sql)] == [
        *("state_key", "value", "list", "map", "reducing", "aggregating", "ttl-value", "ttl-list", "ttl-map")
    ]
    assert {key: row["value"] for key, row in found.items()} == narrow
    assert found["k3"]["list"] == [0, 1, 2, 3]
    assert found["k3"]["map"] == [("m0", "text-0"), ("m2", "text-2"), ("m3", None)]


def test_a_condition_on_the_key_leaves_one_key_group(catalog_: Catalog) -> None:
    for table in ("uid_kinds_keyed", "uid_kinds_list_keyed_flat", "uid_kinds_map_keyed_flat"):
        sql = f"SELECT * FROM {A}.{table} WHERE state_key = 'k3'"
        plan = plan_of(catalog_, sql)

        assert len(plan.tables[0].scan.key_groups) == 1
        assert {row["state_key"] for row in rows(catalog_, sql)} >= {"k3"}


def test_flat_tables_have_a_row_an_element(catalog_: Catalog) -> None:
    lists = f"SELECT * FROM {A}.uid_kinds_list_keyed_flat"
    assert columns(catalog_, lists) == [
        ("state_key", "string"),
        ("list_index", "int64"),
        ("list_value", "int32"),
    ]
    own = [row for row in rows(catalog_, lists) if row["state_key"] == "k3"]
    assert sorted((row["list_index"], row["list_value"]) for row in own) == [(0, 0), (1, 1), (2, 2), (3, 3)]

    maps = f"SELECT * FROM {A}.uid_kinds_map_keyed_flat"
    assert [name for name, _ in columns(catalog_, maps)] == ["state_key", "map_key", "map_value"]
    own = [row for row in rows(catalog_, maps) if row["state_key"] == "k3"]
    assert {row["map_key"]: row["map_value"] for row in own} == {"m0": "text-0", "m2": "text-2", "m3": None}


def test_windows_have_the_names_of_their_fields(catalog_: Catalog) -> None:
    sql = f'SELECT * FROM {A}."uid_tumbling-window_windowed"'
    found = rows(catalog_, sql)
    narrow = rows(catalog_, f'SELECT * FROM {A}."tumbling-window__window-contents"')

    assert [name for name, _ in columns(catalog_, sql)] == ["state_key", "state_window", "window-contents"]
    assert sorted(map(repr, ((row["state_key"], *row["state_window"].values()) for row in found))) == sorted(
        map(repr, ((row["key"], *row["namespace"].values()) for row in narrow))
    )
    assert all(list(row["state_window"]) == ["window_start", "window_end"] for row in found)
    with pytest.raises(TableNotFoundError):
        rows(catalog_, f'SELECT * FROM {A}."uid_tumbling-window_keyed"')


def test_operator_state_has_a_table_a_state(catalog_: Catalog) -> None:
    union = rows(catalog_, f"SELECT * FROM {A}.uid_events_readers_union")
    assert [list(row) for row in union] == [["readers"]] * 2

    numbers = rows(catalog_, f'SELECT * FROM {A}."uid_events_last-numbers_list"')
    narrow = rows(catalog_, f'SELECT * FROM {A}."events__last-numbers"')
    assert sorted(map(str, numbers)) == sorted(str(row["value"]) for row in narrow)

    rules = rows(catalog_, f"SELECT * FROM {A}.uid_broadcast_rules_broadcast")
    known = {
        str((row["map_key"], row["value"])) for row in rows(catalog_, f"SELECT * FROM {A}.broadcast__rules")
    }
    assert sorted(str((row["map_key"], row["map_value"])) for row in rules) == sorted(known)


def test_an_operator_without_a_uid_has_the_id(catalog_: Catalog) -> None:
    b = '"app/job/savepoint-b"'
    known = {row["operator-name"]: row for row in rows(catalog_, f"SELECT * FROM {b}.metadata")}
    own = next(
        row for row in known.values() if row["operator-uid"] is None and "mod7" in row["operator-name"]
    )

    found = rows(catalog_, f"SELECT * FROM {b}.id_{own['operator-uid-hash']}_keyed")

    assert found
    assert list(found[0]) == ["state_key", "seen"]
    # Others answer to both.
    by_id = rows(catalog_, f"SELECT * FROM {b}.id_{known['aggregate']['operator-uid-hash']}_keyed")
    assert by_id == rows(catalog_, f"SELECT * FROM {b}.uid_aggregate_keyed")


def test_states_of_windows_stand_apart_from_those_of_keys(tmp_path: Path) -> None:
    catalog = Catalog([Root(path=str(unpacked("2.3.0-windows-canonical", tmp_path).directory), label="w")])
    database = catalog.databases[0]
    named = [name for name in catalog.database(database).upstream_tables if name != "metadata"]

    assert named
    assert not any("merging-window-set" in name for name in named)
    for name in named:
        if not name.endswith("_flat"):
            assert rows(catalog, f'SELECT * FROM "{database}"."{name}"')


def test_our_own_names_are_there_too_and_theirs_only_if_asked(catalog_: Catalog) -> None:
    assert rows(catalog_, f"SELECT * FROM {A}.timers") is not None
    with pytest.raises(TableNotFoundError):
        rows(catalog_, f"SELECT * FROM {A}.uid_kinds_keyed", compat="")
    with pytest.raises(QueryError):
        rows(catalog_, "SELECT * FROM savepoint_metadata('app/savepoint-a')", compat="")
    with pytest.raises(InvalidRequestError, match="expected the compat 'flink' or none, found 'spark'"):
        rows(catalog_, "SELECT 1", compat="spark")


def test_names_widen_no_grant(catalog_: Catalog, root: Path) -> None:
    b = "app__job__savepoint-b"
    seen = catalog_.visible(lambda name: name == b)
    assert rows(seen, f"SELECT * FROM savepoint_metadata('{root}/job/savepoint-b')")
    denied = [
        f"SELECT * FROM {A}.metadata",
        f"SELECT * FROM {A}.uid_kinds_keyed",
        f"SELECT * FROM state.{A}.uid_kinds_keyed",
        f"SELECT * FROM savepoint_metadata('{root}/savepoint-a')",
        f"SELECT * FROM savepoint_metadata('{root}/job/../savepoint-a')",
        "SELECT * FROM savepoint_metadata('app/savepoint-a')",
        f"SELECT * FROM savepoint_metadata('{EVERYTHING}')",
        "SELECT * FROM savepoint_metadata('/etc')",
        "SELECT * FROM savepoint_metadata('')",
    ]
    for sql in denied:
        with pytest.raises(QueryError) as raised:
            rows(seen, sql)
        assert isinstance(raised.value, DatabaseNotFoundError) or "single quotes" in str(raised.value)


def test_listings_have_their_names_beside_ours(catalog_: Catalog) -> None:
    def names(sql: str, compat: str) -> str:
        return planned(
            sql, catalog_, dialect="duckdb", max_sql_bytes=1 << 20, constants={}, compat=compat
        ).text

    assert "'uid_kinds_keyed'" in names(f"SHOW TABLES FROM {A}", "flink")
    assert "'app/2" in names("SHOW SCHEMAS", "flink")
    assert "uid_" not in names(f"SHOW TABLES FROM {A}", "")
