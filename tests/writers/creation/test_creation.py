"""States that no job has written: made from rows, and read back."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers import Savepoint, SavepointLocation, StateKind, operator_id_of, type_named
from tests.support.paths import DATA
from writers import (
    CollectedElements,
    CreateOperator,
    ExtendOperatorState,
    NewState,
    RefusedEditError,
    SavepointWriter,
    SpooledEntries,
    UnencodableTypeError,
    UnencodableValueError,
    check_created,
    type_of_column,
    write_empty_savepoint,
)

Rows = list[dict[str, Any]]
NOW = 1_700_000_000_000


def new_state(kind: str, name: str = "state", *, ttl: bool = False, **types: str) -> NewState:
    """A state with types by their names."""
    return state_of(kind, name, types, ttl=ttl)


def state_of(kind: str, name: str, types: dict[str, str], *, ttl: bool = False) -> NewState:
    return NewState(
        name=name,
        kind=StateKind(kind),
        types={column: type_named(text) for column, text in types.items()},
        ttl=ttl,
        now_ms=NOW,
    )


def batch(*columns: tuple[str, list[Any]]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values) for _, values in columns], [name for name, _ in columns])


@pytest.fixture
def create(tmp_path: Path) -> Callable[..., Savepoint]:
    """Returns a function: an operator → the new savepoint that has it."""

    def created(operator: CreateOperator) -> Savepoint:
        empty = tmp_path / "empty"
        empty.mkdir()
        write_empty_savepoint(empty)
        writer = SavepointWriter(SavepointLocation(empty), [operator])

        def verify(savepoint: Savepoint) -> None:
            check_created(savepoint, operator_id_of(operator.uid), operator.keyed, operator.elements)

        planned = writer.summary
        assert writer.write(tmp_path / "new", verify) == planned
        return Savepoint(tmp_path / "new")

    return created


def keyed(state: NewState, *batches: pa.RecordBatch, most: int = 128) -> SpooledEntries:
    entries = SpooledEntries(state, most)
    for one in batches:
        entries.add(one)
    return entries


def an_operator(
    *states: SpooledEntries | CollectedElements, parallelism: int = 1, most: int = 128
) -> CreateOperator:
    return CreateOperator(
        uid="new",
        parallelism=parallelism,
        max_parallelism=most,
        keyed=tuple(one for one in states if isinstance(one, SpooledEntries)),
        elements=tuple(one for one in states if isinstance(one, CollectedElements)),
    )


def rows_of(savepoint: Savepoint, *columns: str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each state, sorted."""
    (operator,) = savepoint.operators
    return {
        state.name: sorted(
            (
                tuple(row[column] for column in columns)
                for found in state.read(list(columns))
                for row in found.to_pylist()
            ),
            key=repr,
        )
        for state in operator.states
    }


@pytest.mark.parametrize(("parallelism", "most"), [(1, 128), (2, 128), (3, 129), (5, 1000)])
def test_keys_are_found_in_the_subtasks_of_their_hashes(
    create: Callable[..., Savepoint], parallelism: int, most: int
) -> None:
    state = new_state("VALUE", key="String", value="Long")
    keys = [f"key_{number}" for number in range(1000)]
    rows = batch(("key", keys), ("value", list(range(1000))))

    savepoint = create(
        an_operator(
            keyed(state, rows.slice(0, 300), rows.slice(300), most=most), parallelism=parallelism, most=most
        )
    )

    assert rows_of(savepoint, "key", "value")["state"] == sorted(
        zip(keys, range(1000), strict=True), key=repr
    )
    (operator,) = savepoint.operators
    assert (operator.metadata.parallelism, operator.metadata.max_parallelism) == (parallelism, most)
    assert len(operator.metadata.subtasks) == parallelism
    found = [
        row["_key_group"]
        for row in pa.Table.from_batches(operator.states[0].read(["key", "_key_group"])).to_pylist()
    ]
    assert len(set(found)) > 100


def test_states_of_all_kinds_share_an_operator(create: Callable[..., Savepoint]) -> None:
    value = keyed(
        new_state("VALUE", "value", key="String", value="Long"), batch(("key", ["a"]), ("value", [1]))
    )
    elements = new_state("LIST", "list", key="String", value="Integer")
    lists = keyed(
        elements,
        batch(("key", ["a", "b", "a"]), ("value", [1, 2, 3])),
        batch(("key", ["a", "b"]), ("value", [4, 5])),
    )
    maps = keyed(
        new_state("MAP", "map", key="String", map_key="String", value="String"),
        batch(("key", ["a", "a", "b"]), ("map_key", ["x", "y", "x"]), ("value", ["1", None, "3"])),
    )
    ttl = keyed(
        new_state("REDUCING", "ttl", ttl=True, key="String", value="Long"),
        pa.record_batch(
            {
                "key": ["a", "b"],
                "value": [1, 2],
                "ttl_timestamp": pa.array([datetime.datetime(2020, 1, 1), None], pa.timestamp("us")),
            }
        ),
    )
    timers = keyed(
        new_state("TIMER", "_timer_state/event_user-timers", key="String"),
        batch(("key", ["a"]), ("timestamp", [datetime.datetime(2001, 9, 9)])),
    )
    windows = keyed(
        new_state(
            "AGGREGATING",
            "window-contents",
            key="String",
            namespace="TimeWindow",
            value="Tuple2<Long, Integer>",
        ),
        pa.record_batch(
            {
                "key": ["a"],
                "namespace": pa.array(
                    [{"start": datetime.datetime(2020, 1, 1), "end": datetime.datetime(2020, 1, 2)}]
                ),
                "value": [{"f0": 1, "f1": 2}],
            }
        ),
    )

    savepoint = create(an_operator(value, lists, maps, ttl, timers, windows, parallelism=2))

    (operator,) = savepoint.operators
    assert {state.name: state.kind.value for state in operator.states} == {
        "value": "VALUE",
        "list": "LIST",
        "map": "MAP",
        "ttl": "REDUCING",
        "_timer_state/event_user-timers": "TIMER",
        "window-contents": "AGGREGATING",
    }
    assert {state.status for state in operator.states} == {"decoded"}
    states = {state.name: pa.Table.from_batches(state.read()).to_pylist() for state in operator.states}
    assert sorted((row["key"], row["list_index"], row["value"]) for row in states["list"]) == [
        ("a", 0, 1), ("a", 1, 3), ("a", 2, 4), ("b", 0, 2), ("b", 1, 5),
    ]  # fmt: skip
    assert sorted((row["key"], row["map_key"], row["value"]) for row in states["map"] if row["value"]) == [
        ("a", "x", "1"), ("b", "x", "3"),
    ]  # fmt: skip
    assert {row["key"]: row["ttl_timestamp"] for row in states["ttl"]} == {
        "a": datetime.datetime(2020, 1, 1),
        "b": datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=NOW),
    }
    assert states["_timer_state/event_user-timers"][0]["timestamp"] == datetime.datetime(2001, 9, 9)
    assert states["window-contents"][0]["value"] == {"f0": 1, "f1": 2}
    assert states["window-contents"][0]["namespace"]["end"] == datetime.datetime(2020, 1, 2)


def test_operator_state_is_dealt_out_and_broadcast_to_all(create: Callable[..., Savepoint]) -> None:
    offsets = CollectedElements(new_state("OPERATOR_LIST", "offsets", value="Tuple2<String, Long>"), 2)
    offsets.add(
        batch(("value", [{"f0": "words", "f1": 1}, {"f0": "words", "f1": 2}, {"f0": "words", "f1": 3}]))
    )
    readers = CollectedElements(new_state("UNION_LIST", "readers", value="String"), 2)
    readers.add(batch(("value", ["x", "y"]), ("_subtask", [1, 1])))
    rules = CollectedElements(new_state("BROADCAST", "rules", map_key="String", value="Integer"), 2)
    rules.add(batch(("map_key", ["one", "two"]), ("value", [1, 2])))

    savepoint = create(an_operator(offsets, readers, rules, parallelism=2))

    (operator,) = savepoint.operators
    states = {state.name: pa.Table.from_batches(state.read()).to_pylist() for state in operator.states}
    assert [(row["value"]["f1"], row["_subtask"]) for row in states["offsets"]] == [(1, 0), (3, 0), (2, 1)]
    assert [(row["value"], row["_subtask"]) for row in states["readers"]] == [("x", 1), ("y", 1)]
    # The readers show one of the copies, which are equal.
    assert [(row["map_key"], row["value"]) for row in states["rules"]] == [("one", 1), ("two", 2)]
    assert len(operator.metadata.subtasks) == 2


TYPES: list[tuple[str, list[Any]]] = [
    ("Boolean", [True, False]),
    ("Byte", [-128, 127]),
    ("Short", [-1, 2]),
    ("Integer", [-(2**31), 7]),
    ("Long", [-(2**63), 2**63 - 1]),
    ("Float", [0.5, -1.0]),
    ("Double", [0.1, float("inf")]),
    ("String", ["", "é 😀"]),
    ("byte[]", [b"", b"\x00\xff"]),
    ("BigDecimal", ["1234.50", "-0.001"]),
    ("BigInteger", ["0", "-123456789012345678901234567890"]),
    ("LocalDate", [datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)]),
    ("LocalTime", [datetime.time(1, 2, 3), datetime.time(0)]),
    ("LocalDateTime", [datetime.datetime(2024, 2, 29, 12, 34, 56, 789), datetime.datetime(1960, 1, 1)]),
    ("Instant", [datetime.datetime(2024, 2, 29, 12), datetime.datetime(1960, 1, 1)]),
    ("List<String>", [["a", "b"], []]),
    ("Map<String, Long>", [[("a", 1)], []]),
    ("Enum(savepointdb.Color: RED, BLUE)", ["BLUE", "RED"]),
    ("long[]", [[1, 2], []]),
    ("Tuple2<String, Long>", [{"f0": "a", "f1": 1}, {"f0": "b", "f1": 2}]),
    (
        "Row(a String, b Long)",
        [{"a": "x", "b": None, "__row_kind": "+I"}, {"a": None, "b": 2, "__row_kind": "+I"}],
    ),
    (
        "Pojo(com.acme.Order: id Long, tags List<String>, note Pojo(com.acme.Note: text String))",
        [{"id": 1, "note": {"text": "x"}, "tags": ["y"]}, {"id": None, "note": None, "tags": None}],
    ),
]


@pytest.mark.parametrize(("text", "values"), TYPES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_value_of_each_type_is_read_back(
    create: Callable[..., Savepoint], text: str, values: list[Any]
) -> None:
    state = new_state("VALUE", key="Integer", value=text)
    column = pa.array(values, type_named(text).arrow())

    savepoint = create(an_operator(keyed(state, pa.record_batch({"key": [1, 2], "value": column}))))

    found = pa.Table.from_batches(savepoint.operators[0].states[0].read(["key", "value"])).sort_by("key")
    rows = found.column("value").to_pylist()
    # A row of Flink has names only if it has got some.
    assert [list(row.values()) if isinstance(row, dict) else row for row in rows] == [
        list(value.values()) if isinstance(value, dict) else value for value in values
    ]


@pytest.mark.parametrize(
    ("data_type", "name"),
    [
        (pa.int64(), "Long"),
        (pa.large_string(), "String"),
        (pa.decimal128(10, 2), "BigDecimal"),
        (pa.decimal128(38, 0), "BigInteger"),
        (pa.timestamp("us"), "LocalDateTime"),
        (pa.timestamp("us", "UTC"), "Instant"),
        (pa.list_(pa.int32()), "List<Integer>"),
        (pa.map_(pa.string(), pa.float64()), "Map<String, Double>"),
        (pa.struct([("a", pa.string()), ("b", pa.bool_())]), "Row<String, Boolean>"),
    ],
)
def test_a_column_has_a_type_of_flink(data_type: pa.DataType, name: str) -> None:
    assert type_of_column("value", data_type).type_name == name


@pytest.mark.parametrize("data_type", [pa.uint64(), pa.duration("s"), pa.struct([]), pa.list_(pa.uint8())])
def test_a_column_that_flink_has_no_type_for_is_refused(data_type: pa.DataType) -> None:
    with pytest.raises(UnencodableTypeError, match=r"value: expected a column whose type Flink has"):
        type_of_column("value", data_type)


def test_a_key_that_comes_twice_is_refused() -> None:
    state = new_state("VALUE", key="String", value="Long")
    entries = keyed(
        state, batch(("key", ["a", "b"]), ("value", [1, 2])), batch(("key", ["a"]), ("value", [3]))
    )

    with pytest.raises(UnencodableValueError, match="expected each key once in state, found twice key 'a'"):
        entries.check()


def test_a_map_key_that_comes_twice_is_refused() -> None:
    state = new_state("MAP", key="String", map_key="Long", value="Long")
    entries = keyed(state, batch(("key", ["a", "a"]), ("map_key", [1, 1]), ("value", [1, 2])))

    with pytest.raises(
        UnencodableValueError,
        match="expected each key and map_key once in state, found twice key 'a', map_key 1",
    ):
        entries.check()


def test_a_broadcast_key_that_comes_twice_is_refused() -> None:
    elements = CollectedElements(new_state("BROADCAST", map_key="String", value="Long"), 1)

    with pytest.raises(UnencodableValueError, match="expected each map key once in state"):
        elements.add(batch(("map_key", ["a", "a"]), ("value", [1, 2])))


@pytest.mark.parametrize(
    ("rows", "types", "message"),
    [
        ([{"key": None, "value": 1}], {}, "key: expected a value, found NULL"),
        (
            [{"key": "a", "value": 1}, {"key": "b", "value": None}],
            {},
            "row 1, value: expected a value, found NULL",
        ),
        (
            [{"key": "a", "value": 1 << 62}],
            {"value": "Integer"},
            "row 0, value: expected a value of type INTEGER",
        ),
        ([{"key": "a", "value": "x"}], {"value": "Enum(A: X, Y)"}, "'x'"),
        ([{"key": [1], "value": 1}], {"key": "int[]"}, "whose hash code in Java is known"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(rows: Rows, types: dict[str, str], message: str) -> None:
    state = state_of("VALUE", "state", {"key": "String", "value": "Long"} | types)
    (found,) = pa.Table.from_pylist(rows).to_batches()

    with pytest.raises((UnencodableValueError, RefusedEditError), match=message):
        keyed(state, found)


def test_a_null_of_a_map_is_refused_where_its_type_has_none() -> None:
    state = new_state("MAP", key="String", map_key="String", value="Long")

    with pytest.raises(UnencodableValueError, match="value: expected a value, found NULL"):
        keyed(state, pa.record_batch({"key": ["a"], "map_key": ["x"], "value": pa.array([None], pa.int64())}))


@pytest.mark.parametrize(
    ("kind", "name", "types", "message"),
    [
        (
            "VALUE",
            "a",
            {"key": "Long"},
            "expected the columns key, value in a state of kind VALUE, found no value",
        ),
        ("VALUE", "a", {"key": "Long", "value": "Long", "map_key": "Long"}, "found a map_key"),
        (
            "TIMER",
            "a",
            {"key": "Long"},
            "expected timers, and nothing else, in states that begin with _timer_state/",
        ),
        ("BROADCAST", "a", {"map_key": "Long", "value": "Long", "namespace": "Long"}, "found a namespace"),
    ],
)
def test_a_kind_has_its_columns_and_no_others(
    kind: str, name: str, types: dict[str, str], message: str
) -> None:
    with pytest.raises(RefusedEditError, match=message):
        state_of(kind, name, types)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    st.dictionaries(
        st.text(max_size=5), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=4), max_size=20
    ),
    st.integers(1, 300),
    st.randoms(),
)
def test_lists_keep_the_order_in_which_their_elements_come(
    lists: dict[str, list[int]], most: int, random: Any
) -> None:
    state = new_state("LIST", key="String", value="Integer")
    left = {key: list(values) for key, values in lists.items()}
    entries = SpooledEntries(state, most)
    with closing(entries):
        while left:
            key = random.choice(sorted(left))
            entries.add(batch(("key", [key]), ("value", [left[key].pop(0)])))
            if not left[key]:
                del left[key]
        found = [run.data.tobytes() for run in entries.runs()]

    expected = {
        key: b"\x2c".join(value.to_bytes(4, "big", signed=True) for value in values)
        for key, values in lists.items()
    }
    assert entries.rows == sum(map(len, lists.values()))
    assert sorted(value for run in found for value in _values(run)) == sorted(expected.values())


def _values(run: bytes) -> list[bytes]:
    """The values of packed entries."""
    found, position = [], 0
    while position < len(run):
        position += 4 + int.from_bytes(run[position : position + 4], "big")
        size = int.from_bytes(run[position : position + 4], "big")
        found.append(run[position + 4 : position + 4 + size])
        position += 4 + size
    return found


def test_a_decimal_becomes_a_big_decimal_of_its_scale(create: Callable[..., Savepoint]) -> None:
    state = new_state("VALUE", key="Long", value="BigDecimal")
    rows = pa.record_batch({"key": [1], "value": pa.array([Decimal("12.50")], pa.decimal128(10, 2))})

    savepoint = create(an_operator(keyed(state, rows)))

    assert rows_of(savepoint, "value")["state"] == [("12.50",)]


_KEYS = st.one_of(
    st.dictionaries(st.text(max_size=8), st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30),
    st.dictionaries(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=20), min_size=1, max_size=30),
)


@settings(deadline=None, max_examples=25)
@given(_KEYS, st.integers(1, 400), st.integers(1, 9), st.integers(1, 10), st.booleans())
def test_any_entries_are_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    entries: dict[Any, Any],
    most: int,
    parallelism: int,
    size: int,
    ttl: bool,
) -> None:
    is_text = isinstance(next(iter(entries)), str)
    types = {"key": "String", "value": "Long"} if is_text else {"key": "Integer", "value": "byte[]"}
    folder = tmp_path_factory.mktemp("created")
    (folder / "empty").mkdir()
    write_empty_savepoint(folder / "empty")
    rows = [{"key": key, "value": value} for key, value in entries.items()]
    batches = pa.Table.from_pylist(rows).to_batches(max_chunksize=size)
    operator = an_operator(
        keyed(state_of("VALUE", "state", types, ttl=ttl), *batches, most=most),
        parallelism=min(parallelism, most),
        most=most,
    )

    SavepointWriter(SavepointLocation(folder / "empty"), [operator]).write(folder / "new")

    savepoint = Savepoint(folder / "new")
    assert rows_of(savepoint, "key", "value")["state"] == sorted(entries.items(), key=repr)
    # Each key is where a job looks for it.
    (state,) = savepoint.operators[0].states
    found = {
        row["key"]: row["_key_group"] for one in state.read(["key", "_key_group"]) for row in one.to_pylist()
    }
    assert state.key_groups_of(list(entries)) == tuple((found[key], key) for key in entries)


def test_new_elements_are_not_dealt_out_to_subtasks_that_are_no_more(tmp_path: Path) -> None:
    elements = CollectedElements(new_state("UNION_LIST", value="String"), 2)
    elements.add(batch(("value", ["a", "b"])))
    write_empty_savepoint(tmp_path)
    edits = [
        an_operator(parallelism=1),
        ExtendOperatorState(operator_id=operator_id_of("new"), elements=(elements,)),
    ]

    with pytest.raises(
        RefusedEditError, match="expected the new state state to be dealt out to 1 subtasks, found 2"
    ):
        SavepointWriter(SavepointLocation(tmp_path), edits)


@pytest.mark.parametrize("version", ["1.20.3", "2.3.0"])
def test_the_properties_of_a_new_savepoint_are_those_that_flink_writes(version: str, tmp_path: Path) -> None:
    flink = Savepoint(DATA / "flink" / version / "wordcount-hashmap-savepoints" / "canonical").metadata
    write_empty_savepoint(tmp_path, (2, 3))

    found = Savepoint(tmp_path).metadata.properties

    assert found is not None
    assert flink.properties is not None
    assert (found, found.stream) == (flink.properties, flink.properties.stream)
