"""Who asks: the one place that says so."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from service.auth.gate import PRINCIPAL
from service.auth.principal import Principal


def principal_of(request: Request) -> Principal:
    """Who the gate found this to be."""
    principal: Principal = getattr(request.state, PRINCIPAL)
    return principal


# FastAPI calls what is not `async` in a thread: of what a lookup takes of this process, that was a fifth.


async def _caller(request: Request) -> Principal:
    return principal_of(request)


async def _user(request: Request) -> str:
    """The user of a request; without authentication, the address it comes from."""
    return principal_of(request).name or (request.client.host if request.client else "")


User = Annotated[str, Depends(_user)]
Caller = Annotated[Principal, Depends(_caller)]
