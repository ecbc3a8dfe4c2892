"""Hostile savepoints as sources: whatever they say, no write leaves the target, and every refusal is a typed error."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readers import Operator, Savepoint, SavepointLocation, StateKind, StateName, is_keyed
from readers.errors import PathOutsideRootError, ReaderError
from readers.metadata import FileStateHandle, RelativeFileStateHandle, StreamStateHandle
from tests.catalog.test_objectstore import outline
from tests.support.examples import examples
from tests.support.paths import DATA
from tests.writers.test_savepoint import contents, metadata_of, rows
from writers import (
    GROUP,
    ROW,
    FilesMode,
    RemovedRows,
    RewriteKeyedState,
    SavepointWriter,
    StateChanges,
    TargetError,
    WriterError,
)
from writers.metadata import with_leaves, write_metadata
from writers.savepoint import target_of

FLINK = DATA / "flink/2.3.0"
CANONICAL = FLINK / "wordcount-hashmap-savepoints/canonical"
CHECKPOINT = FLINK / "wordcount-rocksdb-checkpoint-incremental/checkpoint"
EVERYTHING = FLINK / "everything-hashmap-savepoints/canonical"
METADATA = "_metadata"

Leaf = Callable[[StreamStateHandle], StreamStateHandle]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A savepoint whose state is in files."""
    shutil.copytree(CANONICAL, tmp_path / "source")
    outline(tmp_path / "source" / METADATA)
    return tmp_path / "source"


def renamed(source: Path, leaf: Leaf) -> None:
    """Let the metadata name other files."""
    (source / METADATA).write_bytes(write_metadata(with_leaves(metadata_of(source), leaf)))


def first_file(source: Path) -> Path:
    return next(path for path in sorted(source.iterdir()) if path.name != METADATA)


@pytest.mark.parametrize(
    "path",
    ["../secret", "/etc/passwd", "a/../../secret", "file:/etc/passwd", "..", "sub\0name", "http://host/file"],
)
@pytest.mark.parametrize("mode", list(FilesMode))
def test_paths_that_lead_out_are_refused(path: str, mode: FilesMode, source: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    size = (tmp_path / "secret").stat().st_size
    renamed(source, lambda _: FileStateHandle(file_path=path, state_size=size))

    with pytest.raises(ReaderError):
        SavepointWriter(SavepointLocation(source), [], mode).write(tmp_path / "new")

    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("mode", list(FilesMode))
def test_links_that_lead_out_are_refused(mode: FilesMode, source: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    file = first_file(source)
    file.unlink()
    file.symlink_to(tmp_path / "secret")

    with pytest.raises(PathOutsideRootError):
        SavepointWriter(SavepointLocation(source), [], mode).write(tmp_path / "new")

    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("mode", [FilesMode.LINK, FilesMode.COPY])
def test_a_file_that_becomes_a_link_later_is_not_followed(
    mode: FilesMode, source: Path, tmp_path: Path
) -> None:
    file = first_file(source)
    (tmp_path / "secret").write_bytes(bytes(file.stat().st_size))
    writer = SavepointWriter(SavepointLocation(source), [], mode)
    file.unlink()
    file.symlink_to(tmp_path / "secret")

    with pytest.raises(TargetError, match="expected"):
        writer.write(tmp_path / "new")

    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "name", ["_metadata.unfinished", "sub dir/_metadata", "sub dir/file", "é%20 ;'", "x" * 200]
)
def test_files_with_odd_names_come_along(name: str, source: Path, tmp_path: Path) -> None:
    expected = rows(source)
    old = first_file(source)
    (source / name).parent.mkdir(exist_ok=True)
    old.rename(source / name)

    def leaf(handle: StreamStateHandle) -> StreamStateHandle:
        if isinstance(handle, RelativeFileStateHandle) and handle.relative_path == old.name:
            return RelativeFileStateHandle(relative_path=name, state_size=handle.state_size)
        return handle

    renamed(source, leaf)

    SavepointWriter(SavepointLocation(source), []).write(tmp_path / "new")

    assert rows(tmp_path / "new") == expected
    assert all(path.parent == tmp_path / "new" for path in (tmp_path / "new").rglob("*"))


@pytest.mark.parametrize("name", ["", ".", "..", "../file", "a/b", "/file", "a\0b", "_metadata"])
def test_a_target_makes_files_in_itself_only(name: str, tmp_path: Path) -> None:
    with (
        target_of(str(tmp_path / "new"), SavepointLocation(CANONICAL)) as target,
        pytest.raises(TargetError, match="expected the name of a data file"),
        target.create(name),
    ):
        pass

    assert list(tmp_path.iterdir()) == []


# --- random damage ---


@contextmanager
def damaged(folder: Path, name: str, damage: list[tuple[float, int]], cut: float) -> Iterator[Path]:
    """Yield a folder with a copy of a savepoint, in which bytes of a file are others, or its end is missing."""
    with tempfile.TemporaryDirectory() as made:
        copy = Path(made) / "source"
        copy.mkdir()
        for path in folder.iterdir():
            os.link(path, copy / path.name)
        data = bytearray((folder / name).read_bytes())
        for place, value in damage:
            data[int(place * len(data))] = value
        (copy / name).unlink()
        (copy / name).write_bytes(data[: int(cut * len(data))] if cut < 1 else data)
        yield Path(made)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of every kind of state, in files, on the file system of the copies."""
    folder = tmp_path_factory.mktemp("everything") / "source"
    shutil.copytree(EVERYTHING, folder)
    outline(folder / METADATA)
    return folder


Changes = dict[str, dict[StateName, StateChanges]]


@pytest.fixture(scope="module")
def changes(everything: Path) -> Changes:
    """The removal of the first row of each key group of each value state, by operator."""
    return {
        operator.operator_id: dict(removals(operator))
        for operator in Savepoint(everything).operators
        if any(is_keyed(state.kind) for state in operator.states)
    }


def removals(operator: Operator) -> Iterator[tuple[StateName, StateChanges]]:
    names = {name.name: name for source in operator.sources for name in source.entries}
    for state in operator.states:
        if state.kind in (StateKind.VALUE, StateKind.MAP, StateKind.LIST) and not state.note:
            batches = [batch.column("_key_group") for batch in state.read()]
            groups = pa.chunked_array(batches, pa.int32()).unique()
            places = pa.table({GROUP: groups, ROW: pa.array([0] * len(groups), pa.int64())})
            yield names[state.name], StateChanges(layers=(RemovedRows(places),), now_ms=0)


def write_all(source: Path, mode: FilesMode, changes: Changes) -> bool:
    """Write changed states anew; return whether it could be."""
    try:
        savepoint = Savepoint(source)
        edits = [
            RewriteKeyedState(operator=operator, changes=changes[operator.operator_id])
            for operator in savepoint.operators
            if operator.operator_id in changes
        ]
        SavepointWriter(savepoint.location, edits, mode).write(source.parent / "new")
    except (ReaderError, WriterError):
        return False
    return True


def check(made: Path, mode: FilesMode, before: dict[str, str], changes: Changes) -> None:
    is_written = write_all(made / "source", mode, changes)
    assert {path.name for path in made.iterdir()} == ({"source", "new"} if is_written else {"source"})
    assert contents(made / "source") == before
    assert (made / "new" / METADATA).exists() == is_written


DAMAGE = st.lists(st.tuples(st.floats(0, 0.999999), st.integers(0, 255)), min_size=1, max_size=4)
CUT = st.one_of(st.just(1.0), st.just(1.0), st.floats(0, 0.99))
MODES = st.sampled_from([FilesMode.LINK, FilesMode.COPY, FilesMode.REFERENCE])
RANDOM = settings(
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


@pytest.mark.slow
@RANDOM
@given(damage=DAMAGE, cut=CUT, mode=MODES)
def test_damaged_metadata_makes_no_write_leave_the_target(
    everything: Path, changes: Changes, damage: list[tuple[float, int]], cut: float, mode: FilesMode
) -> None:
    with damaged(everything, METADATA, damage, cut) as made:
        check(made, mode, contents(made / "source"), changes)


@pytest.mark.slow
@RANDOM
@given(data=st.data(), damage=DAMAGE, cut=CUT)
def test_damaged_state_files_make_no_write_leave_the_target(
    everything: Path, changes: Changes, data: st.DataObject, damage: list[tuple[float, int]], cut: float
) -> None:
    names = sorted(path.name for path in everything.iterdir() if path.name != METADATA)
    with damaged(everything, data.draw(st.sampled_from(names)), damage, cut) as made:
        check(made, FilesMode.LINK, contents(made / "source"), changes)


def test_what_is_not_damaged_is_written(everything: Path, changes: Changes) -> None:
    assert sum(len(states) for states in changes.values()) > 5
    with damaged(everything, METADATA, [], 1.0) as made:
        assert write_all(made / "source", FilesMode.LINK, changes)
