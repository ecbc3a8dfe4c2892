"""`StateChanges`: what layers of changes make of the rows of a group."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from writers import (
    FIRST_ADDED,
    AddedRows,
    RefusedEditError,
    RemovedRows,
    Spool,
    StateChanges,
    UnencodableValueError,
    UpdatedRows,
)

PLACE = [("_group", pa.int32()), ("_row", pa.int64())]
POINT = pa.struct([("x", pa.int64()), ("name", pa.string())])
VALUES = pa.schema([("_row", pa.int64()), ("key", pa.string()), ("value", pa.int64())])
POINTS = pa.schema([("_row", pa.int64()), ("key", pa.string()), ("value", POINT)])
LISTS = pa.schema(
    [
        ("_row", pa.int64()),
        ("key", pa.string()),
        ("namespace", pa.int64()),
        ("value", pa.int64()),
        ("list_index", pa.int32()),
    ]
)
NOW = 1_700_000_000_000


def table(schema: pa.Schema, *rows: tuple[Any, ...]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def updated(
    *rows: tuple[Any, ...], paths: Any = (("value",),), types: tuple[pa.DataType, ...] = (pa.int64(),)
) -> UpdatedRows:
    columns = [(str(index), kind) for index, kind in enumerate(types)]
    return UpdatedRows(table(pa.schema(PLACE + columns), *rows), paths)


def removed(*rows: tuple[int, int]) -> RemovedRows:
    return RemovedRows(table(pa.schema(PLACE), *rows))


def added(schema: pa.Schema, *rows: tuple[Any, ...]) -> AddedRows:
    return AddedRows(table(pa.schema([*PLACE, *list(schema)[1:]]), *rows))


def changes(*layers: UpdatedRows | RemovedRows | AddedRows) -> StateChanges:
    return StateChanges(layers=layers, now_ms=NOW)


def rows_of(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows.to_pylist()]


def test_rows_are_changed_removed_and_added_in_the_order_of_the_layers() -> None:
    before = table(VALUES, (0, "a", 1), (1, "b", 2), (2, "c", 3))
    layers = changes(
        updated((7, 1, 20), (7, 2, 30), (8, 0, 99)),
        removed((7, 0)),
        added(VALUES, (7, FIRST_ADDED, "d", 4), (7, FIRST_ADDED + 1, "e", 5)),
        updated((7, 2, 31), (7, FIRST_ADDED, 40)),
        removed((7, FIRST_ADDED + 1)),
    )

    assert rows_of(layers.applied(7, before)) == [(1, "b", 20), (2, "c", 31), (FIRST_ADDED, "d", 40)]
    assert layers.groups.tolist() == [7, 8]
    assert layers.next_added == FIRST_ADDED + 2
    group = layers.of_group(7)
    assert group.removed.tolist() == [0, FIRST_ADDED + 1]
    assert group.updated.tolist() == [1, 2, FIRST_ADDED]
    assert rows_of(group.changed(before)) == [(1, "b", 20), (2, "c", 31)]
    assert rows_of(group.added(before.schema)) == [(FIRST_ADDED, "d", 40)]


def test_a_group_without_changes_stays_as_it_is() -> None:
    before = table(VALUES, (0, "a", 1))

    assert rows_of(changes(removed((1, 0))).applied(2, before)) == [(0, "a", 1)]
    assert rows_of(changes().applied(2, before)) == [(0, "a", 1)]
    assert rows_of(changes(removed((2, 0))).applied(2, before.slice(0, 0))) == []


def test_a_column_that_the_rows_do_not_have_is_not_needed() -> None:
    before = table(pa.schema([("_row", pa.int64()), ("key", pa.string())]), (0, "a"), (1, "b"))
    layers = changes(updated((0, 1, 5)), added(VALUES, (0, FIRST_ADDED, "c", 1)), removed((0, 0)))

    assert rows_of(layers.applied(0, before)) == [(1, "b"), (FIRST_ADDED, "c")]


def test_a_field_of_a_value_is_changed_and_the_others_stay() -> None:
    before = table(
        POINTS, (0, "a", {"x": 1, "name": "one"}), (1, "b", None), (2, "c", {"x": 3, "name": None})
    )
    layers = changes(
        updated(
            (0, 0, 10, "ten"),
            (0, 1, 20, None),
            paths=(("value", "x"), ("value", "name")),
            types=(pa.int32(), pa.string()),
        )
    )

    after = [row[2] for row in rows_of(layers.applied(0, before))]

    assert after == [{"x": 10, "name": "ten"}, {"x": 20, "name": None}, {"x": 3, "name": None}]


def test_a_field_of_a_null_value_makes_a_value_whose_other_fields_are_null() -> None:
    hidden = pa.StructArray.from_arrays(
        [pa.array([7]), pa.array(["hidden"])], fields=list(POINT), mask=pa.array([True])
    )
    before = pa.table([pa.array([0]), pa.array(["a"]), hidden], schema=POINTS)

    after = changes(updated((0, 0, 1), paths=(("value", "x"),))).applied(0, before)

    assert rows_of(after) == [(0, "a", {"x": 1, "name": None})]


def test_a_value_that_its_type_cannot_hold_is_refused() -> None:
    before = table(pa.schema([("_row", pa.int64()), ("value", pa.int32())]), (0, 1))

    with pytest.raises(UnencodableValueError, match="2147483648"):
        changes(updated((0, 0, 1 << 31))).applied(0, before)


def test_a_field_that_the_value_does_not_have_is_refused() -> None:
    before = table(POINTS, (0, "a", {"x": 1, "name": "one"}))

    with pytest.raises(RefusedEditError, match=r"value\.y"):
        changes(updated((0, 0, 1), paths=(("value", "y"),))).applied(0, before)


def test_a_row_that_one_statement_changes_twice_is_refused() -> None:
    with pytest.raises(RefusedEditError, match="row 5 of group 3 twice"):
        updated((3, 5, 1), (2, 0, 1), (3, 5, 2))
    batches = pa.concat_tables([removed((3, 5)).rows, removed((3, 4), (3, 5)).rows])
    with pytest.raises(RefusedEditError, match="row 5 of group 3 twice"):
        RemovedRows(batches)


def test_a_column_that_one_statement_sets_twice_is_refused() -> None:
    with pytest.raises(RefusedEditError, match=r"value and value\.x"):
        updated((0, 0, 1, 2), paths=(("value",), ("value", "x")), types=(pa.int64(), pa.int64()))


def test_a_changed_value_has_been_accessed_at_the_time_of_the_write() -> None:
    schema = pa.schema(
        [
            ("_row", pa.int64()),
            ("key", pa.string()),
            ("value", pa.int64()),
            ("ttl_timestamp", pa.timestamp("ms")),
        ]
    )
    old, now = datetime.datetime(2020, 1, 1), datetime.datetime(2023, 11, 14, 22, 13, 20)
    before = table(schema, (0, "a", 1, old), (1, "b", 2, old), (2, "c", 3, old))
    layers = changes(
        updated((0, 0, 10)),
        updated((0, 1, 20, old), paths=(("value",), ("ttl_timestamp",)), types=(pa.int64(), schema[3].type)),
        added(VALUES, (0, FIRST_ADDED, "d", 4)),
        added(schema, (0, FIRST_ADDED + 1, "e", 5, old), (0, FIRST_ADDED + 2, "f", 6, None)),
    )

    after = [(key, value, ttl) for _, key, value, ttl in rows_of(layers.applied(0, before))]

    assert after == [
        ("a", 10, now), ("b", 20, old), ("c", 3, old), ("d", 4, now), ("e", 5, old), ("f", 6, now)
    ]  # fmt: skip


def test_elements_go_to_their_lists_and_indexes_close_up() -> None:
    before = table(
        LISTS,
        (0, "a", 1, 10, 0), (1, "a", 1, 11, 1), (2, "a", 1, 12, 2),
        (3, "b", 1, 20, 0),
        (4, "a", 2, 30, 0), (5, "a", 2, 31, 1),
    )  # fmt: skip
    first = FIRST_ADDED
    layers = changes(
        removed((0, 1), (0, 3), (0, 4)),
        added(
            LISTS,
            (0, first, "a", 1, 13, None), (0, first + 1, "a", 1, 9, 0), (0, first + 2, "c", 1, 41, None),
            (0, first + 3, "c", 1, 40, 0), (0, first + 4, "a", 2, 32, 99), (0, first + 5, "b", 1, 21, None),
        ),
        updated((0, first, 14), (0, 5, 33)),
    )  # fmt: skip

    after = [row[1:] for row in rows_of(layers.applied(0, before))]

    assert after == [
        ("a", 1, 9, 0), ("a", 1, 10, 1), ("a", 1, 12, 2), ("a", 1, 14, 3),
        ("a", 2, 33, 0), ("a", 2, 32, 1),
        ("c", 1, 40, 0), ("c", 1, 41, 1),
        ("b", 1, 21, 0),
    ]  # fmt: skip
    assert layers.needs(["list_index"]) == {"list_index", "key", "namespace"}
    assert changes(removed((0, 1))).needs(["list_index"]) == {"list_index"}


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_a_spool_keeps_layers_in_memory_or_in_files(tmp_path: Path, memory_bytes: int) -> None:
    spool = Spool(tmp_path, memory_bytes)
    schema = pa.schema([*PLACE, ("0", pa.int64())])
    batches = [
        table(schema, *[(row % 5, row, row * 10) for row in range(first, first + 100)]).to_batches()[0]
        for first in (200, 0, 100)
    ]
    places = table(pa.schema(PLACE), *[(row % 5, row) for row in range(0, 300, 2)])

    layers = changes(
        spool.updated(pa.RecordBatchReader.from_batches(schema, batches), [("value",)]),
        spool.removed(places.to_reader(max_chunksize=7)),
    )
    copy = pickle.loads(pickle.dumps(layers))

    assert len(spool.files()) == (0 if memory_bytes else 2)
    assert [layer.file is not None for layer in copy.layers] == [not memory_bytes] * 2
    before = table(VALUES, *[(row, "k", 0) for row in range(3, 300, 5)])
    for one in (layers, copy):
        assert rows_of(one.applied(3, before)) == [(row, "k", row * 10) for row in range(3, 300, 10)]
        # Pages of the group: the changes of rows that another page has are not its own.
        pages = [one.of_group(3).changed(before.slice(first, 7)) for first in range(0, before.num_rows, 7)]
        assert rows_of(pa.concat_tables(pages)) == [(row, "k", row * 10) for row in range(3, 300, 10)]


def test_updates_of_the_same_columns_are_one_layer(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    first = updated((0, 1, 10), (0, 2, 20), (3, 1, 30))
    then = updated((0, 2, 21), (0, 3, 22), (3, 0, 31))

    joined = spool.joined(first, then)

    assert joined is not None
    assert rows_of(joined.rows) == [(0, 1, 10), (0, 2, 21), (0, 3, 22), (3, 0, 31), (3, 1, 30)]
    assert spool.joined(first, removed((0, 1))) is None
    assert spool.joined(removed((0, 1)), first) is None
    assert spool.joined(first, UpdatedRows(then.rows, (("key",),))) is None


def test_a_pickled_layer_of_a_file_names_the_file(tmp_path: Path) -> None:
    layer = Spool(tmp_path, 0).removed(
        table(pa.schema(PLACE), *[(0, row) for row in range(10_000)]).to_reader()
    )

    assert len(pickle.dumps(layer)) < 2000


class Model:
    """The rows of one group as a list of lists of [row, key, value]; without lists, each row is its own list."""

    def __init__(self, rows: list[tuple[int, str, int]], *, is_list: bool) -> None:
        self.is_list = is_list
        self.lists: list[tuple[str, list[list[int]]]] = []
        for number, key, value in rows:
            self.insert(number, key, value, None, self.lists)

    def insert(self, number: int, key: str, value: int, index: int | None, lists: Any) -> None:
        if self.is_list:
            for name, elements in lists:
                if name == key:
                    elements.append([number, value, index])
                    return
        lists.append((key, [[number, value, index]]))

    def apply(self, kind: str, rows: dict[int, tuple[str, int, int | None]]) -> None:
        if kind == "update":
            for _, elements in self.lists:
                for element in elements:
                    if element[0] in rows:
                        element[1] = rows[element[0]][1]
        elif kind == "remove":
            for _, elements in self.lists:
                elements[:] = [element for element in elements if element[0] not in rows]
            self.lists = [one for one in self.lists if one[1]]
        else:
            extra: list[tuple[str, list[list[int]]]] = []
            for number, (key, value, index) in sorted(rows.items()):
                self.insert(number, key, value, index, extra)
            for key, elements in extra:
                old = next((one for name, one in self.lists if self.is_list and name == key), None)
                if old is None:
                    old = []
                    self.lists.append((key, old))
                merged = [(index, 1, element) for index, element in enumerate(old)]
                merged += [
                    (element[2] if element[2] is not None else 1 << 31, 0, element) for element in elements
                ]
                late = [one for one in merged if one[1] == 0 and one[0] >= len(old)]
                early = [one for one in merged if one not in late]
                late.sort(key=lambda one: one[0])
                early.sort(key=lambda one: one[:2])
                old[:] = [element for *_, element in (*early, *late)]

    def rows(self) -> list[tuple[Any, ...]]:
        return [
            (number, key, value, index)
            for key, elements in self.lists
            for index, (number, value, _) in enumerate(elements)
        ]


KEYS = st.sampled_from("abc")
NUMBERS = st.integers(-5, 5)


@given(
    st.lists(st.tuples(KEYS, NUMBERS), max_size=8),
    st.lists(
        st.tuples(
            st.sampled_from(["update", "remove", "add"]),
            st.lists(st.tuples(st.integers(0, 14), KEYS, NUMBERS, st.none() | st.integers(0, 5)), max_size=6),
        ),
        max_size=6,
    ),
    st.booleans(),
    st.randoms(),
)
def test_any_layers_do_what_a_plain_model_does(
    start: list[tuple[str, int]],
    script: list[tuple[str, list[tuple[int, str, int, int | None]]]],
    is_list: bool,
    random: Any,
) -> None:
    start = sorted(start, key=lambda one: one[0])
    model = Model([(row, key, value) for row, (key, value) in enumerate(start)], is_list=is_list)
    schema = LISTS if is_list else VALUES
    before = table(schema, *[shape(schema, *row) for row in model.rows()])
    numbers = list(range(len(start)))
    layers = changes()
    for kind, operations in script:
        if kind == "add":
            rows = {layers.next_added + at: one[1:] for at, one in enumerate(operations)}
            numbers += rows
            places = [(4, *shape(schema, number, *row)) for number, row in rows.items()]
            layer: Any = added(schema, *places)
        else:
            rows = {numbers[one[0] % len(numbers)]: one[1:] for one in operations if numbers}
            places = [(4, number, row[1])[: 3 if kind == "update" else 2] for number, row in rows.items()]
            random.shuffle(places)
            layer = updated(*places) if kind == "update" else removed(*places)
        model.apply(kind, rows)
        layers = layers.followed_by(layer)

    found = rows_of(layers.applied(4, before))

    assert found == [shape(schema, *row) for row in model.rows()]


def shape(schema: pa.Schema, number: int, key: str, value: int, index: int | None) -> tuple[Any, ...]:
    return (number, key, 0, value, index) if schema is LISTS else (number, key, value)
