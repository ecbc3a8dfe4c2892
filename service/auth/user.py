"""The principal and the user of a request, as dependencies of FastAPI."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from service.auth.gate import PRINCIPAL
from service.auth.principal import Principal


def principal_of(request: Request) -> Principal:
    """Return the principal that the gate found for a request."""
    principal: Principal = getattr(request.state, PRINCIPAL)
    return principal


# Dependencies are `async` although they wait for nothing: FastAPI calls others in a thread, which took a fifth of the
# processor time of a lookup.


async def _caller(request: Request) -> Principal:
    return principal_of(request)


async def _user(request: Request) -> str:
    """Return the user of a request; without authentication, the address of the client."""
    return principal_of(request).name or (request.client.host if request.client else "")


User = Annotated[str, Depends(_user)]
Caller = Annotated[Principal, Depends(_caller)]
