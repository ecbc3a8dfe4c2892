"""Keyed state written anew: the rows are those of the source, and bytes that nobody changes stay as they are."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from readers import (
    KEY_GROUP,
    ROW,
    BackendStateType,
    Savepoint,
    SavepointLocation,
    Selection,
    StateKind,
    UnsupportedStateError,
    is_keyed,
    json_text,
)
from readers.formats.heap import entries as heapentries
from readers.metadata import ByteStreamStateHandle, KeyGroupsSavepointStateHandle, read_metadata
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from writers import (
    GROUP,
    RefusedEditError,
    RemovedRows,
    RewriteKeyedState,
    SavepointWriter,
    StateChanges,
    UpdatedRows,
)
from writers.keyed.carry import check_carried
from writers.metadata import write_metadata

FLINK = DATA / "flink/2.3.0"
CANONICAL = (
    "wordcount-hashmap-savepoints/canonical",
    "wordcount-rocksdb-savepoints/canonical",
    "everything-hashmap-savepoints/canonical",
)
HASHMAP = (
    "wordcount-hashmap-savepoints/native",
    "everything-hashmap-savepoints/native",
)
ROCKSDB = (
    "wordcount-rocksdb-savepoints/native",
    "wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2",
    "everything-rocksdb-savepoints/native",
)


def rewrites(savepoint: Savepoint) -> list[RewriteKeyedState]:
    """An edit for each operator with keyed state."""
    return [
        RewriteKeyedState(operator=operator)
        for operator in savepoint.operators
        if any(subtask.managed_keyed_state for subtask in operator.metadata.subtasks)
    ]


def rows(savepoint: Savepoint) -> Counter[str]:
    """All rows of keyed state, as text."""
    return Counter(
        f"{operator.operator_id} {state.kind} {state.name} {row}"
        for operator in savepoint.operators
        for state in operator.states
        if is_keyed(state.kind)
        for batch in state.read()
        for row in json_text(batch.to_struct_array()).to_pylist()
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=pytest.mark.slow if "everything" in one else ())
        for one in [*CANONICAL, *HASHMAP, *ROCKSDB]
    ],
)
def test_state_that_nobody_changes_has_the_same_rows(name: str, tmp_path: Path) -> None:
    source = Savepoint(FLINK / name)
    edits = rewrites(source)
    assert edits

    writer = SavepointWriter(SavepointLocation(FLINK / name), edits)
    expected = writer.summary
    written = writer.write(tmp_path / "new")

    assert written == expected
    assert rows(Savepoint(tmp_path / "new")) == rows(source)
    metadata = read_metadata((tmp_path / "new/_metadata").read_bytes())
    handles = [one.managed_keyed_state for operator in metadata.operators for one in operator.subtasks]
    assert {type(handle) for handle in handles if handle is not None} == {KeyGroupsSavepointStateHandle}


ARCHIVES = (
    "1.20.3-allstates-hashmap-compressed-canonical",
    "1.20.3-wordcount-hashmap-maxpar1000-canonical",
    "1.20.3-changelog-hashmap-materialized-chk-3",
    "1.20.3-changelog-rocksdb-materialized-chk-3",
    "1.20.3-filemerging-rocksdb-chk-3",
    "2.3.0-forst-chk-4",
    "2.3.0-forst-kinds-native",
)


@pytest.mark.parametrize(
    "archive", [pytest.param(one, marks=() if "filemerging" in one else pytest.mark.slow) for one in ARCHIVES]
)
def test_compressed_state_many_key_groups_changelogs_and_merged_files(archive: str, tmp_path: Path) -> None:
    path = unpacked(archive, tmp_path).directory
    source = Savepoint(path)

    SavepointWriter(SavepointLocation(path), touched(source, 1)).write(tmp_path / "new")

    new = Savepoint(tmp_path / "new")
    assert rows(new) == rows(source)
    if archive.endswith("canonical"):
        assert groups(new) == groups(source)


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        ("1.20.3-changelog-hashmap-chk-1", "expected a changelog with one materialized base, found 0"),
    ],
)
def test_state_whose_restore_is_not_proven_is_refused(archive: str, reason: str, tmp_path: Path) -> None:
    path = unpacked(archive, tmp_path).directory
    edits = rewrites(Savepoint(path))

    with pytest.raises((RefusedEditError, UnsupportedStateError), match=reason):
        SavepointWriter(SavepointLocation(path), edits)


def test_state_v2_is_refused(tmp_path: Path) -> None:
    path = unpacked("2.3.0-forst-chk-4", tmp_path).directory
    (source, *_) = (source for one in Savepoint(path).operators for source in one.sources if source.entries)
    stored = source.stored_header()
    assert stored is not None
    states = tuple(replace(state, kind=BackendStateType.KEY_VALUE_V2) for state in stored.header.states)

    with pytest.raises(
        RefusedEditError, match="keyed state of state V2 cannot be written: its restore is not proven"
    ):
        check_carried(source, replace(stored, header=replace(stored.header, states=states)))


def test_forst_does_not_restore_its_own_state_written_anew_and_a_warning_says_so(tmp_path: Path) -> None:
    path = unpacked("2.3.0-forst-chk-4", tmp_path).directory

    warnings = SavepointWriter(SavepointLocation(path), rewrites(Savepoint(path))).summary.warnings

    text = "ForSt does not restore what is written here: restore the job with the rocksdb backend, or with hashmap once every operator "
    assert warnings == tuple(
        f"{name}: {text}with keyed state is written so" for name in ("aggregate", "mod7-no-uid")
    )


def touched(savepoint: Savepoint, every: int) -> list[RewriteKeyedState]:
    """Edits that set the first value of each state to itself, in every so many key groups: all of its bytes are written anew."""
    edits = []
    for edit in rewrites(savepoint):
        changes = {}
        for state in edit.operator.states:
            if state.kind is StateKind.VALUE and "ttl_timestamp" not in state.schema.names:
                batches = [
                    batch
                    for part in state.parts
                    for batch in part.read(["value", KEY_GROUP, ROW], state.schema, Selection())
                ]
                if not batches:
                    continue
                table = pa.Table.from_batches(batches)
                first = pc.and_(
                    pc.equal(table.column(ROW), 0),
                    pa.array([group % every == 0 for group in table.column(KEY_GROUP).to_pylist()]),
                )
                kept = table.filter(first).rename_columns(["0", GROUP, ROW])
                changes[state.parts[0].name] = StateChanges(
                    layers=(UpdatedRows(kept.combine_chunks(), (("value",),)),), now_ms=0
                )
        edits.append(replace(edit, changes=changes))
    return edits


@pytest.mark.parametrize("every", [1, 2, 100])
def test_key_groups_that_are_written_anew_have_the_same_bytes(every: int, tmp_path: Path) -> None:
    path = FLINK / "wordcount-hashmap-savepoints/canonical"
    source = Savepoint(path)

    SavepointWriter(SavepointLocation(path), touched(source, every)).write(tmp_path / "new")

    assert groups(Savepoint(tmp_path / "new")) == groups(source)


def groups(savepoint: Savepoint) -> dict[tuple[str, int], bytes]:
    """The bytes of each key group, from its offset to its end mark."""
    return {
        (operator.operator_id, group): bytes(stored.data[runs[0].start - 2 : runs[-1].end + 2])
        for operator in savepoint.operators
        for source in operator.sources
        if (of := source.stored_groups()) is not None
        for group in of.regions
        if (stored := of.group(group)) is not None and (runs := stored.runs)
    }


@pytest.mark.slow
def test_lists_and_maps_that_come_in_several_pages_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = FLINK / "everything-hashmap-savepoints/native"
    expected = rows(Savepoint(path))
    # Real ones have many megabytes.
    monkeypatch.setattr(heapentries, "WINDOW_BYTES", 64)
    source = Savepoint(path)

    SavepointWriter(SavepointLocation(path), rewrites(source)).write(tmp_path / "new")

    assert rows(Savepoint(tmp_path / "new")) == expected


def test_key_groups_beyond_the_max_parallelism_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "source"
    shutil.copytree(FLINK / "wordcount-rocksdb-savepoints/native", path)
    metadata = read_metadata((path / "_metadata").read_bytes())
    operators = tuple(replace(one, max_parallelism=100) for one in metadata.operators)
    (path / "_metadata").write_bytes(write_metadata(replace(metadata, operators=operators)))

    with pytest.raises(RefusedEditError, match="key groups of subtask 1 below the max parallelism"):
        SavepointWriter(SavepointLocation(path), rewrites(Savepoint(path)))


def test_entries_of_no_state_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "source"
    shutil.copytree(FLINK / "wordcount-hashmap-savepoints/canonical", path)
    data = bytearray((path / "_metadata").read_bytes())
    metadata = read_metadata(bytes(data))
    handle = metadata.operators[0].subtasks[0].managed_keyed_state
    assert isinstance(handle, KeyGroupsSavepointStateHandle)
    inline = handle.delegate
    assert isinstance(inline, ByteStreamStateHandle)
    group = int(np.flatnonzero(handle.offsets)[0])
    place = data.index(inline.data) + int(handle.offsets[group])
    data[place : place + 2] = (7).to_bytes(2, "big")
    (path / "_metadata").write_bytes(data)
    (edit,) = (
        one
        for one in rewrites(Savepoint(path))
        if one.operator.operator_id == metadata.operators[0].operator_id
    )
    first = {
        GROUP: pa.array([handle.key_group_range.start + group], pa.int32()),
        ROW: pa.array([0], pa.int64()),
    }
    changes = StateChanges(layers=(RemovedRows(pa.table(first)),), now_ms=0)
    edit = replace(edit, changes={edit.operator.states[0].parts[0].name: changes})

    with pytest.raises(RefusedEditError, match="expected the id of one of"):
        SavepointWriter(SavepointLocation(path), [edit]).write(tmp_path / "new")
    assert not (tmp_path / "new").exists()
