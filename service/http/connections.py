"""The HTTP protocol of a connection: a client that sends or takes no bytes for too long is disconnected.

While a connection waits for its client, for headers, a body, or the next request, its place and its time are limited
(`service.http.admission`). Bytes that drip do not begin the time anew.

Up to 64 KiB and a part of an answer wait in the connection until the client takes them. A query that waits for its
client has a deadline of its own (`service.queries.query`), but a complete answer, or a page without a query, would wait
for ever.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.errors import RequestTimeoutError
from service.http.admission import Connection, Connections, Wait
from service.http.errors import raw_response
from service.http.hosts import CONNECTED_FROM

# Queries end first, so that their history records the reason.
_AFTER_QUERIES_S = 1.0
_UNSENT_BYTES = 256 * 1024
_BACKLOG = 2048


def protocol_of(stall_timeout_s: float, connections: Connections) -> type[asyncio.Protocol]:
    """Return an HTTP protocol for admitted connections.

    Args:
        stall_timeout_s: seconds after which a client that takes no bytes is disconnected.
        connections: the open connections.
    """

    class Protocol(H11Protocol):
        _stalled: asyncio.TimerHandle | None = None
        _connection: Connection | None = None
        # The thing that the connection waits for, and the request before it.
        _awaited: tuple[Wait | None, Any] = (Wait.HEADERS, None)

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.app_state = {**self.app_state, CONNECTED_FROM: (self.client, self.scheme)}
            self._connection = connections.find(transport.get_extra_info("socket").fileno())
            if self._connection is not None:
                self._connection.on_late, self._connection.on_cut = self._end, transport.abort
                # The TLS handshake had a time of its own.
                self._connection.wait_for(Wait.HEADERS)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._observe()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._observe()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stalled = self.loop.call_later(stall_timeout_s + _AFTER_QUERIES_S, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._goes_on()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._goes_on()

        def _goes_on(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
                self._stalled = None

        def _observe(self) -> None:
            """Note the thing that the connection waits for, if it is another than before."""
            awaited = self._wait(), self.cycle
            if self._connection is not None and awaited != self._awaited:
                self._awaited = awaited
                self._connection.wait_for(awaited[0])

        def _wait(self) -> Wait | None:
            if self.transport.is_closing():
                return Wait.CLOSE
            if self.conn.their_state is h11.SEND_BODY:
                return Wait.BODY
            if self.conn.their_state is not h11.IDLE:
                return None
            # h11 copies the bytes of half a request whenever somebody asks for them.
            if self.cycle is None or self._awaited == (Wait.HEADERS, self.cycle):
                return Wait.HEADERS
            return Wait.HEADERS if self.conn.trailing_data[0] else Wait.NEXT

        def _end(self) -> None:
            """End the connection, because its client took too long."""
            wait, _ = self._awaited
            if wait in (Wait.BODY, Wait.CLOSE):
                self.transport.abort()
                return
            if wait is Wait.HEADERS and self.conn.trailing_data[0]:
                self.transport.write(_TOO_LATE)
            self.transport.close()
            self._observe()

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


_TOO_LATE = raw_response(
    RequestTimeoutError("expected the headers of a request, found only a part of them in time")
)
