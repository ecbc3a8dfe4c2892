"""Savepoints in stores that are not S3, each against a server of its own: Azure Blob Storage, Google Cloud Storage, HDFS.

| store | server | where from |
|---|---|---|
| abfs | Azurite | `npm install -g azurite`; `azurite-blob` on the PATH |
| gs | fake-gcs-server | its releases; on the PATH |
| webhdfs | HDFS's own mini cluster | `mvn -f tests/hdfs dependency:copy-dependencies`; Java, `pip install fsspec requests` |

What is not there is skipped. Every store has the same tests.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import fs

import catalog
from readers.errors import AccessDeniedError, MissingFileError, NotASavepointError, SavepointGoneError
from readers.metadata import RelativeFileStateHandle
from readers.storage.filesystems import Location
from readers.storage.location import SavepointLocation, given_location
from readers.storage.remote import RemoteFileSystem
from tests.catalog.test_objectstore import FLINK, outline, same_rows
from tests.support.paths import TESTS
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

_STARTING_S = 300.0
HDFS = TESTS / "hdfs"
# What Azurite's documentation says; it is no secret.
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Store(ABC):
    """A server, and how a test puts files into it."""

    @abstractmethod
    def url(self, path: str) -> str:
        """Return the URL of a file or folder."""

    @property
    @abstractmethod
    def files(self) -> fs.FileSystem:
        """The file system of the server, with all permissions."""

    @abstractmethod
    def path(self, path: str) -> str:
        """Return the path of a name in `files`."""

    def upload(self, folder: Path, path: str) -> str:
        """Upload all files of a folder; return its URL."""
        for file in sorted(folder.iterdir()):
            self.put(f"{path}/{file.name}", file.read_bytes())
        return self.url(path)

    def put(self, path: str, content: bytes) -> None:
        """Write a file."""
        with self.files.open_output_stream(self.path(path)) as file:
            file.write(content)

    def delete(self, path: str) -> None:
        """Remove a file."""
        self.files.delete_file(self.path(path))


class Azurite(Store):
    def __init__(self, address: str) -> None:
        services = ("blob_storage", "dfs_storage")
        places = {f"{name}_authority": address for name in services} | {
            f"{name}_scheme": "http" for name in services
        }
        self._options = "&".join(f"{name}={value}" for name, value in places.items())
        self._files = fs.AzureFileSystem("devstoreaccount1", account_key=AZURITE_KEY, **places)
        self._files.create_dir("box")

    @property
    def files(self) -> fs.FileSystem:
        return self._files

    def url(self, path: str) -> str:
        return f"abfss://box@devstoreaccount1.dfs.core.windows.net/{path}?{self._options}"

    def path(self, path: str) -> str:
        return f"box/{path}"


class Gcs(Store):
    def __init__(self, address: str) -> None:
        self._options = f"anonymous=true&scheme=http&endpoint_override={address}"
        self._files = fs.GcsFileSystem(
            anonymous=True, scheme="http", endpoint_override=address, project_id="tests"
        )
        self._files.create_dir("box")

    @property
    def files(self) -> fs.FileSystem:
        return self._files

    def url(self, path: str) -> str:
        return f"gs://box/{path}?{self._options}"

    def path(self, path: str) -> str:
        return f"box/{path}"


class WebHdfs(Store):
    def __init__(self, address: str) -> None:
        import fsspec  # optional

        host, _, port = address.partition(":")
        self._address = address
        self._system = fsspec.filesystem("webhdfs", host=host, port=int(port), user="root")
        self._files = fs.PyFileSystem(fs.FSSpecHandler(self._system))

    @property
    def files(self) -> fs.FileSystem:
        return self._files

    def put(self, path: str, content: bytes) -> None:
        self._system.makedirs(f"/{path.rpartition('/')[0]}", exist_ok=True)
        super().put(path, content)

    def url(self, path: str) -> str:
        return f"webhdfs://{self._address}/{path}?user=root"

    def path(self, path: str) -> str:
        return f"/{path}"


@contextmanager
def serving(command: list[str], log: Path, ready: str) -> Iterator[re.Match[str]]:
    """Yield a server and the text that it prints when it is ready."""
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: server.poll() is not None or re.search(ready, log.read_text()), _STARTING_S)
        found = re.search(ready, log.read_text())
        assert found, log.read_text()
        yield found
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.terminate()
        server.wait()


def program(name: str, source: str) -> str:
    """Return the path of a program; skip the test without it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name}: {source}")
    return path


@contextmanager
def azurite(folder: Path) -> Iterator[Store]:
    command = [program("azurite-blob", "npm install -g azurite"), "--blobPort", "0", "--inMemoryPersistence"]
    command += ["--skipApiVersionCheck", "--disableTelemetry"]
    with serving(command, folder / "log", r"successfully listens on http://(\S+)") as found:
        yield Azurite(found[1])


@contextmanager
def gcs(folder: Path) -> Iterator[Store]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    command = [program("fake-gcs-server", "see its releases"), "-scheme", "http", "-backend", "memory"]
    command += ["-host", "127.0.0.1", "-port", str(port), "-public-host", address]
    with serving(command, folder / "log", "server started"):
        yield Gcs(address)


@contextmanager
def webhdfs(folder: Path) -> Iterator[Store]:
    java = program("java", "a JDK, for HDFS")
    if importlib.util.find_spec("fsspec") is None:
        pytest.skip("no fsspec: pip install fsspec requests")
    jars = HDFS / "target" / "dependency"
    if not jars.is_dir():
        pytest.skip("no jars of HDFS: mvn -f tests/hdfs dependency:copy-dependencies")
    command = [java, "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-Xmx512m", "-cp", f"{jars}/*"]
    command += [str(HDFS / "MiniCluster.java"), str(folder / "data")]
    with serving(command, folder / "log", r"serves (\S+)") as found:
        yield WebHdfs(found[1])


@pytest.fixture(scope="module", params=[azurite, gcs, webhdfs], ids=["abfs", "gs", "webhdfs"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZURE_STORAGE_KEY", AZURITE_KEY)
        with request.param(tmp_path_factory.mktemp("store")) as found:
            yield found


@pytest.mark.parametrize(
    "folder", ["wordcount-hashmap-savepoints/canonical", "wordcount-rocksdb-savepoints/native"]
)
def test_rows_are_those_of_the_local_savepoint(store: Store, tmp_path: Path, folder: str) -> None:
    local = tmp_path / folder.rpartition("/")[2]
    shutil.copytree(FLINK / folder, local)
    outline(local / "_metadata")

    remote = catalog.connect(store.upload(local, f"rows/{folder}"))

    table = remote.table("aggregate__count")
    assert table.scan(columns=["key", "value"], key="key_662").to_arrow().to_pylist() == [
        {"key": "key_662", "value": 11290}
    ]
    assert same_rows(catalog.connect(local), remote) > 1000


def test_savepoints_of_a_folder_are_found_with_the_time_they_were_made(store: Store) -> None:
    before = time.time_ns()
    for name in ("savepoint-1", "savepoint-2"):
        store.put(f"found/{name}/_metadata", b"meta")

    found = catalog.connect(store.url("found"))

    assert found.databases == ["found__savepoint-1", "found__savepoint-2"]
    for name in ("savepoint-1", "savepoint-2"):
        modified_ns = system_of(store).modified_ns(location_of(store, f"found/{name}/_metadata"))
        assert before - 2_000_000_000 <= modified_ns <= time.time_ns() + 2_000_000_000


def test_a_file_that_is_replaced_by_one_of_its_length_is_another(store: Store) -> None:
    found = []
    store.put("replaced/_metadata", b"meta")
    for content in (b"first", b"other"):
        store.put("replaced/file", content)
        location = SavepointLocation(store.url("replaced"))
        found.append(location.identity(location_of(store, "replaced/file")))
        time.sleep(0.01)  # HDFS tells the time to the millisecond

    assert found[0] != found[1]


def test_a_missing_file_is_named(store: Store) -> None:
    store.put("going/_metadata", b"meta")
    store.put("going/file", b"data")
    location = SavepointLocation(store.url("going"))
    stream = location.open_stream(RelativeFileStateHandle(relative_path="file", state_size=4))

    with pytest.raises(NotASavepointError):
        catalog.connect(store.url("nothing"))
    with pytest.raises(MissingFileError):
        location.open_stream(RelativeFileStateHandle(relative_path="none", state_size=4))
    assert stream.view(1, 3).tobytes() == b"ata"
    store.delete("going/file")
    with pytest.raises(SavepointGoneError):
        stream.view(0, 4)


def test_ranges_are_the_bytes_of_the_file(store: Store) -> None:
    content = bytes(range(256)) * 1024
    store.put("ranges/_metadata", content)
    stream = SavepointLocation(store.url("ranges")).open_metadata()

    assert stream.span(1000, 2000)[1000:].tobytes() == content[1000:2000]
    assert stream.view(len(content) - 5, 5).tobytes() == content[-5:]


def system_of(store: Store) -> RemoteFileSystem:
    location, options = given_location(store.url(""))
    return RemoteFileSystem.of(location, options)


def location_of(store: Store, path: str) -> Location:
    return given_location(store.url(path))[0]


def test_wrong_keys_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    if not isinstance(store, Azurite):
        pytest.skip("its servers let everybody in")
    store.put("denied/_metadata", b"meta")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "AAAA" + AZURITE_KEY[4:])

    with pytest.raises(AccessDeniedError, match="abfs takes AZURE_STORAGE_KEY"):
        SavepointLocation(store.url("denied") + "&tenant_id=")
