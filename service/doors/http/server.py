"""The server that accepts admitted connections.

uvloop accepts connections in C, and would pass by `service.doors.http.admission`. So this server accepts them itself, and gives each
to the loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn

from service.doors.http.admission import Listener

logger = logging.getLogger("savepointdb")

_NO_FILES_PAUSE_S = 1.0


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
