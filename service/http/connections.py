"""Connections of HTTP clients: a client that takes no bytes for too long is disconnected.

Up to 64 KiB and a part of an answer wait in the connection until the client takes them. A query that waits for its
client has a deadline of its own (`service.queries.query`), but a complete answer, or a page without a query, would wait
for ever.
"""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol

# Queries end first, so that their history records the reason.
_AFTER_QUERIES_S = 1.0
_UNSENT_BYTES = 256 * 1024
_BACKLOG = 2048


def protocol_of(stall_timeout_s: float) -> type[asyncio.Protocol]:
    """Return an HTTP protocol that disconnects clients which take no bytes for so many seconds."""

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
    """Return a listening socket; port 0 means any free port. Accepted connections inherit its options.

    Raises:
        OSError: the address is not an address of this machine, or is taken.
    """
    listener = socket.create_server((host, port), backlog=_BACKLOG)
    # asyncio sets this option for its own sockets only. Without it the body of an answer waits 40 ms behind its headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The kernel keeps few unsent bytes of a connection: it costs no memory, and shows whether the client takes any.
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES)
    return listener
