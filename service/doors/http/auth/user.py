"""The principal of a request, as a dependency of FastAPI."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from service.base.principal import Principal
from service.doors.http.auth.gate import PRINCIPAL


def principal_of(request: Request) -> Principal:
    """Return the principal that the gate found for a request."""
    principal: Principal = getattr(request.state, PRINCIPAL)
    return principal


def caller_of(request: Request) -> Principal:
    """Return the principal of a request; without authentication, its name is the address of the client."""
    return principal_of(request).named(request.client.host if request.client else "")


# This dependency is `async` although it waits for nothing: FastAPI calls others in a thread, which took a fifth of the
# processor time of a lookup.
async def _caller(request: Request) -> Principal:
    return caller_of(request)


Caller = Annotated[Principal, Depends(_caller)]
