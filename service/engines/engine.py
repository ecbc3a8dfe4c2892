"""What an engine is: the seam between queries and DuckDB, Spark and whatever comes.

A query takes an `Execution` from its engine, opens it, reads it, and closes it. `cancel` may come at any time, from any
thread; what was given to it is then raised by `open` or by the reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from service.errors import QueryError
from service.sql.planner import Plan
from service.sql.types import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What has been read, of all scans started so far.

    Attributes:
        bytes_read: of savepoints.
        bytes_total: about how many there are to read.
        bytes_cached: of the cache of decoded states.
        cache_hits: scans of which the cache had something.
        rows_read: as the scans gave them; None where that is not known.
        splits_read: those that were read to their end; None where that is not known.
        splits_total: None where that is not known.
    """

    bytes_read: int = 0
    bytes_total: int = 0
    bytes_cached: int = 0
    cache_hits: int = 0
    rows_read: int | None = None
    splits_read: int | None = None
    splits_total: int | None = None


class Execution(Protocol):
    """A plan that runs, once.

    Attributes:
        is_long: whether it goes behind all others, where the engine can tell; said before it is opened.
    """

    is_long: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the answer; known once it is open."""

    @property
    def bytes_read(self) -> int:
        """Bytes of savepoints read so far."""

    @property
    def bytes_total(self) -> int:
        """About how many bytes the scans started so far are going to read."""

    @property
    def progress(self) -> Progress:
        """What it has read; may be asked from any thread, also when it is closed."""
        return Progress(bytes_read=self.bytes_read, bytes_total=self.bytes_total)

    @property
    def remark(self) -> str:
        """What is to be told of how it runs, beside why this engine; known once it is open. Empty for nothing."""
        return ""

    def open(self) -> pa.RecordBatchReader:
        """Start; returns when the first rows are there. The reader raises QueryError as `open` does.

        Raises:
            QueryError: the statement means nothing to the engine, or it failed.
        """

    def cancel(self, error: QueryError) -> None:
        """End it as soon as possible with this error. May be called again until it has ended."""

    def close(self) -> None:
        """Let go of everything; ends it if it has not ended."""


class Engine(Protocol):
    """Something that runs plans, many at a time."""

    @property
    def name(self) -> str:
        """As requests call it."""

    def execution(self, plan: Plan, max_rows: int | None = None) -> Execution:
        """A run of this plan, not yet started.

        Args:
            plan: what runs.
            max_rows: rows that are wanted at most, None for all. One more tells that there are more; what comes beyond
                that is passed over, so an engine that fetches rows before they are read stops there.
        """

    def close(self) -> None:
        """Let go of everything; no execution may be open."""
