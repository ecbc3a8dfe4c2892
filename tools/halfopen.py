"""Half-open connections: clients that begin a request and never end it, while others ask.

| kind | sends |
|---|---|
| nothing | nothing |
| half a line | the begin of the request line |
| half the headers | the request line and a header, without the end of the headers |
| half a body | a statement of Trino's protocol, without the end of its body |

Each client opens another connection when its connection is cut. The others look keys up, each over a new connection. The
service has a limit of open files that is lower than the number of clients.

The clients are in a process of their own, `python -m tools.halfopen ADDRESS CLIENTS`, because lookups in the same
event loop would wait for the clients too. It ends with its standard input, and prints what it did.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from tools.servers import processes, resident_bytes

HALVES = {
    "nothing": b"",
    "half a line": b"GET /api/datab",
    "half the headers": b"POST /v1/statement HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Trino-",
    "half a body": b"POST /v1/statement HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Trino-User: u\r\nContent-Length: 99\r\n\r\nSELECT",
}
_PATIENCE_S, _LOOK_EVERY_S = 60.0, 0.1
_AGAIN_AFTER_S = 1.0
_MAY_GROW_BYTES = 20_000_000
_MAY_LOG_BYTES = 100_000
_CONNECTIONS_OF_AN_ADDRESS = 100


@dataclass(slots=True)
class Siege:
    """What was seen.

    Attributes:
        opened: connections that were opened, by kind.
        ended: connections that the service ended, by kind.
        most_open: the most of them that were open at the same time.
        lookup_s: seconds of each lookup.
        wrong: lookups that failed, or were answered wrong.
        server_bytes: resident memory of the serving process, twice a second.
        log_bytes: length of its log at the end.
        cpu_s: processor time of the serving process.
    """

    opened: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    most_open: int = 0
    lookup_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    server_bytes: list[int] = field(default_factory=list)
    log_bytes: int = 0
    cpu_s: float = 0.0

    @property
    def is_flat(self) -> bool:
        """True if neither the memory of the server nor its log grew with the time."""
        before, after = self._memory
        return after - before < _MAY_GROW_BYTES and self.log_bytes < _MAY_LOG_BYTES

    @property
    def _memory(self) -> tuple[float, float]:
        """Memory in the second quarter of the time, and in the last; at first it grows with the connections."""
        quarter = max(1, len(self.server_bytes) // 4)
        second, last = self.server_bytes[quarter : 2 * quarter], self.server_bytes[-quarter:]
        return statistics.median(second or [0]), statistics.median(last or [0])

    def __str__(self) -> str:
        before, after = self._memory
        return "\n".join(
            (
                "| half-open connections | |",
                "|---|---|",
                f"| at the same time; opened; ended by the service | {self.most_open}; {self.opened.total()}; {self.ended.total()} |",
                f"| lookups of others, right; wrong | {len(self.lookup_s)}; {len(self.wrong)} |",
                f"| median; most of a lookup | {statistics.median(self.lookup_s or [0]):.3f} s; {max(self.lookup_s, default=0):.3f} s |",
                f"| memory of the server, in the second quarter of the time; in the last | {before / 1e6:.0f} MB; "
                f"{after / 1e6:.0f} MB |",
                f"| log; processor time of the server | {self.log_bytes / 1e3:.1f} kB; {self.cpu_s:.1f} s |",
            )
        )


async def besiege(
    server: int, address: str, *, clients: int, seconds: float, sql: str, rows: list[list[int]]
) -> Siege:
    """Open half of many requests, and look keys up meanwhile.

    Args:
        server: number of the serving process.
        address: of the service.
        clients: how many clients have half a request open.
        seconds: how long at least; longer until the service has ended connections of each kind.
        sql: the lookup.
        rows: its answer.
    """
    seen = Siege()
    # The first lookup of a service opens the savepoint.
    await _look_up(address, sql, rows, Siege())
    until, before = time.monotonic() + seconds, processes()[server].own_s
    attacks = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.halfopen", address, str(clients)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert attacks.stdout is not None
    of_each_kind = asyncio.create_task(attacks.stdout.readline())
    try:
        # On a busy machine the clients themselves need a while to begin.
        while time.monotonic() < (until if of_each_kind.done() else until + _PATIENCE_S):
            await _look_up(address, sql, rows, seen)
            seen.server_bytes.append(resident_bytes(server))
            await asyncio.sleep(0.5)
    finally:
        of_each_kind.cancel()
        await asyncio.wait([of_each_kind])
        told, _ = await attacks.communicate(b"")  # closes its standard input
    seen.cpu_s = processes()[server].own_s - before
    did = json.loads(told.splitlines()[-1])
    seen.opened, seen.ended, seen.most_open = Counter(did["opened"]), Counter(did["ended"]), did["most_open"]
    # Standard error is the log, which may be a file without a name.
    seen.log_bytes = os.stat(f"/proc/{server}/fd/2").st_size
    return seen


async def _attack_until_told(address: str, clients: int) -> Siege:
    """Run all clients until standard input ends; print a line once the service has ended connections of each kind."""
    seen, url, halves = Siege(), httpx.URL(address), list(HALVES.items())
    attacks = [
        asyncio.create_task(_attack(url, number, *halves[number % len(halves)], seen))
        for number in range(clients)
    ]
    reading = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not reading.done() and not all(seen.ended[kind] for kind, _ in halves):
        await asyncio.wait([reading], timeout=_LOOK_EVERY_S)
    print("each kind", flush=True)
    await reading
    for attack in attacks:
        attack.cancel()
    await asyncio.gather(*attacks, return_exceptions=True)
    return seen


async def _attack(url: httpx.URL, number: int, kind: str, sent: bytes, seen: Siege) -> None:
    own = f"127.3.0.{number // _CONNECTIONS_OF_AN_ADDRESS + 1}"
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(url.host, url.port, local_addr=(own, 0))
            seen.opened[kind] += 1
            seen.most_open = max(seen.most_open, seen.opened.total() - seen.ended.total())
            try:
                writer.write(sent)
                while await reader.read(4096):
                    pass
                seen.ended[kind] += 1
            except OSError:
                seen.ended[kind] += 1
            finally:
                writer.transport.abort()
        await asyncio.sleep(_AGAIN_AFTER_S)


async def _look_up(address: str, sql: str, rows: list[list[int]], seen: Siege) -> None:
    started = time.monotonic()
    try:
        # A client that checks certificates reads those of all authorities first, for 20 ms.
        async with httpx.AsyncClient(base_url=address, timeout=_PATIENCE_S, verify=False) as client:
            answer = await client.post("/api/query", json={"sql": sql})
        found = answer.json().get("rows", answer.text)
    except httpx.HTTPError as error:
        found = repr(error)
    if found == rows:
        seen.lookup_s.append(time.monotonic() - started)
    else:
        seen.wrong.append(str(found))


def main() -> None:
    """Run clients that never end their requests, and print what they did."""
    seen = asyncio.run(_attack_until_told(sys.argv[1], int(sys.argv[2])))
    print(json.dumps({"opened": seen.opened, "ended": seen.ended, "most_open": seen.most_open}))


if __name__ == "__main__":
    main()
