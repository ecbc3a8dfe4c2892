"""`ScanEngine`: short statements, read where the local engine runs its queries, and without it."""

from __future__ import annotations

from catalog import CatalogError
from readers import ReaderError
from service.base.errors import EngineRefusesError, QueryError, query_error_of
from service.base.settings import Settings
from service.query.engines.engine import Engine, Execution
from service.query.engines.scan.execution import ScanExecution
from service.query.engines.scan.work import ScanWork
from service.query.sql.plan import Plan


class NotShortError(EngineRefusesError):
    """A statement that a scan does not answer: it is more than columns and conditions of some keys of one table."""

    code = "NOT_A_LOOKUP"


class ScanEngine(Engine):
    """Answers short statements from the scan itself.

    Args:
        settings: of the service.
        local: the local engine: in its processes the scans are read.
    """

    name = "scan"

    def __init__(self, settings: Settings, local: Engine) -> None:
        self._local = local

    @property
    def notice(self) -> str:
        """Implement `Engine.notice`."""
        return self._local.notice

    def refusal(self, plan: Plan) -> QueryError | None:
        """Implement `Engine.refusal`."""
        if plan.short is not None:
            return None
        return NotShortError(
            "expected columns and conditions of one table, with keys, found another statement",
            hint="leave the choice of the engine to the service",
        )

    def execution(self, plan: Plan, max_rows: int | None = None) -> Execution:
        """Implement `Engine.execution`."""
        refusal = self.refusal(plan)
        if refusal is not None:
            raise refusal
        try:
            work = ScanWork.of(plan)
        except (CatalogError, ReaderError) as error:
            raise query_error_of(error) from error
        return self._local.reading(work) or ScanExecution(work)

    def close(self) -> None:
        """Implement `Engine.close`; the local engine has its own owner."""
