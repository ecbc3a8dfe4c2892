"""Writing a savepoint: what the new directory holds, and that nothing else ever changes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readers import offset_places, operator_id_of
from readers.errors import MissingFileError, PathOutsideRootError
from readers.metadata import RelativeFileStateHandle, SavepointMetadata, read_metadata
from readers.savepoint import Savepoint
from readers.storage.location import SavepointLocation
from tests.support.paths import DATA, PROJECT
from writers import (
    DropOperator,
    FilesMode,
    ForFlink,
    RefusedEditError,
    RenameOperator,
    SavepointWriter,
    SetOffsets,
    Summary,
    TargetError,
    TargetExistsError,
    UnwritableError,
)
from writers.metadata import with_leaves, write_metadata

FLINK = DATA / "flink/2.3.0"
INLINE = FLINK / "wordcount-hashmap-savepoints/canonical"
CHECKPOINT = FLINK / "wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2"
AGGREGATE = "f7c20420360e0172e54933e6abdd481a"
SOURCE = "e5a72f353fc1e6bbf3bd96a41384998c"


def contents(directory: Path) -> dict[str, str]:
    """The hash of every file below a directory."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def metadata_of(directory: Path) -> SavepointMetadata:
    return read_metadata((directory / "_metadata").read_bytes())


def rows(path: Path) -> dict[str, list[str]]:
    """All rows of all states, as text, by operator and state."""
    found: dict[str, list[str]] = {}
    for operator in Savepoint(path).operators:
        for state in operator.states:
            lines = [str(row) for batch in state.read() for row in batch.to_pylist()]
            found[f"{operator.operator_id} {state.name}"] = sorted(lines)
    return found


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A copy of a checkpoint with all of its files, on the file system of the target."""
    shutil.copytree(CHECKPOINT.parent, tmp_path / "checkpoint")
    return tmp_path / "checkpoint" / CHECKPOINT.name


def test_links_share_the_bytes_of_the_source(checkpoint: Path, tmp_path: Path) -> None:
    before = contents(checkpoint.parent)

    summary = SavepointWriter(SavepointLocation(checkpoint), []).write(tmp_path / "new")

    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert len(names) == summary.files + 1
    linked = [path for path in (tmp_path / "new").iterdir() if path.name != "_metadata"]
    assert {path.stat().st_nlink for path in linked} == {2}
    assert sum(path.stat().st_size for path in linked) == summary.file_bytes > 0
    assert contents(checkpoint.parent) == before
    assert rows(tmp_path / "new") == rows(checkpoint)


def test_a_new_savepoint_can_be_moved_and_outlives_its_source(checkpoint: Path, tmp_path: Path) -> None:
    expected = rows(checkpoint)
    SavepointWriter(SavepointLocation(checkpoint), []).write(tmp_path / "new")

    shutil.rmtree(checkpoint.parent)
    (tmp_path / "new").rename(tmp_path / "moved")

    assert rows(tmp_path / "moved") == expected


def test_copies_share_nothing(checkpoint: Path, tmp_path: Path) -> None:
    SavepointWriter(SavepointLocation(checkpoint), [], FilesMode.COPY).write(tmp_path / "new")

    assert {path.stat().st_nlink for path in (tmp_path / "new").iterdir()} == {1}
    assert rows(tmp_path / "new") == rows(checkpoint)


def test_references_bring_no_file(checkpoint: Path, tmp_path: Path) -> None:
    summary = SavepointWriter(SavepointLocation(checkpoint), [], FilesMode.REFERENCE).write(tmp_path / "new")

    assert [path.name for path in (tmp_path / "new").iterdir()] == ["_metadata"]
    assert summary.files == 0
    paths = [stream.path for stream in metadata_of(tmp_path / "new").streams() if stream.path]
    assert paths
    assert all(path.startswith(f"file:{checkpoint.parent}/") for path in paths)


def test_a_moved_checkpoint_is_whole_again(checkpoint: Path, tmp_path: Path) -> None:
    expected = rows(checkpoint)
    checkpoint.parent.rename(tmp_path / "elsewhere")

    SavepointWriter(SavepointLocation(tmp_path / "elsewhere" / checkpoint.name), []).write(tmp_path / "new")

    paths = {stream.path for stream in metadata_of(tmp_path / "new").streams() if stream.path}
    assert paths == {path.name for path in (tmp_path / "new").iterdir()} - {"_metadata"}
    assert rows(tmp_path / "new") == expected


def test_a_dropped_operator_takes_its_files_along(checkpoint: Path, tmp_path: Path) -> None:
    whole = SavepointWriter(SavepointLocation(checkpoint), []).summary
    edits = [DropOperator(AGGREGATE)]

    summary = SavepointWriter(SavepointLocation(checkpoint), edits).write(tmp_path / "new")

    assert summary.operators == whole.operators - 1
    assert summary.files < whole.files
    expected = {name: lines for name, lines in rows(checkpoint).items() if not name.startswith(AGGREGATE)}
    assert rows(tmp_path / "new") == expected


def test_a_renamed_operator_has_the_id_of_its_uid(tmp_path: Path) -> None:
    edits = [RenameOperator(AGGREGATE, "source-2"), RenameOperator(SOURCE, "aggregate")]

    SavepointWriter(SavepointLocation(INLINE), edits).write(tmp_path / "new")

    operators = {one.uid: one.operator_id for one in metadata_of(tmp_path / "new").operators}
    # The id of "aggregate" is the one that Flink gave the operator of this uid.
    assert operators["aggregate"] == AGGREGATE
    assert set(operators) == {"aggregate", "source-2", None}


def test_a_uid_is_stored_only_as_an_id_before_flink_2(tmp_path: Path) -> None:
    source = DATA / "flink/1.20.3/wordcount-hashmap-savepoints/canonical"

    SavepointWriter(SavepointLocation(source), [RenameOperator(AGGREGATE, "counts")]).write(tmp_path / "new")

    operators = metadata_of(tmp_path / "new").operators
    assert {one.uid for one in operators} == {None}
    assert operator_id_of("counts") in {one.operator_id for one in operators}


def test_two_operators_cannot_have_one_uid() -> None:
    with pytest.raises(RefusedEditError, match="has an operator with the uid 'aggregate' already"):
        SavepointWriter(SavepointLocation(INLINE), [RenameOperator(SOURCE, "aggregate")])


def test_a_dropped_operator_is_gone_for_later_edits() -> None:
    with pytest.raises(RefusedEditError, match=f"expected an operator {SOURCE}, found none"):
        SavepointWriter(SavepointLocation(INLINE), [DropOperator(SOURCE), DropOperator(SOURCE)])


def test_an_older_flink_gets_an_older_version(tmp_path: Path) -> None:
    SavepointWriter(SavepointLocation(INLINE), [ForFlink((1, 20))]).write(tmp_path / "new")

    assert metadata_of(tmp_path / "new").version == 4
    assert rows(tmp_path / "new") == rows(INLINE)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"element": 1}, "expected the number 24750 at byte 10 of element 1 .* in subtask 0, found 36445"),
        ({"element": 2}, "at byte -8 of element 2"),
        ({"from_end": 7}, "at byte 11 of element 0"),
        ({"from_end": 100}, "at byte -82 of element 0"),
        ({"state": "other"}, "of other in subtask 0, found 0"),
    ],
)
def test_a_number_is_replaced_only_where_it_stands(place: dict[str, Any], message: str) -> None:
    offset = offset_places(Savepoint(INLINE))[0]
    assert offset is not None
    edit = SetOffsets(SOURCE, {replace(offset, **place): (24750, 7)})

    with pytest.raises(RefusedEditError, match=message):
        SavepointWriter(SavepointLocation(INLINE), [edit])


def test_an_existing_target_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").write_text("mine")

    with pytest.raises(TargetExistsError, match="found one that exists without _metadata"):
        SavepointWriter(SavepointLocation(INLINE), []).write(tmp_path / "new")

    assert contents(tmp_path / "new").keys() == {"mine"}


def test_a_target_without_a_parent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="expected a directory to write to"):
        SavepointWriter(SavepointLocation(INLINE), []).write(tmp_path / "a" / "b")


def test_a_missing_file_is_noticed_before_anything_is_written(checkpoint: Path, tmp_path: Path) -> None:
    lost = next(stream.path for stream in metadata_of(checkpoint).streams() if stream.path)
    Path(checkpoint.parent / "shared" / Path(lost).name).unlink(missing_ok=True)
    (checkpoint / Path(lost).name).unlink(missing_ok=True)

    with pytest.raises(MissingFileError, match=Path(lost).name):
        SavepointWriter(SavepointLocation(checkpoint), [])


def test_a_hostile_savepoint_brings_no_file_from_outside(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    source = tmp_path / "source"
    shutil.copytree(INLINE, source)
    leading_out = RelativeFileStateHandle(relative_path="../secret", state_size=6)
    metadata = with_leaves(metadata_of(source), lambda _: leading_out)
    (source / "_metadata").write_bytes(write_metadata(metadata))

    with pytest.raises(PathOutsideRootError):
        SavepointWriter(SavepointLocation(source), [])


def test_bytes_that_the_writer_does_not_know_are_refused(tmp_path: Path) -> None:
    shutil.copytree(INLINE, tmp_path / "source")
    data = (INLINE / "_metadata").read_bytes()
    # A text that is not modified UTF-8 of any text: the reader shows it with a replacement character.
    broken = data.replace(b"\x00\x09aggregate", b"\x00\x09aggreg\xed\xa0\x80", 1)
    assert broken != data
    (tmp_path / "source" / "_metadata").write_bytes(broken)

    with pytest.raises(UnwritableError, match=r"expected to write .* bytes again as they are"):
        SavepointWriter(SavepointLocation(tmp_path / "source"), [])


def test_a_failed_check_leaves_nothing_behind(tmp_path: Path) -> None:
    def refuse(savepoint: Savepoint) -> None:
        assert len(savepoint.operators) == 3
        raise UnwritableError("not what was asked for")

    with pytest.raises(UnwritableError, match="not what was asked for"):
        SavepointWriter(SavepointLocation(INLINE), []).write(tmp_path / "new", refuse)

    assert list(tmp_path.iterdir()) == []


def test_a_preview_writes_nothing(tmp_path: Path) -> None:
    summary = SavepointWriter(SavepointLocation(INLINE), [DropOperator(SOURCE)]).summary

    assert summary == Summary(operators=2, files=0, file_bytes=0, metadata_bytes=summary.metadata_bytes)
    assert list(tmp_path.iterdir()) == []


# Ends the process before its Nth step that changes a file system, for every N.
KILLED = """
import os, sys
from pathlib import Path
from readers.storage.location import SavepointLocation
from writers import FilesMode, SavepointWriter

source, target, mode, last = sys.argv[1], Path(sys.argv[2]), FilesMode(sys.argv[3]), -1
whole = []
STEPS = {"os.mkdir", "os.link", "os.rename", "open", "os.rmdir", "os.remove"}
for last in range(1000):
    child = os.fork()
    if not child:
        writer, seen = SavepointWriter(SavepointLocation(source), [], mode), [0]
        def step(event, arguments):
            if event in STEPS and str(target) in str(arguments[:2]):
                seen[0] += 1
                if seen[0] > last:
                    os._exit(9)
        sys.addaudithook(step)
        writer.write(target)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        break
    assert status == 9, status
    if (target / "_metadata").exists():
        whole.append({path.name: path.stat().st_size for path in target.iterdir()})
    os.system(f"rm -rf '{target}'")
found = {path.name: path.stat().st_size for path in target.iterdir()}
# Killed after its last step, the writer leaves a whole savepoint.
assert all(one == found for one in whole) and len(whole) <= 2, whole
print(last)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["link", "copy"])
def test_a_killed_writer_leaves_no_savepoint(mode: str, checkpoint: Path, tmp_path: Path) -> None:
    before = contents(checkpoint.parent)

    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(checkpoint), str(tmp_path / "new"), mode],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=True,
    )

    # A directory, each file, `_metadata` and its new name, and what the check opens.
    assert int(ended.stdout) > len(list((tmp_path / "new").iterdir()))
    assert contents(checkpoint.parent) == before
    assert rows(tmp_path / "new") == rows(checkpoint)
