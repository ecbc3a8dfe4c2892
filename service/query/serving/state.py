"""The states of a query: queued → running → finished, failed or cancelled."""

from __future__ import annotations

from enum import StrEnum


class QueryState(StrEnum):
    """A state of a query; its text is part of the HTTP interface."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """True if no other state follows."""
        return self not in (QueryState.QUEUED, QueryState.RUNNING)
