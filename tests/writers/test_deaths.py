"""A writer that is killed, or meets a fault, at any of its steps: Flink never finds half a savepoint, and the source never changes.

A step is a call of the operating system that changes the target, or that reads a file of the source. A writer that is killed before a step
leaves what stands there at that moment, so it is enough to look at the target before each step.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from readers import Savepoint, SavepointLocation
from readers.errors import ReaderError
from readers.metadata import read_metadata
from tests.catalog.test_objectstore import outline
from tests.support.paths import DATA, PROJECT
from tests.writers.test_savepoint import AGGREGATE, SOURCE, contents
from writers import (
    GROUP,
    ROW,
    DropOperator,
    Edit,
    FilesMode,
    RemovedRows,
    RenameOperator,
    RewriteKeyedState,
    SavepointWriter,
    StateChanges,
    TargetError,
)

FLINK = DATA / "flink/2.3.0"
CANONICAL = FLINK / "wordcount-hashmap-savepoints/canonical"
CHECKPOINT = FLINK / "wordcount-rocksdb-checkpoint-incremental/checkpoint"
METADATA = "_metadata"

Edits = Callable[[Savepoint], Sequence[Edit]]


def nothing(source: Savepoint) -> Sequence[Edit]:
    return ()


def metadata_edits(source: Savepoint) -> Sequence[Edit]:
    return DropOperator(SOURCE), RenameOperator(AGGREGATE, "counts")


def removed_rows(source: Savepoint) -> Sequence[Edit]:
    """Remove the first row of a key group of `count`."""
    operator = next(one for one in source.operators if one.operator_id == AGGREGATE)
    [state] = [one for one in operator.states if one.name == "count"]
    rows = pa.Table.from_batches(list(state.read()))
    group = rows.column("_key_group")[0].as_py()
    layer = RemovedRows(pa.table({GROUP: pa.array([group], pa.int32()), ROW: pa.array([0], pa.int64())}))
    [name] = {name for one in operator.sources for name in one.entries if name.name == "count"}
    return (RewriteKeyedState(operator=operator, changes={name: StateChanges(layers=(layer,), now_ms=0)}),)


@pytest.fixture(params=["canonical", "checkpoint"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A savepoint with all of its state in files, on the file system of the target."""
    if request.param == "canonical":
        shutil.copytree(CANONICAL, tmp_path / "source" / "canonical")
        outline(tmp_path / "source" / "canonical" / METADATA)
        return tmp_path / "source" / "canonical"
    shutil.copytree(CHECKPOINT, tmp_path / "source")
    return tmp_path / "source" / "chk-2"


class Steps:
    """Calls a function before each step of a writer.

    Args:
        root: only what is below it counts.
        before: gets the number of the step, from 0, and its name.
    """

    NAMES = (
        ("open", 0),
        ("mkdir", 0),
        ("link", 1),
        ("write", 0),
        ("copy_file_range", 1),
        ("pread", 0),
        ("fsync", 0),
        ("rename", 1),
    )

    def __init__(self, patch: pytest.MonkeyPatch, root: Path, before: Callable[[int, str], None]) -> None:
        self.seen: list[str] = []
        self._root = str(root)
        self._before = before
        for name, position in self.NAMES:
            patch.setattr(os, name, self._watched(name, getattr(os, name), position))

    def _watched(self, name: str, call: Callable[..., Any], position: int) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            place = arguments[position]
            path = os.readlink(f"/proc/self/fd/{place}") if isinstance(place, int) else str(place)
            if path.startswith(self._root):
                self.seen.append(name)
                self._before(len(self.seen) - 1, name)
            return call(*arguments, **options)

        return watched


@pytest.mark.parametrize("mode", [FilesMode.LINK, FilesMode.COPY])
@pytest.mark.parametrize("edits", [nothing, metadata_edits, removed_rows])
def test_no_moment_has_half_a_savepoint(
    edits: Edits, mode: FilesMode, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(tmp_path / "source")
    moments: list[dict[str, str]] = []
    writer = SavepointWriter(SavepointLocation(source), edits(Savepoint(source)), mode)

    with monkeypatch.context() as patch:
        steps = Steps(patch, tmp_path / "new", lambda *_: moments.append(contents(tmp_path / "new")))
        summary = writer.write(tmp_path / "new")

    whole = contents(tmp_path / "new")
    assert METADATA in whole
    assert len(whole) == summary.files + 1
    # Of the directory, each file and `_metadata`, at the least.
    assert len(steps.seen) > summary.files + 3
    assert [found for found in moments if METADATA in found and found != whole] == []
    assert METADATA not in moments[steps.seen.index("rename")]
    assert contents(tmp_path / "source") == before


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize(
    ("edits", "mode"),
    [(nothing, FilesMode.COPY), (metadata_edits, FilesMode.LINK), (removed_rows, FilesMode.LINK)],
)
def test_a_fault_at_each_step_leaves_nothing(
    edits: Edits,
    mode: FilesMode,
    code: int,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = contents(tmp_path / "source")
    changed = edits(Savepoint(source))
    errors: list[str] = []
    for last in range(200):

        def fail(number: int, name: str, last: int = last) -> None:
            if number == last:
                raise OSError(code, os.strerror(code))

        writer = SavepointWriter(SavepointLocation(source), changed, mode)
        with monkeypatch.context() as patch:
            steps = Steps(patch, tmp_path / "new", fail)
            try:
                summary = writer.write(tmp_path / "new")
            except (TargetError, ReaderError) as error:
                errors.append(str(error))
        assert contents(tmp_path / "source") == before
        if (tmp_path / "new").exists():
            # It made a copy in place of a link, or could not make the names last.
            assert len(contents(tmp_path / "new")) == summary.files + 1
            shutil.rmtree(tmp_path / "new")
        if len(steps.seen) <= last:
            break

    assert len(errors) > 4
    assert [text for text in errors if os.strerror(code) not in text or f"{tmp_path}/new" not in text] == []


def used(source: Path) -> set[str]:
    """The names of the files of a savepoint."""
    streams = read_metadata((source / METADATA).read_bytes()).streams()
    return {Path(stream.path).name for stream in streams if stream.path}


@pytest.mark.slow
@pytest.mark.parametrize("mode", [FilesMode.LINK, FilesMode.COPY])
@pytest.mark.parametrize("source", ["canonical"], indirect=True)
@pytest.mark.parametrize("harm", ["removed", "truncated"])
def test_a_file_of_the_source_that_vanishes_at_each_step_is_named(
    mode: FilesMode, harm: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tmp_path / "source", tmp_path / "kept")
    lost = next(path for path in sorted((tmp_path / "source").rglob("*")) if path.name in used(source))
    outcomes = set()
    for last in range(200):
        writer = SavepointWriter(SavepointLocation(source), [], mode)

        def harmed(number: int, name: str, last: int = last) -> None:
            if number == last and harm == "removed":
                os.unlink(lost)
            elif number == last:
                os.truncate(lost, 1)

        with monkeypatch.context() as patch:
            steps = Steps(patch, tmp_path / "new", harmed)
            try:
                writer.write(tmp_path / "new")
                outcomes.add("written")
            except (TargetError, ReaderError) as error:
                outcomes.add("refused" if lost.name in str(error) else str(error))
        if (tmp_path / "new").exists():
            Savepoint(tmp_path / "new")
            shutil.rmtree(tmp_path / "new")
        shutil.rmtree(tmp_path / "source")
        shutil.copytree(tmp_path / "kept", tmp_path / "source")
        if len(steps.seen) <= last:
            break

    assert outcomes == {"written", "refused"}


FULL = """
import resource, signal, sys
from pathlib import Path
from readers import SavepointLocation
from writers import FilesMode, SavepointWriter, TargetError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = SavepointWriter(SavepointLocation(sys.argv[1]), [], FilesMode.COPY)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    writer.write(sys.argv[2])
except TargetError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_file_that_becomes_too_large_leaves_nothing(tmp_path: Path) -> None:
    shutil.copytree(CHECKPOINT, tmp_path / "source")
    before = contents(tmp_path / "source")
    command = [sys.executable, "-c", FULL, str(tmp_path / "source" / "chk-2"), str(tmp_path / "new"), "1000"]

    ended = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert os.strerror(errno.EFBIG) in ended.stdout
    assert not (tmp_path / "new").exists()
    assert contents(tmp_path / "source") == before
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
