"""Outlines: savepoints with the same one have the same states, and what decides on states decides on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from readers import JobClasses, Savepoint
from readers.connectors.layout import CONNECTOR_STATES
from readers.connectors.recognition import LAYOUTS
from readers.formats.entry import StateKind
from readers.metadata import (
    ByteStreamStateHandle,
    KeyGroupsStateHandle,
    OperatorState,
    SavepointMetadata,
    SubtaskState,
    read_metadata,
)
from tests.support.damaged import corrupt, remove, write_in_files
from tests.support.metadata_writer import write_metadata
from tests.support.paths import DATA
from tests.support.unpacked import unpacked

FLINK = DATA / "flink" / "2.3.0"
EVERYTHING = FLINK / "everything-hashmap-savepoints"
CHECKPOINTS = FLINK / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
KAFKA = DATA / "metadata" / "2.3.0" / "source-kafka-hashmap" / "canonical"
Change = Callable[[SavepointMetadata], SavepointMetadata]


def metadata_of(savepoint: Path) -> SavepointMetadata:
    return read_metadata((savepoint / "_metadata").read_bytes())


def outline_of(metadata: SavepointMetadata, folder: Path) -> bytes | None:
    folder.mkdir()
    (folder / "_metadata").write_bytes(write_metadata(metadata))
    return Savepoint(folder).outline()


def states_of(savepoint: Path) -> list[tuple[str, str, StateKind, str]]:
    return [
        (operator.operator_id, state.name, state.kind, str(state.schema))
        for operator in Savepoint(savepoint).operators
        for state in operator.states
    ]


def with_operators(change: Callable[[OperatorState], OperatorState]) -> Change:
    return lambda metadata: replace(metadata, operators=tuple(map(change, metadata.operators)))


def without_entries(operator: OperatorState) -> OperatorState:
    """The operator with the entries of one key group in each handle."""

    def emptied(subtask: SubtaskState) -> SubtaskState:
        handle = subtask.managed_keyed_state
        if not isinstance(handle, KeyGroupsStateHandle):
            return subtask
        first = handle.offsets[handle.offsets > 0].min()
        offsets = np.where(handle.offsets == first, first, 0)
        return replace(subtask, managed_keyed_state=replace(handle, offsets=offsets))

    return replace(operator, subtasks=tuple(map(emptied, operator.subtasks)))


def in_reverse(metadata: SavepointMetadata) -> SavepointMetadata:
    return replace(metadata, operators=metadata.operators[::-1])


def without_one(metadata: SavepointMetadata) -> SavepointMetadata:
    return replace(metadata, operators=metadata.operators[:-1])


def with_other_bytes(old: bytes, new: bytes) -> Change:
    def changed(metadata: SavepointMetadata) -> SavepointMetadata:
        data = write_metadata(metadata)
        assert old in data
        return read_metadata(data.replace(old, new))

    return changed


def test_checkpoints_of_a_job_have_one_outline() -> None:
    first, second = (Savepoint(CHECKPOINTS / name).outline() for name in ("chk-1", "chk-2"))

    assert first == second is not None


@pytest.mark.parametrize("layout", ["canonical", "native"])
def test_the_same_states_in_files_have_the_same_outline(layout: str, tmp_path: Path) -> None:
    moved = write_in_files(EVERYTHING / layout, tmp_path / "moved")
    if layout == "native":
        for path in (EVERYTHING / layout).iterdir():
            if path.name != "_metadata":
                (moved / path.name).write_bytes(path.read_bytes())

    assert Savepoint(moved).outline() == Savepoint(EVERYTHING / layout).outline() is not None
    assert states_of(moved) == states_of(EVERYTHING / layout)


@pytest.mark.parametrize(
    "change",
    [
        lambda metadata: replace(metadata, checkpoint_id=4711),
        with_operators(lambda one: replace(one, parallelism=one.parallelism + 1)),
        with_operators(without_entries),
    ],
    ids=["checkpoint id", "parallelism", "entries"],
)
def test_what_does_not_decide_on_states_leaves_the_outline(change: Change, tmp_path: Path) -> None:
    metadata = metadata_of(EVERYTHING / "canonical")
    changed = change(metadata)

    assert changed != metadata
    assert outline_of(changed, tmp_path / "changed") == Savepoint(EVERYTHING / "canonical").outline()


@pytest.mark.parametrize(
    "change",
    [
        with_operators(lambda one: replace(one, uid=f"{one.uid}2")),
        with_operators(lambda one: replace(one, name=f"{one.name}2")),
        with_operators(lambda one: replace(one, max_parallelism=one.max_parallelism + 1)),
        with_operators(lambda one: replace(one, subtasks=one.subtasks[:1])),
        with_operators(
            lambda one: replace(one, coordinator_state=ByteStreamStateHandle(handle_name="", data=b""))
        ),
        in_reverse,
        without_one,
        with_other_bytes(
            b"base.LongSerializer$LongSerializerSnapshot", b"base.DateSerializer$DateSerializerSnapshot"
        ),
    ],
    ids=["uid", "name", "max parallelism", "subtasks", "coordinator", "order", "operators", "type"],
)
def test_what_decides_on_states_changes_the_outline(change: Change, tmp_path: Path) -> None:
    metadata = metadata_of(EVERYTHING / "canonical")

    found = outline_of(change(metadata), tmp_path / "changed")

    assert found is not None
    assert found != Savepoint(EVERYTHING / "canonical").outline()


def test_the_layout_of_a_connector_decides(tmp_path: Path) -> None:
    metadata = metadata_of(KAFKA)
    unknown = ByteStreamStateHandle(handle_name="", data=b"of no connector")
    changed = with_operators(lambda one: replace(one, coordinator_state=one.coordinator_state and unknown))

    same, other = outline_of(metadata, tmp_path / "same"), outline_of(changed(metadata), tmp_path / "other")

    assert any(one.coordinator_state for one in metadata.operators)
    assert same == Savepoint(KAFKA).outline() != other
    assert None not in (same, other)


def test_the_names_of_connectors_states_are_those_of_the_layouts() -> None:
    assert LAYOUTS.keys() == CONNECTOR_STATES


@pytest.mark.parametrize("damage", [remove, corrupt], ids=lambda one: one.__name__)
def test_a_savepoint_that_lacks_a_file_has_no_outline(damage: Callable[[Path], None], tmp_path: Path) -> None:
    savepoint = write_in_files(EVERYTHING / "canonical", tmp_path / "savepoint")
    whole = Savepoint(savepoint).outline()
    for file in savepoint.glob("*-0.*"):
        damage(file)

    assert Savepoint(savepoint).outline() not in (whole, Savepoint(EVERYTHING / "canonical").outline())
    assert whole is not None


def test_jars_and_changelogs_leave_no_outline(tmp_path: Path) -> None:
    jars = JobClasses.open([DATA / "classes" / "jobs.jar"])
    changelog = unpacked("1.20.3-changelog-hashmap-chk-1", tmp_path).directory

    assert Savepoint(EVERYTHING / "canonical", jars=jars).outline() is None
    assert Savepoint(changelog).outline() is None
