"""The choice of an engine for a query, or for the work of a write, whose request names none.

The local engine answers what this machine can read: it needs no start, it is many times as fast as a cluster engine on the
same machine, and it spills what does not fit into memory. So a cluster engine answers only if it has a cluster and the plan
reads more, after pruning, than this machine should: more than the engine's threshold, or more than the memory of the
machine. The local engine keeps what the cluster engine refuses, whatever its size. What a scan answers itself needs neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.query.encode.table import size_text
from service.query.engines.engine import Cluster, Engine
from service.query.engines.registry import Role, engines_of, local_engine, title_of, titles_of
from service.query.sql.plan import Plan


@dataclass(frozen=True, slots=True)
class Choice:
    """The name of an engine, and the reason for the choice, for people."""

    engine: str
    reason: str


def choose(plan: Plan, size_bytes: int, engines: Mapping[str, Engine], memory_bytes: int) -> Choice:
    """Choose the engine for a plan.

    Args:
        plan: what is to run.
        size_bytes: bytes that it reads, after pruning.
        engines: the open engines, by name.
        memory_bytes: memory of this machine.
    """
    reason = f"it runs on this machine and needs no start, and no {titles_of(Role.CLUSTER)} cluster is set"
    for engine, cluster in _clusters(engines):
        is_more, reason = _compared(size_bytes, cluster, memory_bytes)
        if not is_more:
            continue
        # Asked last: to translate a statement takes longer than to compare sizes.
        refusal = engine.refusal(plan)
        if refusal is None:
            return Choice(engine.name, f"{reason}: {title_of(engine.name)} at {cluster.address}")
        reason = f"{reason}, but {refusal.message}"
    if plan.short is not None:
        for registered in engines_of(Role.SCAN):
            if registered.name in engines:
                return Choice(registered.name, "it looks up keys of one table, so it needs no engine")
    return Choice(local_engine().name, reason)


def choose_for_work(size_bytes: int, engines: Mapping[str, Engine], memory_bytes: int) -> Engine | None:
    """Choose the engine for the work of a write; return None for this process.

    Args:
        size_bytes: bytes that are read to make the state that changes.
        engines: the open engines, by name.
        memory_bytes: memory of this machine.
    """
    for engine, cluster in _clusters(engines):
        is_more, _ = _compared(size_bytes, cluster, memory_bytes)
        if is_more:
            return engine
    return None


def _clusters(engines: Mapping[str, Engine]) -> Iterator[tuple[Engine, Cluster]]:
    """Yield the open engines that have a cluster, with it."""
    for registered in engines_of(Role.CLUSTER):
        engine = engines.get(registered.name)
        if engine is not None and engine.cluster is not None:
            yield engine, engine.cluster


def _compared(size_bytes: int, cluster: Cluster, memory_bytes: int) -> tuple[bool, str]:
    """Return whether a size is more than this machine should read, and a text that says so."""
    limit_bytes = memory_bytes if cluster.threshold_bytes is None else cluster.threshold_bytes
    limit = "the memory of this machine" if cluster.threshold_bytes is None else "the threshold"
    is_more = size_bytes > limit_bytes
    than = "more than" if is_more else "not more than"
    return is_more, f"{size_text(size_bytes)} to read, {than} {limit}, {size_text(limit_bytes)}"
