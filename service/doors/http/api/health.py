"""Health checks: `GET /healthz` (liveness), `GET /readyz` (readiness), and `GET /metrics`."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from service.doors.http.api.state import State
from service.doors.operations.metrics import CONTENT_TYPE

router = APIRouter(tags=["operations"])


class Health(BaseModel):
    """The health of the service.

    Attributes:
        status: `ok`; `starting`, `compiling` or `ending` where queries do not run at once.
        writes: `compiling` as long as the first write would wait for the compiler.
    """

    status: str = "ok"
    writes: str | None = None


@router.get("/healthz", response_model_exclude_none=True)
async def health() -> Health:
    """Check liveness: the service answers. The savepoints are not checked."""
    return Health()


@router.get("/readyz", responses={503: {"model": Health}}, response_model_exclude_none=True)
async def ready(service: State, response: Response) -> Health:
    """Check readiness: queries run at once. 503 until the first worker has started, and while the service is stopping.

    Where the decoder is not compiled for this processor yet, the first worker takes up to a minute: the status is
    `compiling`, and queries that come wait. What only writes need is compiled after that; `writes` says `compiling` meanwhile.
    """
    writes = "compiling" if service.compilation.is_running else None
    if service.queries.is_ending or not service.workers.is_ready:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        waiting = "compiling" if service.workers.is_compiling else "starting"
        return Health(status="ending" if service.queries.is_ending else waiting, writes=writes)
    return Health(writes=writes)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(service: State) -> Response:
    """Return the numbers for Prometheus."""
    # Not `async`: collecting the numbers takes locks, and must not hold up the event loop.
    return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})
