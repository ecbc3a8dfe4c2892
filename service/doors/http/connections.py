"""Connections: the server that accepts them, and the HTTP protocol of each; a client that is silent for too long is disconnected.

uvloop accepts connections in C, and would pass by `service.doors.http.admission`. So the server accepts them itself, and gives each to the
loop.

While a connection waits for its client, for headers, a body, or the next request, its place and its time are limited
(`service.doors.http.admission`). Bytes that drip do not begin the time anew.

Up to 64 KiB and a part of an answer wait in the connection until the client takes them. A query that waits for its
client has a deadline of its own (`service.query.serving.query`), but a complete answer, or a page without a query, would wait
for ever.

httptools parses all bytes that it gets, and keeps each request. So it gets few at a time, and none of the next request before
the answer to the last one is complete: a client can have as many requests as it likes on one connection, but not in memory.
It has no limits of its own, so the headers of a request are counted here.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.base.errors import RequestTimeoutError
from service.base.hosts import CONNECTED_FROM
from service.doors.http.admission import Connection, Connections, Listener, Wait
from service.doors.http.errors import raw_response

# Queries end first, so that their history records the reason.
_AFTER_QUERIES_S = 1.0
_UNSENT_BYTES = 256 * 1024
_BACKLOG = 2048
_MAX_HEADER_BYTES = 64 * 1024
_INVALID = "Invalid HTTP request received."
_LENGTH = b"\r\ncontent-length: "
# Bytes that are parsed at a time: so many bytes are few requests, and of a body they are few calls.
_PIECE_BYTES, _BODY_PIECE_BYTES = 1024, 4096
logger = logging.getLogger("savepointdb")
_NO_FILES_PAUSE_S = 1.0


class Part(Enum):
    """The part of a request that its next byte belongs to."""

    START = "the first byte"
    HEADERS = "the request line or a header"
    BODY = "the body, or what stands behind it"


class _Sending:
    """The transport of one answer: the head waits for the first bytes of a body, so that both are one call of the system, and one packet.

    Only a head with the length of its body waits: of others, nobody knows when a body follows.

    Args:
        transport: of the connection.
    """

    __slots__ = ("_has_begun", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._has_begun = False
        self._head = b""

    def write(self, content: bytes) -> None:
        """Send bytes, or keep them if they are the head."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.writelines((head, content))
        elif not self._has_begun and _LENGTH in content:
            self._head = content
        else:
            self._transport.write(content)
        self._has_begun = True

    def flush(self) -> None:
        """Send the head if it still waits."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        """Send the head if it still waits, and close the connection."""
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closed, or about to be."""
        return self._transport.is_closing()


def protocol_of(stall_timeout_s: float, connections: Connections) -> type[asyncio.Protocol]:
    """Return an HTTP protocol for admitted connections.

    Args:
        stall_timeout_s: seconds after which a client that takes no bytes is disconnected.
        connections: the open connections.
    """

    class Protocol(HttpToolsProtocol):
        _stalled: asyncio.TimerHandle | None = None
        _connection: Connection | None = None
        _sending: _Sending | None = None
        # The thing that the connection waits for, and the request before it.
        _awaited: tuple[Wait | None, Any] = (Wait.HEADERS, None)
        _part = Part.START
        _header_bytes = 0
        # What has arrived behind a request that is answered.
        _held = b""
        # What arrived is no HTTP: nothing behind it is read.
        _is_broken = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.app_state = {**self.app_state, CONNECTED_FROM: (self.client, self.scheme)}
            self._connection = connections.find(transport.get_extra_info("socket").fileno())
            if self._connection is not None:
                self._connection.on_late, self._connection.on_cut = self._end, transport.abort
                # The TLS handshake had a time of its own.
                self._connection.wait_for(Wait.HEADERS)

        def data_received(self, data: bytes) -> None:
            if self._held or self._is_answering:
                self._held += data
                self.flow.pause_reading()
            else:
                self._parse(data)
            self._observe()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._part, self._header_bytes = Part.HEADERS, 0

        def on_header(self, name: bytes, value: bytes) -> None:
            # Behind a body, it is no header of the request any more.
            if self._part is Part.HEADERS:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            if self.parser.should_upgrade():
                return
            hosts = sum(name == b"host" for name, _ in self.headers)
            if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
                raise ValueError(f"expected one Host header, found {hosts}")
            self._part, self._header_bytes = Part.BODY, 0
            super().on_headers_complete()
            self.cycle.transport = self._sending = _Sending(self.transport)  # type: ignore[assignment]

        def on_body(self, body: bytes) -> None:
            self._header_bytes = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            if self.parser.should_upgrade():
                return
            self._part = Part.START
            super().on_message_complete()

        def on_response_complete(self) -> None:
            # An answer without a body ends with its head.
            if self._sending is not None:
                self._sending.flush()
            super().on_response_complete()
            if self._held and not self.transport.is_closing():
                self.loop.call_soon(self._parse_held)
            self._observe()

        def send_400_response(self, msg: str) -> None:
            self._held, self._is_broken = b"", True
            if self._part is not Part.BODY and self._is_unanswered:
                # What is wrong is the next request: the answer to this one goes before it, and is the last.
                self.cycle.keep_alive = False
            elif self._is_unanswered and (self.pipeline or self.cycle.response_started):
                self.transport.close()
            else:
                super().send_400_response(msg)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stalled = self.loop.call_later(stall_timeout_s + _AFTER_QUERIES_S, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._goes_on()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._goes_on()

        @property
        def _is_unanswered(self) -> bool:
            """True if the answer to the last request whose headers have arrived is not complete."""
            return self.cycle is not None and not self.cycle.response_complete

        @property
        def _is_answering(self) -> bool:
            """True if a whole request has arrived, nothing of the next one, and its answer is not complete."""
            return self._part is Part.START and self._is_unanswered

        def _parse(self, data: bytes) -> None:
            """Parse bytes until a request waits for its answer; hold the others back."""
            start = 0
            while start < len(data) and not self._is_broken:
                if self._is_answering:
                    self._held = data[start:]
                    self.flow.pause_reading()
                    return
                end = start + (_BODY_PIECE_BYTES if self._part is Part.BODY else _PIECE_BYTES)
                piece = data[start:end]
                self._feed(piece)
                if self._part is not Part.START:
                    self._header_bytes += len(piece)
                if self._header_bytes > _MAX_HEADER_BYTES and not self._is_broken:
                    self.send_400_response(_INVALID)
                start = end

        def _feed(self, piece: bytes) -> None:
            """Parse bytes. `data_received` of uvicorn would forget what stands behind a request for another protocol."""
            self._unset_keepalive_if_required()
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                self._stay(piece[upgrade.args[0] :])
            except httptools.HttpParserError:
                self.logger.warning(_INVALID)
                self.send_400_response(_INVALID)

        def _stay(self, rest: bytes) -> None:
            """Read a request that asks for another protocol as if it did not; httptools leaves its body unread."""
            method = self.parser.get_method()
            if method == b"CONNECT":
                self.send_400_response(_INVALID)
                return
            version = self.parser.get_http_version().encode()
            head = b"%s %s HTTP/%s\r\n" % (method, self.url, version)
            kept = [each for each in self.headers if each[0] not in (b"connection", b"upgrade")]
            head += b"".join(b"%s: %s\r\n" % each for each in kept)
            self.parser = httptools.HttpRequestParser(self)
            self._feed(head + b"\r\n" + rest)

        def _parse_held(self) -> None:
            if not self.transport.is_closing():
                held, self._held = self._held, b""
                self._parse(held)
                self._observe()

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
            if self._part is Part.BODY:
                return None if self.pipeline else Wait.BODY
            if self._is_unanswered:
                return None
            return Wait.HEADERS if self._part is Part.HEADERS or self.cycle is None else Wait.NEXT

        def _end(self) -> None:
            """End the connection, because its client took too long."""
            wait, _ = self._awaited
            if wait in (Wait.BODY, Wait.CLOSE):
                self.transport.abort()
                return
            if wait is Wait.HEADERS and self._part is Part.HEADERS:
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


class AdmittingServer(uvicorn.Server):
    """A server of uvicorn whose connections are admitted.

    Args:
        config: of uvicorn.
        listener: accepts the connections.
    """

    def __init__(self, config: uvicorn.Config, listener: Listener) -> None:
        super().__init__(config)
        self._listener = listener
        self._opening: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and accept connections from now on."""
        await super().startup(sockets)
        self._listener.setblocking(False)
        self._listen()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and let the open ones end."""
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self._listener.close()
        await super().shutdown(sockets)

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                accepted, _ = self._listener.accept()
                accepted.setblocking(False)
                task = loop.create_task(self._open(accepted))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            # The listening socket stays readable: without a pause the loop would do nothing else.
            logger.exception("no connection can be accepted")
            loop.remove_reader(self._listener.fileno())
            loop.call_later(_NO_FILES_PAUSE_S, self._listen)

    async def _open(self, accepted: socket.socket) -> None:
        """Give a connection to the loop; a TLS handshake that fails ends it."""
        protocol: Any = self.config.http_protocol_class
        made = partial(
            protocol, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        try:
            with suppress(OSError):  # also an error of TLS
                loop = asyncio.get_running_loop()
                await loop.connect_accepted_socket(made, accepted, ssl=self.config.ssl)
                return
        except BaseException:
            accepted.close()
            raise
        accepted.close()
