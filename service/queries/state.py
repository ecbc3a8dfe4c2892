"""The life of a query: queued → running → finished, failed or cancelled."""

from __future__ import annotations

from enum import StrEnum


class QueryState(StrEnum):
    """Where a query is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """Whether nothing follows."""
        return self not in (QueryState.QUEUED, QueryState.RUNNING)
