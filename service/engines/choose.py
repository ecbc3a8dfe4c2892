"""Which engine answers, where the request leaves it open, and why.

DuckDB answers what this machine can read: in this process it is many times as fast as a Spark of this machine, and it
spills what does not fit into memory. So Spark answers only where it has a cluster, and the plan reads more, after pruning,
than this machine should: `threshold_bytes`, or as much as the machine has memory. What Spark would answer differently
stays with DuckDB, whatever its size.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.engines.spark.engine import translation
from service.engines.spark.session import SparkSettings
from service.errors import QueryError
from service.sql.planner import Plan

DUCKDB, SPARK = "duckdb", "spark"
_UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")
_STEP = 1000


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine, and why: for people."""

    engine: str
    reason: str


def choose(plan: Plan, size_bytes: int, settings: SparkSettings | None, memory_bytes: int) -> Choice:
    """The engine for a plan.

    Args:
        plan: what is to run.
        size_bytes: that it reads, after pruning.
        settings: Spark's; None where there is none.
        memory_bytes: of this machine.
    """
    if settings is None or settings.is_local:
        return Choice(DUCKDB, "it runs on this machine and needs no start, and no Spark cluster is set")
    limit_bytes = memory_bytes if settings.threshold_bytes is None else settings.threshold_bytes
    limit = f"{'the memory of this machine' if settings.threshold_bytes is None else 'the threshold'}"
    read = f"{shown_bytes(size_bytes)} to read"
    if size_bytes <= limit_bytes:
        return Choice(DUCKDB, f"{read}, not more than {limit}, {shown_bytes(limit_bytes)}")
    over = f"{read}, more than {limit}, {shown_bytes(limit_bytes)}"
    try:
        translation(plan)
    except QueryError as error:
        return Choice(DUCKDB, f"{over}, but {error.message}")
    return Choice(SPARK, f"{over}: Spark at {settings.place}")


def shown_bytes(size_bytes: int) -> str:
    """`12.3 MB`."""
    value = float(size_bytes)
    for unit in _UNITS:
        if value < _STEP or unit == _UNITS[-1]:
            break
        value /= _STEP
    return f"{value:.0f} {unit}" if unit == _UNITS[0] else f"{value:.1f} {unit}"
