"""`make bench-load`: many clients at once, some of them hostile, against a server of its own whose workers are killed.

| client | of 20 | asks | and then waits |
|---|---|---|---|
| lookup | 12 | one key | about a second |
| scan | 3 | a whole state, as Arrow | about three seconds |
| group | 3 | a state grouped | about three seconds |
| hostile | 2 | for all memory, or for all time | about three seconds |

Each client has an address of its own, so the server takes each for a user. Every answer is compared with the known content of
the savepoint. An answer may be right, a typed error that the query deserves, or WORKER_LOST where workers are killed; any other
is wrong or lost, and the exit code is 1. Memory is that of the serving process, and the proportional share of its workers.
Lookups alone (`benchmarks.lookups`) come first, beside another checkout with `--against`.
Half-open connections (`tools.halfopen`) come last, to a server of its own with few files. The exit code is 1, too, where
another client's lookup takes more than two seconds meanwhile, or where the memory or the log of the server grows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, fields
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.lookups import Figures, measured
from benchmarks.lookups import text_of as lookups_text
from tools.halfopen import Siege, besiege
from tools.servers import allow_files, cpu_of, resident_bytes, served, shares_bytes, workers_of
from tools.synthetic.savepoints import write_savepoint

ARROW = "application/vnd.apache.arrow.stream"
KINDS = ("lookup",) * 12 + ("scan",) * 3 + ("group",) * 3 + ("hostile",) * 2
THINKING_S = {"lookup": 1.0, "scan": 3.0, "group": 3.0, "hostile": 3.0}
BASE, GROUPS = 10_000, 13
HALF_OPEN_FILES = 1024
# The service is asked without TLS: each client that checks certificates would read those of all authorities, for 20 ms.
_CERTIFICATES = False
# Of a lookup while half-open connections are held.
MAY_TAKE_S = 2.0
# A fast machine may finish some of them: these are their rows.
HOSTILE: dict[str, list[list[int]] | None] = {
    "SELECT repeat('x', 1000000000)": None,
    "SELECT list_sum(range(1000000000))": [[499_999_999_500_000_000]],
    "SELECT list(x) FROM range(1000000000) t(x)": None,
    "SELECT count(*) FROM range(10000000) a, range(10000000) b": [[10**14]],
    "SELECT count(*) FROM aggregate__count a, aggregate__count b WHERE a.value + b.value < 0": [[0]],
    "SELECT length(lpad('x', 900000000, 'yz'))": [[900_000_000]],
}
DESERVED = {
    "hostile": {"EXCEEDED_MEMORY", "EXCEEDED_TIME_LIMIT"},
}
STREAM = "SELECT key, value, repeat('x', 200) AS text FROM aggregate__count, range(20)"


@dataclass(slots=True)
class Report:
    """The results of all clients.

    Attributes:
        seconds: of each answer, by kind.
        outcomes: number of requests, by kind and outcome.
        wrong: answers that contradict the savepoint.
        lost: requests without an answer.
        server_bytes: resident memory of the serving process, once a second.
        workers_bytes: memory of its workers, with a share of the pages that processes share.
        kills: workers that were killed.
        cpu_s: processor time that the clients, the server and its workers took.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in THINKING_S})
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    server_bytes: list[int] = field(default_factory=list)
    workers_bytes: list[int] = field(default_factory=list)
    kills: int = 0
    cpu_s: dict[str, float] = field(default_factory=dict)


class Client:
    """One client: sends a query, compares the answer, waits, and begins again."""

    def __init__(self, number: int, address: str, keys: int, report: Report, kills: bool) -> None:
        self.kind = KINDS[number % len(KINDS)]
        self._random = random.Random(number)
        self._keys = keys
        self._report = report
        self._deserved = DESERVED.get(self.kind, set()) | ({"WORKER_LOST"} if kills else set())
        self._kills = kills
        own = f"127.1.{number // 250}.{number % 250 + 1}"
        transport = httpx.AsyncHTTPTransport(local_address=own, verify=_CERTIFICATES)
        self._http = httpx.AsyncClient(base_url=address, transport=transport, timeout=90)

    async def run(self, until: float) -> None:
        """Send queries until a time."""
        async with self._http:
            await asyncio.sleep(self._random.uniform(0, THINKING_S[self.kind]))
            while time.monotonic() < until:
                started = time.monotonic()
                outcome = await self._ask()
                self._report.outcomes[f"{self.kind} {outcome}"] += 1
                if outcome == "right":
                    self._report.seconds[self.kind].append(time.monotonic() - started)
                await asyncio.sleep(self._random.uniform(0.5, 1.5) * THINKING_S[self.kind])

    async def _ask(self) -> str:
        sql, expected = self._question()
        headers = {"accept": ARROW} if self.kind == "scan" else {}
        body = {"sql": sql, "timeout_s": 5 if self.kind == "hostile" else 60}
        try:
            response = await self._http.post("/api/query", json=body, headers=headers)
        except httpx.HTTPError as error:
            if self._kills and self.kind == "scan" and isinstance(error, httpx.RemoteProtocolError):
                return "broken off"  # its worker was killed behind the first rows
            self._report.lost.append(f"{sql}: {error!r}")
            return "lost"
        return await self._judged(sql, expected, response)

    async def _judged(self, sql: str, expected: Any, response: httpx.Response) -> str:
        if response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            await asyncio.sleep(float(response.headers["retry-after"]))
            return "come again"
        if response.status_code != HTTPStatus.OK:
            code = response.json()["error"]["code"]
            if code not in self._deserved:
                self._report.lost.append(f"{sql}: {response.status_code} {response.text[:200]}")
            return str(code)
        if found_in(response) == expected:
            return "right"
        self._report.wrong.append(f"{sql}: {response.text[:200]}")
        return "wrong"

    def _question(self) -> tuple[str, Any]:
        if self.kind == "lookup":
            number = self._random.randrange(self._keys)
            sql = f"SELECT key, value FROM aggregate__count WHERE key = 'key_{number}'"
            return sql, [[f"key_{number}", BASE + number % GROUPS]]
        if self.kind == "scan":
            return "SELECT value FROM aggregate__count", [self._keys, sum_of(self._keys)]
        if self.kind == "group":
            counts = [
                [BASE + group, len(range(group, self._keys, GROUPS))]
                for group in range(min(GROUPS, self._keys))
            ]
            return "SELECT value, count(*) FROM aggregate__count GROUP BY value ORDER BY value", counts
        return self._random.choice(list(HOSTILE.items()))


def sum_of(keys: int) -> int:
    """Return the sum of all counts."""
    return sum((BASE + group) * len(range(group, keys, GROUPS)) for group in range(GROUPS))


def found_in(response: httpx.Response) -> Any:
    """Return the rows of an answer; for an Arrow stream their number and sum."""
    if response.headers["content-type"].startswith(ARROW):
        table = pa.ipc.open_stream(response.content).read_all()
        return [table.num_rows, pc.sum(table.column("value")).as_py()]
    return response.json()["rows"]


async def watch(server: int, report: Report, kill_every_s: float, until: float) -> None:
    """Measure the memory every second, and kill a worker at intervals."""
    last_kill, chance = time.monotonic(), random.Random(0)
    while time.monotonic() < until:
        workers = await asyncio.to_thread(workers_of, server)
        report.server_bytes.append(resident_bytes(server))
        report.workers_bytes.append(await asyncio.to_thread(shares_bytes, workers))
        if kill_every_s and workers and time.monotonic() - last_kill > kill_every_s:
            last_kill = time.monotonic()
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
                report.kills += 1
        await asyncio.sleep(1)


async def load(
    server: int, address: str, *, clients: int, seconds: float, keys: int, kill_every_s: float
) -> Report:
    """Run all clients for some seconds."""
    report, before = Report(), cpu_of(server)
    until = time.monotonic() + seconds
    asking = [
        Client(number, address, keys, report, bool(kill_every_s)).run(until) for number in range(clients)
    ]
    await asyncio.gather(watch(server, report, kill_every_s, until), *asking)
    report.cpu_s = {whose: seconds - before[whose] for whose, seconds in cpu_of(server).items()}
    return report


async def stall(server: int, address: str, readers: int) -> tuple[int, int]:
    """Return what clients cost that never read their answers: memory that the server and its workers gain."""
    before = resident_bytes(server), shares_bytes(workers_of(server))
    streams = []
    for number in range(readers):
        transport = httpx.AsyncHTTPTransport(local_address=f"127.2.0.{number + 1}", verify=_CERTIFICATES)
        client = httpx.AsyncClient(base_url=address, transport=transport, timeout=90)
        request = client.build_request("POST", "/api/query", json={"sql": STREAM}, headers={"accept": ARROW})
        streams.append((client, asyncio.create_task(client.send(request, stream=True))))
    await asyncio.gather(*(sending for _, sending in streams))
    await asyncio.sleep(5)
    after = resident_bytes(server), shares_bytes(workers_of(server))
    for client, sending in streams:
        await sending.result().aclose()
        await client.aclose()
    return after[0] - before[0], after[1] - before[1]


def percentile(values: list[float], part: float) -> float:
    """Return the value that this fraction of all values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else float("nan")


def text_of(report: Report) -> str:
    """Return the report for people."""
    lines = ["| query | right | median | p99 | most |", "|---|---|---|---|---|"]
    for kind, seconds in report.seconds.items():
        if seconds:
            middle, late = statistics.median(seconds), percentile(seconds, 0.99)
            lines.append(
                f"| {kind} | {len(seconds)} | {middle:.3f} s | {late:.3f} s | {max(seconds):.3f} s |"
            )
    lines += ["", *(f"{count:6} {outcome}" for outcome, count in sorted(report.outcomes.items()))]
    quarter = max(1, len(report.server_bytes) // 4)
    first, last = report.server_bytes[:quarter], report.server_bytes[-quarter:]
    lines += [
        "",
        f"wrong: {len(report.wrong)}, lost: {len(report.lost)}, workers killed: {report.kills}",
        f"server: {max(report.server_bytes) / 1e6:.0f} MB at most; {statistics.median(first) / 1e6:.0f} MB in the first"
        f" quarter, {statistics.median(last) / 1e6:.0f} MB in the last; its workers {max(report.workers_bytes) / 1e6:.0f} MB"
        " at most",
        f"processor time: {', '.join(f'{whose} {seconds:.0f} s' for whose, seconds in report.cpu_s.items())}",
        *report.wrong[:10],
        *report.lost[:10],
    ]
    return "\n".join(lines)


def compared(root: Path, arguments: argparse.Namespace) -> list[tuple[str, Figures]]:
    """Measure lookups of this checkout and of another one in turn, and print them."""
    rounds: list[tuple[str, Figures]] = []
    sides = [("this", None), ("the other", arguments.against)]
    for number in range(arguments.rounds):
        # Who is second finds a machine that is warm.
        for name, checkout in reversed(sides) if number % 2 else sides:
            if name == "this" or checkout is not None:
                figures = measured(
                    root,
                    arguments.keys,
                    arguments.lookup_seconds,
                    base=BASE,
                    groups=GROUPS,
                    checkout=checkout,
                )
                rounds.append((name, figures))
    print(lookups_text(rounds) + "\n")
    return rounds


def main() -> int:
    """Run the clients and print the report; the exit code is 1 if an answer was wrong or lost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument(
        "--clients", type=int, default=200, help="number of clients at the same time (default: 200)"
    )
    parser.add_argument(
        "--seconds", type=float, default=300, help="duration; 0 for lookups alone (default: 300)"
    )
    parser.add_argument("--keys", type=int, default=200_000, help="keys of the savepoint (default: 200000)")
    parser.add_argument(
        "--kill-every", type=float, default=5, help="seconds between kills; 0 for none (default: 5)"
    )
    parser.add_argument(
        "--stalled", type=int, default=40, help="clients that never read, measured first (default: 40)"
    )
    parser.add_argument(
        "--half-open", type=int, default=2000, help="half-open connections, measured last (default: 2000)"
    )
    parser.add_argument(
        "--half-open-seconds", type=float, default=120, help="for how long they are held (default: 120)"
    )
    parser.add_argument(
        "--lookup-seconds",
        type=float,
        default=10,
        help="each part of the lookups, measured first (default: 10)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of lookups (default: 3)")
    parser.add_argument(
        "--against", type=Path, help="another checkout, whose lookups are measured in turn with these"
    )
    parser.add_argument("--json", type=Path, help="also write the report to this file")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="savepointdb-load-"))
    try:
        write_savepoint(folder / "load" / "savepoint", arguments.keys, ("count",))
        if arguments.lookup_seconds:
            rounds = compared(folder, arguments)
            if not arguments.seconds:
                return int(any(figures.wrong for _, figures in rounds))
        with served(folder) as (server, address):
            stalled = (
                asyncio.run(stall(server.pid, address, arguments.stalled)) if arguments.stalled else (0, 0)
            )
            report = asyncio.run(
                load(
                    server.pid,
                    address,
                    clients=arguments.clients,
                    seconds=arguments.seconds,
                    keys=arguments.keys,
                    kill_every_s=arguments.kill_every,
                )
            )
        siege = Siege()
        if arguments.half_open:
            allow_files(2 * arguments.half_open)
            with served(folder, files=HALF_OPEN_FILES) as (server, address):
                siege = asyncio.run(
                    besiege(
                        server.pid,
                        address,
                        clients=arguments.half_open,
                        seconds=arguments.half_open_seconds,
                        sql="SELECT value FROM aggregate__count WHERE key = 'key_0'",
                        rows=[[BASE]],
                    )
                )
    finally:
        shutil.rmtree(folder)
    print(
        f"{arguments.clients} clients, {arguments.seconds:g} s, {arguments.keys:,} keys, {os.cpu_count()} cores\n"
    )
    print(text_of(report))
    if arguments.stalled:
        print(
            f"{arguments.stalled} stalled readers: server {stalled[0] / 1e6:+.0f} MB, workers {stalled[1] / 1e6:+.0f} MB"
        )
    if arguments.half_open:
        print(f"\n{siege}\n\nfiles that the server may open: {HALF_OPEN_FILES}")
    if arguments.json:
        seen = {part.name: getattr(report, part.name) for part in fields(report)}
        arguments.json.write_text(json.dumps(seen | {"stalled_bytes": stalled}))
    late = [seconds for seconds in siege.lookup_s if seconds > MAY_TAKE_S]
    return 1 if report.wrong or report.lost or siege.wrong or late or not siege.is_flat else 0


if __name__ == "__main__":
    sys.exit(main())
