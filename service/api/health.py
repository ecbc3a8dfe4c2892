"""`GET /healthz`: whether the service answers."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

router = APIRouter(tags=["operations"])


class Health(BaseModel):
    """It answers."""

    status: str = "ok"


@router.get("/healthz")
async def health() -> Health:
    """Liveness: the service answers. Says nothing of the savepoints."""
    return Health()
