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


def user_of(request: Request) -> str:
    """The user of a request; without authentication, the address it comes from."""
    return principal_of(request).name or (request.client.host if request.client else "")


User = Annotated[str, Depends(user_of)]
Asker = Annotated[Principal, Depends(principal_of)]
