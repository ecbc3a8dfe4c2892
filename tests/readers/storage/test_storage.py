"""Files of a savepoint: how they are found and opened, and which paths are refused."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs

from readers.errors import (
    CorruptDataError,
    MissingFileError,
    NotASavepointError,
    PathOutsideRootError,
    ReaderError,
    SavepointGoneError,
    StorageError,
)
from readers.metadata import (
    ByteStreamStateHandle,
    CheckpointedStateScope,
    EmptySegmentFileStateHandle,
    FileStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    read_metadata,
)
from readers.storage.filesystems import Location, ReadCounter
from readers.storage.location import SavepointLocation
from tests.support.paths import PROJECT

JOB = "3999539312645ade420b3e452fe2ff6a"
CONTENT = b"0123456789"


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def absolute(path: str, size: int = len(CONTENT)) -> FileStateHandle:
    return FileStateHandle(file_path=path, state_size=size)


def relative(path: str, size: int = len(CONTENT)) -> RelativeFileStateHandle:
    return RelativeFileStateHandle(relative_path=path, state_size=size)


def segment(path: str, start: int, size: int) -> SegmentFileStateHandle:
    return SegmentFileStateHandle(
        file_path=path,
        start_pos=start,
        state_size=size,
        state_scope=CheckpointedStateScope.SHARED,
        logical_file_id="id",
    )


def content_of(location: SavepointLocation, handle) -> bytes:
    with location.open_stream(handle) as stream:
        return stream.read(0, stream.size_bytes)


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    """`outer/savepoint-1` with one file; beside it one that does not belong to it."""
    put(tmp_path / "outer" / "secret", b"secret")
    put(tmp_path / "outer" / "savepoint-1" / "_metadata", b"meta")
    put(tmp_path / "outer" / "savepoint-1" / "file")
    return tmp_path / "outer" / "savepoint-1"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """`case/checkpoint/chk-3` with its neighbours, and a changelog beside `checkpoint`."""
    put(tmp_path / "case" / "checkpoint" / "chk-3" / "_metadata", b"meta")
    put(tmp_path / "case" / "checkpoint" / "chk-2" / "older", b"older")
    put(tmp_path / "case" / "checkpoint" / "shared" / "sst", b"shared")
    put(tmp_path / "case" / "checkpoint" / "shared" / "job_1_op_2_0_1" / "merged", b"merged")
    put(tmp_path / "case" / "checkpoint" / "taskowned" / "base", b"base")
    put(tmp_path / "case" / "checkpoint" / "private", b"private")
    put(tmp_path / "case" / "dstl" / JOB / "dstl" / "changes", b"changes")
    return tmp_path / "case" / "checkpoint" / "chk-3"


# --- which savepoint ---


@pytest.mark.parametrize(
    "form", ["{}", "{}/", "{}/_metadata", "file:{}", "file://{}", "file://localhost{}/_metadata"]
)
def test_a_savepoint_is_named_by_its_directory_or_its_metadata(savepoint, form):
    location = SavepointLocation(form.format(savepoint))

    assert location.exclusive_directory == Location("file", "", str(savepoint))
    assert location.open_metadata().data.tobytes() == b"meta"
    assert content_of(location, relative("file")) == CONTENT


def test_relative_paths_count_from_the_working_directory(savepoint, monkeypatch):
    monkeypatch.chdir(savepoint.parent)

    assert content_of(SavepointLocation("savepoint-1"), relative("file")) == CONTENT
    assert content_of(SavepointLocation(Path("savepoint-1", "_metadata")), relative("file")) == CONTENT


@pytest.mark.parametrize("path", ["nothing", "nothing/_metadata", "."])
def test_a_place_without_metadata_is_not_a_savepoint(tmp_path, path):
    with pytest.raises(NotASavepointError, match="expected"):
        SavepointLocation(tmp_path / path)


def test_a_link_to_a_savepoint_is_followed(savepoint, tmp_path):
    (tmp_path / "latest").symlink_to(savepoint)

    assert content_of(SavepointLocation(tmp_path / "latest"), relative("file")) == CONTENT


def test_metadata_that_links_elsewhere_is_refused(savepoint):
    (savepoint / "_metadata").unlink()
    (savepoint / "_metadata").symlink_to(savepoint.parent / "secret")

    with pytest.raises(PathOutsideRootError):
        SavepointLocation(savepoint)


@pytest.mark.parametrize(
    "path",
    ["http://host/savepoint", "ftp://host/savepoint", "viewfs://host/savepoint", "file://host/savepoint"],
)
def test_unknown_schemes_and_hosts_are_named(path):
    with pytest.raises(StorageError, match=r"expected .* found .*(http|ftp|viewfs|host)"):
        SavepointLocation(path)


def test_a_path_that_no_file_system_takes_is_a_storage_error():
    with pytest.raises(StorageError, match="null byte"):
        SavepointLocation("a\0b")


# --- streams ---


def test_local_files_are_mapped_not_copied(savepoint):
    stream = SavepointLocation(savepoint).open_stream(relative("file"))

    view = stream.view(2, 3)

    assert view.tobytes() == b"234"
    assert view.dtype == np.uint8
    assert view.shape == (3,)
    assert np.shares_memory(view, stream.data)
    assert not view.flags.writeable
    assert not stream.data.flags.writeable


def test_arrays_outlive_their_stream(savepoint):
    with SavepointLocation(savepoint).open_stream(relative("file")) as stream:
        view, data = stream.view(2, 3), stream.data
    del stream
    gc.collect()

    assert view.tobytes() == b"234"
    assert data.tobytes() == CONTENT


def test_a_closed_stream_gives_nothing(savepoint):
    stream = SavepointLocation(savepoint).open_stream(relative("file"))
    stream.close()

    with pytest.raises(CorruptDataError):
        stream.view(0, 1)


def test_inline_and_empty_handles(savepoint):
    location = SavepointLocation(savepoint)
    inline = ByteStreamStateHandle(handle_name="name", data=b"inline")

    assert content_of(location, inline) == b"inline"
    assert location.open_stream(inline).path == "name"
    assert content_of(location, EmptySegmentFileStateHandle()) == b""
    assert location.exists(inline)


def test_an_empty_file_is_an_empty_stream(savepoint):
    put(savepoint / "empty", b"")

    assert content_of(SavepointLocation(savepoint), relative("empty", 0)) == b""


@pytest.mark.parametrize("size", [10, 7, 0, -1])
def test_a_file_may_be_longer_than_recorded(savepoint, size):
    assert content_of(SavepointLocation(savepoint), relative("file", size)) == CONTENT


def test_a_file_shorter_than_recorded_is_corrupt(savepoint):
    with pytest.raises(CorruptDataError, match="expected 11 bytes from 0 on, found a file of 10 bytes"):
        SavepointLocation(savepoint).open_stream(relative("file", 11))


def test_a_segment_is_a_slice(savepoint):
    stream = SavepointLocation(savepoint).open_stream(segment(str(savepoint / "file"), 3, 4))

    assert stream.size_bytes == 4
    assert stream.data.tobytes() == b"3456"
    assert stream.read(1, 2) == b"45"
    with pytest.raises(CorruptDataError):
        stream.view(3, 2)


@pytest.mark.parametrize(("start", "size"), [(3, 8), (11, 0), (2**62, 2**62)])
def test_a_segment_beyond_its_file_is_corrupt(savepoint, start, size):
    with pytest.raises(CorruptDataError, match="found a file of 10 bytes"):
        SavepointLocation(savepoint).open_stream(segment(str(savepoint / "file"), start, size))


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (0, 11), (11, 0), (5, -1), (2**63, 1)])
def test_views_are_checked(savepoint, start, length):
    stream = SavepointLocation(savepoint).open_stream(relative("file"))

    with pytest.raises(CorruptDataError, match="found a stream of 10 bytes"):
        stream.view(start, length)


def test_a_directory_in_place_of_a_file_is_an_error(savepoint):
    (savepoint / "folder").mkdir()

    with pytest.raises(StorageError, match="found a directory"):
        SavepointLocation(savepoint).open_stream(relative("folder"))


def test_a_pipe_in_place_of_a_file_does_not_block(savepoint):
    os.mkfifo(savepoint / "pipe")

    with pytest.raises(StorageError, match="found a directory or device"):
        SavepointLocation(savepoint).open_stream(relative("pipe", 0))


def test_unreadable_files_are_storage_errors(savepoint, monkeypatch):
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    location = SavepointLocation(savepoint)
    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(StorageError, match="Permission denied"):
        location.open_stream(relative("file"))


# --- where files are ---


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_savepoint_that_was_not_moved(savepoint, scheme):
    assert content_of(SavepointLocation(savepoint), absolute(f"{scheme}{savepoint}/file")) == CONTENT


@pytest.mark.parametrize(
    "recorded",
    [
        "file:/old/savepoint-1/file",
        "hdfs://namenode:8020/old/file",
        "s3a://bucket/a/file",
        "viewfs:///x/file",
    ],
)
def test_a_moved_savepoint_keeps_its_files_beside_its_metadata(savepoint, recorded):
    assert content_of(SavepointLocation(savepoint), absolute(recorded)) == CONTENT


@pytest.mark.parametrize(
    ("recorded", "content"),
    [
        ("file:/old/cp/job/shared/sst", b"shared"),
        ("file:/mnt/shared/cp/job/shared/sst", b"shared"),
        ("s3://bucket/cp/job/shared/job_1_op_2_0_1/merged", b"merged"),
        ("file:/old/cp/job/taskowned/base", b"base"),
        ("file:/old/cp/job/chk-2/older", b"older"),
        (f"file:/old/dstl/{JOB}/dstl/changes", b"changes"),
    ],
)
def test_a_moved_checkpoint_keeps_its_neighbours(checkpoint, recorded, content):
    assert content_of(SavepointLocation(checkpoint), absolute(recorded, len(content))) == content


def test_a_changelog_in_the_job_directory(checkpoint):
    put(checkpoint.parent / "dstl" / "more", b"more")

    assert content_of(SavepointLocation(checkpoint), absolute("file:/old/cp/job/dstl/more", 4)) == b"more"


def test_a_checkpoint_that_was_not_moved(checkpoint):
    path = checkpoint.parent / "shared" / "sst"

    assert content_of(SavepointLocation(checkpoint), absolute(f"file:{path}", 6)) == b"shared"


def test_missing_files_are_named(savepoint):
    location = SavepointLocation(savepoint)

    with pytest.raises(MissingFileError, match="found neither") as error:
        location.open_stream(absolute("file:/old/savepoint-1/gone"))
    with pytest.raises(FileNotFoundError):
        location.open_stream(relative("gone"))

    assert error.value.path == "file:/old/savepoint-1/gone"
    assert not location.exists(relative("gone"))
    assert location.exists(relative("file"))


def test_a_savepoint_that_was_deleted_is_gone(savepoint):
    location = SavepointLocation(savepoint)
    (savepoint / "file").unlink()

    with pytest.raises(MissingFileError) as incomplete:
        location.open_stream(relative("file"))
    (savepoint / "_metadata").unlink()
    with pytest.raises(SavepointGoneError, match="whole savepoint deleted"):
        location.open_stream(relative("file"))

    assert not isinstance(incomplete.value, SavepointGoneError)


def test_path_map_replaces_the_longest_prefix(savepoint, tmp_path):
    put(tmp_path / "new" / "a" / "file", b"new")
    put(tmp_path / "newer" / "file", b"newer")
    location = SavepointLocation(
        savepoint,
        path_map={"hdfs://host/old": str(tmp_path / "new"), "hdfs://host/old/b": f"file:{tmp_path}/newer"},
    )

    assert content_of(location, absolute("hdfs://host/old/a/file", 3)) == b"new"
    assert content_of(location, absolute("hdfs://host/old/b/file", 5)) == b"newer"
    assert content_of(location, absolute("hdfs://host/older/file")) == CONTENT


# --- what is refused ---


def test_files_outside_the_roots_are_refused_until_a_root_is_given(savepoint):
    secret = absolute(str(savepoint.parent / "secret"), 6)

    with pytest.raises(PathOutsideRootError):
        SavepointLocation(savepoint).open_stream(secret)
    assert not SavepointLocation(savepoint).exists(secret)
    assert content_of(SavepointLocation(savepoint, roots=[savepoint.parent]), secret) == b"secret"


@pytest.mark.parametrize("name", ["private", "chk-3/../private"])
def test_other_files_of_the_job_directory_are_refused(checkpoint, name):
    with pytest.raises(PathOutsideRootError):
        SavepointLocation(checkpoint).open_stream(absolute(f"{checkpoint.parent}/{name}", 7))


@pytest.mark.parametrize(
    "recorded",
    [
        "file:/old/../secret",
        "file:/old/shared/../../../etc/passwd",
        "http://host/file",
        "HTTPS://host/file",
        "file:/old/\0file",
        "/etc/passwd",
        "file:/etc/passwd",
        "file:///etc/passwd",
        "//etc/passwd",
        "",
        "/",
    ],
)
def test_hostile_absolute_paths_are_refused(savepoint, recorded):
    with pytest.raises(PathOutsideRootError):
        SavepointLocation(savepoint).open_stream(absolute(recorded, 0))


@pytest.mark.parametrize("recorded", ["../secret", "a/../../secret", "/etc/passwd", "", "..", "\0"])
def test_hostile_relative_paths_are_refused(savepoint, recorded):
    with pytest.raises(PathOutsideRootError):
        SavepointLocation(savepoint).open_stream(relative(recorded, 0))


@pytest.mark.parametrize(
    "recorded", ["x" * 60_000, "/shared" * 9_000, "file:" + "/a" * 30_000, "a:b", "file:", ".", "//"]
)
def test_odd_paths_end_in_a_reader_error(checkpoint, recorded):
    for handle in (absolute(recorded), relative(recorded)):
        with pytest.raises(ReaderError):
            SavepointLocation(checkpoint).open_stream(handle)


def test_links_that_lead_outside_are_refused(savepoint):
    (savepoint / "link").symlink_to(savepoint.parent / "secret")
    (savepoint / "folder").symlink_to(savepoint.parent)
    location = SavepointLocation(savepoint)

    for name in ("link", "folder/secret"):
        with pytest.raises(PathOutsideRootError):
            location.open_stream(relative(name, 6))


def test_links_that_stay_inside_are_followed(savepoint):
    (savepoint / "link").symlink_to("file")

    assert content_of(SavepointLocation(savepoint), relative("link")) == CONTENT


def test_many_files_are_found_together_where_each_is_found_alone(savepoint):
    (savepoint / "link").symlink_to("file")
    (savepoint / "within").mkdir()
    put(savepoint / "within" / "other")
    (savepoint / "folder").symlink_to("within")
    (savepoint / "out").symlink_to(savepoint.parent / "secret")
    (savepoint / "away").symlink_to(savepoint.parent)
    location = SavepointLocation(savepoint)
    inside = [relative(name) for name in ("file", "link", "folder/other", "within/other", "file")]

    assert location.resolve_all(inside) == [location.resolve(handle) for handle in inside]
    for name in ("out", "away/secret"):
        with pytest.raises(PathOutsideRootError):
            location.resolve_all([*inside, relative(name, 6)])
    (savepoint / "folder").unlink()
    (savepoint / "folder").symlink_to(savepoint.parent)
    with pytest.raises((PathOutsideRootError, MissingFileError)):
        location.resolve_all(inside)


@pytest.mark.parametrize("folder", ["shared", "taskowned", "dstl"])
def test_a_neighbour_that_is_a_link_is_no_root(tmp_path, folder):
    put(tmp_path / "elsewhere" / "secret", b"secret")
    put(tmp_path / "case" / "cp" / "chk-1" / "_metadata")
    (tmp_path / "case" / "cp" / folder).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "case" / "dstl").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PathOutsideRootError):
        SavepointLocation(tmp_path / "case" / "cp" / "chk-1").open_stream(
            absolute(f"file:/old/{folder}/secret", 6)
        )


# --- counting, identity, materializing ---


def test_views_are_counted(savepoint):
    counter = ReadCounter()
    location = SavepointLocation(savepoint, counter=counter)

    stream = location.open_stream(relative("file"))
    assert (stream.data.size, counter.bytes_read) == (10, 0)
    stream.view(0, 4)
    stream.read(4, 3)

    assert counter.bytes_read == 7
    assert location.counter is counter


def test_counting_is_safe_between_threads():
    counter = ReadCounter()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(8000):
            pool.submit(counter.add, 1)

    assert counter.bytes_read == 8000


def test_identity_changes_with_the_file(savepoint):
    location = SavepointLocation(savepoint)
    before = location.identity(str(savepoint / "file"))
    put(savepoint / "file", CONTENT + b"more")
    os.utime(savepoint / "file", ns=(1, 2))

    after = location.identity(location.resolve(relative("file")).location)

    assert before.size_bytes == 10
    assert after == (14, 2)
    with pytest.raises(PathOutsideRootError):
        location.identity(str(savepoint.parent / "secret"))
    with pytest.raises(MissingFileError):
        location.identity(str(savepoint / "gone"))


def test_materialize_links_files_and_copies_the_rest(savepoint, tmp_path):
    target = tmp_path / "db"
    target.mkdir()
    SavepointLocation(savepoint).materialize(
        [
            ("000001.sst", relative("file")),
            ("CURRENT", ByteStreamStateHandle(handle_name="n", data=b"MANIFEST-1\n")),
            ("MANIFEST-1", segment(str(savepoint / "file"), 2, 3)),
        ],
        target,
    )

    assert (target / "000001.sst").readlink() == savepoint / "file"
    assert (target / "CURRENT").read_bytes() == b"MANIFEST-1\n"
    assert (target / "MANIFEST-1").read_bytes() == b"234"
    assert not (target / "MANIFEST-1").is_symlink()


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/b", "", ".", "..", "a\0b"])
def test_materialize_refuses_names_that_leave_the_directory(savepoint, tmp_path, name):
    with pytest.raises(CorruptDataError, match="expected a file name"):
        SavepointLocation(savepoint).materialize([(name, relative("file"))], tmp_path)


def test_materialize_refuses_a_name_twice(savepoint, tmp_path):
    with pytest.raises(StorageError, match="File exists"):
        SavepointLocation(savepoint).materialize([("a", relative("file"))] * 2, tmp_path)


def test_materialize_checks_what_it_links(savepoint, tmp_path):
    (savepoint / "link").symlink_to(savepoint.parent / "secret")
    location = SavepointLocation(savepoint)

    with pytest.raises(PathOutsideRootError):
        location.materialize([("a", relative("link", 6))], tmp_path)
    with pytest.raises(MissingFileError):
        location.materialize([("a", relative("gone"))], tmp_path)


def test_locations_pickle_for_splits(savepoint):
    location = pickle.loads(pickle.dumps(SavepointLocation(savepoint)))

    assert content_of(location, relative("file")) == CONTENT
    assert location.counter.bytes_read == 10


# --- remote ---


@pytest.fixture
def bucket(savepoint, checkpoint) -> fs.FileSystem:
    """The folder of both fixtures as an object store whose buckets are `outer` and `case`."""
    return fs.SubTreeFileSystem(str(savepoint.parent.parent), fs.LocalFileSystem())


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3p", "gs"])
def test_remote_files_are_read_by_ranges(bucket, scheme):
    location = SavepointLocation(f"{scheme}://outer/savepoint-1", filesystem=bucket)
    stream = location.open_stream(relative("file"))

    assert stream.size_bytes == 10
    assert stream.view(2, 3).tobytes() == b"234"
    assert location.counter.bytes_read == 3
    assert stream.data.tobytes() == CONTENT
    assert stream.view(0, 2).tobytes() == b"01"
    assert not stream.view(0, 2).flags.writeable
    with pytest.raises(CorruptDataError):
        stream.view(8, 3)


def test_remote_segments_and_recorded_paths(bucket):
    location = SavepointLocation("s3://outer/savepoint-1/_metadata", filesystem=bucket)

    assert location.open_metadata().read(0, 4) == b"meta"
    assert content_of(location, segment("s3a://outer/savepoint-1/file", 3, 4)) == b"3456"
    assert content_of(location, absolute("hdfs://old/place/file")) == CONTENT


def test_moved_remote_checkpoints_keep_their_neighbours(bucket):
    location = SavepointLocation("s3://case/checkpoint/chk-3", filesystem=bucket)

    assert content_of(location, absolute("s3://old/job/shared/sst", 6)) == b"shared"
    assert content_of(location, absolute(f"s3://old/dstl/{JOB}/dstl/changes", 7)) == b"changes"


def test_other_buckets_are_never_asked(bucket):
    location = SavepointLocation("s3://outer/savepoint-1", filesystem=bucket)

    with pytest.raises(MissingFileError):
        location.open_stream(absolute("s3://case/checkpoint/private", 7))
    with pytest.raises(NotASavepointError):
        SavepointLocation("s3://outer/nothing", filesystem=bucket)


def test_remote_files_are_materialized_as_copies(bucket, tmp_path):
    location = SavepointLocation("s3://outer/savepoint-1", filesystem=bucket)
    location.materialize([("000001.sst", relative("file"))], tmp_path)

    assert (tmp_path / "000001.sst").read_bytes() == CONTENT
    assert not (tmp_path / "000001.sst").is_symlink()


def test_local_savepoints_do_not_load_pyarrow_fs(savepoint):
    code = (
        "import sys; from readers.storage.location import SavepointLocation;"
        "SavepointLocation(sys.argv[1]).open_metadata(); sys.exit('pyarrow.fs' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code, savepoint], cwd=PROJECT, check=False).returncode == 0


# --- paths ---


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("/a/b", ("file", "", "/a/b")),
        ("file:/a/b", ("file", "", "/a/b")),
        ("file:///a//b/./c", ("file", "", "/a/b/c")),
        ("s3a://bucket/a%20b", ("s3", "bucket", "/a%20b")),
        ("s3://bucket", ("s3", "bucket", "/")),
        ("abfss://c@a.dfs.core.windows.net/x", ("abfs", "c@a.dfs.core.windows.net", "/x")),
        ("hdfs://nn:8020/x", ("hdfs", "nn:8020", "/x")),
        ("hdfs:/x", ("hdfs", "", "/x")),
        ("/a:b/c", ("file", "", "/a:b/c")),
    ],
)
def test_paths_of_flink_parse(text, parsed):
    assert Location.parse(text) == parsed


def test_inside_is_meant_by_folder():
    root = Location.parse("s3://bucket/a")

    assert Location.parse("s3a://bucket/a/b").is_inside(root)
    assert Location.parse("s3://bucket/a").is_inside(root)
    assert not Location.parse("s3://bucket/ab").is_inside(root)
    assert not Location.parse("s3://other/a/b").is_inside(root)
    assert not Location.parse("/a/b").is_inside(root)
    assert Location.parse("/a").is_inside(Location.parse("/"))


def test_every_handle_of_the_corpus_resolves(corpus):
    for path in sorted(corpus.rglob("_metadata")):
        location = SavepointLocation(path)
        metadata = read_metadata(path.read_bytes(), str(path))
        for handle in metadata.streams():
            surplus = location.open_stream(handle).size_bytes - handle.size_bytes

            # A changelog file begins with a flag byte that its recorded size leaves out.
            assert surplus == (handle.scope is CheckpointedStateScope.CHANGELOG), handle
