"""Remote files: the fetched ranges, and the result of every fault, over real HTTP."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import fs

from readers.errors import (
    AccessDeniedError,
    CorruptDataError,
    FileChangedError,
    MissingFileError,
    NotASavepointError,
    ReaderError,
    SavepointGoneError,
    StorageError,
)
from readers.metadata import FileStateHandle, RelativeFileStateHandle
from readers.storage import remote
from readers.storage.filesystems import LocalFileSystem, Location, ReadCounter, Stream
from readers.storage.location import SavepointLocation, StorageOptions
from readers.storage.remote import Client, RemoteFileSystem, RemoteStream
from readers.storage.temporary import FileCache
from tests.support.examples import examples
from tests.support.objectstore import (
    BUCKET,
    KEY_VARIABLES,
    Fault,
    ObjectStore,
    Proxy,
    Spoil,
    cut_short,
    hang,
    reset,
    status,
    wrong_length,
)

CONTENT = bytes(range(256)) * 4
MEGABYTE = 1 << 20


@pytest.fixture
def opened(store: ObjectStore, proxy: Proxy) -> Stream:
    """A file of a savepoint in the store, which was asked for and not read yet."""
    store.put("sp/_metadata", b"meta")
    store.put("sp/file", CONTENT)
    location = SavepointLocation(proxy.url("sp"))
    stream = location.open_stream(RelativeFileStateHandle(relative_path="file", state_size=len(CONTENT)))
    proxy.taken()
    return stream


def test_a_file_that_is_replaced_by_one_of_its_length_is_another(store: ObjectStore, proxy: Proxy) -> None:
    found = []
    for content in (b"first", b"other", b"other"):
        store.put("replaced/_metadata", b"meta")
        store.put("replaced/file", content)
        store.modify("replaced/file", 1_000_000)
        location = SavepointLocation(proxy.url("replaced"))
        found.append(location.identity(Location("s3", BUCKET, "/replaced/file")))

    assert found[0] != found[1] == found[2]


# --- what is fetched ---


def test_a_span_is_one_request_of_its_range(opened: Stream, proxy: Proxy) -> None:
    data = opened.span(100, 200)

    assert data[100:200].tobytes() == CONTENT[100:200]
    assert len(data) == 200
    assert not data.flags.writeable
    assert [(one.method, one.byte_range) for one in proxy.taken()] == [("GET", "bytes=84-199")]


def test_neighbours_are_fetched_at_once_and_what_follows_ahead(opened: Stream, proxy: Proxy) -> None:
    places = [(0, 10), (10, 20), (20, 30)]

    assert [
        data[start:end].tobytes() for (start, end), data in zip(places, opened.spans(places), strict=True)
    ] == [CONTENT[start:end] for start, end in places]
    assert [one.byte_range for one in proxy.taken()] == ["bytes=0-29"]


def test_who_wants_no_more_than_the_first_place_fetches_no_more(store: ObjectStore, proxy: Proxy) -> None:
    store.put("wide/_metadata", b"meta")
    store.put("wide/file", bytes(40 * MEGABYTE))
    location = SavepointLocation(proxy.url("wide"))
    stream = location.open_stream(RelativeFileStateHandle(relative_path="file", state_size=40 * MEGABYTE))
    proxy.taken()

    next(stream.spans([(start * 9 * MEGABYTE, start * 9 * MEGABYTE + 100) for start in range(4)]))

    assert [one.byte_range for one in proxy.taken()] == ["bytes=0-99"]


@given(
    start=st.integers(0, len(CONTENT)),
    size=st.integers(0, len(CONTENT)),
    positions=st.lists(st.tuples(st.integers(0, 300), st.integers(1, 300), st.booleans()), max_size=8),
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=examples(30),
)
def test_pieces_have_what_is_needed_and_at_most_four_times_what_was(
    opened: Stream, proxy: Proxy, start: int, size: int, positions: list[tuple[int, int, bool]]
) -> None:
    end, position, walked = min(start + size, len(CONTENT)), start, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "_FIRST_STEP_BYTES", 100)
        windows = opened.windows(start, end)

        for skipped, length, is_asked in positions:
            position = min(position + skipped, end)
            needed = min(position + length, end)
            if is_asked:
                windows.ask(position, needed)
            limit = windows.reach(position, needed)

            assert needed <= max(limit, start) <= max(end, start)
            assert windows.data[position:limit].tobytes() == CONTENT[position:limit]
            walked = needed - start
        windows.close(position)

    fetched = sum(one.size_bytes for one in proxy.taken())
    assert fetched <= 16 + 4 * max(walked, 100)


def test_pieces_are_requests_that_grow(opened: Stream, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_FIRST_STEP_BYTES", 100)
    windows = opened.windows(50, 1000)

    limits = [windows.reach(50, needed) for needed in (51, 120, 151, 340, 700)]

    assert limits == [134, 134, 334, 1000, 1000]
    assert [one.byte_range for one in proxy.taken()] == ["bytes=34-133", "bytes=134-333", "bytes=334-999"]


def test_a_file_is_asked_for_once(store: ObjectStore, proxy: Proxy) -> None:
    store.put("sp/_metadata", b"meta")
    store.put("sp/file", CONTENT)
    location = SavepointLocation(proxy.url("sp"))
    handle = RelativeFileStateHandle(relative_path="file", state_size=len(CONTENT))
    for _ in range(3):
        assert location.open_stream(handle).view(1, 2).tobytes() == CONTENT[1:3]

    assert [(one.method, one.key) for one in proxy.taken()] == [
        ("HEAD", "sp/_metadata"),
        ("HEAD", "sp/file"),
        *[("GET", "sp/file")] * 3,
    ]


def test_a_location_is_the_same_in_another_process(store: ObjectStore, proxy: Proxy) -> None:
    store.put("sp/_metadata", b"meta")
    location = pickle.loads(pickle.dumps(SavepointLocation(proxy.url("sp"))))

    assert location.open_metadata().view(0, 4).tobytes() == b"meta"


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(st.integers(0, 3 * MEGABYTE), st.integers(0, 200_000)), max_size=8), st.booleans())
def test_spans_are_the_bytes_of_the_file(
    big: tuple[Path, bytes], places: list[tuple[int, int]], one: bool
) -> None:
    path, content = big
    stream = remote_stream(path, len(content))
    wanted = sorted((start, min(start + length, len(content))) for start, length in places)

    found = [stream.span(start, end) for start, end in wanted] if one else list(stream.spans(wanted))

    assert [data[start:end].tobytes() for (start, end), data in zip(wanted, found, strict=True)] == [
        content[start:end] for start, end in wanted
    ]


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    path = tmp_path_factory.mktemp("remote") / "bucket" / "file"
    path.parent.mkdir()
    content = np.random.default_rng(1).integers(0, 256, 3 * MEGABYTE + 200_000, dtype=np.uint8).tobytes()
    path.write_bytes(content)
    return path, content


def remote_stream(path: Path, size: int) -> RemoteStream:
    client = Client(fs.SubTreeFileSystem(str(path.parent.parent), fs.LocalFileSystem()))
    location = Location("s3", "bucket", "/file")
    return RemoteStream(RemoteFileSystem(client), location, 0, size, ReadCounter())


@pytest.mark.parametrize(("start", "end"), [(0, 1025), (-1, 3), (5, 4), (2000, 2001)])
def test_spans_are_checked(opened: Stream, start: int, end: int) -> None:
    with pytest.raises(CorruptDataError):
        opened.span(start, end)
    with pytest.raises(CorruptDataError):
        next(opened.spans([(start, end)]))


def test_folders_are_listed_by_a_client_that_lists_only_files(tmp_path: Path) -> None:
    for name in ("a/_metadata", "a/b/c", "d/e/f", "file"):
        (tmp_path / "bucket" / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "bucket" / "root" / name).write_bytes(b"x")
    system = RemoteFileSystem(Client(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())))

    listings = [system.folder(Location(scheme, "bucket", "/root")) for scheme in ("s3", "gs")]

    assert [(sorted(one.folders), sorted(one.files)) for one in listings] == [(["a", "d"], ["file"])] * 2


# --- faults that pass ---


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoil",
    [
        status(503, "SlowDown"),
        status(503),
        status(500, "InternalError"),
        status(429),
        cut_short,
        reset,
    ],
    ids=["slow-down", "503", "500", "429", "short", "reset"],
)
def test_what_passes_is_tried_again(opened: Stream, proxy: Proxy, spoil: Spoil) -> None:
    proxy.faults.append(Fault(spoil, times=2))

    assert opened.view(0, 1024).tobytes() == CONTENT
    assert [(one.method, one.byte_range) for one in proxy.taken()] == [("GET", "bytes=0-1023")] * 3


@pytest.mark.slow
def test_an_answer_that_does_not_come_is_asked_for_again(store: ObjectStore, proxy: Proxy) -> None:
    store.put("late/_metadata", CONTENT)
    metadata = SavepointLocation(proxy.url("late") + "&request_timeout=1").open_metadata()
    proxy.faults.append(Fault(hang, times=1))

    assert metadata.view(0, 1024).tobytes() == CONTENT


def test_opening_is_tried_again(store: ObjectStore, proxy: Proxy) -> None:
    store.put("sp/_metadata", b"meta")
    proxy.faults.append(Fault(status(503), method="HEAD", times=2))

    assert SavepointLocation(proxy.url("sp")).open_metadata().view(0, 4).tobytes() == b"meta"


@pytest.mark.slow
def test_what_does_not_pass_ends(opened: Stream, proxy: Proxy) -> None:
    proxy.faults.append(Fault(status(503, "SlowDown")))

    with pytest.raises(StorageError, match=r"expected to read \(6 times\): AWS Error"):
        opened.view(0, 1024)

    assert len(proxy.taken()) == 6


@pytest.mark.slow
def test_no_server_listens() -> None:
    with pytest.raises(StorageError, match=r"\(6 times\).*127.0.0.1"):
        SavepointLocation("s3://bucket/sp?endpoint=http://127.0.0.1:1&region=us-east-1&anonymous=true")


def test_names_that_look_like_faults_are_none(store: ObjectStore, proxy: Proxy) -> None:
    store.put("404/403-Expired/NotFound/_metadata", b"meta")
    proxy.faults.append(Fault(status(503), method="HEAD", times=2))

    location = SavepointLocation(proxy.url("404/403-Expired/NotFound"))

    assert location.open_metadata().view(0, 4).tobytes() == b"meta"


# --- faults that stay ---


@pytest.mark.parametrize(
    ("spoil", "error", "match"),
    [
        (
            status(403, "AccessDenied"),
            AccessDeniedError,
            "access denied.*s3 takes AWS_ACCESS_KEY_ID.*AWS_PROFILE",
        ),
        (status(403), AccessDeniedError, "access denied"),
        (status(403, "InvalidAccessKeyId"), AccessDeniedError, "access denied"),
        (status(403, "ExpiredToken"), AccessDeniedError, "credentials are expired"),
        (status(400, "ExpiredToken"), AccessDeniedError, "credentials are expired"),
        (status(404, "NoSuchKey"), SavepointGoneError, "was there a moment ago"),
        (status(404), SavepointGoneError, "was there a moment ago"),
        (wrong_length, FileChangedError, "expected 1024 bytes, found an answer of another length"),
    ],
    ids=["403", "403-empty", "403-key", "403-expired", "400-expired", "404", "404-empty", "length"],
)
def test_a_lasting_fault_is_raised_at_once(
    opened: Stream, proxy: Proxy, spoil: Spoil, error: type[ReaderError], match: str
) -> None:
    proxy.faults.append(Fault(spoil))

    with pytest.raises(error, match=match) as raised:
        opened.view(0, 1024)

    assert raised.value.path == f"s3://{BUCKET}/sp/file"
    assert len(proxy.taken()) <= 2
    assert not any(secret in str(raised.value) for secret in KEY_VARIABLES.values())


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 100])
@pytest.mark.parametrize("byte", [0xA5, 0x5A, 0])
def test_a_short_answer_differs_from_bytes_that_look_like_one(
    store: ObjectStore, proxy: Proxy, length: int, byte: int
) -> None:
    store.put("same/_metadata", bytes([byte]) * 100)
    stream = SavepointLocation(proxy.url("same")).open_metadata()

    assert stream.view(0, length).tobytes() == bytes([byte]) * length
    proxy.faults.append(Fault(wrong_length))
    with pytest.raises(ReaderError):
        stream.view(0, length)


def test_a_deleted_object_is_gone_even_where_its_error_is_longer_than_the_range(
    opened: Stream, store: ObjectStore
) -> None:
    store.delete("sp/file")

    with pytest.raises(SavepointGoneError):
        opened.view(5, 3)


def test_a_deleted_savepoint_is_gone_and_an_incomplete_one_misses_a_file(
    store: ObjectStore, proxy: Proxy
) -> None:
    store.put("going/_metadata", b"meta")
    location = SavepointLocation(proxy.url("going"))
    handle = RelativeFileStateHandle(relative_path="file", state_size=3)

    with pytest.raises(MissingFileError) as raised:
        location.open_stream(handle)
    assert not isinstance(raised.value, SavepointGoneError)
    store.delete("going/_metadata")
    with pytest.raises(SavepointGoneError):
        location.open_stream(handle)


def test_credentials_that_are_refused_are_named_by_what_is_needed(store: ObjectStore, proxy: Proxy) -> None:
    proxy.faults.append(Fault(status(403), method="HEAD"))

    with pytest.raises(
        AccessDeniedError, match="missing, expired, or without the permission; s3 takes AWS_ACCESS"
    ):
        SavepointLocation(proxy.url("sp"))


def test_nothing_is_listed_to_open_a_savepoint(store: ObjectStore, proxy: Proxy) -> None:
    store.put("sp/_metadata", b"meta")
    proxy.faults.append(Fault(status(403, "AccessDenied"), key="list-type"))

    for path in ("sp", "sp/", "sp/_metadata"):
        assert SavepointLocation(proxy.url(path)).open_metadata().view(0, 4).tobytes() == b"meta"
    with pytest.raises(NotASavepointError):
        SavepointLocation(proxy.url("nothing"))


# --- which client ---


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("s3://key:secret@bucket/sp", "credentials outside of the URL, found some"),
        (
            "s3://bucket/sp?access_key=key&secret_key=secret",
            "credentials outside of the URL, found (access|secret)_key",
        ),
        ("abfs://box:secret@account.dfs.core.windows.net/sp", "credentials outside of the URL"),
        ("s3://bucket/sp?colour=blue", "options of s3, which are .*region.*, found colour"),
        ("s3://bucket/sp?anonymous=perhaps", "expected true or false"),
        ("s3://bucket/sp?connect_timeout=soon", "could not convert"),
        ("s3://bucket/sp?credentials=NOBODY", "NOBODY_ACCESS_KEY_ID and NOBODY_SECRET_ACCESS_KEY"),
        ("oss://bucket/sp?region=cn-hangzhou", "OSS_ACCESS_KEY_ID and OSS_ACCESS_KEY_SECRET"),
        ("oss://bucket/sp?anonymous=true", "region or the endpoint"),
        ("http://host/sp", "found http://"),
        ("https://host/sp", "found https://"),
        ("viewfs://host/sp", "found viewfs://"),
    ],
)
def test_options_are_checked_and_secrets_refused(url: str, match: str) -> None:
    with pytest.raises(StorageError, match=match) as raised:
        SavepointLocation(url)

    assert "secret@" not in str(raised.value)
    assert "=secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["http://host/sp", "https://host/sp", "webhdfs://host:9870/sp", "swebhdfs://host/sp"]
)
def test_what_pyarrow_does_not_serve_needs_fsspec(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)

    with pytest.raises(StorageError, match=r"fsspec.*not installed: python -m pip install fsspec"):
        SavepointLocation(url, options=StorageOptions(allow_http=True))


def test_no_token_of_azure_is_an_error_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    # Without TLS no token is asked for, so that this takes no network.
    options = "blob_storage_scheme=http&dfs_storage_scheme=http"

    with pytest.raises(AccessDeniedError, match=r"none that give a token; abfs takes AZURE_STORAGE_KEY"):
        SavepointLocation(f"abfs://box@account.dfs.core.windows.net/sp?{options}")


# --- roots and moved savepoints ---


def test_other_places_are_reached_if_the_user_names_them(
    store: ObjectStore, proxy: Proxy, tmp_path: Path
) -> None:
    handle = RelativeFileStateHandle(relative_path="file", state_size=4)
    recorded = absolute(f"hdfs://prod/flink/{tmp_path.name}/file")
    store.put("copy/file", b"there")
    (tmp_path / "_metadata").write_bytes(b"meta")

    with pytest.raises(MissingFileError):
        SavepointLocation(tmp_path).open_stream(recorded)
    moved = SavepointLocation(tmp_path, path_map={f"hdfs://prod/flink/{tmp_path.name}": proxy.url("copy")})
    assert moved.open_stream(recorded).view(0, 5).tobytes() == b"there"
    with pytest.raises(MissingFileError):
        moved.open_stream(handle)
    with pytest.raises(ReaderError):
        moved.open_stream(absolute(f"s3://{BUCKET}/secret"))


def test_the_files_of_a_moved_checkpoint_are_looked_for_where_the_last_one_was(
    store: ObjectStore, proxy: Proxy
) -> None:
    store.put("job/chk-3/_metadata", b"meta")
    for name in ("a", "b"):
        store.put(f"job/shared/{name}", b"data")
    location = SavepointLocation(proxy.url("job/chk-3"))
    proxy.taken()

    for name in ("a", "b"):
        handle = absolute(f"s3://prod/flink/job/shared/{name}")
        assert location.open_stream(handle).view(0, 4).tobytes() == b"data"
    with pytest.raises(MissingFileError):
        location.open_stream(absolute("s3://prod/flink/job/shared/c"))

    assert [(one.method, one.key.removeprefix("job/")) for one in proxy.taken()] == [
        ("HEAD", "chk-3/a"),
        ("HEAD", "shared/a"),
        ("GET", "shared/a"),
        ("HEAD", "shared/b"),
        ("GET", "shared/b"),
        ("HEAD", "shared/c"),
        ("HEAD", "chk-3/c"),
        ("HEAD", "chk-3/_metadata"),
    ]


def test_a_remote_savepoint_may_have_its_files_here(store: ObjectStore, proxy: Proxy, tmp_path: Path) -> None:
    store.put("sp/_metadata", b"meta")
    (tmp_path / "file").write_bytes(b"here")
    path_map = {"s3://prod/flink": str(tmp_path)}

    location = SavepointLocation(proxy.url("sp"), path_map=path_map)

    assert location.open_stream(absolute("s3://prod/flink/file")).view(0, 4).tobytes() == b"here"
    for hostile in (f"s3://prod/flink/../{tmp_path.name}/file", "/etc/passwd", "file:/etc/passwd"):
        with pytest.raises(ReaderError):
            location.open_stream(absolute(hostile))


def absolute(path: str) -> FileStateHandle:
    return FileStateHandle(file_path=path, state_size=4)


# --- the cache of fetched files ---


def writer(content: bytes, calls: list[bytes]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        calls.append(content)
        path.write_bytes(content)

    return write


def test_what_is_kept_is_fetched_once_and_the_oldest_goes(tmp_path: Path) -> None:
    cache = FileCache(str(tmp_path / "cache"), 100)
    calls: list[bytes] = []
    with cache.folder() as own:
        folder = Path(own.path)
        for number, name in enumerate([b"a" * 40, b"b" * 40, b"a" * 40, b"c" * 40, b"a" * 40, b"b" * 40]):
            cache.fetch(name.decode(), 40, writer(name, calls), folder / str(number))
            assert (folder / str(number)).read_bytes() == name

    assert [name[:1] for name in calls] == [b"a", b"b", b"c", b"b"]
    kept = [path for path in (tmp_path / "cache").iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in kept) <= 100


def test_what_is_too_large_or_failed_is_not_kept(tmp_path: Path) -> None:
    cache = FileCache(str(tmp_path), 100)
    own = cache.folder()
    folder = Path(own.path)

    cache.fetch("large", 101, writer(bytes(101), []), folder / "large")
    with pytest.raises(OSError, match="disk full"):
        cache.fetch("failing", 10, failing, folder / "failing")

    assert (folder / "large").stat().st_size == 101
    assert [path for path in tmp_path.iterdir() if path != folder] == []
    assert not (folder / "failing").exists()


def failing(path: Path) -> None:
    path.write_bytes(b"half")
    raise OSError("disk full")


def test_many_may_share_a_cache(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            cache = FileCache(str(tmp_path), 300)
            with cache.folder() as own:
                folder = Path(own.path)
                for turn in range(40):
                    content = bytes([(number + turn) % 7]) * 100
                    cache.fetch(str(content[0]), 100, writer(content, []), folder / str(turn))
                    assert (folder / str(turn)).read_bytes() == content
        except BaseException as error:  # raised again by the thread of the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []


def test_a_cache_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    with pytest.raises(StorageError, match="folder of this user"):
        FileCache(str(tmp_path / "link"), 100)


# --- files that shrink ---


def test_a_mapped_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * 4096))
    stream = LocalFileSystem().open(Location("file", "", str(path)), 0, 3 * 4096, ReadCounter())
    assert len(stream.span(0, 3 * 4096)) == 3 * 4096

    with path.open("r+b") as file:
        file.truncate(4096)

    assert stream.span(0, 4096)[:4096].tobytes() == bytes(4096)
    for read in (stream.span, lambda start, end: stream.view(start, end - start)):
        with pytest.raises(FileChangedError, match=r"expected 12288 bytes.*found 4096"):
            read(0, 3 * 4096)


@pytest.mark.parametrize(
    ("start", "length"), [(0, 1 << 40), (5000, 100), (3 * 4096, 1), (0, 0), (9000, 1 << 20)]
)
def test_bytes_that_were_prepared_are_those_of_the_file(tmp_path: Path, start: int, length: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 48)
    stream = LocalFileSystem().open(Location("file", "", str(path)), 100, 3 * 4096 - 100, ReadCounter())

    stream.prepare(start, length)

    assert stream.read(0, 3 * 4096 - 100) == path.read_bytes()[100:]


def test_to_prepare_bytes_that_a_file_has_lost_does_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * 4096))
    stream = LocalFileSystem().open(Location("file", "", str(path)), 0, 3 * 4096, ReadCounter())
    with path.open("r+b") as file:
        file.truncate(4096)

    stream.prepare(0, 3 * 4096)
    stream.close()
    stream.prepare(0, 3 * 4096)

    assert path.stat().st_size == 4096
