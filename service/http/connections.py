"""Connections of HTTP clients: one whose client takes nothing for too long is cut.

What is sent waits in the connection, 64 KiB and a part of an answer, until the client takes it; a query that waits for
that has its own end (`service.queries.query`), but what was found already, and pages that are no queries, would wait for ever.
"""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol

# Queries end first: their history tells why.
_AFTER_QUERIES_S = 1.0
_UNSENT_BYTES = 256 * 1024
_BACKLOG = 2048


def protocol_of(stall_timeout_s: float) -> type[asyncio.Protocol]:
    """HTTP for clients that take nothing for so many seconds at most."""

    class Protocol(H11Protocol):
        _cut: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            self._cut = self.loop.call_later(stall_timeout_s + _AFTER_QUERIES_S, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._uncut()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._uncut()

        def _uncut(self) -> None:
            if self._cut is not None:
                self._cut.cancel()
                self._cut = None

    return Protocol


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free. What it accepts has its options.

    Nothing that is written waits for the client to acknowledge what was before it: asyncio sees to that for its own sockets only, and
    the body behind the headers of an answer would wait 40 ms. And the system keeps little of what clients have not taken: so it is
    seen that they take some, and costs no memory.

    Raises:
        OSError: the address is not this machine's, or is taken.
    """
    listener = socket.create_server((host, port), backlog=_BACKLOG)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES)
    return listener
