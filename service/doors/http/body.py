"""The limits of bodies: a body is counted while it arrives, and refused when it is too long or too late.

Starlette has a limit of the length too, but its answer is not our JSON error. All long bodies together have a limit as
well: clients that send most of a long body and then nothing would fill the memory. Short bodies are always received.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.base.errors import LimitExceededError, QueryError, RequestTimeoutError, ServiceBusyError
from service.doors.http.errors import error_response

_SHORT_BYTES = 64 * 1024
_LONG_BODIES_BYTES = 64 * 1024 * 1024


class BodyLimits:
    """Middleware that receives the body of a request before the application does.

    Args:
        app: the application.
        max_bytes: longest body.
        timeout_s: seconds in which a body must have arrived.
        max_bytes_at: path → longest body of requests to it, where that is another.
    """

    def __init__(
        self, app: ASGIApp, max_bytes: int, timeout_s: float, max_bytes_at: Mapping[str, int] | None = None
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_bytes_at = dict(max_bytes_at or {})
        self._timeout_s = timeout_s
        # One body of the longest kind always finds room.
        self._max_long_bytes = max(_LONG_BODIES_BYTES, max_bytes, *self._max_bytes_at.values())
        self._long_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; the signature is ASGI's."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            messages = await self._body(receive, self._max_bytes_at.get(scope["path"], self._max_bytes))
        except QueryError as error:
            response = error_response(error)
            if isinstance(error, RequestTimeoutError):
                response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        if messages is None:
            return
        waiting = iter(messages)

        # The application gets the messages that were already received, then new ones, such as a disconnect.
        async def replay() -> Message:
            message = next(waiting, None)
            return await receive() if message is None else message

        await self._app(scope, replay, send)

    async def _body(self, receive: Receive, max_bytes: int) -> list[Message] | None:
        """Receive the messages of the body; None if the client is gone before its end.

        Raises:
            LimitExceededError: the body is too long.
            RequestTimeoutError: it is too late.
            ServiceBusyError: it is long, and other long bodies take all the room.
        """
        messages: list[Message] = []
        length = long_bytes = 0
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    messages.append(message)
                    length += len(message.get("body", b""))
                    if length > max_bytes:
                        raise LimitExceededError(
                            f"expected a request of at most {max_bytes} bytes, found more"
                        )
                    if not message.get("more_body"):
                        return messages
                    if length > _SHORT_BYTES:
                        self._long_bytes += length - long_bytes
                        long_bytes = length
                        if self._long_bytes > self._max_long_bytes:
                            raise ServiceBusyError("too many long requests are on their way")
        except TimeoutError as error:
            raise RequestTimeoutError(
                f"expected the whole request in {self._timeout_s:g} s, found {length} bytes of its body"
            ) from error
        finally:
            self._long_bytes -= long_bytes
