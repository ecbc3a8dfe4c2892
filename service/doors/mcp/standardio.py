"""The server over standard input and output: one client, which started the process and may see what its user may see."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any, NoReturn

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

from service.base.principal import ANYBODY
from service.doors.http.api.state import Served
from service.doors.mcp.calls import Call
from service.doors.mcp.server import server_of


def serve(served: Served, interrupted: Callable[[int], NoReturn]) -> None:
    """Serve until the client closes standard input.

    Standard output belongs to the protocol: the SDK lets everything else that prints go to standard error.

    Args:
        served: the objects that answer.
        interrupted: gets the number of a signal that asks for the end, and ends the process.
    """

    def call_of(tool: str, _context: ServerRequestContext[Any, Any]) -> tuple[Call, anyio.Event | None]:
        return Call(served=served, caller=ANYBODY, source=f"mcp {tool}"), None

    async def run() -> None:
        # An exception would wait for the thread that reads standard input, which waits for the client.
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, interrupted, number)
        server = server_of(served, call_of)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)
