"""The load of `make bench-load`, short: no answer is wrong, none is lost. How fast they come is not asked here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.load import BASE, GROUPS, load, stall
from benchmarks.lookups import measured, text_of
from tools.servers import served
from tools.synthetic.savepoints import write_savepoint


@pytest.mark.slow
def test_no_answer_is_wrong_or_lost_while_hostile_queries_run_and_workers_are_killed(tmp_path: Path) -> None:
    write_savepoint(tmp_path / "load" / "savepoint", 20_000, ("count",))
    with served(tmp_path, "--worker-memory", "500MB") as (server, address):
        asyncio.run(stall(server.pid, address, 5))
        report = asyncio.run(load(server.pid, address, clients=40, seconds=20, keys=20_000, kill_every_s=3))

    assert (report.wrong, report.lost) == ([], [])
    assert report.kills > 0
    assert all(report.outcomes[f"{kind} right"] for kind in ("lookup", "scan", "group"))
    assert {name for name in report.outcomes if name.startswith("hostile")} <= {
        "hostile EXCEEDED_MEMORY",
        "hostile EXCEEDED_TIME_LIMIT",
        "hostile WORKER_LOST",
        "hostile right",  # what a fast machine finishes
    }


@pytest.mark.slow
def test_lookups_of_many_clients_are_right(tmp_path: Path) -> None:
    write_savepoint(tmp_path / "load" / "savepoint", 20_000, ("count",))
    figures = measured(tmp_path, 20_000, 2, base=BASE, groups=GROUPS)

    assert figures.wrong == 0
    assert "| this | 1 |" in text_of([("this", figures)])
