"""An engine that is opened at its first use: to load its modules may take longer than all else that a command does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from catalog.references import SavepointReference
from service.base.errors import QueryError
from service.query.engines.engine import Engine, Execution
from service.query.sql.plan import Plan


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
