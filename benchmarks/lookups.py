"""Lookups over HTTP: one after the other, and by 32 clients of a compiled load generator, beside another checkout if there is one.

The generator is wrk (`apt install wrk`); without it only the first part is measured. Both checkouts serve one savepoint in turn, so
that other work on the machine meets both. Every answer is checked.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from tools.servers import cpu_of, served

CLIENTS = 32
_WARM_UP = 200
_SQL = "SELECT key, value FROM aggregate__count WHERE key = 'key_{}'"
# A key says which count it has: see `benchmarks.load`.
_SCRIPT = """
wrk.method, wrk.headers["Content-Type"] = "POST", "application/json"
wrong = 0
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init() math.randomseed(1) end
function request()
  local sql = "SELECT key, value FROM aggregate__count WHERE key = 'key_" .. math.random(0, %(last)d) .. "'"
  return wrk.format(nil, "/api/query", nil, '{"sql":"' .. sql .. '"}')
end
function response(status, headers, body)
  local key, value = string.match(body, '"rows":%%[%%["key_(%%d+)",(%%d+)%%]%%]')
  if status ~= 200 or not key or tonumber(value) ~= %(base)d + tonumber(key) %% %(groups)d then wrong = wrong + 1 end
end
function done(summary)
  local all = 0
  for _, thread in ipairs(threads) do all = all + thread:get("wrong") end
  local errors = summary.errors
  local lost = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format("answers=%%d us=%%d wrong=%%d lost=%%d\\n", summary.requests, summary.duration, all, lost))
end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one round of one checkout.

    Attributes:
        median_ms: of a lookup after the other.
        late_ms: the 99th percentile of these.
        cpu_ms: processor time of the server and of its workers for one of them.
        a_second: answers to 32 clients; 0 without wrk.
        loaded_cpu_ms: processor time of the server and of its workers for one of these.
        wrong: answers that are not the row of the key, or did not come.
    """

    median_ms: float
    late_ms: float
    cpu_ms: tuple[float, float]
    a_second: float
    loaded_cpu_ms: tuple[float, float]
    wrong: int


def measured(
    root: Path, keys: int, seconds: float, *, base: int, groups: int, checkout: Path | None = None
) -> Figures:
    """Serve a savepoint, and measure lookups.

    Args:
        root: its folder.
        keys: number of its keys.
        seconds: for each part.
        base: count of the first key.
        groups: number of counts.
        checkout: whose service; this one if None.
    """
    with served(root, checkout=checkout) as (server, address):
        url = urlsplit(address)
        connection = HTTPConnection(url.hostname or "", url.port, timeout=60)
        chance = random.Random(1)

        def ask() -> bool:
            number = chance.randrange(keys)
            body = json.dumps({"sql": _SQL.format(number)})
            connection.request("POST", "/api/query", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = json.loads(response.read())
            expected = [[f"key_{number}", base + number % groups]]
            return response.status == HTTPStatus.OK and answer["rows"] == expected

        wrong = sum(not ask() for _ in range(_WARM_UP))
        before, until, taken = cpu_of(server.pid), time.monotonic() + seconds, []
        while time.monotonic() < until:
            started = time.perf_counter()
            wrong += not ask()
            taken.append((time.perf_counter() - started) * 1000)
        alone = _cpu_ms(server.pid, before, len(taken))
        connection.close()
        before = cpu_of(server.pid)
        answers, a_second, more = _loaded(address, keys, seconds, base, groups)
        return Figures(
            median_ms=statistics.median(taken),
            late_ms=sorted(taken)[int(len(taken) * 0.99)],
            cpu_ms=alone,
            a_second=a_second,
            loaded_cpu_ms=_cpu_ms(server.pid, before, answers) if answers else (0.0, 0.0),
            wrong=wrong + more,
        )


def text_of(rounds: Iterable[tuple[str, Figures]]) -> str:
    """Return the medians of the rounds of each checkout as a table.

    Args:
        rounds: name of the checkout, and the figures of a round.
    """
    found: dict[str, list[Figures]] = {}
    for name, figures in rounds:
        found.setdefault(name, []).append(figures)
    lines = [
        "| checkout | rounds | one after the other: median, p99 | CPU of each: server, worker "
        "| 32 clients | CPU of each: server, worker | wrong or lost |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, known in found.items():
        lines.append(
            f"| {name} | {len(known)} | {_median(each.median_ms for each in known):.1f} ms, "
            f"{_median(each.late_ms for each in known):.1f} ms | {_both([each.cpu_ms for each in known])} | "
            f"{_median(each.a_second for each in known):.0f}/s | {_both([each.loaded_cpu_ms for each in known])} | "
            f"{sum(each.wrong for each in known)} |"
        )
    return "\n".join(lines)


def _loaded(address: str, keys: int, seconds: float, base: int, groups: int) -> tuple[int, float, int]:
    """Return the number of answers to 32 clients, how many a second, and how many were wrong or lost."""
    if shutil.which("wrk") is None:
        return 0, 0.0, 0
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_SCRIPT % {"last": keys - 1, "base": base, "groups": groups})
        script.flush()
        command = ["wrk", "-t1", f"-c{CLIENTS}", f"-d{max(1, round(seconds))}s", "--timeout", "30s"]
        ran = subprocess.run(
            [*command, "-s", script.name, address], capture_output=True, text=True, check=True
        )
    told = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", ran.stdout)}
    return told["answers"], told["answers"] / (told["us"] / 1e6), told["wrong"] + told["lost"]


def _cpu_ms(server: int, before: dict[str, float], count: int) -> tuple[float, float]:
    after = cpu_of(server)
    own, workers = ((after[whose] - before[whose]) / count * 1000 for whose in ("server", "workers"))
    return own, workers


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _both(pairs: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{_median(pair[side] for pair in pairs):.1f} ms" for side in (0, 1))
