"""`/mcp`: the Model Context Protocol over HTTP, in one address for all messages.

The SDK is imported with the first request: it takes half a second, which a service without agents does not wait for.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from service.base.errors import NotFoundError
from service.base.settings import InvalidSettingError
from service.doors.http.auth.gate import Caller
from service.doors.mcp.guide import MISSING
from service.doors.served import Served

if TYPE_CHECKING:
    from types import ModuleType

    from service.doors.mcp.door import Door

router = APIRouter(tags=["mcp"], include_in_schema=False)


class Entrance:
    """The door for clients of the protocol, once there is one. The thread of the event loop uses it alone.

    Args:
        served: the objects that answer.

    Raises:
        InvalidSettingError: `mcp` is neither on nor off, or a limit is not positive.
    """

    def __init__(self, served: Served) -> None:
        settings = served.settings.mcp
        if settings.mode not in ("on", "off"):
            raise InvalidSettingError(f"mcp: expected on or off, found {settings.mode!r:.100}")
        if not (settings.sessions > 0 and settings.idle_s > 0):
            raise InvalidSettingError("mcp_sessions, mcp_idle_s: expected more than 0")
        self._served = served
        self._door: Door | None = None
        self._opening: asyncio.Lock | None = None

    async def door(self) -> Door:
        """Return the door.

        Raises:
            NotFoundError: the settings close it, or the SDK is not installed.
        """
        if self._served.settings.mcp.mode == "off":
            raise NotFoundError("nothing is at /mcp", hint="the setting mcp turns it on")
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._door is None:
                module = await to_thread.run_sync(_imported)
                self._door = module.Door(self._served)
            return self._door

    async def close(self) -> None:
        """End all sessions."""
        if self._door is not None:
            await self._door.close()


def _imported() -> ModuleType:
    try:
        return import_module("service.doors.mcp.door")
    except ImportError as error:
        raise NotFoundError("nothing is at /mcp", hint=MISSING) from error


@router.api_route("/mcp", methods=["POST", "DELETE"])
async def speak(request: Request, caller: Caller) -> Response:
    """Answer one message of the protocol."""
    entrance: Entrance = request.app.state.mcp
    return (await entrance.door()).answer(caller)
