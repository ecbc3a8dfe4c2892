"""The seam between queries and engines: `Engine` runs plans, an `Execution` is one plan that runs.

A query takes an `Execution` from its engine, opens it, reads it, and closes it. `cancel` may come at any time, from any
thread; then `open` or the reader raises the error that `cancel` was given.

The folder for the temporary files of one task of a client.

An engine that is opened at its first use: to load its modules may take longer than all else that a command does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from catalog.references import SavepointReference
from readers import TemporaryFolder
from service.base.errors import EngineUnavailableError, QueryError
from service.query.sql.plan import Plan, UnreadFile
from service.query.sql.types import Column

if TYPE_CHECKING:
    from service.query.engines.scan.work import ScanWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of an execution, over all scans that it has started.

    Attributes:
        bytes_read: bytes of savepoints.
        bytes_total: estimate of the bytes of savepoints that it reads to its end.
        bytes_cached: bytes that came from the cache of decoded states.
        cache_hits: scans that found something in the cache.
        rows_read: rows that the scans returned; None if not known.
        splits_read: splits that were read to their end; None if not known.
        splits_total: splits of the scans; None if not known.
        incomplete: files whose reading ended in an error, if the plan allows that.
    """

    bytes_read: int = 0
    bytes_total: int = 0
    bytes_cached: int = 0
    cache_hits: int = 0
    rows_read: int | None = None
    splits_read: int | None = None
    splits_total: int | None = None
    incomplete: tuple[UnreadFile, ...] = ()


class Execution(Protocol):
    """A plan that runs, once.

    Attributes:
        is_long: whether the query reads so much that it runs behind all others, if the engine has priorities; set
            before `open`.
        columns: the columns of the answer; known after `open`.
        remark: a note on how the plan runs, for the reason of the choice; known after `open`, empty for none.
    """

    is_long: bool = False
    columns: tuple[Column, ...] = ()
    remark: str = ""

    @property
    def progress(self) -> Progress:
        """Progress of the execution; any thread may ask, also after `close`."""

    def begin(self, timeout_s: float) -> bool:
        """Begin before `open`, and wait a little; return True if the whole answer is there, so that `open` does not wait.

        If it is not there, another thread may call `open`.

        Raises:
            QueryError: it failed; then `open` is not called.
        """
        return False

    def open(self) -> pa.RecordBatchReader:
        """Start; return when the first rows are there. The reader raises QueryError as `open` does.

        Raises:
            EngineRefusesError: the engine does not answer the statement; the local engine does.
            QueryError: the statement means nothing to the engine, or it failed.
        """

    def cancel(self, error: QueryError) -> None:
        """End the execution as soon as possible with this error. May be called again until it has ended."""

    def close(self) -> None:
        """Release everything; ends the execution if it has not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The machines on which an engine runs, if it does not run on this one.

    Attributes:
        address: for people; without credentials.
        threshold_bytes: a plan that reads more belongs there; None for the memory of this machine.
    """

    address: str
    threshold_bytes: int | None = None


class Engine(Protocol):
    """Runs plans, many at a time."""

    @property
    def name(self) -> str:
        """The name in requests and in `service.query.engines.registry`."""

    @property
    def cluster(self) -> Cluster | None:
        """The cluster on which the engine runs; None for this machine."""
        return None

    @property
    def notice(self) -> str:
        """A sentence on what all queries wait for at present; empty for nothing."""
        return ""

    def refusal(self, plan: Plan) -> QueryError | None:
        """Return why the engine does not answer a plan, as far as it knows without running it; None if it does."""
        return None

    def execution(self, plan: Plan, max_rows: int | None = None) -> Execution:
        """Return a new execution of this plan, not yet started.

        Args:
            plan: what runs.
            max_rows: rows of the answer that the query keeps, None for all. The query needs one more to know that the
                answer is cut off, and drops what comes after that, so an engine that fetches rows before they are read
                may stop there.
        """

    def reading(self, work: ScanWork) -> Execution | None:
        """Return the execution that reads the scan of a short statement, where this engine's queries run; None for this process."""
        return None

    def work(self, parcels: Sequence[bytes], source: SavepointReference) -> list[bytes]:
        """Do the work of parcels of the writers, and return their answers in the same order.

        Args:
            parcels: see `writers.done`.
            source: the savepoint that is changed, for other machines.

        Raises:
            QueryError: the engine has no machines for it, or they are gone.
        """
        raise EngineUnavailableError(f"the engine {self.name} writes no savepoints")

    def close(self) -> None:
        """Release everything; no execution may be open."""


def task_folder(parent: str) -> TemporaryFolder:
    """Return a folder for one task of a client.

    Raises:
        EngineUnavailableError: it cannot be made.
    """
    try:
        return TemporaryFolder(parent)
    except OSError as error:
        raise EngineUnavailableError(f"expected a folder for temporary files: {error.strerror}") from error


class LaterEngine(Engine):
    """An engine that nothing but a query of its own asks for: it has no cluster.

    Args:
        name: of the engine.
        opened: opens it.
    """

    def __init__(self, name: str, opened: Callable[[], Engine]) -> None:
        self._name = name
        self._open = opened
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    @property
    def name(self) -> str:
        """The name of the engine; see `Engine`."""
        return self._name

    def refusal(self, plan: Plan) -> QueryError | None:
        """Implement `Engine.refusal`."""
        return self._opened().refusal(plan)

    def execution(self, plan: Plan, max_rows: int | None = None) -> Execution:
        """Implement `Engine.execution`."""
        return self._opened().execution(plan, max_rows)

    def work(self, parcels: Sequence[bytes], source: SavepointReference) -> list[bytes]:
        """Implement `Engine.work`."""
        return self._opened().work(parcels, source)

    def close(self) -> None:
        """Implement `Engine.close`."""
        with self._lock:
            if self._engine is not None:
                self._engine.close()

    def _opened(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = self._open()
            return self._engine
