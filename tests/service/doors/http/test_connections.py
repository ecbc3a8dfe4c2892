"""Connections that begin something and do not end it: how long they may, and that others are answered meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import httpx
import pytest

from service.base.settings import Settings
from service.doors.http.admission import Connection, ConnectionLimits, Connections, Listener, Wait
from service.doors.http.connections import listening
from service.doors.operations.logs import RepeatLimit
from tests.support.paths import DATA
from tests.support.waiting import PATIENCE_S, wait_until
from tools.halfopen import HALVES, besiege
from tools.servers import served

NATIVE = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
LOOKUP, ROWS = "SELECT value FROM aggregate WHERE key = 'key_662'", [[11290]]
FILES = 200
SHORT = ("--header-timeout-s", "1", "--body-timeout-s", "1", "--idle-timeout-s", "1")
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LONG = b"POST /api/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def besieged() -> Iterator[tuple[int, str]]:
    """Number of the process and address of a service with short deadlines and few files."""
    with served(NATIVE, *SHORT, files=FILES) as (server, address):
        yield server.pid, address


def connected(address: str, own: str = "127.0.0.1") -> socket.socket:
    url = httpx.URL(address)
    return socket.create_connection((url.host, url.port), timeout=60, source_address=(own, 0))


def rest_of(connection: socket.socket) -> bytes:
    """Everything that the service still sends, until it ends the connection."""
    found = b""
    try:
        while received := connection.recv(65536):
            found += received
    except ConnectionResetError:
        pass
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(HALVES))
def test_half_a_request_ends(besieged: tuple[int, str], kind: str) -> None:
    _, address = besieged
    with connected(address) as connection:
        connection.sendall(HALVES[kind])
        answer = rest_of(connection)

    if kind == "nothing":
        assert answer == b""
    else:
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"REQUEST_TIMEOUT"' in answer


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["half the headers", "half a body"])
def test_bytes_that_drip_do_not_begin_the_time_anew(besieged: tuple[int, str], kind: str) -> None:
    _, address = besieged
    with connected(address) as connection:
        connection.sendall(HALVES[kind])

        wait_until(lambda: has_ended(connection))


def has_ended(connection: socket.socket) -> bool:
    """Send one byte, and return whether the service has answered or ended the connection meanwhile."""
    try:
        connection.sendall(b"x")
        return bool(select.select([connection], [], [], 0.1)[0])
    except ConnectionError:
        return True


@pytest.mark.slow
def test_a_body_that_was_refused_unread_ends_too(besieged: tuple[int, str]) -> None:
    _, address = besieged
    with connected(address) as connection:
        connection.sendall(LONG.replace(b"127.0.0.1", b"evil.example") % 1000)
        answer = rest_of(connection)

    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.slow
def test_an_idle_connection_ends_without_a_word(besieged: tuple[int, str]) -> None:
    _, address = besieged
    with connected(address) as connection:
        connection.sendall(GET + GET)
        answer = rest_of(connection)

    assert answer.count(b"HTTP/1.1 200 ") == 2
    assert answer.endswith(b'{"status":"ok"}')


@pytest.mark.slow
def test_half_a_request_behind_a_whole_one_ends(besieged: tuple[int, str]) -> None:
    _, address = besieged
    with connected(address) as connection:
        connection.sendall(GET + GET[:20])
        answer = rest_of(connection)

    assert answer.count(b"HTTP/1.1 200 ") == 1
    assert answer.count(b"HTTP/1.1 408 ") == 1


@pytest.mark.slow
def test_requests_that_come_together_are_answered_in_turn(besieged: tuple[int, str]) -> None:
    _, address = besieged
    body = httpx.Request("POST", address, json={"sql": LOOKUP}).content
    with connected(address) as connection:
        connection.sendall((LONG % len(body) + body + GET) * 100)
        answer = rest_of(connection)

    assert answer.count(b"HTTP/1.1 200 ") == 200
    assert (
        re.findall(rb'"rows":\[\[11290\]\]|"status":"ok"', answer)
        == [
            b'"rows":[[11290]]',
            b'"status":"ok"',
        ]
        * 100
    )


@pytest.mark.slow
def test_the_head_of_an_answer_comes_with_its_body_and_also_without_one(besieged: tuple[int, str]) -> None:
    _, address = besieged
    body = httpx.Request("POST", address, json={"sql": LOOKUP}).content
    with connected(address) as connection:
        for request, end in ((GET, b'{"status":"ok"}'), (LONG % len(body) + body, b"}")):
            connection.sendall(request)
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.endswith(end)
        connection.sendall(GET.replace(b"GET /healthz", b"HEAD /db/native/absent.csv"))
        head = connection.recv(65536)

    assert b"\r\ncontent-length: " in head
    assert head.endswith(b"\r\n\r\n")


@pytest.mark.slow
def test_what_is_no_request_behind_a_request_ends_the_connection(besieged: tuple[int, str]) -> None:
    _, address = besieged
    with connected(address) as connection:
        connection.sendall(GET + b"no HTTP\r\n\r\n" + GET)
        answer = rest_of(connection)

    assert answer.count(b"HTTP/1.1 ") == answer.count(b"HTTP/1.1 200 ") == 1
    assert answer.endswith(b'{"status":"ok"}')


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"Host: a\r\nHost: b\r\n",
        b"Host: a\r\nX: " + b"x" * 70_000 + b"\r\n",
        b"Host: a\r\n" + b"x: y\r\n" * 20_000,
        b"Host: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Host: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n",
    ],
    ids=["no host", "two hosts", "a long header", "many headers", "two lengths of a body", "two lengths"],
)
def test_a_request_that_can_be_read_in_two_ways_or_is_too_long_is_refused(
    besieged: tuple[int, str], head: bytes
) -> None:
    _, address = besieged
    with connected(address) as connection, suppress(ConnectionError):
        connection.sendall(b"GET /healthz HTTP/1.1\r\n" + head + b"\r\n")
        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.slow
def test_trailers_are_no_headers_and_not_endless(besieged: tuple[int, str]) -> None:
    _, address = besieged
    body = httpx.Request("POST", address, json={"sql": LOOKUP}).content
    head = LONG.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
    start = head + b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    with connected(address) as connection:
        connection.sendall(start + b"Host: evil\r\nAccept: text/csv\r\n\r\n")
        few = rest_of(connection)
    with connected(address) as connection, suppress(ConnectionError):
        connection.sendall(start + b"x: y\r\n" * 20_000 + b"\r\n")
        many = rest_of(connection)

    assert b'"rows":[[11290]]' in few
    assert b" 200 " not in many


@pytest.mark.slow
def test_an_upgrade_to_another_protocol_is_not_made(besieged: tuple[int, str]) -> None:
    _, address = besieged
    upgrade = (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
    )
    body = httpx.Request("POST", address, json={"sql": LOOKUP}).content
    with connected(address) as connection:
        connection.sendall((LONG % len(body)).replace(b"\r\n\r\n", b"\r\n" + upgrade + b"\r\n") + body)
        first = b""
        while not first.endswith(b"}"):
            first += connection.recv(65536)
        connection.sendall(GET.replace(b"\r\n\r\n", b"\r\n" + upgrade + b"\r\n"))
        second = connection.recv(65536)
        connection.sendall(GET)
        third = connection.recv(65536)

    assert b'"rows":[[11290]]' in first
    assert second.startswith(b"HTTP/1.1 200 ")
    assert third.startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
def test_a_query_may_take_longer_than_its_request(besieged: tuple[int, str]) -> None:
    _, address = besieged
    body = {"sql": "SELECT count(*) FROM range(1000000000000)", "timeout_s": 3}
    answer = httpx.post(f"{address}/api/query", json=body, timeout=60)

    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "EXCEEDED_TIME_LIMIT")


@pytest.mark.slow
def test_more_half_open_connections_than_files_keep_nobody_waiting(besieged: tuple[int, str]) -> None:
    server, address = besieged
    clients = 2 * FILES
    seen = asyncio.run(besiege(server, address, clients=clients, seconds=5, sql=LOOKUP, rows=ROWS))

    assert seen.wrong == []
    assert seen.lookup_s
    assert all(seen.ended[kind] for kind in HALVES)
    assert len(os.listdir(f"/proc/{server}/fd")) < FILES
    assert seen.log_bytes < 20_000
    assert max(seen.server_bytes) - seen.server_bytes[0] < 100_000_000


@pytest.mark.slow
def test_an_address_with_all_its_connections_in_use_is_refused_and_others_are_not() -> None:
    sleeping = {"sql": "SELECT count(*) FROM range(1000000000000)", "timeout_s": 600}
    options = ("--max-connections", "8", "--max-connections-per-address", "2", *SHORT)
    with served(NATIVE, *options) as (_, address):
        body = httpx.Request("POST", address, json=sleeping).content
        busy = [connected(address, "127.4.0.1") for _ in range(2)]
        for connection in busy:
            connection.sendall(LONG % len(body) + body)
        wait_until(lambda: running(address) == 2)
        with connected(address, "127.4.0.1") as refused:
            answer = rest_of(refused)
        others = httpx.post(f"{address}/api/query", json={"sql": LOOKUP}, timeout=60)
        for connection in busy:
            connection.close()

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"code":"SERVICE_BUSY"' in answer
    assert others.json()["rows"] == ROWS


def running(address: str) -> float:
    """Number of queries that run."""
    lines = httpx.get(f"{address}/metrics", timeout=60).text.splitlines()
    return sum(float(line.split()[1]) for line in lines if 'queries_open{state="running"}' in line)


def test_a_process_without_a_file_refuses_and_then_pauses() -> None:
    limits = ConnectionLimits(
        most=9, most_per_address=9, is_encrypted=False, seconds=dict.fromkeys(Wait, 1.0)
    )
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    files: list[int] = []
    with Listener(listening("127.0.0.1", 0), Connections(limits)) as listener:
        listener.setblocking(False)
        clients = [socket.create_connection(listener.getsockname(), timeout=60) for _ in range(2)]
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 2, before[1])
        )
        try:
            with suppress(OSError):
                while True:
                    files.append(os.open(os.devnull, os.O_RDONLY))
            with pytest.raises(BlockingIOError):
                listener.accept()
            answers = [rest_of(client) for client in clients]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for descriptor in files:
                os.close(descriptor)
            for client in clients:
                client.close()

    assert [answer[:13] for answer in answers] == [b"HTTP/1.1 503 "] * 2


def test_a_connection_that_begins_a_request_is_not_cut_any_more() -> None:
    limits = ConnectionLimits(
        most=256, most_per_address=256, is_encrypted=False, seconds=dict.fromkeys(Wait, 60.0)
    )
    cut: list[Connection] = []

    async def run() -> list[Connection]:
        connections = Connections(limits)
        clients, opened = [], []
        for number in range(limits.most):
            client, accepted = socket.socketpair()
            clients.append(client)
            connection = connections.admit(accepted, (f"10.0.{number}.1", 1))
            assert connection is not None
            connection.on_cut = partial(cut.append, connection)
            opened.append(connection)
        assert not connections.make_room()
        for connection in list(cut):
            connection.close()
            clients.append(connection)
        # All but three of the others begin to be answered.
        for connection in [each for each in opened if each not in cut][3:]:
            connection.wait_for(None)
        for number in range(8):
            client, accepted = socket.socketpair()
            clients.append(client)
            busy = connections.admit(accepted, (f"10.1.{number}.1", 1))
            assert busy is not None
            busy.wait_for(None)
            opened.append(busy)
        before = len(cut)
        assert not connections.make_room()
        for each in (*opened, *clients):
            each.close()
        return cut[before:]

    later = asyncio.run(run())

    assert len(later) == 3


def test_limits_follow_from_the_files_that_may_be_open() -> None:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limits = ConnectionLimits.of(Settings.of(max_connections=10**9))
    own = ConnectionLimits.of(Settings.of(max_connections=10, max_connections_per_address=100))

    assert limits.most == files * 3 // 4
    assert limits.most_per_address == limits.most // 2
    assert (own.most, own.most_per_address) == (10, 10)


@pytest.mark.slow
def test_long_bodies_are_refused_where_many_are_on_their_way() -> None:
    with served(NATIVE, "--max-request-bytes", str(40 << 20), "--body-timeout-s", "60") as (_, address):
        held = [connected(address) for _ in range(3)]
        for connection in held:
            connection.sendall(LONG % (30 << 20) + b" " * (25 << 20))
        refused = select.select(held, [], [], PATIENCE_S)[0]
        answers = [connection.recv(4096) for connection in refused]
        lookup = httpx.post(f"{address}/api/query", json={"sql": LOOKUP}, timeout=60)
        for connection in held:
            connection.close()

    assert [answer[:13] for answer in answers] == [b"HTTP/1.1 503 "]
    assert lookup.json()["rows"] == ROWS


def test_a_warning_that_repeats_itself_is_logged_once_a_second() -> None:
    limit, logged = RepeatLimit(), []
    for line, created in [(1, 0.0), (1, 0.3), (2, 0.4), (1, 0.9), (1, 1.1), (1, 1.2), (1, 5.0)]:
        record = logging.LogRecord("savepointdb", logging.WARNING, "file.py", line, "at %s", (line,), None)
        record.created = created
        if limit.filter(record):
            logged.append((created, record.getMessage()))

    assert logged == [
        (0.0, "at 1"),
        (0.4, "at 2"),
        (1.1, "at 1 (and 2 more like this before)"),
        (5.0, "at 1 (and 1 more like this before)"),
    ]


def test_what_is_no_warning_is_always_logged() -> None:
    record = logging.LogRecord("savepointdb.audit", logging.INFO, "file.py", 1, "query finished", (), None)
    limit = RepeatLimit()

    assert all(limit.filter(record) for _ in range(5))
