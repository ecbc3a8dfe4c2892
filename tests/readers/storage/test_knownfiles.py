"""Files that were found once: whatever a new search would notice is noticed, and what nobody touched is known again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from readers.metadata import FileStateHandle, RelativeFileStateHandle
from readers.storage.location import KnownFiles, SavepointLocation

CONTENT = b"0123456789"
# Where the savepoint was written; nothing is there any more.
RECORDED = "written/savepoint-1"


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    """A moved savepoint of two files, one of them in a folder, with a folder beside it that does not belong to it."""
    folder = tmp_path / "moved" / "savepoint-1"
    for file in (folder / "file", folder / "within" / "other", tmp_path / "beside" / "other"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(CONTENT)
    (folder / "_metadata").write_bytes(b"meta")
    return folder


def handles(savepoint: Path) -> list[FileStateHandle | RelativeFileStateHandle]:
    recorded = savepoint.parent.parent / RECORDED
    return [
        FileStateHandle(file_path=f"{recorded}/file", state_size=len(CONTENT)),
        RelativeFileStateHandle(relative_path="within/other", state_size=len(CONTENT)),
    ]


def known(savepoint: Path, *more: FileStateHandle | RelativeFileStateHandle) -> KnownFiles | None:
    location = SavepointLocation(savepoint)
    wanted = [*handles(savepoint), *more]
    found = location.resolve_all(wanted)
    return location.known_files(location.identity(location.metadata), zip(wanted, found, strict=True))


def grow(path: Path) -> None:
    path.write_bytes(CONTENT + b"!")
    os.utime(path, ns=(1, 1))


def link(path: Path) -> None:
    path.rename(path.with_name("renamed"))
    path.symlink_to("renamed")


def lead_out(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.symlink_to(path.parents[3] / "beside")


def turn_into_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def appear_where_it_was_written(path: Path) -> None:
    shutil.copytree(path.parents[1], path.parents[3] / RECORDED)


CHANGES: list[Callable[[Path], None]] = [
    grow, os.utime, Path.unlink, link, lead_out, turn_into_a_folder, appear_where_it_was_written,
]  # fmt: skip


def test_files_that_nobody_touched_are_unchanged(savepoint: Path) -> None:
    found = known(savepoint)
    (savepoint / "another").write_bytes(CONTENT)

    assert found is not None
    assert found.are_unchanged()
    assert {Path(path).name for path, _ in found.files} == {"_metadata", "file", "other"}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed(savepoint: Path, change: Callable[[Path], None]) -> None:
    found = known(savepoint)
    assert found is not None

    change(savepoint / "within" / "other")

    assert not found.are_unchanged()


@pytest.mark.parametrize("change", [grow, os.utime, Path.unlink, link])
def test_a_change_of_the_metadata_is_noticed(savepoint: Path, change: Callable[[Path], None]) -> None:
    found = known(savepoint)
    assert found is not None

    change(savepoint / "_metadata")

    assert not found.are_unchanged()


def test_what_only_a_search_tells_is_not_remembered(savepoint: Path) -> None:
    (savepoint / "link").symlink_to("file")
    linked = RelativeFileStateHandle(relative_path="link", state_size=len(CONTENT))
    assert known(savepoint) is not None
    assert known(savepoint, linked) is None

    (savepoint.parent.parent / RECORDED).mkdir(parents=True)
    assert known(savepoint) is None
