"""Operator state with other elements: what the new savepoint has, and which changes are refused."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers import (
    Operator,
    OperatorSource,
    Savepoint,
    SavepointLocation,
    Selection,
    offset_places,
    source_offsets,
)
from readers.metadata import (
    ByteStreamStateHandle,
    OperatorStreamStateHandle,
    SavepointMetadata,
    StateMetaInfo,
    SubtaskState,
    read_metadata,
)
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from writers import (
    FIRST_ADDED,
    AddedRows,
    Edit,
    RefusedEditError,
    RemovedRows,
    RewriteOperatorState,
    SavepointWriter,
    SetOffsets,
    StateChanges,
    UpdatedRows,
    WriterError,
)
from writers.changes import Layer
from writers.headers import registered_state, write_operator_header
from writers.metadata import write_metadata
from writers.operatorstate.elements import IDENTIFIER, framed

EVERYTHING = DATA / "flink/1.20.3/everything-hashmap-savepoints/canonical"
LIST, UNION, BROADCAST = "last-numbers", "readers", "rules"
NUMBERS = {
    0: [("k0", 3), ("k2", 3), ("k4", 3)],
    1: [("k1", 3), ("k3", 3), ("k5", 3)],
}


def places(of: Sequence[tuple[int, int]]) -> dict[str, pa.Array]:
    return {
        "_group": pa.array([group for group, _ in of], pa.int32()),
        "_row": pa.array([row for _, row in of], pa.int64()),
    }


def updated(path: tuple[str, ...], values: Mapping[tuple[int, int], Any]) -> UpdatedRows:
    """Rows with other values, by their places."""
    return UpdatedRows(pa.table(places(list(values)) | {"0": pa.array(list(values.values()))}), paths=(path,))


def removed(*of: tuple[int, int]) -> RemovedRows:
    return RemovedRows(pa.table(places(of)))


def added(group: int, first: int = 0, **columns: Sequence[Any]) -> AddedRows:
    count = len(next(iter(columns.values())))
    numbers = [(group, FIRST_ADDED + first + index) for index in range(count)]
    return AddedRows(pa.table(places(numbers) | {name: pa.array(data) for name, data in columns.items()}))


def owner(savepoint: Savepoint, state: str) -> Operator:
    return next(one for one in savepoint.operators if any(found.name == state for found in one.states))


def write(source: Path, target: Path, layers: Mapping[str, Sequence[Layer]], *before: Edit) -> Path:
    """The new savepoint; the states of `layers` are of one operator."""
    with closing(Savepoint(source)) as savepoint:
        changes = {name: StateChanges(layers=tuple(some), now_ms=0) for name, some in layers.items()}
        edit = RewriteOperatorState(operator=owner(savepoint, next(iter(layers))), changes=changes)
        SavepointWriter(savepoint.location, [*before, edit]).write(target)
    return target


def rows(path: Path, state: str) -> dict[int, list[Any]]:
    """Values, or pairs of key and value, by subtask; of a broadcast state those of every copy."""
    found: dict[int, list[Any]] = {}
    with closing(Savepoint(path)) as savepoint:
        operator = owner(savepoint, state)
        one = next(one for one in operator.states if one.name == state)
        for subtask in operator.metadata.subtasks:
            handle = subtask.managed_operator_state
            if handle is None:
                continue
            source = OperatorSource.open(
                subtask.index, handle, savepoint.location.open_stream(handle.delegate)
            )
            part = replace(one.parts[0], source=source)
            for batch in part.read(one.schema.names, one.schema, Selection()):
                for row in batch.to_pylist():
                    value = tuple(row["value"].values()) if isinstance(row["value"], dict) else row["value"]
                    found.setdefault(subtask.index, []).append(
                        (row["map_key"], value) if "map_key" in row else value
                    )
    return found


class Replaced(Edit):
    """Other streams in the subtasks of the operator that has a state."""

    def __init__(self, state: str, change: Callable[[OperatorSource], OperatorStreamStateHandle]) -> None:
        self._state = state
        self._change = change

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        return replace(
            metadata,
            operators=tuple(
                replace(one, subtasks=tuple(self._subtask(subtask, source) for subtask in one.subtasks))
                for one in metadata.operators
            ),
        )

    def _subtask(self, subtask: SubtaskState, source: SavepointLocation) -> SubtaskState:
        handle = subtask.managed_operator_state
        if handle is None or self._state not in {info.name for info in handle.state_meta_infos}:
            return subtask
        opened = OperatorSource.open(subtask.index, handle, source.open_stream(handle.delegate))
        return replace(subtask, managed_operator_state=self._change(opened))


def stream(source: OperatorSource, infos: Sequence[StateMetaInfo], data: bytes) -> OperatorStreamStateHandle:
    delegate = ByteStreamStateHandle(handle_name=f"new-{source.subtask}", data=data)
    return OperatorStreamStateHandle(state_meta_infos=tuple(infos), delegate=delegate)


def compressed(source: OperatorSource) -> OperatorStreamStateHandle:
    """The stream as Flink writes it with snapshot compression."""
    plain = bytes(source.stream.data)
    states = [
        [registered_state(state, plain) for state in some]
        for some in (source.header.operator_states, source.header.broadcast_states)
    ]
    data = write_operator_header(*states, version=6, compressed=True) + IDENTIFIER
    every = sorted(int(offset) for info in source.handle.state_meta_infos for offset in info.offsets)
    infos = []
    for info in source.handle.state_meta_infos:
        offsets = []
        for start in info.offsets.tolist():
            offsets.append(len(data))
            data += framed(plain[start : next((one for one in every if one > start), len(plain))])
        infos.append(
            StateMetaInfo(name=info.name, distribution_mode=info.distribution_mode, offsets=np.array(offsets))
        )
    return stream(source, infos, data)


def test_elements_are_changed_removed_and_added(tmp_path: Path) -> None:
    layers: list[Layer] = [
        updated(("value", "f1"), {(0, 1): 77}),
        removed((1, 0)),
        added(1, value=[{"f0": "new", "f1": 5}]),
    ]

    new = write(EVERYTHING, tmp_path / "new", {LIST: layers})

    assert rows(new, LIST) == {
        0: [("k0", 3), ("k2", 77), ("k4", 3)],
        1: [("k3", 3), ("k5", 3), ("new", 5)],
    }
    assert rows(new, UNION) == rows(EVERYTHING, UNION)


def test_an_element_is_added_where_its_index_says(tmp_path: Path) -> None:
    new = write(
        EVERYTHING, tmp_path / "new", {LIST: [added(0, value=[{"f0": "x", "f1": 1}], list_index=[1])]}
    )

    assert rows(new, LIST)[0] == [("k0", 3), ("x", 1), ("k2", 3), ("k4", 3)]


def test_elements_of_a_union_state_and_of_its_neighbour_change_at_once(tmp_path: Path) -> None:
    layers: dict[str, list[Layer]] = {
        UNION: [updated(("value",), {(0, 0): "a much longer text than before"}), added(0, value=["", "é"])],
        LIST: [removed(*((0, row) for row in range(3)), *((1, row) for row in range(3)))],
    }

    new = write(EVERYTHING, tmp_path / "new", layers)

    assert rows(new, UNION) == {0: ["a much longer text than before", "", "é"], 1: ["reader-1"]}
    assert rows(new, LIST) == {}


def test_every_copy_of_a_broadcast_state_is_written_alike(tmp_path: Path) -> None:
    before = dict(rows(EVERYTHING, BROADCAST)[0])
    names = list(before)
    layers: list[Layer] = [
        updated(("value", "f0"), {(0, 0): 77}),
        removed((0, 1)),
        added(0, map_key=["new"], value=[{"f0": 1, "f1": "added"}]),
    ]

    new = write(EVERYTHING, tmp_path / "new", {BROADCAST: layers})

    expected = before | {names[0]: (77, before[names[0]][1]), "new": (1, "added")}
    del expected[names[1]]
    assert [dict(rows(new, BROADCAST)[subtask]) for subtask in (0, 1)] == [expected, expected]


def test_a_compressed_stream_stays_compressed(tmp_path: Path) -> None:
    layers: dict[str, list[Layer]] = {LIST: [updated(("value", "f1"), {(0, 1): 77}), removed((1, 0))]}

    new = write(EVERYTHING, tmp_path / "new", layers, Replaced(LIST, compressed))

    assert rows(new, LIST) == {0: [("k0", 3), ("k2", 77), ("k4", 3)], 1: NUMBERS[1][1:]}
    assert rows(new, UNION) == rows(EVERYTHING, UNION)
    with closing(Savepoint(new)) as savepoint:
        sources = [part.source for part in owner(savepoint, LIST).states[0].parts]
        assert all(isinstance(one, OperatorSource) and one.header.compressed for one in sources)


def test_small_streams_have_names_of_their_own_and_large_ones_files(tmp_path: Path) -> None:
    layers: list[Layer] = [added(0, value=["x" * 30_000]), added(1, 1, value=["y"])]

    new = write(EVERYTHING, tmp_path / "new", {UNION: layers})

    with closing(Savepoint(new)) as savepoint:
        handles = [
            subtask.managed_operator_state.delegate
            for subtask in owner(savepoint, UNION).metadata.subtasks
            if subtask.managed_operator_state is not None
        ]
    assert sorted(type(handle).__name__ for handle in handles) == [
        "ByteStreamStateHandle",
        "RelativeFileStateHandle",
    ]
    assert len([path for path in new.iterdir() if path.name != "_metadata"]) == 1
    assert rows(new, UNION) == {0: ["reader-0", "x" * 30_000], 1: ["reader-1", "y"]}


@pytest.mark.parametrize(
    ("state", "layer", "message"),
    [
        (LIST, removed((2, 0)), r"subtasks that have the state last-numbers \(0, 1\), found subtask 2"),
        (BROADCAST, removed((1, 0)), r"subtasks that have the state rules \(0\), found subtask 1"),
        (LIST, updated(("value", "f1"), {(0, 1): "x"}), "expected a value of type BIGINT, found 'x'"),
        (LIST, updated(("value", "f1"), {(0, 1): None}), "value.f1: "),
        (LIST, updated(("value", "f2"), {(0, 1): 1}), "expected a column with the field value.f2"),
        (
            BROADCAST,
            added(0, map_key=["k1"], value=[{"f0": 1, "f1": "x"}]),
            "expected each key of a broadcast state once, found 'k1' twice",
        ),
        (
            BROADCAST,
            updated(("map_key",), {(0, 0): "same", (0, 1): "same"}),
            "expected each key of a broadcast state once, found 'same' twice",
        ),
    ],
)
def test_what_flink_would_lose_is_refused(state: str, layer: Layer, message: str, tmp_path: Path) -> None:
    with pytest.raises(WriterError, match=message):
        write(EVERYTHING, tmp_path / "new", {state: [layer]})

    assert not (tmp_path / "new").exists()


def test_copies_of_a_broadcast_state_that_differ_are_refused(tmp_path: Path) -> None:
    def other(source: OperatorSource) -> OperatorStreamStateHandle:
        data = bytes(source.stream.data)
        return stream(
            source,
            source.handle.state_meta_infos,
            data.replace(b"rule-3", b"rule-9", 1) if source.subtask else data,
        )

    with pytest.raises(
        RefusedEditError, match=r"expected equal copies of the broadcast state rules .* 0 and 1"
    ):
        write(EVERYTHING, tmp_path / "new", {BROADCAST: [removed((0, 0))]}, Replaced(BROADCAST, other))


def test_offsets_of_a_kafka_source_change_and_its_splits_stay(tmp_path: Path) -> None:
    source = unpacked("1.20.3-source-kafka-hashmap-canonical", tmp_path).directory
    name = "SourceReaderState"
    before = rows_of_values(source, name)
    split = before[0][0]

    new = write(source, tmp_path / "new", {name: [updated(("value", "starting_offset"), {(0, 0): 5})]})

    before[0][0] = split | {"starting_offset": 5}
    assert rows_of_values(new, name) == before
    for layer, message in (
        (removed((0, 0)), "cannot be removed or added: the source's enumerator has its splits too"),
        (added(0, value=[split]), "cannot be removed or added"),
        (
            updated(("value", "topic"), {(0, 0): "other"}),
            "element 0: expected a KafkaPartitionSplit in which only",
        ),
        (
            updated(("value", "starting_offset"), {(0, 0): -4}),
            "expected a value that a KafkaPartitionSplit holds",
        ),
        (updated(("value", "starting_offset"), {(0, 0): None}), "found NULL of starting_offset"),
    ):
        with pytest.raises(WriterError, match=message):
            write(source, tmp_path / "refused", {name: [layer]})
    for name in ("streaming_committer_raw_states", "writer_raw_states"):
        with pytest.raises(RefusedEditError, match="transactions or files of a sink"):
            write(source, tmp_path / "refused", {name: [removed((0, 0))]})


def test_a_file_source_counts_other_records(tmp_path: Path) -> None:
    source = unpacked("1.20.3-source-file-canonical", tmp_path).directory
    name, column = "SourceReaderState", ("value", "records_after_offset")
    before = rows_of_values(source, name)

    new = write(source, tmp_path / "new", {name: [updated(column, {(0, 0): 3, (1, 0): None})]})

    before[0][0] |= {"records_after_offset": 3}
    before[1][0] |= {"records_after_offset": None}
    assert rows_of_values(new, name) == before
    for path, value, message in (
        (column, -1, "expected a number of records from 0 on, found -1"),
        (("value", "path"), "x", "in which only records_after_offset changes"),
        (("value", "reader_offset"), 5, "in which only records_after_offset changes"),
    ):
        with pytest.raises(WriterError, match=message):
            write(source, tmp_path / "refused", {name: [updated(path, {(0, 0): value})]})


def rows_of_values(path: Path, state: str) -> dict[int, list[Any]]:
    """The values of a connector's state, by subtask."""
    found: dict[int, list[Any]] = {}
    with closing(Savepoint(path)) as savepoint:
        for one in owner(savepoint, state).states:
            for batch in one.read() if one.name == state else ():
                for row in batch.to_pylist():
                    found.setdefault(row["_subtask"], []).append(row["value"])
    return found


NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)
ELEMENT = st.fixed_dictionaries({"f0": st.text(max_size=5), "f1": NUMBER})
CHANGE = st.one_of(
    st.tuples(st.just("update"), st.integers(0, 1), st.integers(0, 2), NUMBER),
    st.tuples(st.just("remove"), st.integers(0, 1), st.integers(0, 2), st.none()),
    st.tuples(st.just("add"), st.integers(0, 1), st.none(), st.lists(ELEMENT, min_size=1, max_size=3)),
)


@settings(max_examples=30, deadline=None)
@given(changes=st.lists(CHANGE, max_size=5), is_compressed=st.booleans())
def test_any_changes_are_read_back(changes: list[tuple[str, int, Any, Any]], is_compressed: bool) -> None:
    model: dict[int, dict[int, tuple[str, int]]] = {
        group: dict(enumerate(elements)) for group, elements in NUMBERS.items()
    }
    layers: list[Layer] = []
    first = 0
    for what, group, row, value in changes:
        if what == "add":
            layers.append(added(group, first, value=value))
            for index, element in enumerate(value):
                model[group][FIRST_ADDED + first + index] = (element["f0"], element["f1"])
            first += len(value)
        elif row in model[group]:
            if what == "remove":
                layers.append(removed((group, row)))
                del model[group][row]
            else:
                layers.append(updated(("value", "f1"), {(group, row): value}))
                model[group][row] = (model[group][row][0], value)

    with TemporaryDirectory() as folder:
        before = [Replaced(LIST, compressed)] if is_compressed else []
        new = write(EVERYTHING, Path(folder) / "new", {LIST: layers}, *before)
        found = rows(new, LIST)

    assert found == {group: list(elements.values()) for group, elements in model.items() if elements}


@pytest.fixture
def kryo(tmp_path: Path) -> Path:
    """A state of tuples whose first field only Kryo reads."""
    with tarfile.open(DATA / "versions/operators.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    source = tmp_path / "kafka-consumer-migration-test/1.7"
    # Version 2 of `_metadata` is not written, and the handles are the same in 3.
    metadata = replace(read_metadata((source / "_metadata").read_bytes()), version=3)
    (source / "_metadata").write_bytes(write_metadata(metadata))
    return source


def offsets(path: Path) -> list[tuple[str, int, int]]:
    found = source_offsets(Savepoint(path)).to_pylist()
    return [(row["topic"], row["partition"], row["starting_offset"]) for row in found]


def test_offsets_that_kryo_wrote_are_set(kryo: Path, tmp_path: Path) -> None:
    place = offset_places(Savepoint(kryo))[1]
    assert place is not None

    edit = SetOffsets(place.operator_id, {place: (987654321, -1)})
    SavepointWriter(SavepointLocation(kryo), [edit]).write(tmp_path / "new")

    assert offsets(tmp_path / "new") == [("abc", 13, 16768), ("def", 7, -1)]


def test_objects_of_kryo_keep_their_bytes(kryo: Path, tmp_path: Path) -> None:
    state = "topic-partition-offset-states"

    new = write(kryo, tmp_path / "new", {state: [updated(("value", "f1"), {(0, 0): 5})]})

    assert offsets(new) == [("abc", 13, 5), ("def", 7, 987654321)]
    assert offsets(write(kryo, tmp_path / "less", {state: [removed((0, 0))]})) == [("def", 7, 987654321)]
    for layer in (
        updated(("value", "f0"), {(0, 0): "{}"}),
        added(0, value=[{"f0": "{}", "f1": 5}]),
    ):
        with pytest.raises(RefusedEditError, match="cannot be set: an object of Kryo"):
            write(kryo, tmp_path / "refused", {state: [layer]})
