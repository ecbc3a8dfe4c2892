"""How much a worker may take, where the settings leave it open.

The memory of a query's process is its part of 80 % of the machine's, as many as may run at a time: so none can take what
others were promised. DuckDB gets 60 % of that and spills beyond; the rest is for what is read and what was found.
"""

from __future__ import annotations

from service.process import machine
from service.settings import Settings, bytes_of

_OF_MACHINE = 0.8
_OF_WORKER = 0.6
_LEAST_BYTES = 512 << 20


def worker_memory_bytes(settings: Settings, running: int) -> int:
    """The memory of a query's process.

    Args:
        settings: say it, or not.
        running: how many run at a time.
    """
    if settings.workers.memory:
        return bytes_of(settings.workers.memory)
    return max(_LEAST_BYTES, int(machine.memory_bytes() * _OF_MACHINE / running))


def engine_settings(settings: Settings, worker_bytes: int) -> Settings:
    """The settings of the engine in a worker of so much memory."""
    most = int(worker_bytes * _OF_WORKER)
    asked = bytes_of(settings.duckdb.memory_limit) if settings.duckdb.memory_limit else most
    return settings.replaced({"memory_limit": f"{min(most, asked)}B"})


def waiting_workers(settings: Settings) -> int:
    """How many workers wait for queries."""
    return settings.workers.count or (settings.duckdb.threads or machine.cores()) + 2
