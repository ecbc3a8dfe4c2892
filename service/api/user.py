"""Who asks: the one place that says so."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request


def user_of(request: Request) -> str:
    """The user of a request; without authentication, the address it comes from."""
    return request.client.host if request.client else ""


User = Annotated[str, Depends(user_of)]
