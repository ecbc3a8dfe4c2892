"""Objects of classes that the savepoint does not describe: what stands before them is decoded, and no byte is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from readers.formats.entry import Entry, StateKind
from readers.formats.source import StateName
from readers.rows import state_schema
from readers.savepoint import Savepoint
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.primitives import LongSerializer, StringSerializer, VoidNamespaceSerializer
from readers.states import State, StatePart
from tests.readers.decode.test_versions import OnePage
from tests.support.paths import DATA
from tests.support.unpacked import unpacked

SUBCLASS = b"\x04\x00\x11corpus.T$InnerSub\x02\0\0\0\0\x21\0\0\0\0\0\0\0\0\x03\0\x04sub"
REGISTERED = b"\x08\0\x02\0\0\0\0\0\0\0\0\x04\0\x04reg\0\x03rr"


def inner(number: int, label: str | None) -> dict[str, Any]:
    return {"id": number, "label": label, "reg": None, "__class": None}


def state_of(path: Path, name: str) -> State:
    operators = Savepoint(path).operators
    (found,) = (state for operator in operators for state in operator.states if state.name == name)
    return found


def rows_of(state: State, *columns: str) -> list[tuple[Any, ...]]:
    rows = [row for batch in state.read(columns) for row in batch.to_pylist()]
    return [tuple(row[name] for name in columns) for row in rows]


@pytest.mark.parametrize(
    ("snapshot", "delimiter"), [("canonical", b","), ("native", b"")], ids=["canonical", "native"]
)
def test_the_elements_before_an_undescribed_one_are_rows_and_the_rest_is_one_row_of_bytes(
    snapshot: str, delimiter: bytes, tmp_path: Path
) -> None:
    path = unpacked(f"1.20.3-alltypes-collections-hashmap-{snapshot}", tmp_path).directory

    state = state_of(path, "l_pojo_inner")

    assert rows_of(state, "key", "list_index", "value", "_undecoded") == [
        ("k1", 0, inner(1, "a"), None),
        ("k0", 0, inner(1, "a"), None),
        ("k0", 1, inner(2, None), None),
        ("k0", 2, None, SUBCLASS + delimiter + REGISTERED),
    ]
    assert rows_of(state, "key", "list_index") == [("k1", 0), ("k0", 0), ("k0", 1), ("k0", 2)]
    assert rows_of(state, "key") == [("k1",), ("k0",), ("k0",), ("k0",)]
    assert rows_of(state, "_undecoded") == [(None,), (None,), (None,), (SUBCLASS + delimiter + REGISTERED,)]
    assert state.status == "partial"
    assert state.note == (
        "value.[]: expected a class that the savepoint describes, found an object of corpus.T$InnerSub"
    )


def test_the_entries_of_a_whole_map_before_an_undescribed_one_are_rows(tmp_path: Path) -> None:
    path = unpacked("1.20.3-alltypes-collections-hashmap-native", tmp_path).directory

    state = state_of(path, "m_pojo_inner")

    registered = {"id": 4, "label": "reg", "reg": "rr", "__class": "corpus.T$InnerReg"}
    assert rows_of(state, "key", "map_key", "value", "_undecoded") == [
        ("k1", "s3", registered, None),
        ("k1", "s0", inner(1, "a"), None),
        ("k1", "s1", inner(2, None), None),
        ("k1", None, None, b"\x03s2\0" + SUBCLASS),
    ]
    assert state.status == "partial"


def test_elements_of_operator_state_are_rows_of_their_own() -> None:
    state = state_of(DATA / "corpus/1.20.3/allstates-hashmap-compressed/canonical", "split-pojo")

    rows = [(index, value) for index, value in rows_of(state, "list_index", "value")]

    assert (1, {"id": 1, "label": "l1"}) not in rows
    assert (0, {"id": 1, "label": "l1"}) in rows
    assert rows.count((1, None)) == 1
    assert state.status == "partial"
    assert "corpus.T$InnerSub" in state.note


def test_a_value_of_an_undescribed_class_makes_a_state_partial() -> None:
    path = DATA / "corpus/1.20.3/alltypes-hashmap/native"

    assert state_of(path, "v_pojo_inner").status == "partial"
    assert state_of(path, "v_long").status == "decoded"


def test_classes_that_the_savepoint_describes_leave_a_state_decoded() -> None:
    path = DATA / "flink/1.20.3/everything-rocksdb-savepoints/native"

    assert state_of(path, "v_pojo").status == "decoded"


# ---- RocksDB's layout, in which values of several appends are joined ----

POINT = PojoSerializer("Point", (PojoField("id", LongSerializer()), PojoField("name", StringSerializer())))
OTHER = b"\x04\0\x05Other\x02\0\0\0\0\0\0\0\0\x2c\x2c"


def point(number: int, name: str) -> bytes:
    text = name.encode()
    return b"\x02\0" + number.to_bytes(8, "big") + b"\0" + bytes([len(text) + 1]) + text


def rows_of_lists(*values: bytes) -> list[tuple[Any, ...]]:
    entry = Entry(
        kind=StateKind.LIST, key=StringSerializer(), namespace=VoidNamespaceSerializer(), value=POINT
    )
    name = StateName(name="state")
    source = OnePage(
        subtask=0, path="x", size_bytes=0, entries={name: entry}, max_parallelism=128, values=values
    )
    schema = state_schema(entry)
    part = StatePart(source=source, name=name, entry=entry)
    state = State(operator_id="0" * 32, name="state", kind=StateKind.LIST, max_parallelism=128, parts=(part,))
    found = rows_of(
        state, *(column for column in schema.names if column in ("list_index", "value", "_undecoded"))
    )
    return [(index, value and value["id"], undecoded) for value, index, undecoded in found]


@pytest.mark.parametrize("rest", [[], [point(9, "z")], [OTHER], [point(9, "z"), OTHER, OTHER]])
@pytest.mark.parametrize("before", [[], [44], [1, 2, 0x2C2C2C2C]])
def test_lists_keep_every_byte_once(before: list[int], rest: list[bytes]) -> None:
    first = b"".join(point(number, "a,") + b"," for number in before)
    behind = b",".join([OTHER, *rest])

    rows = rows_of_lists(first + behind)

    assert rows == [
        *((index, number, None) for index, number in enumerate(before)),
        (len(before), None, behind),
    ]


def test_a_list_with_an_undescribed_element_leaves_its_neighbours_alone() -> None:
    whole, cut = point(1, "a") + b"," + point(2, "b"), point(3, "c") + b"," + OTHER

    rows = rows_of_lists(whole, cut, OTHER, whole, cut)

    assert rows == [
        (0, 1, None), (1, 2, None),
        (0, 3, None), (1, None, OTHER),
        (0, None, OTHER),
        (0, 1, None), (1, 2, None),
        (0, 3, None), (1, None, OTHER),
    ]  # fmt: skip
