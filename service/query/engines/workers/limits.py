"""Memory and number of workers where the settings leave them open.

The workers share 80 % of the machine's memory: each gets the same part, for as many queries as run at a time, so no query
takes memory that another was promised. The engine gets 60 % of a worker's memory and spills beyond that; the rest is for
what the scans read and for the answer.
"""

from __future__ import annotations

from service.base.process import machine
from service.base.settings import Settings, bytes_of

_OF_MACHINE = 0.8
_OF_WORKER = 0.6
_LEAST_BYTES = 512 << 20


def worker_memory_bytes(settings: Settings, running: int) -> int:
    """Return the memory of a worker.

    Args:
        settings: may name the memory.
        running: queries that run at a time.
    """
    if settings.workers.memory:
        return bytes_of(settings.workers.memory)
    return max(_LEAST_BYTES, int(machine.memory_bytes() * _OF_MACHINE / running))


def engine_settings(settings: Settings, worker_bytes: int) -> Settings:
    """Return the settings for the engine in a worker with this much memory."""
    # A larger limit than the worker's memory would let the kernel end the query before the engine spills.
    most = int(worker_bytes * _OF_WORKER)
    asked = bytes_of(settings.duckdb.memory_limit) if settings.duckdb.memory_limit else most
    return settings.replaced({"memory_limit": f"{min(most, asked)}B"})


def waiting_workers(settings: Settings) -> int:
    """Return how many workers wait for queries."""
    return settings.workers.count or (settings.duckdb.threads or machine.cores()) + 2
