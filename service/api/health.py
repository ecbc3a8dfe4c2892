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
    """Check readiness: the service accepts queries. 503 until its first worker has started, and while it is stopping."""
    if service.queries.is_ending or not service.workers.is_ready:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        return Health(status="ending" if service.queries.is_ending else "starting")
    return Health()


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(service: State) -> Response:
    """Return the numbers for Prometheus."""
    # Not `async`: collecting the numbers takes locks, and must not hold up the event loop.
    return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})
