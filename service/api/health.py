"""Health checks: `GET /healthz` (liveness), `GET /readyz` (readiness), and `GET /metrics`."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from service.api.state import State
from service.operations.metrics import CONTENT_TYPE

router = APIRouter(tags=["operations"])


class Health(BaseModel):
    """The health of the service."""

    status: str = "ok"


@router.get("/healthz")
async def health() -> Health:
    """Check liveness: the service answers. The savepoints are not checked."""
    return Health()


@router.get("/readyz", responses={503: {"model": Health}})
async def ready(service: State, response: Response) -> Health:
    """Check readiness: queries run at once. 503 until the first worker has started, and while the service is stopping.

    Where the decoder is not compiled for this processor yet, the first worker takes up to a minute: the status is
    `compiling`, and queries that come wait.
    """
    if service.queries.is_ending or not service.workers.is_ready:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        waiting = "compiling" if service.workers.is_compiling else "starting"
        return Health(status="ending" if service.queries.is_ending else waiting)
    return Health()


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(service: State) -> Response:
    """Return the numbers for Prometheus."""
    # Not `async`: collecting the numbers takes locks, and must not hold up the event loop.
    return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})
