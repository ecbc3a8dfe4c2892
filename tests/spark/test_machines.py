"""A cluster of four machines, each a network namespace, with nothing in common but an object store; two of them are lost."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import catalog
from catalog import Catalog
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.sql.planner import plan
from service.tasks.write.request import WriteRequest
from service.tasks.write.writing import run
from tests.spark.conftest import Machine, Standalone, python_without_our_code, savepoint_of_texts
from tests.spark.test_writing import DRIVER
from tests.support.objectstore import ObjectStore, Proxy, Request
from tests.support.waiting import wait_until
from tests.support.writings import context_over
from tests.writers.test_savepoint import contents

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_MACHINES = 4
_READ_BYTES = 1 << 20
_GROUPS = (
    "SELECT key % 10, count(*), sum(key), min(value), max(value) FROM large__texts GROUP BY ALL ORDER BY ALL"
)
_ADDED = "UPDATE large__texts SET value = concat(value, '!')"


class Network:
    """A bridge of this machine, and network namespaces at it.

    Attributes:
        host: the address of this machine.
        machines: the namespaces; a program there finds `hidden` empty.
    """

    def __init__(self, hidden: Path) -> None:
        self._name = f"sp{secrets.token_hex(3)}"
        self._links = {f"10.213.74.{number + 2}": f"{self._name}-{number}" for number in range(_MACHINES)}
        self.host = "10.213.74.1"
        hide = ("sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(hidden))
        self.machines = [
            Machine(address, ("ip", "netns", "exec", name, *hide)) for address, name in self._links.items()
        ]

    def make(self) -> None:
        """Make all, as root.

        Raises:
            CalledProcessError: that is not allowed.
        """
        _ip("link", "add", self._name, "type", "bridge")
        _ip("addr", "add", f"{self.host}/24", "dev", self._name)
        _ip("link", "set", self._name, "up")
        for address, name in self._links.items():
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", name, "master", self._name, "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                _ip("-n", name, "link", "set", link, "up")

    def processes(self, address: str) -> list[int]:
        """The processes of a machine."""
        return [int(number) for number in _ip("netns", "pids", self._links[address]).split()]

    def kill(self, address: str) -> None:
        """A machine loses its power."""
        for process in self.processes(address):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def cut(self, address: str) -> None:
        """A machine loses its network, and goes on."""
        _ip("link", "set", self._links[address], "down")

    def mend(self, address: str) -> None:
        """Its network is back."""
        _ip("link", "set", self._links[address], "up")

    def remove(self) -> None:
        """End what runs there, and remove all."""
        for address, name in self._links.items():
            with suppress(subprocess.CalledProcessError):
                self.kill(address)
                _ip("netns", "del", name)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._name)


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Four machines that do not see the temporary files of the driver."""
    if shutil.which("ip") is None:
        pytest.skip("network namespaces are made by ip, of iproute2, which is not installed")
    found = Network(tmp_path / "tmp")
    try:
        found.make()
    except subprocess.CalledProcessError as error:
        found.remove()
        pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
    yield found
    found.remove()


@contextmanager
def losing(
    proxy: Proxy, is_work: Callable[[Request], bool], lose: Callable[[str], None]
) -> Iterator[list[str]]:
    """Lose the first machine that does some work; yields a list that gets its address."""
    lost: list[str] = []
    ended = threading.Event()

    def watch() -> None:
        while not lost and not ended.wait(0.005):
            with proxy.lock:
                found = [request.client for request in proxy.requests if is_work(request)]
            if found:
                lose(found[0])
                lost.append(found[0])

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        ended.set()
        thread.join()


def test_machines_are_lost_while_they_read_and_while_they_write(
    network: Network, store: ObjectStore, tmp_path: Path, executors_cache: Path, duckdb_engine: DuckDBEngine
) -> None:
    source = savepoint_of_texts(tmp_path / "source", _MACHINES)
    store.upload(source, "machines")
    addresses = [machine.address for machine in network.machines]
    script = (
        DRIVER
        + f"""
from service.query.sql.planner import plan
source, target = arguments
execution = engines["spark"].execution(plan({_GROUPS!r}, catalog.connect(source)), max_rows=1000)
tell(rows=[list(map(str, row.values())) for row in execution.open().read_all().to_pylist()])
execution.close()
tell(engine=write(source, {_ADDED!r}, target, "spark").engine)
"""
    )

    def reads(request: Request) -> bool:
        return request.client in addresses and request.method == "GET" and request.size_bytes >= _READ_BYTES

    def writes(request: Request) -> bool:
        return request.client in addresses and "partNumber" in request.query

    python = python_without_our_code(tmp_path)
    cluster = Standalone(tmp_path, python, executors_cache, network.host, network.machines)
    try:
        with (
            store.proxy(network.host) as proxy,
            losing(proxy, reads, network.kill) as dead,
            losing(proxy, writes, network.cut) as cut,
        ):
            target = proxy.url("machines-new")
            found, written = cluster.run(script, proxy.url("machines"), target)
            network.mend(cut[0])
            wait_until(lambda: len(network.processes(cut[0])) <= 1)  # its executor has no driver
            requests = proxy.taken()
            there = catalog.connect(target)
            after = rows_of(there, duckdb_engine)
    finally:
        cluster.stop()

    context = context_over(catalog.connect(source), {"duckdb": duckdb_engine})
    run(WriteRequest(sql=_ADDED, engine="local", target=str(tmp_path / "here")), context)
    expected = [rows_of(catalog.connect(path), duckdb_engine) for path in (source, tmp_path / "here")]
    assert [found["rows"], after] == expected
    assert written["engine"]
    assert len({dead[0], cut[0]}) == 2
    assert {request.client for request in requests if reads(request)} == set(addresses)
    here, new = contents(tmp_path / "here"), store.contents("machines-new/")
    assert len(new) == len(here)
    assert {digest for key, digest in new.items() if not key.endswith("/_metadata")} == {
        digest for name, digest in here.items() if name != "_metadata"
    }
    assert store.uploads == []


def rows_of(known: Catalog, engine: DuckDBEngine) -> list[list[str]]:
    """The groups, as the driver prints them."""
    execution = engine.execution(plan(_GROUPS, known), max_rows=1000)
    try:
        return [list(map(str, row.values())) for row in execution.open().read_all().to_pylist()]
    finally:
        execution.close()
