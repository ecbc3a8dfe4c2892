"""The wide table of an operator: its rows are those of the tables of its states, joined by key and namespace."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import catalog
from catalog import Database, NoSuchTableError, Predicate
from catalog.wide.columns import Shape, StateColumn
from catalog.wide.joining import StateRows
from catalog.wide.joining import joined as joined_rows
from readers import ReaderError, StateKind, is_keyed, json_text
from service.cli import main
from tests.support.many_operators import files_of, keep_files_of, write_many_operators, write_operators
from tests.support.paths import DATA
from tests.support.unpacked import unpacked

REMARKS = ("_undecoded", "_out_of_range")
FLINK = DATA / "flink" / "2.3.0"
WORDCOUNT = FLINK / "wordcount-hashmap-savepoints" / "canonical"
FOLDERS = [
    FLINK / "wordcount-rocksdb-savepoints" / "native",
    FLINK / "everything-hashmap-savepoints" / "native",
    *(
        pytest.param(path, marks=pytest.mark.slow)
        for path in (
            WORDCOUNT,
            FLINK / "everything-hashmap-savepoints" / "canonical",
            FLINK / "everything-rocksdb-savepoints" / "canonical",
            FLINK / "everything-rocksdb-savepoints" / "native",
            FLINK / "kinds-hashmap-savepoints" / "canonical",
            FLINK / "types-hashmap-savepoints" / "canonical",
            DATA / "flink/1.20.3/everything-rocksdb-savepoints/native",
            DATA / "flink/1.20.3/everything-hashmap-savepoints/canonical",
        )
    ),
]
ARCHIVES = [
    "2.3.0-windows-canonical",
    "1.20.3-sql-window-hashmap-canonical",
    *(
        pytest.param(archive, marks=pytest.mark.slow)
        for archive in (
            "1.20.3-windows-canonical",
            "1.20.3-types-canonical",
            "1.20.3-kinds-compressed-canonical",
            "1.20.3-alltypes-collections-hashmap-native",
            "1.20.3-changelog-rocksdb-materialized-chk-3",
            "1.20.3-sql-join-hashmap-canonical",
            "2.3.0-forst-kinds-native",
            "2.3.0-objects-canonical",
        )
    ),
]


def opened(path: Path) -> Database:
    database = catalog.connect(path).default
    assert database is not None
    return database


def rows(database: Database, table: str, *columns: str, **values: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        database.table(table).scan(list(columns) or None, **values).to_arrow().to_pylist()
    )
    return found


def values(found: pa.Table) -> list[dict[str, Any]]:
    """Rows of values of JSON: Python has no dates like some of these."""
    columns = [json_text(column.combine_chunks()).to_pylist() for column in found.columns]
    names = found.schema.names
    return [
        {name: None if text is None else json.loads(text) for name, text in zip(names, row, strict=True)}
        for row in zip(*columns, strict=True)
    ]


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def wide_tables(database: Database) -> dict[str, list[Any]]:
    """Name of a wide table → the tables of its states, with the numbers of the states."""
    names = database.operator_names
    found: dict[str, list[Any]] = {}
    for operator_id, table in database.state_tables():
        if is_keyed(table.states[0].state.kind):
            found.setdefault(f"{names[operator_id]}__wide", []).append(table)
    return found


def joined(tables: list[Any], schema: pa.Schema) -> Counter[str]:
    """The rows of a wide table, from those of the tables of the states, one by one."""
    found: dict[str, dict[str, Any]] = {}
    columns = [name for name in schema.names if name not in ("key", "namespace", *REMARKS, "_key_group")]
    for column, table in zip(columns, tables, strict=True):
        state = table.states[0].state
        is_list = pa.types.is_list(schema.field(column).type) and state.kind is StateKind.LIST
        for row in sorted(values(table.scan().to_arrow()), key=lambda one: one.get("list_index") or 0):
            shown = {"namespace": row["namespace"]} if "namespace" in schema.names else {}
            for name in ("key", *shown):
                own = table.schema.field(name).type
                if pa.types.is_string(schema.field(name).type) and not pa.types.is_string(own):
                    row[name] = (
                        None
                        if row[name] is None
                        else json.dumps(row[name], separators=(",", ":"), ensure_ascii=False)
                    )
            shown = {name: row[name] for name in ("key", *shown)} | {"_key_group": row["_key_group"]}
            one = found.setdefault(canonical(shown), dict(shown))
            is_bytes = row.get("_undecoded") is not None
            if is_bytes:
                one.setdefault("_undecoded", []).append(column)
            if is_list:
                if not is_bytes:
                    one.setdefault(column, []).append(row["value"])
            elif state.kind is StateKind.MAP and is_bytes and row["map_key"] is None:
                continue
            elif state.kind is StateKind.MAP:
                one.setdefault(column, []).append({"key": row["map_key"], "value": row["value"]})
            else:
                assert column not in one
                one[column] = row["value"]
    for one in found.values():
        for column in columns:
            if pa.types.is_map(schema.field(column).type) and one.get(column):
                keys = [canonical(entry["key"]) for entry in one[column]]
                # No column holds such a map: `_out_of_range` does.
                is_map = "null" not in keys and len(set(keys)) == len(keys)
                one[column] = one[column] if is_map else None
    return counted(list(found.values()), schema)


def counted(found: list[dict[str, Any]], schema: pa.Schema) -> Counter[str]:
    wanted = [field for field in schema if field.name != "_out_of_range"]
    return Counter(
        canonical([_ordered(row.get(field.name), field.type) for field in wanted]) for row in found
    )


def _ordered(value: Any, kind: pa.DataType) -> Any:
    return value if value is None or not pa.types.is_map(kind) else sorted(value, key=canonical)


def check(database: Database) -> None:
    tables = wide_tables(database)
    assert tables
    for name, states in tables.items():
        schema = database.table(name).schema

        found = values(database.table(name).scan().to_arrow())
        assert counted(found, schema) == joined(states, schema), name


@pytest.mark.parametrize(
    "path", FOLDERS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}-{path.name}"
)
def test_rows_are_those_of_the_states_joined_by_key(path: Path) -> None:
    check(opened(path))


@pytest.mark.parametrize("archive", ARCHIVES)
def test_rows_are_those_of_the_states_joined_by_key_and_namespace(archive: str, tmp_path: Path) -> None:
    check(opened(unpacked(archive, tmp_path).directory))


def created(folder: Path, *statements: str) -> Database:
    """A savepoint with states of these statements."""
    assert main(["create", str(folder / "made"), ";".join(statements), "--flink", "2.3"]) == 0
    return opened(folder / "made")


COUNTS = (
    "CREATE TABLE op__count (key VARCHAR, value BIGINT) WITH (kind = 'VALUE', operator_uid = 'op') "
    "AS SELECT * FROM (VALUES ('a', 1), ('b', 2)) AS t (key, value)"
)
ITEMS = (
    "CREATE TABLE op__items (key VARCHAR, value INTEGER, list_index INTEGER) WITH (kind = 'LIST', operator_uid = 'op') "
    "AS SELECT * FROM (VALUES ('b', 7, 0), ('b', 8, 1), ('c', 9, 0)) AS t (key, value, list_index)"
)
TOTALS = (
    "CREATE TABLE op__totals (key VARCHAR, map_key VARCHAR, value DOUBLE) WITH (kind = 'MAP', operator_uid = 'op') "
    "AS SELECT * FROM (VALUES ('c', 'x', 1.5), ('c', 'y', 2.5), ('d', 'x', 0.5)) AS t (key, map_key, value)"
)
JOINED: list[dict[str, Any]] = [
    {"key": "a", "count": 1, "items": None, "totals": None},
    {"key": "b", "count": 2, "items": [7, 8], "totals": None},
    {"key": "c", "count": None, "items": [9], "totals": [("x", 1.5), ("y", 2.5)]},
    {"key": "d", "count": None, "items": None, "totals": [("x", 0.5)]},
]


@pytest.fixture
def small(tmp_path: Path) -> Database:
    return created(tmp_path, COUNTS, ITEMS, TOTALS)


def by_key(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in found:
        if row.get("totals") is not None:
            row["totals"].sort()
    return sorted(found, key=lambda row: row["key"])


def test_a_key_of_any_state_is_a_row(small: Database) -> None:
    table = small.table("op__wide")

    assert str(table.schema) == str(
        pa.schema(
            [
                ("key", pa.string()),
                ("count", pa.int64()),
                ("items", pa.list_(pa.int32())),
                ("totals", pa.map_(pa.string(), pa.float64())),
                ("_out_of_range", pa.string()),
                ("_key_group", pa.int32()),
            ]
        )
    )
    found = by_key(rows(small, "op__wide"))
    assert [{name: row[name] for name in JOINED[0]} for row in found] == JOINED
    assert [row["_out_of_range"] for row in found] == [None] * 4


def test_a_key_of_a_state_that_no_column_shows_is_a_row_too(small: Database) -> None:
    for columns in (["key", "count"], ["key", "items"], ["key"], ["totals", "key"]):
        expected = [{name: row[name] for name in columns} for row in JOINED]

        assert by_key(rows(small, "op__wide", *columns)) == expected
    assert small.table("op__wide").scan([]).to_arrow().num_rows == 4
    assert sorted(map(str, (row["count"] for row in rows(small, "op__wide", "count")))) == [
        "1",
        "2",
        "None",
        "None",
    ]


def test_only_keys_are_read_of_a_state_that_no_column_shows(small: Database) -> None:
    def decoded(*columns: str) -> set[str]:
        [split] = small.table("op__wide").scan(list(columns)).splits
        found = [split._rows(state, None, None) for state in split.states]  # type: ignore[attr-defined]
        return {name for one in found for name in one.batch.schema.names}

    assert decoded("key") == {"key", "_key_group"}
    assert decoded("key", "count") == {"key", "_key_group", "value"}
    assert decoded("items") == {"key", "_key_group", "value", "list_index"}


def test_a_key_prunes_to_its_key_group_in_every_state(small: Database) -> None:
    scan = small.table("op__wide").scan(key="b")

    assert len(scan.key_groups) == 1
    assert by_key(scan.to_arrow().to_pylist())[0] | JOINED[1] == by_key(scan.to_arrow().to_pylist())[0]
    assert small.table("op__wide").scan(key="z").to_arrow().num_rows == 0
    groups = {row["key"]: row["_key_group"] for row in rows(small, "op__wide")}
    chosen = small.table("op__wide").plan(Predicate({"_key_group": (groups["a"], groups["d"])}))
    assert {row["key"] for row in chosen.to_arrow().to_pylist()} >= {"a", "d"}
    assert chosen.key_groups == {groups["a"], groups["d"]}


def test_a_lookup_reads_less_and_finds_the_same(tmp_path: Path) -> None:
    database = opened(FLINK / "wordcount-rocksdb-savepoints" / "native")
    whole = database.table("aggregate__wide").scan(key="key_1")

    assert whole.to_arrow().to_pylist() == [
        row for row in rows(database, "aggregate__wide") if row["key"] == "key_1"
    ]
    assert whole.bytes_total < database.table("aggregate__wide").scan().bytes_total


def test_splits_can_be_read_elsewhere(small: Database) -> None:
    scan = small.table("op__wide").scan(["key", "count"])

    copies = pickle.loads(pickle.dumps([split.elsewhere() for split in scan.splits]))

    found = [row for split in copies for batch in split.read() for row in batch.to_pylist()]
    assert by_key(found) == [{"key": row["key"], "count": row["count"]} for row in JOINED]


def test_it_is_listed_with_its_columns(small: Database) -> None:
    tails = ["count", "items", "totals", "wide"]
    # The name of the operator is not in the savepoint: its id stands for it, and the uid is another of its names.
    [own] = small.operator_names.values()

    assert small.tables[-4:] == [f"{own}__{tail}" for tail in tails]
    [listed] = [table for table in small.listed() if table.name == f"{own}__wide"]
    assert listed.comment == f"the keyed states of operator {own} side by side"
    assert listed.schema == small.table("op__WIDE").schema


def test_an_operator_without_keyed_state_has_none() -> None:
    database = opened(WORDCOUNT)

    assert "source" in database.tables
    with pytest.raises(NoSuchTableError):
        database.table("source__wide")


def test_states_may_have_the_names_of_its_columns_and_its_own(tmp_path: Path) -> None:
    renamed = [
        COUNTS.replace("op__count", "op__key"),
        ITEMS.replace("op__items", "op__wide"),
        TOTALS.replace("op__totals", "op___key_group"),
    ]
    database = created(tmp_path, *renamed)

    assert database.table("op__wide").schema.names == [
        "key",
        "namespace",
        "value",
        "list_index",
        "_key_group",
        "_subtask",
    ]
    table = database.table("op__~wide")
    assert table.schema.names[:4] == ["key", "key_value", "wide", "_key_group_map"]
    named = [{"key": row["key"], "key_value": row["count"], "wide": row["items"]} for row in JOINED]
    assert by_key(rows(database, "op__~wide", "key", "key_value", "wide")) == named


def test_an_operator_that_is_called_so_keeps_its_name(tmp_path: Path) -> None:
    write_operators(tmp_path, ["x__wide", "x"])
    database = opened(tmp_path)

    assert database.table("x__wide").comment == "all states of operator x__wide"
    assert database.table("x__~wide").comment == "the keyed states of operator x side by side"


def test_a_file_that_cannot_be_read_is_an_error_or_left_out(tmp_path: Path) -> None:
    write_many_operators(tmp_path, 2)
    gone = files_of(tmp_path, 1)
    keep_files_of(tmp_path, 0)
    database = opened(tmp_path)

    assert {row["key"] for row in rows(database, "operator-0__wide")}
    with pytest.raises(ReaderError, match=gone[0].name):
        database.table("operator-1__wide")


# ---- what no savepoint of the tests has: rows of states as the readers give them ----


def made(name: str, shape: Shape, kind: pa.DataType, **columns: Any) -> StateRows:
    own = {"key": pa.string(), "_key_group": pa.int32(), "list_index": pa.int32(), "_undecoded": pa.binary()}
    own |= {"_out_of_range": pa.string(), "map_key": pa.string(), "value": pa.int64()}
    length = len(columns["key"])
    columns.setdefault("_key_group", [0] * length)
    schema = pa.schema([(column, own[column]) for column in columns])
    return StateRows(
        column=StateColumn(name=name, type=kind, shape=shape, contents=tuple(columns), outliers=()),
        batch=pa.RecordBatch.from_pydict(columns, schema=schema),
        is_shown=True,
    )


def wide(*states: StateRows) -> list[dict[str, Any]]:
    schema = pa.schema(
        [
            ("key", pa.string()),
            *((state.column.name, state.column.type) for state in states),
            ("_undecoded", pa.list_(pa.string())),
            ("_out_of_range", pa.string()),
        ]
    )
    found: list[dict[str, Any]] = joined_rows(states, schema).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


MAP = pa.map_(pa.string(), pa.int64())


def test_a_map_that_no_column_holds_stands_beside_it() -> None:
    totals = made(
        "totals",
        Shape.MAP,
        MAP,
        key=["a", "a", "b", "c", "c", "d"],
        map_key=["x", None, "x", "y", "y", None],
        value=[1, 2, 3, 4, 5, 6],
        _out_of_range=[None] * 5 + ['{"map_key":"+999999999-12-31"}'],
    )

    assert wide(totals) == [
        {"key": "a", "_out_of_range": '{"totals":[{"key":"x","value":1},{"key":null,"value":2}]}'},
        {"key": "b", "totals": [("x", 3)]},
        {"key": "c", "_out_of_range": '{"totals":[{"key":"y","value":4},{"key":"y","value":5}]}'},
        {"key": "d", "_out_of_range": '{"totals":[{"key":"+999999999-12-31","value":6}]}'},
    ]


def test_values_out_of_range_are_named_by_their_state() -> None:
    one = made(
        "one", Shape.VALUE, pa.int64(), key=["a"], value=[None], _out_of_range=['{"value.at":"9999-12-31"}']
    )
    items = made(
        "items",
        Shape.LIST,
        pa.list_(pa.int64()),
        key=["a", "a"],
        value=[None, 2],
        list_index=[1, 0],
        _out_of_range=['{"value":"9999"}', None],
    )
    entries = made(
        "entries",
        Shape.MAP,
        MAP,
        key=["a", "a"],
        map_key=["x", "y"],
        value=[1, None],
        _out_of_range=[None, '{"value":"9999"}'],
    )

    assert wide(one, items, entries) == [
        {
            "key": "a",
            "items": [2, None],
            "entries": [("x", 1), ("y", None)],
            "_out_of_range": '{"one.at":"9999-12-31","items[1]":"9999","entries[1]":"9999"}',
        }
    ]


def test_keys_out_of_range_are_matched_by_their_texts_and_unknown_ones_with_nothing() -> None:
    first = made(
        "first",
        Shape.VALUE,
        pa.int64(),
        key=[None, None, None],
        value=[1, 2, 3],
        _out_of_range=['{"key":"9998"}', '{"key":"9999"}', None],
    )
    second = made(
        "second",
        Shape.VALUE,
        pa.int64(),
        key=[None, None],
        value=[20, 30],
        _out_of_range=['{"key":"9999"}', None],
    )

    assert wide(first, second) == [
        {"first": 1, "_out_of_range": '{"key":"9998"}'},
        {"first": 2, "second": 20, "_out_of_range": '{"key":"9999"}'},
        {"first": 3},
        {"second": 30},
    ]


def test_states_of_which_only_bytes_are_known_are_named() -> None:
    value = made("value", Shape.VALUE, pa.int64(), key=["a", "b"], value=[None, 1], _undecoded=[b"x", None])
    items = made(
        "items",
        Shape.LIST,
        pa.list_(pa.int64()),
        key=["a", "a", "b"],
        value=[1, None, None],
        list_index=[0, 1, 0],
        _undecoded=[None, b"y", b"z"],
    )
    entries = made(
        "entries",
        Shape.MAP,
        MAP,
        key=["a", "a", "b"],
        map_key=["x", None, "y"],
        value=[1, None, None],
        _undecoded=[None, b"u", b"v"],
    )

    assert wide(value, items, entries) == [
        {"key": "a", "items": [1], "entries": [("x", 1)], "_undecoded": ["value", "items", "entries"]},
        {"key": "b", "value": 1, "entries": [("y", None)], "_undecoded": ["items", "entries"]},
    ]


def test_keys_that_look_alike_have_a_row_for_each_value() -> None:
    first = made("first", Shape.VALUE, pa.int64(), key=["a", "a", "b"], value=[1, 2, 3])
    second = made("second", Shape.VALUE, pa.int64(), key=["a", "b", "b"], value=[4, 5, 6])
    items = made(
        "items", Shape.LIST, pa.list_(pa.int64()), key=["a", "a", "b"], value=[7, 8, 9], list_index=[0, 1, 0]
    )

    assert wide(first, second, items) == [
        {"key": "a", "first": 1, "second": 4, "items": [7, 8]},
        {"key": "a", "first": 2},
        {"key": "b", "first": 3, "second": 5, "items": [9]},
        {"key": "b", "second": 6},
    ]


KEYS = st.lists(st.sampled_from("abcdef"), max_size=12)


@given(
    values=st.lists(KEYS.map(lambda keys: sorted(set(keys))), min_size=1, max_size=3),
    items=KEYS,
    entries=KEYS,
)
def test_any_rows_are_joined_as_dictionaries_join_them(
    values: list[list[str]], items: list[str], entries: list[str]
) -> None:
    indexes = [items[:place].count(key) for place, key in enumerate(items)]
    states = [
        made(f"v{number}", Shape.VALUE, pa.int64(), key=keys, value=list(range(len(keys))))
        for number, keys in enumerate(values)
    ]
    states.append(
        made(
            "items",
            Shape.LIST,
            pa.list_(pa.int64()),
            key=items,
            value=list(range(len(items))),
            list_index=indexes,
        )
    )
    states.append(
        made(
            "entries",
            Shape.MAP,
            MAP,
            key=entries,
            map_key=[str(number) for number in range(len(entries))],
            value=list(range(len(entries))),
        )
    )
    expected: dict[str, dict[str, Any]] = {}
    for state in states:
        for row in state.batch.to_pylist():
            own = expected.setdefault(row["key"], {"key": row["key"]})
            if state.column.shape is Shape.VALUE:
                own[state.column.name] = row["value"]
            else:
                pair = (row["map_key"], row["value"]) if "map_key" in row else row["value"]
                own.setdefault(state.column.name, []).append(pair)

    assert wide(*states) == list(expected.values())
