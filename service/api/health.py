"""`GET /healthz`: whether the service answers; `GET /readyz`: whether it takes queries; `GET /metrics`: its numbers."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from service.api.state import State
from service.operations.metrics import CONTENT_TYPE

router = APIRouter(tags=["operations"])


class Health(BaseModel):
    """It answers."""

    status: str = "ok"


@router.get("/healthz")
async def health() -> Health:
    """Liveness: the service answers. Says nothing of the savepoints."""
    return Health()


@router.get("/readyz", responses={503: {"model": Health}})
async def ready(service: State, response: Response) -> Health:
    """Readiness: the service takes queries. 503 until its first worker has started, and when it is told to stop."""
    if service.queries.is_ending or not service.workers.is_ready:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        return Health(status="ending" if service.queries.is_ending else "starting")
    return Health()


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(service: State) -> Response:
    """Numbers for Prometheus."""
    return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})
