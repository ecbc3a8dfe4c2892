"""The choice of an engine for a query whose request names none.

The local engine answers what this machine can read: it needs no start, it is many times as fast as a cluster engine on the
same machine, and it spills what does not fit into memory. So a cluster engine answers only if it has a cluster and the plan
reads more, after pruning, than this machine should: more than the engine's threshold, or more than the memory of the
machine. The local engine keeps what the cluster engine refuses, whatever its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.encode.sizes import size_text
from service.engines.engine import Engine
from service.engines.registry import Role, engines_of, local_engine, titles_of
from service.sql.plan import Plan


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
    for registered in engines_of(Role.CLUSTER):
        engine = engines.get(registered.name)
        cluster = None if engine is None else engine.cluster
        if engine is None or cluster is None:
            continue
        limit_bytes = memory_bytes if cluster.threshold_bytes is None else cluster.threshold_bytes
        limit = "the memory of this machine" if cluster.threshold_bytes is None else "the threshold"
        read, limit = f"{size_text(size_bytes)} to read", f"{limit}, {size_text(limit_bytes)}"
        if size_bytes <= limit_bytes:
            reason = f"{read}, not more than {limit}"
            continue
        # Asked last: to translate a statement takes longer than to compare sizes.
        refusal = engine.refusal(plan)
        if refusal is None:
            return Choice(engine.name, f"{read}, more than {limit}: {registered.title} at {cluster.address}")
        reason = f"{read}, more than {limit}, but {refusal.message}"
    return Choice(local_engine().name, reason)
