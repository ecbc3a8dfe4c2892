"""New savepoints in an object store: what stands there, who sent it, and what is left when a request fails."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from readers.errors import ReaderError
from readers.metadata import RelativeFileStateHandle, read_metadata
from readers.savepoint import Savepoint
from readers.storage.location import SavepointLocation
from service.cli import main
from tests.catalog.test_objectstore import outline
from tests.support.objectstore import BUCKET, Fault, ObjectStore, Proxy, Spoil, reset, status
from tests.support.paths import DATA
from tests.writers.test_deaths import removed_rows
from tests.writers.test_savepoint import AGGREGATE, contents, rows
from tools.synthetic.savepoints import write_savepoint
from writers import (
    DropOperator,
    FilesMode,
    RenameOperator,
    SavepointWriter,
    TargetError,
    TargetExistsError,
    UnwritableError,
)
from writers.savepoint import target_of

CANONICAL = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
UNFINISHED = "_metadata.unfinished"
WRITES = "PUT POST DELETE"


@pytest.fixture(scope="module")
def outlined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint whose state is in files."""
    folder = tmp_path_factory.mktemp("outlined") / "canonical"
    shutil.copytree(CANONICAL, folder)
    outline(folder / "_metadata")
    return folder


@pytest.fixture(autouse=True)
def _emptied(store: ObjectStore) -> None:
    for key in store.contents(""):
        store.delete(key)


def test_a_local_savepoint_is_written_to_a_store(store: ObjectStore, proxy: Proxy, outlined: Path) -> None:
    before = contents(outlined)

    summary = SavepointWriter(SavepointLocation(outlined), []).write(proxy.url("new"))

    files = {f"new/{name}": digest for name, digest in before.items() if name != "_metadata"}
    found = store.contents("new/")
    assert found.keys() == files.keys() | {"new/_metadata"}
    assert {key: found[key] for key in files} == files
    assert summary.files == len(files) > 3
    assert store.uploads == []
    assert contents(outlined) == before


@pytest.mark.slow
def test_metadata_comes_last(proxy: Proxy, outlined: Path) -> None:
    SavepointWriter(SavepointLocation(outlined), []).write(proxy.url("new"))

    written = [request.key for request in proxy.taken() if request.method == "PUT"]
    assert written[0] == written[-2] == f"new/{UNFINISHED}"
    assert written[-1] == "new/_metadata"
    assert len(set(written)) == len(written) - 1


@pytest.mark.slow
def test_files_of_one_store_are_copied_inside_it(store: ObjectStore, proxy: Proxy, outlined: Path) -> None:
    source = SavepointLocation(proxy.url(store.upload(outlined, "source")))
    proxy.taken()

    SavepointWriter(source, [RenameOperator(AGGREGATE, "counts")]).write(proxy.url("new"))

    sent = [request for request in proxy.taken() if request.method == "PUT" and request.sent_bytes]
    assert {request.key for request in sent} == {f"new/{UNFINISHED}", "new/_metadata"}
    old, new = store.contents("source/"), store.contents("new/")
    assert len(new) == len(old)
    assert sorted(new.values())[1:] != sorted(old.values())[1:] or len(new) == 1
    assert {key.removeprefix("new/"): digest for key, digest in new.items() if key != "new/_metadata"} == {
        key.removeprefix("source/"): digest for key, digest in old.items() if key != "source/_metadata"
    }


@pytest.mark.slow
def test_keyed_state_that_changes_has_the_bytes_of_a_local_write(
    store: ObjectStore, proxy: Proxy, outlined: Path, tmp_path: Path
) -> None:
    remote = proxy.url(store.upload(outlined, "source"))

    SavepointWriter(SavepointLocation(outlined), removed_rows(Savepoint(outlined))).write(tmp_path / "new")
    SavepointWriter(SavepointLocation(remote), removed_rows(Savepoint(remote))).write(proxy.url("new"))

    # New files have random names.
    here = sorted(digest for name, digest in contents(tmp_path / "new").items() if name != "_metadata")
    there = sorted(digest for key, digest in store.contents("new/").items() if key != "new/_metadata")
    assert there == here
    assert here != sorted(digest for name, digest in contents(outlined).items() if name != "_metadata")


@pytest.mark.slow
def test_a_script_writes_from_a_store_to_a_store(
    store: ObjectStore, proxy: Proxy, outlined: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = proxy.url(store.upload(outlined, "source"))
    script = "UPDATE aggregate__count SET value = value + 1 WHERE key = 'key_662'; DROP TABLE source"

    assert main(["write", source, script, "--to", proxy.url("new")]) == 0

    assert f"written: s3://{BUCKET}/new" in capsys.readouterr().out
    query = "SELECT value FROM aggregate__count WHERE key = 'key_662'"
    assert main(["query", query, "--savepoint", proxy.url("new"), "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ['"value"', "11291"]


@pytest.mark.slow
def test_a_savepoint_is_created_in_a_store(
    store: ObjectStore, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "CREATE TABLE aggregate__count (key VARCHAR, value BIGINT) WITH (kind = 'VALUE', operator_uid = 'aggregate') "
        "AS SELECT 'key_' || range, range FROM range(3)"
    )

    assert main(["create", proxy.url("new"), script, "--flink", "2.3"]) == 0

    assert f"written: s3://{BUCKET}/new" in capsys.readouterr().out
    assert "new/_metadata" in store.contents("new/")
    [operator] = Savepoint(proxy.url("new")).operators
    [state] = operator.states
    assert sum(batch.num_rows for batch in state.read()) == 3


@pytest.mark.slow
def test_options_of_the_source_hold_for_its_bucket(store: ObjectStore, proxy: Proxy, outlined: Path) -> None:
    source = SavepointLocation(proxy.url(store.upload(outlined, "source")))

    SavepointWriter(source, []).write(f"s3a://{BUCKET}/new")

    assert "new/_metadata" in store.contents("new/")


def test_a_savepoint_of_a_store_is_written_here(
    store: ObjectStore, proxy: Proxy, outlined: Path, tmp_path: Path
) -> None:
    source = SavepointLocation(proxy.url(store.upload(outlined, "source")))

    SavepointWriter(source, [DropOperator(AGGREGATE)]).write(tmp_path / "new")

    expected = {name: lines for name, lines in rows(outlined).items() if not name.startswith(AGGREGATE)}
    assert rows(tmp_path / "new") == expected


@pytest.mark.slow
def test_references_name_the_files_of_the_store(
    store: ObjectStore, proxy: Proxy, outlined: Path, tmp_path: Path
) -> None:
    source = SavepointLocation(proxy.url(store.upload(outlined, "source")))

    SavepointWriter(source, [], FilesMode.REFERENCE).write(tmp_path / "new")
    SavepointWriter(source, [], FilesMode.REFERENCE).write(proxy.url("new"))

    written = (tmp_path / "new" / "_metadata").read_bytes()
    paths = {stream.path for stream in read_metadata(written).streams() if stream.path}
    assert paths == {f"s3://{BUCKET}/{key}" for key in store.contents("source/")} - {
        f"s3://{BUCKET}/source/_metadata"
    }
    assert list(store.contents("new/").values()) == [hashlib.sha256(written).hexdigest()]


@pytest.mark.parametrize("there", ["new/file", f"new/{UNFINISHED}", "new/_metadata", "new/folder/file"])
def test_what_is_there_is_refused_and_stays(
    store: ObjectStore, proxy: Proxy, outlined: Path, there: str
) -> None:
    store.put(there, b"mine")

    with pytest.raises(TargetExistsError, match="expected a new folder, found"):
        SavepointWriter(SavepointLocation(outlined), []).write(proxy.url("new"))

    assert store.contents("") == {there: hashlib.sha256(b"mine").hexdigest()}


@pytest.mark.parametrize("depth", ["inner", "a/b/inner"])
@pytest.mark.parametrize(
    ("file", "state"), [(UNFINISHED, "is being written"), ("_metadata", "is a savepoint")]
)
def test_a_target_inside_another_savepoint_is_refused(
    file: str, state: str, depth: str, store: ObjectStore, proxy: Proxy, outlined: Path
) -> None:
    store.put(f"outer/{file}", b"theirs")

    with pytest.raises(TargetError, match=f"outside of other savepoints, found one in outer/, which {state}"):
        SavepointWriter(SavepointLocation(outlined), []).write(proxy.url(f"outer/{depth}"))

    assert store.contents("").keys() == {f"outer/{file}"}


def test_what_a_writer_that_others_joined_did_not_make_stays(store: ObjectStore, proxy: Proxy) -> None:
    with target_of(proxy.url("new"), SavepointLocation(CANONICAL)) as target:
        target.reference()
        store.put("new/left", b"by a task")
        store.put("new/inner/_metadata", b"theirs")
        target.keep([])
        assert store.contents("").keys() == {f"new/{UNFINISHED}", "new/inner/_metadata"}

    assert store.contents("").keys() == {"new/inner/_metadata"}


def test_names_that_begin_alike_are_others(store: ObjectStore, proxy: Proxy) -> None:
    store.put("new-2/file", b"mine")

    SavepointWriter(SavepointLocation(CANONICAL), []).write(proxy.url("new/"))

    assert store.contents("").keys() == {"new-2/file", "new/_metadata"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("hdfs://host/new", r"expected a path of this machine or one of \['abfs', 'gs', 'oss', 's3'\]"),
        ("https://host/new", "expected a path of this machine or one of"),
        (f"s3://{BUCKET}?region=us-east-1&credentials=MOTO", "expected a folder in the bucket"),
        (f"s3://{BUCKET}/new?region=us-east-1&role_arn=a", "without the option role_arn"),
    ],
)
@pytest.mark.usefixtures("store")
def test_other_places_are_refused(target: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        SavepointWriter(SavepointLocation(CANONICAL), []).write(target)


def test_a_target_in_the_source_is_refused(
    store: ObjectStore, proxy: Proxy, outlined: Path, tmp_path: Path
) -> None:
    shutil.copytree(outlined, tmp_path / "source")
    (tmp_path / "link").symlink_to(tmp_path / "source")
    remote = SavepointLocation(proxy.url(store.upload(outlined, "source")))

    for source, target in (
        (SavepointLocation(tmp_path / "source"), str(tmp_path / "source" / "new")),
        (SavepointLocation(tmp_path / "source"), str(tmp_path / "link" / "new")),
        (remote, proxy.url("source/new")),
    ):
        with pytest.raises(TargetError, match="expected a place outside of the source"):
            SavepointWriter(source, []).write(target)

    assert contents(tmp_path / "source") == contents(outlined)


@pytest.mark.slow
def test_large_files_are_sent_and_copied_in_parts(store: ObjectStore, proxy: Proxy, tmp_path: Path) -> None:
    shutil.copytree(CANONICAL, tmp_path / "source")
    data = os.urandom(21 << 20)
    (tmp_path / "source" / "large").write_bytes(data)
    local = SavepointLocation(tmp_path / "source")
    remote = SavepointLocation(proxy.url(store.upload(tmp_path / "source", "source")))
    handle = RelativeFileStateHandle(relative_path="large", state_size=len(data))
    here, there = local.resolve(handle), remote.resolve(handle)
    proxy.taken()

    with target_of(proxy.url("new"), remote) as target:
        with target.create("sent") as new:
            assert new.copy(here, 0, len(data))
        with target.create("range") as new:
            assert new.copy(there, 3, 6 << 20)
            new.write(b"behind")
        with target.create("small") as new:
            new.write(b"before")
            # A part this small cannot stand before another one.
            assert not new.copy(there, 0, 6 << 20)
        target.publish(b"metadata", lambda path: None)

    requests = [request for request in proxy.taken() if "partNumber" in request.query]
    assert max(request.sent_bytes for request in requests) == 8 << 20
    assert [request.key for request in requests if request.copied] == ["new/range"]
    found = store.contents("new/")
    assert found == {
        f"new/{name}": hashlib.sha256(content).hexdigest()
        for name, content in {
            "_metadata": b"metadata",
            "sent": data,
            "range": data[3 : 3 + (6 << 20)] + b"behind",
            "small": b"before",
        }.items()
    }
    assert store.uploads == []


@pytest.mark.slow
def test_a_changed_key_group_is_fetched_once_to_be_made(
    store: ObjectStore, proxy: Proxy, tmp_path: Path
) -> None:
    size_bytes = write_savepoint(tmp_path / "source", 100_000, ("count",))
    source = proxy.url(store.upload(tmp_path / "source", "source"))
    proxy.taken()

    script = "UPDATE aggregate__count SET value = value + 1"
    assert main(["write", source, script, "--to", str(tmp_path / "new")]) == 0

    # Once to find the rows, once to make them, once to compare them with those that were written.
    fetched = sum(request.size_bytes for request in proxy.taken() if request.method == "GET")
    assert 3 <= fetched / size_bytes < 3.1


def write_interrupted(url: str) -> None:
    """Begin a new savepoint, and stop in the middle of its second file."""
    with target_of(url, SavepointLocation(CANONICAL)) as target:
        with target.create("whole") as new:
            new.write(b"whole")
        with target.create("large") as new:
            new.write(bytes(20 << 20))
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_file_that_is_not_written_to_its_end_leaves_nothing(store: ObjectStore, proxy: Proxy) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_interrupted(proxy.url("new"))

    assert store.contents("") == {}
    assert store.uploads == []


@pytest.mark.slow
def test_a_failed_check_leaves_nothing_behind(store: ObjectStore, proxy: Proxy, outlined: Path) -> None:
    def refuse(savepoint: Savepoint) -> None:
        assert len(savepoint.operators) == 3
        raise UnwritableError("not what was asked for")

    with pytest.raises(UnwritableError, match="not what was asked for"):
        SavepointWriter(SavepointLocation(outlined), []).write(proxy.url("new"), refuse)

    assert store.contents("") == {}


@pytest.mark.slow
def test_a_store_without_conditions_is_written_to(store: ObjectStore, proxy: Proxy, outlined: Path) -> None:
    unknown = status(501, "NotImplemented")
    # The reservation, and the fourth request about a key that begins so.
    proxy.faults.append(Fault(unknown, "PUT", f"new/{UNFINISHED}", times=1, is_lost=True))
    proxy.faults.append(Fault(unknown, "PUT", "new/_metadata", times=1, after=2, is_lost=True))

    SavepointWriter(SavepointLocation(outlined), []).write(proxy.url("new"))

    assert f"new/{UNFINISHED}" not in store.contents("new/")
    with pytest.raises(TargetExistsError):
        SavepointWriter(SavepointLocation(outlined), []).write(proxy.url("new"))


@pytest.mark.slow
def test_another_writer_that_was_faster_keeps_its_savepoint(
    store: ObjectStore, proxy: Proxy, outlined: Path
) -> None:
    with pytest.raises(TargetError, match="expected a new object, found one that exists"):
        SavepointWriter(SavepointLocation(outlined), []).write(
            proxy.url("new"), lambda _: store.put("new/_metadata", b"theirs")
        )

    assert store.contents("new/")["new/_metadata"] == hashlib.sha256(b"theirs").hexdigest()


@pytest.mark.slow
def test_a_file_of_the_source_that_vanishes_is_named(
    store: ObjectStore, proxy: Proxy, outlined: Path
) -> None:
    source = SavepointLocation(proxy.url(store.upload(outlined, "source")))
    writer = SavepointWriter(source, [])
    store.delete("source/file-1")

    with pytest.raises(TargetError, match=f"s3://{BUCKET}/source/file-1: expected an object, found nothing"):
        writer.write(proxy.url("new"))

    assert store.contents("new/") == {}


@pytest.mark.slow
def test_denied_credentials_are_named(proxy: Proxy) -> None:
    proxy.faults.append(Fault(status(403, "AccessDenied"), "PUT", is_lost=True))

    with pytest.raises(TargetError, match=r"found access denied to PutObject: .*AWS_ACCESS_KEY_ID"):
        SavepointWriter(SavepointLocation(CANONICAL), []).write(proxy.url("new"))


# --- faults at each request ---


def write_with_a_large_file(proxy: Proxy, source: SavepointLocation, large: Path) -> None:
    """Write what takes every kind of request: copies inside the store, a large file that is sent in parts, and small ones."""
    handle = RelativeFileStateHandle(relative_path=large.name, state_size=large.stat().st_size)
    file = SavepointLocation(large.parent).resolve(handle)
    with target_of(proxy.url("new"), source) as target:
        for stream in source_files(source):
            assert target.take(source.resolve(stream), stream.relative_path, shared=True)
        with target.create("large") as new:
            assert new.copy(file, 0, file.size_bytes)
        with target.create("small") as new:
            new.write(b"small")
        target.publish(b"metadata", lambda path: None)


def source_files(source: SavepointLocation) -> list[RelativeFileStateHandle]:
    with source.open_metadata() as stream:
        found = read_metadata(stream.data.tobytes()).streams()
    return [stream for stream in found if isinstance(stream, RelativeFileStateHandle)][:2]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    shutil.copytree(CANONICAL, tmp_path / "large")
    (tmp_path / "large" / "file").write_bytes(os.urandom(9 << 20))
    return tmp_path / "large" / "file"


def is_whole(found: dict[str, str]) -> bool:
    """Return whether all is there; the end of the reservation may have failed, and does no harm."""
    names = found.keys() - {f"new/{UNFINISHED}"}
    return {"new/large", "new/small", "new/_metadata"} <= names and len(names) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "is_lost", "times"),
    [
        (status(403, "AccessDenied"), True, 1),
        (status(500, "InternalError"), True, 3),
        (reset, True, 3),
        (reset, False, 1),
        (reset, False, 1 << 30),
        (reset, True, 1 << 30),
        (status(403, "AccessDenied"), True, 1 << 30),
    ],
    ids=["denied", "errors", "lost", "answer lost", "all answers lost", "store lost", "closed for good"],
)
def test_a_fault_at_each_request_leaves_no_half_savepoint(
    store: ObjectStore, proxy: Proxy, outlined: Path, large: Path, spoil: Spoil, is_lost: bool, times: int
) -> None:
    source = SavepointLocation(proxy.url(store.upload(outlined, "source")))
    before = store.contents("source/")
    outcomes = []
    # A store that never answers again makes each try wait: every fourth request will do.
    step = 4 if spoil is reset and times > 10 else 1
    for after in range(int(is_lost) if step > 1 else 0, 100, step):
        methods = f"{WRITES} GET HEAD" if spoil is reset and times > 10 else WRITES
        fault = Fault(spoil, methods, after=after, times=times, is_lost=is_lost)
        proxy.faults[:] = [fault]
        try:
            write_with_a_large_file(proxy, source, large)
        except (TargetError, ReaderError) as error:
            outcomes.append(str(error))
        else:
            outcomes.append("")
        proxy.faults.clear()

        found = store.contents("new/")
        is_gone = times > 10
        if outcomes[-1] == "":
            assert is_whole(found), after
        else:
            # Nobody can know of a store that stopped to answer what it did last.
            assert "new/_metadata" not in found or (is_gone and is_whole(found)), after
            # A store that never answers again keeps what it has.
            assert not found or is_gone, after
        assert store.uploads == [] or is_gone
        assert store.contents("source/") == before
        for key in found:
            store.delete(key)
        for upload in store.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()):
            store.client.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
        if fault.met <= after:
            break

    # Reservation, two copies, upload of two parts, a small object, the trial, `_metadata`, and the end of the reservation.
    assert len(outcomes) > 10 // step
    assert outcomes[-1] == ""
    if times == 1 and spoil is not reset:
        assert all(outcomes[:9])
    if times < 10 and spoil is reset:
        assert not any(outcomes)
