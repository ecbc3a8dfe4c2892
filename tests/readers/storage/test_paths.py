"""Recorded paths: the places where a file may be now, and the files that are allowed."""

from __future__ import annotations

import pytest

from readers.errors import PathOutsideRootError
from readers.storage.filesystems import Location
from readers.storage.paths import PathRules, check_recorded


def rules(
    directory: str, *, path_map: dict[str, str] | None = None, roots: tuple[str, ...] = ()
) -> PathRules:
    mapped = {Location.parse(old): Location.parse(new) for old, new in (path_map or {}).items()}
    return PathRules(
        exclusive_directory=Location.parse(directory),
        path_map=mapped,
        given_roots=tuple(map(Location.parse, roots)),
    )


def candidates(these: PathRules, recorded: str, *, relative: bool = False) -> list[str]:
    return [str(location) for location in these.candidates(recorded, relative=relative)]


def test_a_relative_path_is_beside_the_metadata() -> None:
    assert candidates(rules("/moved/savepoint-1"), "a-b", relative=True) == ["/moved/savepoint-1/a-b"]


def test_a_file_of_a_savepoint_is_where_it_was_or_beside_the_metadata() -> None:
    found = candidates(rules("/moved/savepoint-1"), "hdfs://old/shared/a-b")

    assert found == ["hdfs://old/shared/a-b", "/moved/savepoint-1/a-b"]


def test_a_file_of_a_checkpoint_moves_with_the_folder_of_its_job() -> None:
    found = candidates(rules("/moved/job/chk-7"), "s3://old/job/shared/part/a-b")

    assert found == ["s3://old/job/shared/part/a-b", "/moved/job/chk-7/a-b", "/moved/job/shared/part/a-b"]


def test_a_changelog_has_a_folder_beside_that_of_the_job() -> None:
    found = candidates(rules("/moved/job/chk-7"), "s3://old/dstl/a-b")

    assert found[2:] == ["/moved/job/dstl/a-b", "/moved/dstl/a-b"]


def test_only_the_last_folders_of_a_long_path_are_tried() -> None:
    found = candidates(rules("/moved/job/chk-7"), "/shared" * 30_000 + "/a-b")

    assert len(found) < 10


def test_the_longest_prefix_of_the_path_map_is_replaced() -> None:
    these = rules("/moved/savepoint-1", path_map={"s3://old": "/new", "s3://old/job": "/other"})

    assert candidates(these, "s3://old/job/a")[0] == "/other/a"
    assert candidates(these, "s3://old/jobs/a")[0] == "/new/jobs/a"


@pytest.mark.parametrize(
    ("directory", "path", "is_allowed"),
    [
        ("/job/savepoint-1", "/job/savepoint-1/a", True),
        ("/job/savepoint-1", "/job/savepoint-10/a", False),
        ("/job/savepoint-1", "/job/shared/a", False),
        ("/job/savepoint-1", "s3://job/savepoint-1/a", False),
        ("/all/job/chk-7", "/all/job/shared/a", True),
        ("/all/job/chk-7", "/all/job/taskowned/a", True),
        ("/all/job/chk-7", "/all/job/chk-6/a", True),
        ("/all/job/chk-7", "/all/job/secrets/a", False),
        ("/all/job/chk-7", "/all/dstl/job/a", True),
        ("/all/job/chk-7", "/all/other/shared/a", False),
        ("/job/savepoint-1", "/given/a", True),
    ],
)
def test_files_are_allowed_in_roots_and_in_flinks_folders_of_a_job(
    directory: str, path: str, is_allowed: bool
) -> None:
    assert rules(directory, roots=("/given",)).allows(Location.parse(path)) == is_allowed


@pytest.mark.parametrize("recorded", ["/a/../b", "..", "/a\0b", "http://host/a", "HTTPS://host/a", "", "//"])
def test_paths_that_flink_never_writes_are_refused(recorded: str) -> None:
    with pytest.raises(PathOutsideRootError, match="outside the allowed roots"):
        check_recorded(recorded)
