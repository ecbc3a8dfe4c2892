"""Half-open connections: clients that begin a request and never end it, while others ask.

| kind | sends |
|---|---|
| nothing | nothing |
| half a line | the begin of the request line |
| half the headers | the request line and a header, without the end of the headers |
| half a body | a statement of Trino's protocol, without the end of its body |

Each client opens another connection when its connection is cut. The others look keys up, each over a new connection. The
service has a limit of open files that is lower than the number of clients.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from benchmarks.servers import processes, resident_bytes

HALVES = {
    "nothing": b"",
    "half a line": b"GET /api/datab",
    "half the headers": b"POST /v1/statement HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Trino-",
    "half a body": b"POST /v1/statement HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Trino-User: u\r\nContent-Length: 99\r\n\r\nSELECT",
}
_AGAIN_AFTER_S = 1.0
_CONNECTIONS_OF_AN_ADDRESS = 100


@dataclass(slots=True)
class Siege:
    """What was seen.

    Attributes:
        opened: connections that were opened, by kind.
        ended: connections that the service ended, by kind.
        open_now: connections that are open.
        most_open: the most of them at the same time.
        lookup_s: seconds of each lookup.
        wrong: lookups that failed, or were answered wrong.
        server_bytes: resident memory of the serving process, twice a second.
        log_bytes: length of its log at the end.
        cpu_s: processor time of the serving process.
    """

    opened: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    open_now: int = 0
    most_open: int = 0
    lookup_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    server_bytes: list[int] = field(default_factory=list)
    log_bytes: int = 0
    cpu_s: float = 0.0

    def __str__(self) -> str:
        quarter = max(1, len(self.server_bytes) // 4)
        first, last = self.server_bytes[quarter : 2 * quarter], self.server_bytes[-quarter:]
        return (
            f"half-open: {self.most_open} at the same time, {self.opened.total()} opened, {self.ended.total()} ended by the service\n"
            f"lookups of others: {len(self.lookup_s)} right, {len(self.wrong)} wrong; "
            f"median {statistics.median(self.lookup_s or [0]):.3f} s, most {max(self.lookup_s, default=0):.3f} s\n"
            f"server: {statistics.median(first) / 1e6:.0f} MB in the second quarter, {statistics.median(last) / 1e6:.0f} MB in the "
            f"last; log {self.log_bytes / 1e3:.1f} kB; processor {self.cpu_s:.1f} s"
        )


async def besiege(
    server: int, address: str, *, clients: int, seconds: float, sql: str, rows: list[list[int]]
) -> Siege:
    """Open half of many requests, and look keys up meanwhile.

    Args:
        server: number of the serving process.
        address: of the service.
        clients: how many clients have half a request open.
        seconds: how long.
        sql: the lookup.
        rows: its answer.
    """
    seen, url = Siege(), httpx.URL(address)
    until, before = time.monotonic() + seconds, processes()[server].own_s
    halves = list(HALVES.items())
    attacks = [
        asyncio.create_task(_attack(url, number, *halves[number % len(halves)], seen))
        for number in range(clients)
    ]
    try:
        while time.monotonic() < until:
            seen.most_open = max(seen.most_open, seen.open_now)
            await _look_up(address, sql, rows, seen)
            seen.server_bytes.append(resident_bytes(server))
            await asyncio.sleep(0.5)
    finally:
        for attack in attacks:
            attack.cancel()
        await asyncio.gather(*attacks, return_exceptions=True)
    seen.cpu_s = processes()[server].own_s - before
    # Standard error is the log, which may be a file without a name.
    seen.log_bytes = os.stat(f"/proc/{server}/fd/2").st_size
    return seen


async def _attack(url: httpx.URL, number: int, kind: str, sent: bytes, seen: Siege) -> None:
    own = f"127.3.0.{number // _CONNECTIONS_OF_AN_ADDRESS + 1}"
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(url.host, url.port, local_addr=(own, 0))
            seen.opened[kind] += 1
            seen.open_now += 1
            try:
                writer.write(sent)
                while await reader.read(4096):
                    pass
            finally:
                seen.open_now -= 1
                seen.ended[kind] += 1
                writer.transport.abort()
        await asyncio.sleep(_AGAIN_AFTER_S)


async def _look_up(address: str, sql: str, rows: list[list[int]], seen: Siege) -> None:
    started = time.monotonic()
    try:
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            answer = await client.post("/api/query", json={"sql": sql})
        found = answer.json().get("rows", answer.text)
    except httpx.HTTPError as error:
        found = repr(error)
    if found == rows:
        seen.lookup_s.append(time.monotonic() - started)
    else:
        seen.wrong.append(str(found))
